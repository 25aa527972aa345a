#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
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

bool NeedsRepair(const v1::LabelCalibration& label, double limit) {
  const bool is_over = label.status() == v1::CalibrationError::OVER_LIMIT;
  if (!is_over || label.has_recovered_since()) return false;
  if (!label.has_acknowledged_limit()) return true;
  return label.has_error() && label.error().lower() > limit;
}

// The groups or labels that need a repair of their own, also rejected ones that may be over the
// limit; the one that is off by most first.
struct PartsToRepair {
  std::vector<std::string> names;
  // Whether another part is shown to be better than each of these: it is within the limit, or its
  // interval ends below theirs.
  bool are_the_cause = false;
  // Whether the rest of the groups, which mixes many, needs a repair: no map is right for it.
  bool is_rest_off = false;
};

class RepairFinder {
 public:
  // error: of the part; null if it has no row.
  void Add(const std::string& name, bool needs_repair, v1::CalibrationError::Status status,
           const v1::ErrorInterval* error) {
    if (needs_repair) {
      const double lower = error == nullptr ? 0 : error->lower();
      names_.emplace(-lower, CutName(name));
      lowest_ = std::min(lowest_, lower);
    } else if (error != nullptr) {
      const bool is_within = status == v1::CalibrationError::WITHIN_LIMIT;
      least_other_ = std::min(least_other_, is_within ? 0 : error->upper());
    }
  }
  [[nodiscard]] PartsToRepair Found() const {
    PartsToRepair found;
    for (const auto& [size, name] : names_) found.names.push_back(name);
    found.are_the_cause = !found.names.empty() && least_other_ < lowest_;
    return found;
  }

 private:
  // By descending lower end of the error.
  std::multimap<double, std::string> names_;
  // The lowest lower end of them, and the lowest upper end of the others.
  double lowest_ = 1;
  double least_other_ = 1;
};

PartsToRepair FindPartsToRepair(const v1::GetCalibrationResponse& answer) {
  RepairFinder finder;
  bool is_rest_off = false;
  for (const v1::GroupWatch& group : answer.groups()) {
    const v1::CalibrationError& error = group.error();
    // Evidence may be of rows before an acknowledgement.
    const bool may_be_over = group.rejected() &&
                             error.status() == v1::CalibrationError::UNDECIDED &&
                             !error.has_since_acknowledgement();
    // Until there are new rows, the ones before an acknowledgement say what a map would meet.
    const v1::ErrorInterval* interval = WorstEvent(Current(error)).interval;
    const bool has_no_new_row = interval == nullptr && error.is_acknowledged();
    if (has_no_new_row) interval = WorstEvent(error.since_start()).interval;
    const bool is_off = NeedsRepair(error) || may_be_over || has_no_new_row;
    if (group.overflow() && is_off) {
      is_rest_off = true;
    } else {
      finder.Add(GroupName(group.value(), false), is_off, error.status(), interval);
    }
  }
  for (const v1::LabelCalibration& label : answer.labels().labels()) {
    finder.Add(label.name(), NeedsRepair(label, answer.error().limit()), label.status(),
               label.has_error() ? &label.error() : nullptr);
  }
  PartsToRepair found = finder.Found();
  found.is_rest_off = is_rest_off;
  return found;
}

// "group eu is the cause" or "labels wind, rain are the cause".
std::string CauseText(const PartsToRepair& parts, const std::string& kind) {
  const bool is_one = parts.names.size() == 1;
  return absl::StrCat(kind, is_one ? " " : "s ", JoinNames(parts.names, kMaxNames),
                      is_one ? " is" : " are", " the cause");
}

constexpr std::string_view kRestText =
    "(other groups) mixes all groups beyond max_groups, and some of them may be right: evaluate a "
    "file of each group's rows, or create a version with larger max_groups (at most 64)";

constexpr std::string_view kDoubtfulText =
    "first remove the cause of the warning: a map for such rows may do harm";

// What makes it likely that the labels or the columns are wrong, and not the probabilities: a map
// would hide it. Empty if nothing does. answer: of classes.
std::string FirstCheckText(const v1::GetCalibrationResponse& answer) {
  if (IsWorseThanChance(Current(answer.error()), ClassCount(answer))) {
    return absl::StrCat("first check ", std::string(kSwappedColumns), "; a map would hide it");
  }
  // So many events are expected that it is no chance if none happens.
  constexpr double kSurelySome = 50;
  const v1::ErrorMeasurement& newest = answer.error().newest();
  if (!newest.has_class_1()) return "";
  const auto rows = static_cast<double>(newest.observations());
  const double happened = rows * FrequencyOf(newest.class_1());
  const double expected = rows * newest.class_1().stated();
  const bool none = happened < 0.5 && expected >= kSurelySome;
  const bool all = rows - happened < 0.5 && rows - expected >= kSurelySome;
  if (!none && !all) return "";
  const std::string name =
      newest.class_1_name().empty() ? "class 1" : CutName(newest.class_1_name());
  return absl::StrFormat(
      "first check the labels: %s of the newest %d rows %s %s, and %.0f were expected",
      none ? "none" : "all", newest.observations(), none ? "is" : "are", name, expected);
}

// Whether these groups are repaired first: a map from the rows of all groups repairs them too
// little.
bool ComeFirst(const PartsToRepair& groups) {
  return groups.are_the_cause || (groups.names.empty() && groups.is_rest_off);
}

