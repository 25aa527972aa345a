#include "client/cli/reports/show_report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "calibd/convert/text.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/time_option.h"
#include "client/cli/reports/forecast_report.h"
#include "client/cli/reports/report.h"
#include "client/cli/reports/verdict_report.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {
namespace {

using convert::Fixed;
using convert::Points;
using convert::SignedFixed;
using google::protobuf::Timestamp;
using google::protobuf::util::TimeUtil;

constexpr std::size_t kWidth = 100;
constexpr std::size_t kIndent = 10;
// Maximum numbers of characters of a name, and of names of a kind.
constexpr std::size_t kMaxName = 24;
constexpr std::size_t kMaxNames = 3;

const v1::ErrorMeasurement& Current(const v1::CalibrationError& error) {
  return error.has_since_acknowledgement() ? error.since_acknowledgement() : error.since_start();
}

// The interval of the event that the top label is right, or of the coverage of forecasts; null
// without observations.
const v1::ErrorInterval* IntervalOf(const v1::ErrorMeasurement& error) {
  if (error.has_coverage()) return &error.coverage();
  return error.has_top_label() ? &error.top_label() : nullptr;
}

std::string Name(const std::string& name) {
  const std::string plain = Plain(name);
  return plain.size() <= kMaxName ? plain : CutLines(plain, kMaxName - 3) + "...";
}

// "a, b and 3 more". more: the number of further names.
std::string Names(const std::vector<std::string>& names, std::size_t max_names = kMaxNames,
                  std::size_t more = 0) {
  const std::size_t shown = std::min(names.size(), max_names);
  more += names.size() - shown;
  std::string text =
      absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", ");
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

// Breaks the text at spaces into lines that begin in the same column.
std::vector<std::string> Wrap(const std::string& title, const std::string& text) {
  std::vector<std::string> lines;
  std::string line = absl::StrFormat("%-*s", kIndent, title);
  bool begins = true;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!begins && line.size() + 1 + word.size() > kWidth) {
      lines.push_back(std::exchange(line, std::string(kIndent, ' ')));
      begins = true;
    }
    absl::StrAppend(&line, begins ? "" : " ", word);
    begins = false;
  }
  lines.push_back(line);
  return lines;
}

// Returns the wrapped text, cut after max_lines.
std::string Part(const std::string& title, const std::string& text, std::size_t max_lines) {
  if (text.empty()) return "";
  std::vector<std::string> lines = Wrap(title, text);
  if (lines.size() > max_lines) {
    lines.resize(max_lines);
    lines.back() = CutLines(lines.back(), kWidth - 4) + " ...";
  }
  return CutLines(absl::StrJoin(lines, "\n"), kWidth) + "\n";
}

// Returns the oldest active alarm of the kind, or null. with_groups: also of groups.
const v1::Alarm* Active(const v1::GetCalibrationResponse& response, v1::Alarm::Kind kind,
                        bool with_groups = true) {
  const v1::Alarm* oldest = nullptr;
  for (const v1::Alarm& alarm : response.alarms()) {
    if (alarm.kind() != kind || alarm.has_acknowledge_time()) continue;
    if (with_groups || !alarm.has_group_value()) oldest = &alarm;
  }
  return oldest;
}

// How far off the model itself is, and which groups are over their limits.
std::string LimitText(const v1::Verdict& verdict, const v1::CalibrationError& error) {
  const bool own =
      verdict.groups_over_limit().empty() || error.status() == v1::CalibrationError::OVER_LIMIT;
  std::string text = convert::StatusName(verdict.limit_status());
  if (own && error.is_recent()) text += " (recent)";
  if (own && error.is_acknowledged()) text += " (acknowledged)";
  if (verdict.groups_over_limit().empty()) return text;
  std::vector<std::string> groups;
  for (const std::string& group : verdict.groups_over_limit()) {
    groups.push_back(Name(GroupName(group, false)));
  }
  const bool group_is_active = error.is_acknowledged() && !verdict.is_acknowledged();
  if (own) text += group_is_active ? ", OVER_LIMIT" : ", also";
  absl::StrAppend(&text, groups.size() == 1 ? " in group " : " in groups ", Names(groups));
  if (!own && verdict.is_acknowledged()) text += " (acknowledged)";
  return text;
}

