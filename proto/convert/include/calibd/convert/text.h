#ifndef CALIBD_CONVERT_TEXT_H_
#define CALIBD_CONVERT_TEXT_H_

#include <string>

namespace calibd::convert {

// gap: mean confidence - accuracy. Returns "over-confident by 4.1 points", "under-confident by 0.3
// points", or "neither over- nor under-confident" if the gap rounds to 0.
[[nodiscard]] std::string GapText(double gap);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_TEXT_H_
