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
std::string SearchText(const v1::GetCalibrationResponse& answer, const std::string& command) {
  const v1::CalibrationError& error = answer.error();
  if (!error.has_change()) return command + " looks for a map that repairs the model";
  const v1::DatedChange& change = error.change();
  const std::int64_t since = change.after().first_observation() + change.after().observations() -
                             change.from_observation();
  if (since < kMinObservationsSinceChange) {
    return absl::StrCat("too few rows since the change of the error for a map (", since, " of ",
                        kMinObservationsSinceChange, ")");
  }
  const std::int64_t window = answer.window_observations();
  return absl::StrCat(command, " looks for a map that repairs the model, on the ",
                      since <= window
                          ? absl::StrCat(since, " rows since row ", change.from_observation(),
                                         ", where the error changed")
                          : absl::StrCat(window, " rows of the window, after the error changed"));
}

// Whether something has to be done about an error. One that has recovered is mended. Whoever
// acknowledged one has repaired or accepted it, unless the rows since then show it again.
bool NeedsRepair(const v1::CalibrationError& error) {
  if (error.status() != v1::CalibrationError::OVER_LIMIT || error.is_recovered()) return false;
  if (!error.is_acknowledged()) return true;
  const NamedEvent event = WorstEvent(Current(error));
  return error.has_since_acknowledgement() && event.interval != nullptr &&
         event.interval->lower() > error.limit();
}

// The groups that need a repair of their own, also rejected ones that may be over the limit.
std::vector<std::string> GroupsToRepair(const v1::GetCalibrationResponse& answer) {
  std::vector<std::string> names;
  for (const v1::GroupWatch& group : answer.groups()) {
    const bool may_be_over =
        group.rejected() && group.error().status() == v1::CalibrationError::UNDECIDED;
    if (!NeedsRepair(group.error()) && !may_be_over) continue;
    names.push_back(CutName(GroupName(group.value(), group.overflow())));
  }
  return names;
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

// What repairs an error that is over the limit and lasts: the newest answer of `calibctl
// recalibrate`, or this command, because the computation may be long. Empty if nothing has to be
// repaired: a map from rows that were off would make a model wrong that is right again.
std::string RepairLine(const v1::GetCalibrationResponse& answer) {
  // A map repairs probabilities of classes.
  if (answer.has_forecast() || answer.has_labels()) return "";
  if (!NeedsRepair(answer.error())) {
    const std::vector<std::string> names = GroupsToRepair(answer);
    if (names.empty()) return "";
    return absl::StrCat(
        "a map for all rows does not repair ", names.size() == 1 ? "group " : "groups ",
        JoinNames(names, kMaxNames), ": look for the cause in ",
        names.size() == 1 ? "its rows, or fit a map to a file of these rows"
                          : "their rows, or fit a map to a file of one group's rows",
        " alone, by `calibctl recalibrate`");
  }
  const std::string command =
      absl::StrCat("`calibctl recalibrate --model ", ShortName(answer.model()), "`");
  if (IsWorseThanChance(Current(answer.error()), ClassCount(answer))) {
    return absl::StrCat("first check ", std::string(kSwappedColumns), "; a map would hide it");
  }
  if (!answer.warnings().empty()) {
    return absl::StrCat("first remove the cause of the warning: a map for such rows may do harm; ",
                        "then ", command, " looks for one");
  }
  const v1::Recalibration& advice = answer.recalibration();
  // The error that a map from older rows promises is too small.
  if (!answer.has_recalibration() || !FitsNewestRows(advice, answer.error())) {
    return SearchText(answer, command);
  }
  const std::int64_t last =
      advice.first_observation() + advice.fit_observations() + advice.test_observations() - 1;
  return absl::StrCat(advice.text(), ", says ", command, " of ", MinuteText(advice.compute_time()),
                      " over rows ", advice.first_observation(), " to ", last);
}

}  // namespace calibd::convert