std::string SinceText(const Timestamp& time, std::int64_t observation) {
  return absl::StrCat(" since ", MinuteText(time), " (row ", observation, ")");
}

std::string StatusText(const v1::Verdict& verdict) {
  const bool also_stale = verdict.stale() && verdict.status() != v1::Verdict::STALE;
  return absl::StrCat(convert::StatusName(verdict.status()), also_stale ? ", STALE" : "");
}

std::string HeadlineText(const v1::GetCalibrationResponse& response) {
  const v1::Verdict& verdict = response.verdict();
  const v1::Alarm* over = nullptr;
  // One batch may raise the alarms of several groups, in the order of the groups.
  for (const v1::Alarm& alarm : response.alarms()) {
    if (alarm.kind() != v1::Alarm::OVER_LIMIT || alarm.has_acknowledge_time()) continue;
    if (over == nullptr || alarm.observation() < over->observation()) over = &alarm;
  }
  if (over != nullptr) {
    return absl::StrCat(LimitText(verdict, response.error()),
                        SinceText(over->raise_time(), over->observation()), ", ",
                        StatusText(verdict));
  }
  return absl::StrCat(
      VerdictText(verdict, response.error()),
      verdict.has_since() ? SinceText(verdict.since(), verdict.since_observation()) : "");
}

// Says since when there is no labelled row, and how far off the rows before were.
std::string NoRowText(const v1::GetCalibrationResponse& response) {
  const v1::ErrorMeasurement& all = response.error().since_start();
  const v1::LabelArrivals& arrivals = response.label_arrivals();
  if (response.observations() == 0 && arrivals.pending_labelled() > 0) {
    return absl::StrCat("no row counted yet: ", arrivals.pending_labelled(), " of ",
                        arrivals.pending(), " pending rows are labelled");
  }
  if (response.observations() == 0) return "no labelled row yet";
  if (IntervalOf(all) == nullptr) {
    return absl::StrCat("no labelled row since the update (row ", all.first_observation(), ")");
  }
  const bool is_class_1 = all.has_class_1() && convert::Exceeds(all.class_1(), all.top_label());
  const v1::ErrorInterval& interval = is_class_1 ? all.class_1() : *IntervalOf(all);
  return absl::StrCat(is_class_1 ? "P(class 1) was off by " : "was off by ",
                      convert::PointsText(interval.estimate()), " (", Points(interval.lower()),
                      " to ", Points(interval.upper()), ") over rows ", all.first_observation(),
                      " to ", all.first_observation() + all.observations() - 1,
                      "; no labelled row since the acknowledgement");
}

// The coverage of the widest central interval of forecasts; empty without one.
std::string WidestText(const v1::ErrorMeasurement& error) {
  if (error.central_coverage().empty()) return "";
  const v1::CentralCoverage& widest = *error.central_coverage().rbegin();
  std::string text = absl::StrFormat("; the %.3g %% intervals cover %.1f %% (%.1f to %.1f)",
                                     100 * widest.promised(), 100 * widest.coverage(),
                                     100 * widest.lower(), 100 * widest.upper());
  if (widest.upper() < widest.promised()) text += ": too narrow";
  if (widest.lower() > widest.promised()) text += ": too wide";
  return text;
}

// The bias of the rows whose coverage is shown.
std::string BiasOf(const v1::ErrorMeasurement& error) {
  const v1::ForecastDirection& direction = error.direction();
  const std::string bias =
      direction.has_residual_mean()
          ? BiasText(direction.residual_mean(), direction.residual_standard_deviation(),
                     error.observations())
          : BiasText(direction, error.observations());
  return bias.empty() ? "" : absl::StrCat("; on average ", bias);
}

