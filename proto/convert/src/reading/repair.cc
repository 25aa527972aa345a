#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "calibd/core/recalibration.h"
#include "words.h"

namespace calibd::convert {

namespace {

// Fits stop this close to the end of their range.
bool IsAtEnd(double temperature) {
  return std::max(temperature, 1 / temperature) > 0.999 * kMaxTemperature;
}

// "fitted on the 4000 rows since row 12001, where the error changed".
std::string RowsText(const v1::Recalibration& advice) {
  const std::int64_t count = advice.fit_observations() + advice.test_observations();
  const bool is_within = advice.first_observation() <= advice.change().to_observation();
  return absl::StrCat("fitted on the ", count, " rows since row ", advice.first_observation(),
                      is_within ? ", where the error changed" : ", after the error changed");
}

// Whether no row of the advice is older than the change of the error that can be dated now.
bool FitsNewestRows(const v1::Recalibration& advice, const v1::CalibrationError& error) {
  if (!error.has_change()) return true;
  const v1::DatedChange& change = error.change();
  if (advice.first_observation() >= change.from_observation()) return true;
  // The same change has a narrower range with more rows.
  return advice.has_change() && advice.change().from_observation() <= change.to_observation() &&
         change.from_observation() <= advice.change().to_observation();
}

// "`calibctl recalibrate --model m` looks for a map that repairs the model".
std::string SearchText(const std::string& command, const v1::CalibrationError& error) {
  if (!error.has_change()) return command + " looks for a map that repairs the model";
  const v1::DatedChange& change = error.change();
  const std::int64_t since = change.after().first_observation() + change.after().observations() -
                             change.from_observation();
  if (since < kMinObservationsSinceChange) {
    return absl::StrCat("too few rows since the change of the error for a map (", since, " of ",
                        kMinObservationsSinceChange, ")");
  }
  return absl::StrCat(command, " looks for a map that repairs the model, on the ", since,
                      " rows since row ", change.from_observation(), ", where the error changed");
}

}  // namespace

std::string RecalibrationText(const v1::Recalibration& advice) {
  if (!advice.helps()) {
    return absl::StrCat("no map is known to lower the log loss",
                        advice.has_change() ? absl::StrCat(", ", RowsText(advice)) : "");
  }
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
  return absl::StrCat(name, advice.has_change() ? absl::StrCat(", ", RowsText(advice), ",") : "",
                      " would leave ", PointsText(error.estimate()), " (", Points(error.lower()),
                      " to ", Points(error.upper()), ")",
                      is_class_1 ? absl::StrCat(" for ", Class1Event(advice.class_1_name()))
                      : advice.has_class_1_error_after() ? " for the top label"
                                                         : "",
                      advice.has_change() ? "" : " if nothing changed within these rows");
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
  const auto& groups = answer.verdict().groups_over_limit();
  if (!groups.empty() && answer.error().status() != v1::CalibrationError::OVER_LIMIT) {
    std::vector<std::string> names;
    for (const std::string& name : groups) names.push_back(CutName(GroupName(name, false)));
    return absl::StrCat("a map for all rows does not repair ",
                        names.size() == 1 ? "group " : "groups ", JoinNames(names, kMaxNames),
                        ", so look for the cause there");
  }
  const std::string command =
      absl::StrCat("`calibctl recalibrate --model ", ShortName(answer.model()), "`");
  const v1::Recalibration& advice = answer.recalibration();
  // The error that a map from older rows promises is too small.
  if (!answer.has_recalibration() || !FitsNewestRows(advice, answer.error())) {
    return SearchText(command, answer.error());
  }
  const std::int64_t last =
      advice.first_observation() + advice.fit_observations() + advice.test_observations() - 1;
  return absl::StrCat(advice.text(), ", says ", command, " of ", MinuteText(advice.compute_time()),
                      " over rows ", advice.first_observation(), " to ", last);
}

}  // namespace calibd::convert
