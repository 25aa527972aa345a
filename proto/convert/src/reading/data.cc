#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "google/protobuf/util/time_util.h"
#include "words.h"

namespace calibd::convert {
namespace {

// Rows that wait for the end of the grace of their labels are not counted yet. Rows of several
// labels may have no truth.
std::string CountedRows(const v1::GetCalibrationResponse& answer) {
  const bool has_no_truth = answer.has_labels() && answer.labels().truths() == 0 &&
                            !answer.error().has_since_acknowledgement();
  return CountText(answer.observations(), answer.has_label_arrivals() ? "counted row"
                                          : has_no_truth              ? "row"
                                                                      : "labelled row");
}

}  // namespace

std::string DataLine(const v1::GetCalibrationResponse& answer,
                     const google::protobuf::Timestamp& now) {
  std::vector<std::string> facts = {CountedRows(answer),
                                    absl::StrCat(answer.rejected_rows(), " rejected")};
  const v1::CalibrationError& error = answer.error();
  const std::string truths = CountText(answer.labels().truths(), "known truth");
  if (answer.has_labels() && !error.has_since_acknowledgement()) facts.push_back(truths);
  if (answer.dropped_rows() > 0) {
    facts.push_back(absl::StrCat(answer.dropped_rows(), " dropped by producers"));
  }
  if (answer.dropped_labels() > 0) {
    facts.push_back(
        absl::StrCat(CountText(answer.dropped_labels(), "label"), " dropped by producers"));
  }
  if (answer.has_label_arrivals()) {
    const v1::LabelArrivals& arrivals = answer.label_arrivals();
    const bool waits = answer.observations() == 0 && arrivals.has_next_maturation_time();
    facts.push_back(
        absl::StrCat(arrivals.pending(), " pending",
                     waits ? absl::StrCat(" (the first will count on ",
                                          MinuteText(arrivals.next_maturation_time()), ")")
                           : ""));
    facts.push_back(absl::StrCat(arrivals.missing(), " without a label"));
    if (const std::int64_t waiting = arrivals.labels().waiting(); waiting > 0) {
      facts.push_back(absl::StrCat(waiting, waiting == 1 ? " label waits for its prediction"
                                                         : " labels wait for their predictions"));
    }
    facts.push_back(CountText(arrivals.duplicate_predictions(), "duplicate"));
    if (arrivals.labels().unknown() > 0) {
      facts.push_back(
          absl::StrCat(CountText(arrivals.labels().unknown(), "label"), " without a prediction"));
    }
  }
  std::string text = absl::StrJoin(facts, ", ");
  if (answer.has_last_observation_time()) {
    const std::int64_t age = (now - answer.last_observation_time()).seconds();
    absl::StrAppend(&text, "; the newest row came ", age < 1 ? "just now" : AgeText(age) + " ago");
  }
  if (answer.verdict().stale()) {
    text += answer.has_last_observation_time()
                ? ": STALE, because this is longer than stale_after; all this may be outdated"
                : "; STALE: no row has counted for longer than stale_after";
  }
  if (const std::int64_t first = Current(error).first_observation(); first > 1) {
    absl::StrAppend(&text, "; the error is measured from row ", first, " on");
  }
  if (error.has_since_acknowledgement()) {
    if (answer.has_labels()) absl::StrAppend(&text, " with ", truths);
  }
  return text;
}

}  // namespace calibd::convert