// The error of forecasts, the coverage of the widest central interval, and the bias. A recent error
// comes first, because it is the reason of the verdict.
std::string HowBadForecasts(const v1::GetCalibrationResponse& response) {
  const v1::CalibrationError& error = response.error();
  const v1::ErrorMeasurement& all = Current(error);
  std::string text;
  if (error.is_recent()) {
    const v1::ErrorMeasurement& recent = error.recent().forecast();
    const v1::ErrorInterval& off = recent.coverage();
    text = absl::StrCat(
        "the newest ", recent.observations(),
        " rows: ", convert::OffByText(off.estimate(), off.lower(), off.upper(), error.limit()),
        WidestText(recent), BiasOf(recent), "; all rows: off by ",
        convert::PointsText(all.coverage().estimate()), " (", Points(all.coverage().lower()),
        " to ", Points(all.coverage().upper()), ")");
  } else {
    text = absl::StrCat(OffBy(error), WidestText(all), BiasOf(all));
  }
  if (error.has_acknowledged_limit()) {
    absl::StrAppend(&text, "; the next alarm is raised above ", Points(error.acknowledged_limit()));
  }
  return text;
}

std::string HowBad(const v1::GetCalibrationResponse& response) {
  const v1::CalibrationError& error = response.error();
  const v1::ErrorMeasurement& current = Current(error);
  if (IntervalOf(current) == nullptr) return NoRowText(response);
  if (current.has_coverage()) return HowBadForecasts(response);
  const v1::ErrorInterval& interval = current.top_label();
  std::string text = OffBy(error);
  // The printed figures add up.
  const double says = std::round(1e4 * current.mean_confidence()) / 1e4;
  const double right = std::round(1e4 * current.accuracy()) / 1e4;
  const double gap = says - right;
  absl::StrAppendFormat(&text, "; says %.2f %%, right %.2f %%: ", 100 * says, 100 * right);
  if (std::abs(gap) < 5e-5) {
    text += "neither over- nor under-confident";
  } else {
    const double sign = gap > 0 ? 1 : -1;
    const double low = gap > 0 ? interval.gap_lower() : -interval.gap_upper();
    const double high = gap > 0 ? interval.gap_upper() : -interval.gap_lower();
    absl::StrAppendFormat(&text, "%s-confident by %.2f (%s to %s)", gap > 0 ? "over" : "under",
                          100 * sign * gap, Fixed(100 * low, 1), Fixed(100 * high, 1));
  }
  if (error.is_recent()) {
    const v1::CalibrationError::RecentError& recent = error.recent();
    absl::StrAppend(&text, "; the newest ", recent.observations(), " rows: off by ",
                    convert::PointsText(recent.estimate()), ", ", convert::GapText(recent.gap()));
  }
  if (current.has_class_1() && (current.class_1().lower() > error.limit() ||
                                convert::Exceeds(current.class_1(), current.top_label()))) {
    const v1::ErrorInterval& one = current.class_1();
    absl::StrAppend(&text, "; P(class 1): ",
                    convert::OffByText(one.estimate(), one.lower(), one.upper(), error.limit()));
  }
  if (error.has_acknowledged_limit()) {
    absl::StrAppend(&text, "; the next alarm is raised above ", Points(error.acknowledged_limit()));
  }
  return text;
}

// Places of a kind, the most important first.
struct Places {
  std::string title;
  std::vector<std::string> names;
  // Number of further places, whose names are not known.
  std::size_t more = 0;
};

std::string GroupPlace(const v1::GroupWatch& group) {
  const v1::CalibrationError& error = group.error();
  const std::string name = absl::StrCat("group ", Name(GroupName(group.value(), group.overflow())));
  if (IntervalOf(Current(error)) == nullptr) {
    return absl::StrCat(name, " (not measured yet since the ",
                        error.has_since_acknowledgement() ? "acknowledgement)" : "update)");
  }
  const v1::ErrorInterval& interval = *IntervalOf(Current(error));
  if (convert::SaysLittle(interval.lower(), interval.upper())) {
    return absl::StrCat(name, " 0 to ", convert::PointsText(interval.upper()),
                        " off (too few rows to say more)");
  }
  return absl::StrCat(name, " ", convert::PointsText(interval.estimate()), " off (",
                      Points(interval.lower()), " to ", Points(interval.upper()), ")");
}

