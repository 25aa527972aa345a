#include "client/cli/reports/verdict_report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "calibd/convert/text.h"
#include "client/cli/reports/reading_report.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {
namespace {

using convert::Fixed;
using convert::GroupName;
using convert::Percent;
using convert::Plain;
using convert::PointsText;
using convert::PowerOfTen;
using convert::ShortName;
using convert::SignedFixed;
using Rows = std::vector<std::vector<std::string>>;

constexpr int kMaxGroups = 20;

// A number of the table of `show --verbose`.
using Figure = std::pair<std::string, std::string>;

// "1.0e-03 to 2.0e-03".
std::string Range(double lower, double upper) {
  return absl::StrFormat("%.2e to %.2e", lower, upper);
}

// "+5.2 points", with the decimals of PointsText.
std::string SignedPoints(double gap) {
  return absl::StrCat(gap < 0 ? "-" : "+", PointsText(std::abs(gap)));
}

void AddEvidence(const v1::Verdict& verdict, const v1::Watch& watch, std::vector<Figure>& figures) {
  if (!watch.has_evidence()) return;
  const v1::Evidence& evidence = watch.evidence();
  figures.emplace_back("log10 e-value", SignedFixed(evidence.log10_e_value(), 2));
  figures.emplace_back("  highest",
                       absl::StrCat(SignedFixed(evidence.max_log10_e_value(), 2), " at row ",
                                    watch.first_observation() - 1 + evidence.max_observation()));
  figures.emplace_back("  rejects at", SignedFixed(evidence.threshold(), 2));
  figures.emplace_back("  p-value at all times", evidence.max_log10_e_value() < 6
                                                     ? PValue(evidence.anytime_p_value())
                                                     : PowerOfTen(-evidence.max_log10_e_value()));
  if (!verdict.evidence_families().empty()) {
    figures.emplace_back("  families", Plain(absl::StrJoin(verdict.evidence_families(), ", ")));
  }
}

void AddEffect(const v1::EffectSize& size, std::vector<Figure>& figures) {
  if (size.has_skce()) figures.emplace_back("SKCE", Signed(size.skce()));
  if (size.has_skce_lower_bound() && size.has_skce_upper_bound()) {
    figures.emplace_back("  interval at all times",
                         Range(size.skce_lower_bound(), size.skce_upper_bound()));
  }
  if (size.has_noise_floor()) {
    figures.emplace_back("  calibrated: 95 % below", Signed(size.noise_floor()));
  }
  if (size.has_one_look_z()) figures.emplace_back("  z (one look)", Number(size.one_look_z()));
  if (size.has_one_look_p_value()) {
    figures.emplace_back("  p (one look)", PValue(size.one_look_p_value()));
  }
}

void AddDiscrepancy(const v1::Discrepancy& discrepancy, std::vector<Figure>& figures) {
  if (!discrepancy.has_mmd_squared()) return;
  figures.emplace_back("MMD^2", Signed(discrepancy.mmd_squared()));
  if (discrepancy.has_mmd_lower_bound()) {
    figures.emplace_back("  interval of MMD at all times",
                         Range(discrepancy.mmd_lower_bound(), discrepancy.mmd_upper_bound()));
  }
  if (discrepancy.has_block_standard_error()) {
    figures.emplace_back(
        absl::StrCat("  in ", discrepancy.block_count(), " blocks of ", discrepancy.block_size()),
        absl::StrCat(Signed(discrepancy.block_mmd_squared()), " +- ",
                     absl::StrFormat("%.1e", discrepancy.block_standard_error())));
  }
  if (discrepancy.has_block_one_look_p_value()) {
    figures.emplace_back("  p of blocks (one look)", PValue(discrepancy.block_one_look_p_value()));
  }
}

void AddDirection(const v1::Direction& direction, std::vector<Figure>& figures) {
  if (!direction.has_forecast()) {
    figures.emplace_back("mean confidence", Percent(direction.mean_confidence(), 1));
    figures.emplace_back("accuracy", Percent(direction.accuracy(), 1));
    figures.emplace_back("  difference", SignedPoints(direction.gap()));
    figures.emplace_back("  standard deviation if calibrated",
                         PointsText(direction.gap_standard_deviation()));
    return;
  }
  const v1::ForecastDirection& forecast = direction.forecast();
  // These are the values while no direction is known.
  if (forecast.shift() != 0 || forecast.scale() != 1) {
    figures.emplace_back("fitted mean (0 if calibrated)", SignedFixed(forecast.shift(), 2));
    figures.emplace_back("fitted deviation (1 if calibrated)", Fixed(forecast.scale(), 2));
  }
  if (!forecast.has_residual_mean()) return;
  figures.emplace_back("mean residual (0 if calibrated)", SignedFixed(forecast.residual_mean(), 2));
  figures.emplace_back("residual deviation (1 if calibrated)",
                       Fixed(forecast.residual_standard_deviation(), 2));
}

void AddDrift(const v1::Drift& drift, std::vector<Figure>& figures) {
  figures.emplace_back("log10 of the drift detector", Fixed(drift.log10_statistic(), 2));
  figures.emplace_back("  highest", Fixed(drift.max_log10_statistic(), 2));
  figures.emplace_back("  alarm at", Fixed(drift.threshold(), 2));
}

void AddReference(const v1::ReferenceChange& change, std::vector<Figure>& figures) {
  if (change.has_reference_error_rate()) {
    figures.emplace_back("error rate of the reference", Fixed(change.reference_error_rate(), 4));
  }
  if (!change.has_log10_e_value()) return;
  figures.emplace_back("log10 of the e-value of a change", Fixed(change.log10_e_value(), 2));
  figures.emplace_back("  alarm at", Fixed(change.threshold(), 2));
}

// The error of forecasts over all rows and over the newest ones, in percentage points, with the
// coverage of the central intervals or the shares below the levels. Empty for other kinds.
std::string DescribeStretches(const v1::CalibrationError& error) {
  const v1::ErrorMeasurement& all =
      error.has_since_acknowledgement() ? error.since_acknowledgement() : error.since_start();
  if (!all.has_coverage()) return "";
  Rows rows = {{"since row", "rows", "off by (points)", "from", "to"}};
  const bool has_levels = !all.level_coverage().empty();
  for (const v1::LevelCoverage& one : all.level_coverage()) {
    rows[0].push_back(absl::StrCat("below level ", convert::LevelName(one.level()), " %"));
  }
  for (const v1::CentralCoverage& one : all.central_coverage()) {
    rows[0].push_back(absl::StrFormat("%.3g %% intervals cover %%", 100 * one.promised()));
  }
  for (const v1::ErrorMeasurement* const stretch : {&all, &error.newest()}) {
    if (!stretch->has_coverage()) continue;
    if (stretch != &all && stretch->first_observation() == all.first_observation()) continue;
    rows.push_back(
        {absl::StrCat(stretch->first_observation()), absl::StrCat(stretch->observations()),
         Fixed(100 * stretch->coverage().estimate(), 1),
         Fixed(100 * stretch->coverage().lower(), 1), Fixed(100 * stretch->coverage().upper(), 1)});
    for (const v1::LevelCoverage& one : stretch->level_coverage()) {
      rows.back().push_back(
          absl::StrCat(Fixed(100 * one.below(), 1), " to ", Fixed(100 * one.at_most(), 1)));
    }
    // Outcomes of the newest rows may equal no quantile although earlier ones do.
    if (has_levels) continue;
    for (const v1::CentralCoverage& one : stretch->central_coverage()) {
      rows.back().push_back(Fixed(100 * one.coverage(), 1));
    }
  }
  return "\n" + FormatTable(rows);
}

// The classes that deviate most. Empty for forecasts.
std::string DescribeClasses(const v1::Whereabouts& whereabouts) {
  if (whereabouts.classes().empty()) return "";
  Rows rows = {{"class", "says %", "is %", "z (one look)", "log10 e-value", "rejected"}};
  for (const auto& share : whereabouts.classes()) {
    rows.push_back(
        {share.class_name().empty() ? absl::StrCat(share.class_index()) : Plain(share.class_name()),
         Fixed(100 * share.predicted(), 1), Fixed(100 * share.observed(), 1),
         SignedFixed(share.z(), 1), SignedFixed(share.log10_e_value(), 2),
         share.rejected() ? "*" : ""});
  }
  return absl::StrCat("\nClasses with the largest deviations; e-BH rejects ",
                      whereabouts.rejected_classes(), " in all (*):\n", FormatTable(rows));
}

// The cells of forecasts that stand out.
std::string DescribeCellDeviations(const v1::Whereabouts& whereabouts) {
  Rows rows = {{"cell", "outcomes", "expected", "z (one look)"}};
  for (const v1::ForecastCell& cell : whereabouts.cells()) {
    if (!cell.stands_out()) continue;
    rows.push_back({absl::StrFormat("%g to %g", cell.lower(), cell.upper()),
                    absl::StrCat(cell.observations()), Fixed(cell.expected(), 1),
                    SignedFixed(cell.z(), 1)});
  }
  return rows.size() == 1 ? "" : "\nCells that stand out:\n" + FormatTable(rows);
}

// The ranges of confidence that stand out.
std::string DescribeBinDeviations(const v1::Whereabouts& whereabouts) {
  Rows rows = {{"confidence", "rows", "says %", "right %", "z (one look)"}};
  for (const auto& bin : whereabouts.confidence_bins()) {
    if (!bin.stands_out()) continue;
    rows.push_back({absl::StrFormat("%.3f to %.3f", bin.lower(), bin.upper()),
                    absl::StrCat(bin.observations()), Fixed(100 * bin.mean_confidence(), 1),
                    Fixed(100 * bin.accuracy(), 1), SignedFixed(bin.z(), 1)});
  }
  return rows.size() == 1 ? "" : "\nRanges of confidence that stand out:\n" + FormatTable(rows);
}

// Whether a group is rejected; for an untested group, the reason.
std::string RejectedText(const v1::GroupWatch& group) {
  if (group.tested()) return group.rejected() ? "yes" : "no";
  return absl::StrCat("not tested: ", group.watch().observations(), " of ",
                      convert::CountText(group.watch().min_observations(), "observation"));
}

// The rows to which the limit applies.
const v1::ErrorMeasurement& Current(const v1::GroupWatch& group) {
  const v1::CalibrationError& error = group.error();
  return error.has_since_acknowledgement() ? error.since_acknowledgement() : error.since_start();
}

// What the groups are compared by: over-confidence, of two classes that of the worse event, or how
// much less than it promises the widest interval of forecasts covers; unset for forecasts without a
// central interval or outcomes, and if there are no rows since an acknowledgement.
std::optional<double> GapOf(const v1::GroupWatch& group) {
  if (group.watch().observations() == 0) return std::nullopt;
  const v1::ErrorMeasurement& current = Current(group);
  if (!group.has_forecast() && current.observations() == 0) return std::nullopt;
  if (!group.has_forecast()) {
    return current.class_1_is_worse() ? current.class_1().gap() : current.top_label().gap();
  }
  if (group.forecast().central_coverage().empty()) return std::nullopt;
  const v1::CentralCoverage& widest = *group.forecast().central_coverage().rbegin();
  return widest.promised() - widest.coverage();
}

// The effect size, or the score of forecasts.
std::string EffectOf(const v1::GroupWatch& group) {
  if (group.has_forecast()) return Number(group.forecast().crps());
  const v1::EffectSize& effect = group.watch().effect_size();
  return effect.has_skce() ? Signed(effect.skce()) : "-";
}

// The error that is compared with the limit, which has more rows than the watch after an
// acknowledgement of evidence.
std::string OffBy(const v1::GroupWatch& group) {
  const v1::ErrorMeasurement& current = Current(group);
  if (current.observations() == 0) return "-";
  const bool is_class_1 = current.class_1_is_worse();
  const v1::ErrorInterval& error = current.has_coverage() ? current.coverage()
                                   : is_class_1           ? current.class_1()
                                                          : current.top_label();
  const std::string text = absl::StrCat(convert::IntervalText(error), is_class_1 ? " *" : "");
  return current.observations() == group.watch().observations()
             ? text
             : absl::StrCat(text, " in ", convert::CountText(current.observations(), "row"));
}

std::string DescribeGroups(const v1::GetCalibrationResponse& response) {
  const auto& groups = response.groups();
  if (groups.empty()) return "";
  const bool forecasts = groups[0].direction().has_forecast();
  const bool has_events = std::ranges::any_of(
      groups, [](const v1::GroupWatch& group) { return Current(group).has_class_1(); });
  Rows rows = {{"group", "n", "log10 e-value", "largest so far", forecasts ? "CRPS" : "SKCE",
                forecasts    ? "promised - covered (points)"
                : has_events ? "says - is (points)"
                             : "confidence - accuracy (points)",
                "off by (points)", "rejected"}};
  // A group begins with its first row, but no earlier than the watch of the model.
  const std::int64_t first = response.watch().first_observation();
  int rejected = 0;
  for (const v1::GroupWatch& group : groups) {
    rejected += group.rejected() ? 1 : 0;
    if (rows.size() > kMaxGroups) continue;
    const v1::Watch& watch = group.watch();
    const std::optional<double> gap = GapOf(group);
    rows.push_back({GroupName(group.value(), group.overflow()), absl::StrCat(watch.observations()),
                    SignedFixed(watch.evidence().log10_e_value(), 2),
                    SignedFixed(watch.evidence().max_log10_e_value(), 2), EffectOf(group),
                    gap.has_value() ? SignedFixed(100 * *gap, 1) : "-", OffBy(group),
                    RejectedText(group)});
  }
  std::string text = absl::StrFormat(
      "\nGroups%s, rejected ones and those that are off by most first. e-BH over the %d tested "
      "groups of %d rejects "
      "%d, however often one looks: the expected share of calibrated groups among them is at "
      "most %.6g %%.\n%s",
      first > 1 ? absl::StrCat(" since row ", first, ", where their evidence began again") : "",
      response.tested_groups(), groups.size(), rejected,
      100 * std::pow(10, -groups[0].watch().evidence().threshold()), FormatTable(rows));
  if (groups.size() > kMaxGroups) {
    absl::StrAppend(&text, "... ", groups.size() - kMaxGroups, " more\n");
  }
  if (has_events) {
    absl::StrAppend(&text, "* of ", convert::Class1Event(Current(groups[0]).class_1_name()),
                    ", which is off by more than the top label\n");
  }
  return text;
}

int ActiveAlarms(const google::protobuf::RepeatedPtrField<v1::Alarm>& alarms) {
  return static_cast<int>(std::count_if(alarms.begin(), alarms.end(), [](const v1::Alarm& alarm) {
    return !alarm.has_acknowledge_time();
  }));
}

// "evidence".
std::string KindName(v1::Alarm::Kind kind) {
  if (kind == 0 || !v1::Alarm::Kind_IsValid(kind)) return "unknown";
  return absl::AsciiStrToLower(v1::Alarm::Kind_Name(kind));
}

std::string CountAlarms(int active) {
  return active == 0 ? "no alarm active"
                     : absl::StrCat(convert::CountText(active, "alarm"), " active");
}

// The headline and the changing values of a model, for a line of `calibctl watch`.
std::string StateText(const std::string& model, const v1::Reading& reading, const v1::Watch& watch,
                      std::int64_t observations) {
  std::string text = absl::StrCat(ShortName(model), " ", Plain(reading.verdict().text()), ", ",
                                  convert::CountText(observations, "row"));
  if (!reading.how_bad().brief().empty()) {
    absl::StrAppend(&text, ", ", Plain(reading.how_bad().brief()));
  }
  if (watch.has_evidence()) {
    absl::StrAppend(&text, ", e-value ", PowerOfTen(watch.evidence().log10_e_value()),
                    " (rejection needs ", PowerOfTen(watch.evidence().threshold()), ")");
  }
  return text;
}

// What an alarm found. has_events: whether another alarm is about the probability of class 1.
std::string FoundText(const v1::Alarm& alarm, bool has_events) {
  if (alarm.kind() == v1::Alarm::CHANGED) return convert::FindingText(alarm.finding());
  if (alarm.kind() != v1::Alarm::OVER_LIMIT) {
    return absl::StrCat(alarm.kind() == v1::Alarm::DRIFT ? "drift detector" : "e-value",
                        " crossed ", PowerOfTen(alarm.threshold()));
  }
  const v1::Alarm::LimitCrossing& crossing = alarm.crossing();
  const std::string event = crossing.is_class_1()
                                ? convert::Class1Event(crossing.class_1_name()) + " "
                            : has_events ? "top label "
                                         : "";
  if (!crossing.has_error()) {
    return absl::StrCat(event, "newest rows off by more than ",
                        convert::PointsText(crossing.limit()));
  }
  const v1::ErrorInterval& error = crossing.error();
  return absl::StrCat(
      event, convert::OffByText(error.estimate(), error.lower(), error.upper(), crossing.limit()),
      crossing.is_recent() ? absl::StrCat(" since row ", crossing.first_observation()) : "");
}

}  // namespace

