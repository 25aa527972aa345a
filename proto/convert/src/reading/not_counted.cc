#include "not_counted.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"

namespace calibd::convert {

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
  std::vector<std::string> dropped;
  if (answer.dropped_rows() > 0) dropped.push_back(CountText(answer.dropped_rows(), "row"));
  if (answer.dropped_labels() > 0) dropped.push_back(CountText(answer.dropped_labels(), "label"));
  if (!dropped.empty()) {
    reasons.push_back(absl::StrCat("producers dropped ", absl::StrJoin(dropped, " and ")));
  }
  if (const std::int64_t rejected = answer.rejected_rows(); rejected > 0) {
    reasons.push_back(
        absl::StrCat(CountText(rejected, "row"), rejected == 1 ? " was" : " were", " rejected"));
  }
  if (const std::int64_t missing = answer.label_arrivals().missing(); missing > 0) {
    reasons.push_back(absl::StrCat(CountText(missing, "row"), " got no label in time"));
  }
  if (std::string waiting = WaitingText(answer); !waiting.empty()) {
    reasons.push_back(std::move(waiting));
  }
  return absl::StrJoin(reasons, ", ");
}

}  // namespace calibd::convert