// The classes whose frequencies stand out, and the others that are rejected.
std::pair<Places, Places> ClassPlaces(const v1::Whereabouts& whereabouts) {
  Places frequencies;
  Places rejected;
  std::int64_t known = 0;
  for (const auto& share : whereabouts.classes()) {
    const std::string name =
        share.class_name().empty() ? absl::StrCat(share.class_index()) : Name(share.class_name());
    known += share.rejected() ? 1 : 0;
    if (share.stands_out()) {
      frequencies.names.push_back(absl::StrFormat("%s (says %.1f %%, is %.1f %%)", name,
                                                  100 * share.predicted(), 100 * share.observed()));
    } else if (share.rejected()) {
      rejected.names.push_back(name);
    }
  }
  rejected.more =
      static_cast<std::size_t>(std::max<std::int64_t>(0, whereabouts.rejected_classes() - known));
  frequencies.title = frequencies.names.size() == 1 ? "class " : "classes ";
  rejected.title =
      absl::StrCat("rejected for class", rejected.names.size() + rejected.more == 1 ? " " : "es ");
  return {frequencies, rejected};
}

// Returns a text of at most two lines: leaves out whole names, then whole kinds of places.
std::string PlacesText(std::vector<Places> places) {
  std::size_t names = kMaxNames;
  while (true) {
    std::string text = absl::StrJoin(places, "; ", [&](std::string* out, const Places& kind) {
      absl::StrAppend(out, kind.title, Names(kind.names, names, kind.more));
    });
    if (Wrap("", text).size() <= 2) return text;
    if (names > 1) {
      --names;
    } else {
      places.pop_back();
    }
  }
}

// The cell of forecasts that stands out most.
Places CellPlaces(const v1::Whereabouts& whereabouts) {
  Places places;
  const v1::ForecastCell* worst = nullptr;
  for (const v1::ForecastCell& cell : whereabouts.cells()) {
    const bool worse = worst == nullptr || std::abs(cell.z()) > std::abs(worst->z());
    if (cell.stands_out() && worse) worst = &cell;
  }
  if (worst != nullptr) {
    places.names.push_back(absl::StrCat(CellPlace(*worst), ": ", worst->observations(),
                                        " outcomes, ", ExpectedCount(worst->expected()),
                                        " expected"));
  }
  return places;
}

// What the declared decision costs; empty without one.
std::string Decided(const v1::GetCalibrationResponse& response) {
  if (!response.watch().has_decision()) return "";
  const v1::DecisionLoss& loss = response.watch().decision();
  const bool counts = loss.decision().false_alarm_cost() == 1 && loss.decision().miss_cost() == 1;
  const double gap = loss.realised_loss() - loss.expected_loss();
  const std::string at = convert::Exact(loss.decision().threshold());
  // The rows of the evidence, which an acknowledgement restarts.
  const std::int64_t first = response.watch().first_observation();
  const std::string since = first > 1 ? absl::StrCat(" since row ", first) : "";
  const std::string text =
      counts
          ? absl::StrFormat(
                "at %s: %.1f %% of %d decisions%s were wrong, the forecasts promise %.1f %%: %s "
                "points "
                "(%s to %s)",
                at, 100 * loss.realised_loss(), loss.observations(), since,
                100 * loss.expected_loss(), SignedFixed(100 * gap, 1),
                SignedFixed(100 * loss.gap_lower_bound(), 1),
                SignedFixed(100 * loss.gap_upper_bound(), 1))
          : absl::StrFormat(
                "at %s: %d decisions%s cost %.3g each, the forecasts promise %.3g: %+.3g (%+.3g to "
                "%+.3g)",
                at, loss.observations(), since, loss.realised_loss(), loss.expected_loss(), gap,
                loss.gap_lower_bound(), loss.gap_upper_bound());
  const bool chance = loss.gap_lower_bound() <= 0 && loss.gap_upper_bound() >= 0;
  return text + (chance ? "; chance can explain the difference" : "");
}