std::string DescribeNumbers(const v1::GetCalibrationResponse& response) {
  if (!response.has_verdict()) return "";
  const v1::Verdict& verdict = response.verdict();
  const v1::Watch& watch = response.watch();
  std::vector<Figure> figures;
  AddEvidence(verdict, watch, figures);
  AddEffect(watch.effect_size(), figures);
  AddDiscrepancy(watch.discrepancy(), figures);
  if (verdict.has_direction()) AddDirection(verdict.direction(), figures);
  if (watch.has_drift()) AddDrift(watch.drift(), figures);
  AddReference(response.reference_change(), figures);
  std::string text;
  if (watch.first_observation() > 1) {
    text = absl::StrCat("Since row ", watch.first_observation(), ", when the watch restarted:\n");
  }
  for (const auto& [name, value] : figures) absl::StrAppendFormat(&text, "%-38s%s\n", name, value);
  absl::StrAppend(
      &text, DescribeStretches(response.error()), DescribeBinDeviations(verdict.whereabouts()),
      DescribeCellDeviations(verdict.whereabouts()), DescribeClasses(verdict.whereabouts()));
  for (const std::string& warning : response.warnings()) {
    absl::StrAppend(&text, "WARNING: ", Plain(warning), "\n");
  }
  if (!response.alarms().empty()) {
    absl::StrAppend(&text, "\n", DescribeAlarms(response.model(), response.alarms()));
  }
  return text + DescribeGroups(response);
}

