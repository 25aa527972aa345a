#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"

namespace calibd::convert {

std::string DecisionText(const v1::DecisionLoss& loss, std::int64_t first_observation) {
  const bool counts = loss.decision().false_alarm_cost() == 1 && loss.decision().miss_cost() == 1;
  const double gap = loss.realised_loss() - loss.expected_loss();
  const std::string at = Exact(loss.decision().threshold());
  const std::string since =
      first_observation > 1 ? absl::StrCat(" since row ", first_observation) : "";
  const std::string text =
      counts ? absl::StrFormat(
                   "at %s: %.1f %% of %d decisions%s were wrong, the forecasts promise %.1f %%: %s "
                   "points (%s to %s)",
                   at, 100 * loss.realised_loss(), loss.observations(), since,
                   100 * loss.expected_loss(), SignedFixed(100 * gap, 1),
                   SignedFixed(100 * loss.gap_lower_bound(), 1),
                   SignedFixed(100 * loss.gap_upper_bound(), 1))
             : absl::StrFormat(
                   "at %s: %d decisions%s cost %.3g each, the forecasts promise %.3g: %+.3g (%+.3g "
                   "to %+.3g)",
                   at, loss.observations(), since, loss.realised_loss(), loss.expected_loss(), gap,
                   loss.gap_lower_bound(), loss.gap_upper_bound());
  const bool chance = loss.gap_lower_bound() <= 0 && loss.gap_upper_bound() >= 0;
  return text + (chance ? "; chance can explain the difference" : "");
}

std::string DecisionLine(const v1::GetCalibrationResponse& answer) {
  if (!answer.watch().has_decision()) return "";
  // The rows of the evidence, which an acknowledgement restarts.
  return DecisionText(answer.watch().decision(), answer.watch().first_observation());
}

}  // namespace calibd::convert