std::string Where(const v1::GetCalibrationResponse& response) {
  Places groups;
  for (const v1::GroupWatch& group : response.groups()) {
    if (group.error().status() != v1::CalibrationError::OVER_LIMIT) continue;
    groups.names.push_back(GroupPlace(group));
  }
  const v1::Whereabouts& whereabouts = response.verdict().whereabouts();
  const v1::Whereabouts::ConfidenceBin* worst = nullptr;
  for (const auto& bin : whereabouts.confidence_bins()) {
    const bool worse = worst == nullptr || std::abs(bin.z()) > std::abs(worst->z());
    if (bin.stands_out() && worse) worst = &bin;
  }
  Places bins;
  if (worst != nullptr) {
    bins.names.push_back(
        absl::StrFormat("confidence %.2f to %.2f: says %.1f %%, right %.1f %% (%d rows)",
                        worst->lower(), worst->upper(), 100 * worst->mean_confidence(),
                        100 * worst->accuracy(), worst->observations()));
  }
  const auto [frequencies, rejected] = ClassPlaces(whereabouts);
  std::vector<Places> places;
  for (const Places& kind : {groups, bins, CellPlaces(whereabouts), frequencies, rejected}) {
    if (!kind.names.empty()) places.push_back(kind);
  }
  if (!places.empty()) return PlacesText(std::move(places));
  // Without bins and cells, no row was examined.
  return whereabouts.confidence_bins().empty() && whereabouts.cells().empty()
             ? ""
             : "nothing stands out";
}

// Says whether the error of the model itself began with a change. over: its alarm.
std::string ErrorChange(const v1::GetCalibrationResponse& response, const v1::Alarm& over) {
  const bool is_active = !over.has_acknowledge_time();
  const v1::CalibrationError::RecentError& recent = response.error().recent();
  // The rows since an acknowledgement do not tell whether the rows before it had changed.
  const std::int64_t first = is_active ? Current(response.error()).first_observation()
                                       : response.error().since_start().first_observation();
  if (over.crossing().is_recent() && over.crossing().first_observation() > first) {
    return absl::StrCat("yes, at about row ", over.crossing().first_observation());
  }
  if (is_active && recent.observations() > 0 && recent.first_observation() == first) {
    return absl::StrCat("no change is visible: off from ",
                        first == 1 ? "the first row" : absl::StrCat("row ", first), " on");
  }
  return absl::StrCat("not known; see `calibctl history ", ShortName(response.model()), "`");
}

// Whether the evidence over all rows had crossed its threshold when the drift alarm was raised.
bool EvidenceCameFirst(const v1::GetCalibrationResponse& response, const v1::Alarm& drift) {
  return std::ranges::any_of(response.alarms(), [&drift](const v1::Alarm& alarm) {
    return alarm.kind() == v1::Alarm::EVIDENCE && alarm.observation() <= drift.observation() &&
           (!alarm.has_acknowledge_time() || alarm.acknowledge_time() > drift.raise_time());
  });
}

std::string Changed(const v1::GetCalibrationResponse& response) {
  const v1::Alarm* over = Active(response, v1::Alarm::OVER_LIMIT, false);
  if (over == nullptr && response.error().is_acknowledged()) {
    for (const v1::Alarm& alarm : response.alarms()) {
      const bool is_own = alarm.kind() == v1::Alarm::OVER_LIMIT && !alarm.has_group_value();
      if (is_own && over == nullptr) over = &alarm;
    }
  }
  if (over != nullptr) return ErrorChange(response, *over);
  const v1::Alarm* const drift = Active(response, v1::Alarm::DRIFT);
  if (drift == nullptr) return "";
  if (EvidenceCameFirst(response, *drift)) {
    return absl::StrCat(
        "perhaps not: calibration was rejected over all rows before the drift alarm of row ",
        drift->observation());
  }
  return absl::StrCat("perhaps: the drift detector reacted at row ", drift->observation());
}