// What repairs groups that a map for all rows does not repair.
std::string GroupRepairText(const PartsToRepair& groups) {
  if (groups.names.empty()) return groups.is_rest_off ? std::string(kRestText) : "";
  const bool is_one = groups.names.size() == 1;
  return absl::StrCat(groups.are_the_cause
                          ? absl::StrCat(CauseText(groups, "group"),
                                         ", and a map for all rows can make the other groups worse")
                          : absl::StrCat("a map for all rows does not repair group",
                                         is_one ? " " : "s ", JoinNames(groups.names, kMaxNames)),
                      ": look for the cause in ",
                      is_one ? "its rows, or fit a map to a file of its newest rows"
                             : "their rows, or fit a map to a file of one group's newest rows",
                      " alone, by `calibctl recalibrate`",
                      groups.is_rest_off ? absl::StrCat("; ", std::string(kRestText)) : "");
}

// The groups of forecasts, or the labels, that are the cause. There is no map for them alone.
std::string CauseLine(const v1::GetCalibrationResponse& answer) {
  const PartsToRepair parts = FindPartsToRepair(answer);
  if (!parts.are_the_cause) return parts.is_rest_off ? std::string(kRestText) : "";
  const bool of_labels = answer.has_labels();
  return absl::StrCat(
      CauseText(parts, of_labels ? "label" : "group"), ": look at ",
      parts.names.size() == 1 ? "its " : "their ", of_labels ? "probabilities and truths" : "rows",
      answer.rows_are_doubtful() ? " once the cause of the warning is removed" : " first");
}

// Quantiles of one level state no distribution that a map of levels could change.
bool StatesOneLevel(const v1::GetCalibrationResponse& answer) {
  return answer.verdict().whereabouts().cells_size() == 2 ||
         Current(answer.error()).level_coverage_size() == 1;
}

}  // namespace

std::string RecalibrationText(const v1::Recalibration& advice) {
  if (!advice.helps()) {
    return absl::StrCat("no map is known to lower the ",
                        advice.has_pinball_loss_before() ? "pinball loss" : "log loss",
                        advice.has_change() ? absl::StrCat(", ", RowsText(advice)) : "");
  }
  const v1::RecalibrationMap& map = advice.map();
  const bool is_class_1 = advice.has_class_1_error_after() &&
                          Exceeds(advice.class_1_error_after(), advice.error_after());
  const v1::ErrorInterval& before =
      is_class_1 ? advice.class_1_error_before() : advice.error_before();
  const v1::ErrorInterval& after = is_class_1 ? advice.class_1_error_after() : advice.error_after();
  const std::string event = is_class_1 ? "error of " + Class1Event(advice.class_1_name())
                            : advice.has_class_1_error_after() ? "error of the top label"
                            : advice.has_pinball_loss_before() ? "coverage error"
                                                               : "error of the model";
  const std::string name =
      map.has_temperature()
          ? absl::StrFormat(
                "temperature %.3g%s", map.temperature(),
                IsAtEnd(map.temperature()) ? " (the end of the range that is tried)" : "")
          : absl::StrCat("a map of kind ", map.kind());
  if (before.lower() == 0 && after.lower() == 0) {
    // The map repairs something else, such as the probabilities of other classes.
    const bool of_numbers = advice.has_pinball_loss_before();
    return absl::StrCat(
        name, advice.has_change() ? absl::StrCat(", ", RowsText(advice), ",") : "",
        absl::StrFormat(" would lower the %s from %.3g to %.3g%s; no ",
                        of_numbers ? "doubled pinball loss" : "log loss",
                        of_numbers ? advice.pinball_loss_before() : advice.log_loss_before(),
                        of_numbers ? advice.pinball_loss_after() : advice.log_loss_after(),
                        of_numbers ? "" : " nats"),
        event, " is shown, neither without it (", IntervalText(before), " points) nor with it (",
        IntervalText(after), " points)",
        advice.has_change() ? "" : ", if nothing changed within these rows");
  }
  return absl::StrCat(name, advice.has_change() ? absl::StrCat(", ", RowsText(advice), ",") : "",
                      " would take the ", event, " from ", IntervalText(before), " points to ",
                      IntervalText(after), " points",
                      advice.has_change() ? "" : " if nothing changed within these rows");
}

std::string MapCaution(const v1::GetCalibrationResponse& answer) {
  std::string doubt = answer.rows_are_doubtful() ? std::string(kDoubtfulText) : "";
  if (answer.has_forecast()) return doubt.empty() ? CauseLine(answer) : doubt;
  PartsToRepair groups = FindPartsToRepair(answer);
  if (!NeedsRepair(answer.error())) {
    groups.are_the_cause = false;
    return doubt.empty() ? GroupRepairText(groups) : doubt;
  }
  if (std::string check = FirstCheckText(answer); !check.empty()) return check;
  if (!doubt.empty()) return doubt;
  return ComeFirst(groups) ? GroupRepairText(groups) : "";
}

// What repairs an error that is over the limit and lasts: the newest answer of `calibctl
// recalibrate`, or this command, because the computation may be long. Empty if nothing has to be
// repaired: a map from rows that were off would make a model wrong that is right again.
std::string RepairLine(const v1::GetCalibrationResponse& answer) {
  // No map repairs several labels at once.
  if (answer.has_labels()) return CauseLine(answer);
  if (answer.has_forecast()) {
    std::string cause = CauseLine(answer);
    if (!cause.empty() || !NeedsRepair(answer.error()) || StatesOneLevel(answer)) return cause;
  }
  if (!NeedsRepair(answer.error())) {
    PartsToRepair groups = FindPartsToRepair(answer);
    groups.are_the_cause = false;
    return GroupRepairText(groups);
  }
  const std::string command =
      absl::StrCat("`calibctl recalibrate --model ", ShortName(answer.model()), "`");
  if (std::string caution = MapCaution(answer); !caution.empty()) {
    return caution == kDoubtfulText ? absl::StrCat(caution, "; then ", command, " looks for one")
                                    : caution;
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
