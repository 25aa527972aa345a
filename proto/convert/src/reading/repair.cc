#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "calibd/core/recalibration.h"

namespace calibd::convert {

namespace {

// Fits stop this close to the end of their range.
bool IsAtEnd(double temperature) {
  return std::max(temperature, 1 / temperature) > 0.999 * kMaxTemperature;
}

}  // namespace

std::string RecalibrationText(const v1::Recalibration& advice) {
  if (!advice.helps()) return "no map is known to lower the log loss";
  const v1::RecalibrationMap& map = advice.map();
  const bool is_class_1 = advice.has_class_1_error_after() &&
                          Exceeds(advice.class_1_error_after(), advice.error_after());
  const v1::ErrorInterval& error = is_class_1 ? advice.class_1_error_after() : advice.error_after();
  const std::string name =
      map.has_temperature()
          ? absl::StrFormat(
                "temperature %.3g%s", map.temperature(),
                IsAtEnd(map.temperature()) ? " (the end of the range that is tried)" : "")
          : absl::StrCat("a map of kind ", map.kind());
  return absl::StrCat(name, " would leave ", PointsText(error.estimate()), " (",
                      Points(error.lower()), " to ", Points(error.upper()), ")",
                      is_class_1                         ? " for P(class 1)"
                      : advice.has_class_1_error_after() ? " for the top label"
                                                         : "");
}

// For a model that is over its limit or has an active alarm: the newest answer of `calibctl
// recalibrate`, or this command, because the computation may be long.
std::string RepairLine(const v1::GetCalibrationResponse& answer) {
  // A map repairs probabilities of classes.
  if (answer.has_forecast() || answer.has_labels()) return "";
  const bool alarmed =
      std::any_of(answer.alarms().begin(), answer.alarms().end(),
                  [](const v1::Alarm& alarm) { return !alarm.has_acknowledge_time(); });
  if (!alarmed && answer.error().status() != v1::CalibrationError::OVER_LIMIT) return "";
  // A map from rows that were off would make a recovered model wrong.
  if (answer.error().is_recovered()) return "";
  const std::string command =
      absl::StrCat("`calibctl recalibrate --model ", ShortName(answer.model()), "`");
  if (!answer.has_recalibration()) return command + " looks for a map that repairs the model";
  const v1::Recalibration& advice = answer.recalibration();
  const std::int64_t last =
      advice.first_observation() + advice.fit_observations() + advice.test_observations() - 1;
  const bool is_mixed = answer.error().has_change() &&
                        advice.first_observation() < answer.error().change().to_observation();
  return absl::StrCat(advice.text(), ", says ", command, " of ", MinuteText(advice.compute_time()),
                      " over rows ", advice.first_observation(), " to ", last,
                      is_mixed
                          ? "; the error changed within or after these rows, so the map may not "
                            "fit the newest ones"
                          : "");
}

}  // namespace calibd::convert