std::string Certain(const v1::GetCalibrationResponse& response) {
  const v1::Watch& watch = response.watch();
  std::vector<std::string> facts;
  if (response.error().has_observations_needed()) {
    facts.push_back(absl::StrCat("about ",
                                 convert::RoundedCount(response.error().observations_needed()),
                                 response.error().observations_needed() == 1
                                     ? " more labelled row decides about the limit"
                                     : " more labelled rows decide about the limit"));
  }
  if (!watch.unavailable_reason().empty()) {
    facts.push_back("no evidence: " + Plain(watch.unavailable_reason()));
  } else if (watch.has_evidence() && watch.observations() < watch.min_observations()) {
    // There is no highest e-value yet: no alarm was possible.
    facts.push_back(absl::StrCat("e-value ", PowerOfTen(watch.evidence().log10_e_value()),
                                 ", which counts after ", watch.min_observations(),
                                 " labelled rows; ", watch.observations(), " so far"));
  } else if (watch.has_evidence()) {
    const v1::Evidence& evidence = watch.evidence();
    facts.push_back(absl::StrCat("e-value ", PowerOfTen(evidence.log10_e_value()), ", highest ",
                                 PowerOfTen(evidence.max_log10_e_value()),
                                 "; calibration is rejected at ",
                                 PowerOfTen(evidence.threshold())));
  }
  return absl::StrJoin(facts, "; ");
}

std::string Data(const v1::GetCalibrationResponse& response, const Timestamp& now) {
  std::vector<std::string> facts = {
      absl::StrCat(response.observations(),
                   response.observations() == 1 ? " labelled row" : " labelled rows"),
      absl::StrCat(response.rejected_rows(), " rejected")};
  if (response.dropped_rows() > 0) {
    facts.push_back(absl::StrCat(response.dropped_rows(), " dropped by producers"));
  }
  if (response.has_label_arrivals()) {
    const v1::LabelArrivals& arrivals = response.label_arrivals();
    const bool waits = response.observations() == 0 && arrivals.has_next_maturation_time();
    facts.push_back(absl::StrCat(arrivals.pending(), " pending",
                                 waits ? absl::StrCat("; the first will count on ",
                                                      MinuteText(arrivals.next_maturation_time()))
                                       : ""));
    facts.push_back(absl::StrCat(arrivals.missing(), " without a label"));
    facts.push_back(absl::StrCat(arrivals.duplicate_predictions(), " duplicates"));
  }
  std::string text = absl::StrJoin(facts, ", ");
  if (response.has_last_observation_time()) {
    const auto age = now - response.last_observation_time();
    absl::StrAppend(
        &text, "; the newest row came ",
        age < TimeUtil::SecondsToDuration(1) ? "just now" : AgeText(age.seconds()) + " ago");
  }
  const v1::CalibrationError& error = response.error();
  if (error.since_start().first_observation() > 1) {
    absl::StrAppend(&text, "; the error is measured since row ",
                    error.since_start().first_observation());
  } else if (error.has_since_acknowledgement()) {
    absl::StrAppend(&text, "; the error is measured since the acknowledgement, from row ",
                    error.since_acknowledgement().first_observation());
  }
  return text;
}

