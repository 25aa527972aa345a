#include "not_counted.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"

namespace calibd::convert {
namespace {

std::string CountOfRows(std::int64_t count) {
  return absl::StrCat(count, count == 1 ? " row" : " rows");
}

}  // namespace

std::string WaitingText(const v1::GetCalibrationResponse& answer) {
  const v1::LabelArrivals& arrivals = answer.label_arrivals();
  if (arrivals.pending() == 0 || !arrivals.has_next_maturation_time()) return "";
  const std::string time = MinuteText(arrivals.next_maturation_time());
  const bool is_labelled = arrivals.pending_labelled() > 0;
  if (arrivals.pending() == 1) {
    return is_labelled ? absl::StrCat("1 row waits, is labelled, and counts from ", time, " on")
                       : absl::StrCat("1 row waits for its label, which must come by ", time);
  }
  const std::string wait = absl::StrCat(arrivals.pending(), " rows wait");
  return is_labelled ? absl::StrCat(wait, ", ", arrivals.pending_labelled(),
                                    " of them labelled; the first counts from ", time, " on")
                     : absl::StrCat(wait, " for labels, the first of which must come by ", time);
}

std::string NotCountedText(const v1::GetCalibrationResponse& answer) {
  std::vector<std::string> reasons;
  if (const std::int64_t dropped = answer.dropped_rows(); dropped > 0) {
    reasons.push_back(absl::StrCat("producers dropped ", CountOfRows(dropped)));
  }
  if (const std::int64_t rejected = answer.rejected_rows(); rejected > 0) {
    reasons.push_back(
        absl::StrCat(CountOfRows(rejected), rejected == 1 ? " was" : " were", " rejected"));
  }
  if (const std::int64_t missing = answer.label_arrivals().missing(); missing > 0) {
    reasons.push_back(absl::StrCat(CountOfRows(missing), " got no label in time"));
  }
  if (std::string waiting = WaitingText(answer); !waiting.empty()) {
    reasons.push_back(std::move(waiting));
  }
  return absl::StrJoin(reasons, ", ");
}

}  // namespace calibd::convert
