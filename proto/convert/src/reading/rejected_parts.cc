#include "rejected_parts.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/convert/text.h"
#include "words.h"

namespace calibd::convert {
namespace {

struct Part {
  std::string name;
  NamedEvent event;
  bool is_over = false;
  bool is_acknowledged = false;
  // The row since which the error is within the limit again, or over it again; 0 if it is not.
  std::int64_t recovered_since = 0;
  std::int64_t over_again_since = 0;
};

// Larger for an error that is further off.
std::pair<double, double> SizeOf(const NamedEvent& event) {
  return event.interval == nullptr ? std::pair(-1.0, 0.0)
                                   : std::pair(event.interval->lower(), event.interval->estimate());
}

void AddGroups(const v1::GetCalibrationResponse& answer, std::vector<Part>& parts) {
  for (const v1::GroupWatch& group : answer.groups()) {
    const v1::CalibrationError& error = group.error();
    const bool is_over = error.status() == v1::CalibrationError::OVER_LIMIT;
    const NamedEvent event = WorstEvent(Current(error));
    if ((!is_over && !group.rejected()) || event.interval == nullptr) continue;
    parts.push_back(
        {.name = absl::StrCat("group ", CutName(GroupName(group.value(), group.overflow()))),
         .event = event,
         .is_over = is_over,
         .is_acknowledged = error.is_acknowledged(),
         .recovered_since = error.is_recovered() ? error.newest().first_observation() : 0,
         .over_again_since = error.over_again_since()});
  }
}

void AddLabels(const v1::GetCalibrationResponse& answer, std::vector<Part>& parts) {
  if (answer.labels().labels_size() < 2) return;
  for (const v1::LabelCalibration& label : answer.labels().labels()) {
    const bool is_over = label.status() == v1::CalibrationError::OVER_LIMIT;
    if ((!is_over && !label.rejected()) || !label.has_error()) continue;
    parts.push_back({.name = absl::StrCat("label ", CutName(label.name())),
                     .event = {.name = "", .interval = &label.error()},
                     .is_over = is_over,
                     .is_acknowledged = label.has_acknowledged_limit(),
                     .recovered_since = label.recovered_since(),
                     .over_again_since = label.over_again_since()});
  }
}

}  // namespace

LeadingPart LeadingPartOf(const v1::GetCalibrationResponse& answer) {
  std::vector<Part> parts;
  AddGroups(answer, parts);
  AddLabels(answer, parts);
  if (parts.empty()) return {};
  std::ranges::stable_sort(parts, std::greater<>(),
                           [](const Part& part) { return SizeOf(part.event); });
  const Part& worst = parts.front();
  const v1::CalibrationError& error = answer.error();
  const bool is_rejected = error.status() == v1::CalibrationError::OVER_LIMIT ||
                           answer.verdict().status() == v1::Verdict::MISCALIBRATED;
  if (is_rejected && SizeOf(WorstEvent(Current(error))) >= SizeOf(worst.event)) return {};
  std::string text = absl::StrCat(worst.name, " ", worst.event.name,
                                  OffByText(*worst.event.interval, error.limit()));
  if (worst.recovered_since > 0) {
    absl::StrAppend(&text, ", ", RecoveredText(worst.recovered_since, error.change()));
  } else if (worst.over_again_since > 0) {
    absl::StrAppend(&text, ", over again since row ", worst.over_again_since);
  } else if (worst.is_acknowledged) {
    text += ", acknowledged";
  } else if (!worst.is_over) {
    text += ", rejected";
  }
  const std::size_t more = parts.size() - 1;
  if (more > 0) {
    const char* const kind = answer.has_labels() ? " more label" : " more group";
    absl::StrAppend(&text, ", and ", more, kind, more == 1 ? "" : "s");
  }
  return {.text = std::move(text),
          .subject = absl::StrCat(worst.name, " ", worst.event.name),
          .interval = worst.event.interval};
}

}  // namespace calibd::convert
