#ifndef CALIBD_CORE_ROWS_UNTIL_DECIDED_H_
#define CALIBD_CORE_ROWS_UNTIL_DECIDED_H_

#include <cstdint>

namespace calibd {

// How many further rows a stream needs until its error is decided against a limit.
//
// The sums of a stream at row t do not determine it: they contain noise, and so will the later
// rows. So 100 continuations of the stream are drawn from what the sums say, with a fixed seed, and
// each is followed to the row at which it is decided. The answer is the range that holds 90 of the
// 100 rows. In simulated streams whose rows are alike from first to last, at least 80 % of the
// ranges that are told hold the row of the decision. A stream that changes later is decided at
// another row.

// Nothing is foreseen from fewer rows: of the ranges that they tell, too few hold.
inline constexpr std::int64_t kLeastRowsToForesee = 1000;

// The numbers of further rows between which the decision is expected, 1 <= lower <= upper.
struct RowsUntilDecided {
  std::int64_t lower = 1;
  std::int64_t upper = 1;
};

}  // namespace calibd

#endif  // CALIBD_CORE_ROWS_UNTIL_DECIDED_H_