std::string DescribeAlarms(const std::string& model,
                           const google::protobuf::RepeatedPtrField<v1::Alarm>& alarms) {
  if (alarms.empty()) return absl::StrCat(ShortName(model), ": no alarms\n");
  // A model has groups or labels.
  const bool has_labels = std::ranges::any_of(alarms, &v1::Alarm::has_label);
  const bool has_events = std::ranges::any_of(
      alarms, [](const v1::Alarm& alarm) { return alarm.crossing().is_class_1(); });
  Rows rows = {
      {"alarm", "kind", has_labels ? "label" : "group", "raised", "row", "found", "acknowledged"}};
  std::string notes;
  for (const v1::Alarm& alarm : alarms) {
    const std::string group = GroupName(alarm.group_value(), alarm.is_overflow_group());
    rows.push_back({absl::StrCat(alarm.id()), KindName(alarm.kind()),
                    alarm.has_label()         ? Plain(alarm.label())
                    : alarm.has_group_value() ? group
                                              : "-",
                    MinuteText(alarm.raise_time()), absl::StrCat(alarm.observation()),
                    FoundText(alarm, has_events),
                    alarm.has_acknowledge_time() ? MinuteText(alarm.acknowledge_time()) : "no"});
    if (!alarm.note().empty()) {
      absl::StrAppend(&notes, "alarm ", alarm.id(), ": ", Plain(alarm.note()), "\n");
    }
  }
  const int active = ActiveAlarms(alarms);
  std::string text =
      absl::StrCat(ShortName(model), ": ", CountAlarms(active), "\n", FormatTable(rows), notes);
  const auto is_of_evidence = [](const v1::Alarm& alarm) {
    return alarm.kind() == v1::Alarm::EVIDENCE || alarm.kind() == v1::Alarm::DRIFT;
  };
  if (std::ranges::any_of(alarms, is_of_evidence)) {
    text +=
        "The row of an evidence or drift alarm is the one at which its threshold was reached. "
        "The rows of the warm-up are judged together at its last row.\n";
  }
  if (active > 0) {
    text += "`calibctl acknowledge MODEL ALARM` records that an alarm was dealt with.\n";
  }
  return text;
}