// How a score differs from that of the baseline. scale: from the unit of the contract to that of
// the text.
std::string DifferenceText(const char* score, const char* unit, double scale,
                           const v1::ScoreDifference& difference) {
  const double value = scale * difference.difference();
  const double lower = scale * difference.lower();
  const double upper = scale * difference.upper();
  // The same decimals for all three, two digits of the largest.
  const double most = std::max({std::abs(value), std::abs(lower), std::abs(upper), 1e-12});
  const int decimals = std::max(0, 1 - static_cast<int>(std::floor(std::log10(most))));
  const std::string size = absl::StrFormat("%s %.*f%s %s", score, decimals, std::abs(value), unit,
                                           value > 0 ? "higher" : "lower");
  if (upper < 0) {
    return absl::StrFormat("%s (%.*f to %.*f), better", size, decimals, -upper, decimals, -lower);
  }
  if (lower > 0) {
    return absl::StrFormat("%s (%.*f to %.*f), worse", size, decimals, lower, decimals, upper);
  }
  return absl::StrCat(size, " (", SignedFixed(lower, decimals), " to ",
                      SignedFixed(upper, decimals), "), undecided");
}

std::string Against(const v1::GetCalibrationResponse& response) {
  if (response.baseline().empty()) return "";
  const std::string name = Name(response.baseline());
  if (!response.has_comparison()) return name + ": no labelled row yet";
  const v1::Comparison& comparison = response.comparison();
  return absl::StrCat(name, ": ", DifferenceText("log loss", "", 1, comparison.log_loss()), "; ",
                      DifferenceText("Brier score", "", 1, comparison.brier()), "; ",
                      DifferenceText("error", " points", 100, comparison.binned_error()));
}

// What repairs a model that is over its limit or has an active alarm: the newest answer of
// `calibctl recalibrate`, or this command, because the computation may be long.
std::string Repair(const v1::GetCalibrationResponse& response) {
  // A map repairs probabilities of classes.
  if (response.has_forecast()) return "";
  const bool alarmed =
      std::any_of(response.alarms().begin(), response.alarms().end(),
                  [](const v1::Alarm& alarm) { return !alarm.has_acknowledge_time(); });
  if (!alarmed && response.error().status() != v1::CalibrationError::OVER_LIMIT) return "";
  const std::string command =
      absl::StrCat("`calibctl recalibrate --model ", ShortName(response.model()), "`");
  if (!response.has_recalibration()) return command + " looks for a map that repairs the model";
  const v1::Recalibration& advice = response.recalibration();
  const v1::RecalibrationMap& map = advice.map();
  const bool is_class_1 = advice.has_class_1_error_after() &&
                          convert::Exceeds(advice.class_1_error_after(), advice.error_after());
  const v1::ErrorInterval& error = is_class_1 ? advice.class_1_error_after() : advice.error_after();
  const std::string name = map.has_temperature()
                               ? absl::StrFormat("temperature %.3g", map.temperature())
                               : absl::StrCat("a map of kind ", map.kind());
  const std::string found =
      advice.helps() ? absl::StrCat(name, " would leave ", convert::PointsText(error.estimate()),
                                    " (", Points(error.lower()), " to ", Points(error.upper()), ")",
                                    is_class_1 ? " for P(class 1)" : "")
                     : "no map is known to lower the log loss";
  const std::int64_t last =
      advice.first_observation() + advice.fit_observations() + advice.test_observations() - 1;
  return absl::StrCat(found, ", says ", command, " of ", MinuteText(advice.compute_time()),
                      " over rows ", advice.first_observation(), " to ", last);
}

std::string Next(const v1::GetCalibrationResponse& response) {
  const std::string model = ShortName(response.model());
  std::vector<std::string> commands;
  const v1::Alarm* alarm = Active(response, v1::Alarm::OVER_LIMIT);
  if (alarm == nullptr) alarm = Active(response, v1::Alarm::EVIDENCE);
  if (alarm == nullptr) alarm = Active(response, v1::Alarm::DRIFT);
  if (alarm != nullptr) {
    commands.push_back(
        absl::StrCat("calibctl acknowledge ", model, " ", alarm->id(), " --note \"...\""));
  }
  commands.push_back(absl::StrCat("calibctl show ", model, " --verbose"));
  return absl::StrJoin(commands, "; ");
}

}  // namespace

std::string MinuteText(const Timestamp& time) {
  std::string text = TimeUtil::ToString(TimeUtil::SecondsToTimestamp(time.seconds() / 60 * 60));
  text.resize(text.find(":00Z"));
  text[text.find('T')] = ' ';
  return text + " UTC";
}

std::string OffBy(const v1::CalibrationError& error) {
  const v1::ErrorInterval* const found = IntervalOf(Current(error));
  if (found == nullptr) return "";
  const v1::ErrorInterval& interval = *found;
  return convert::OffByText(interval.estimate(), interval.lower(), interval.upper(), error.limit());
}

std::string VerdictText(const v1::Verdict& verdict, const v1::CalibrationError& error) {
  std::string text;
  if (verdict.limit_status() != v1::CalibrationError::UNSPECIFIED) {
    text = LimitText(verdict, error) + ", ";
  }
  return text + StatusText(verdict);
}

std::string DescribeShow(const v1::GetCalibrationResponse& response, const Timestamp& now) {
  const std::string name = ShortName(response.model());
  if (!response.has_verdict()) {
    return Part("model", name + ": not monitored, so there is no verdict", 2) +
           Part("against", Against(response), 2) + Part("data", Data(response, now), 2) +
           Part("next", absl::StrCat("calibctl show ", name, " --verbose"), 2);
  }
  // At most 16 lines together, two more with a baseline, and two more about the repair. A warning
  // takes room of the bounds, not of the error.
  const bool warns = !response.warnings().empty();
  const std::size_t bounds = warns ? 2 : 3;
  std::string text =
      Part("verdict", absl::StrCat(name, ": ", HeadlineText(response)), 2) +
      Part("how bad", HowBad(response), 3) + Part("where", Where(response), 2) +
      Part("decision", Decided(response), 2) + Part("against", Against(response), 2) +
      Part("changed", Changed(response), 1) + Part("repair", Repair(response), 2) +
      Part("certain", Certain(response), bounds) + Part("data", Data(response, now), 2);
  if (warns) {
    const int more = response.warnings_size() - 1;
    text += Part("warning",
                 absl::StrCat(more > 0 ? absl::StrCat("(and ", more, " more) ") : "",
                              Plain(response.warnings(0))),
                 2);
  }
  return text + Part("next", Next(response), 2);
}

namespace {

// Empty without observations. prediction and event: the names of their columns.
std::string BinTable(const google::protobuf::RepeatedPtrField<v1::HistoryBucket::Bin>& bins,
                     const char* prediction, const char* event) {
  std::vector<std::vector<std::string>> rows = {
      {prediction, "rows", "says %", event, "gap (points)"}};
  const double count = bins.size();
  for (int i = 0; i < bins.size(); ++i) {
    const v1::HistoryBucket::Bin& bin = bins[i];
    if (bin.observations() == 0) continue;
    rows.push_back({absl::StrFormat("%.3f to %.3f", i / count, (i + 1) / count),
                    absl::StrCat(bin.observations()),
                    absl::StrFormat("%.1f", 100 * bin.mean_confidence()),
                    absl::StrFormat("%.1f", 100 * bin.accuracy()),
                    SignedFixed(100 * (bin.mean_confidence() - bin.accuracy()), 1)});
  }
  return rows.size() == 1 ? "" : FormatTable(rows);
}

}  // namespace

std::string DescribeBins(const v1::GetCalibrationResponse& response) {
  if (response.has_forecast()) return DescribeCells(response);
  const v1::RunningScores& scores = response.scores();
  const std::string top_label = BinTable(scores.bins(), "confidence", "right %");
  if (top_label.empty()) return "no labelled row yet\n";
  const std::string class_1 =
      BinTable(scores.class_1_bins(), "probability of class 1", "class 1 %");
  return class_1.empty() ? top_label : absl::StrCat(top_label, "\n", class_1);
}

}  // namespace calibd::cli