std::string DescribeAcknowledged(const std::string& model,
                                 const v1::AcknowledgeAlarmResponse& response) {
  const v1::Alarm& alarm = response.alarm();
  return absl::StrFormat("%s: alarm %d (%s) was acknowledged at %s; %s. Now:\n%s", ShortName(model),
                         alarm.id(), KindName(alarm.kind()), MinuteText(alarm.acknowledge_time()),
                         response.effect(), DescribeReading(ShortName(model), response.reading()));
}

std::string ChangeLine(const v1::GetCalibrationResponse& response) {
  std::string state =
      StateText(response.model(), response.reading(), response.watch(), response.observations());
  if (!response.has_verdict()) return state;
  return absl::StrCat(state, ", ", CountAlarms(ActiveAlarms(response.alarms())));
}

std::string ChangeLine(const v1::ListVerdictsResponse::ModelVerdict& verdict) {
  return StateText(verdict.model(), verdict.reading(), verdict.watch(), verdict.observations());
}

std::string FitScreen(const std::string& text, const std::string& status, std::size_t width,
                      std::size_t height) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  // One line is needed for the number of lines left out and one for the status.
  const std::size_t room = std::max<std::size_t>(height, 2) - 2;
  if (lines.size() > room) {
    const std::size_t left_out = lines.size() - room;
    lines.resize(room);
    lines.push_back(absl::StrCat("... ", left_out, " more"));
  } else {
    lines.emplace_back();
  }
  lines.push_back(status);
  return convert::CutLines(absl::StrJoin(lines, "\n"), width);
}

}  // namespace calibd::cli
