#include "client/cli/reports/verdict_report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "calibd/convert/text.h"
#include "client/cli/commands/command.h"
#include "client/cli/reports/report.h"
#include "client/cli/reports/show_report.h"

namespace calibd::cli {
namespace {

using convert::SignedFixed;

constexpr int kMaxGroups = 20;

std::string ClassText(const v1::Whereabouts::ClassShare& share) {
  return share.class_name().empty()
             ? absl::StrCat("class ", share.class_index())
             : absl::StrCat("class ", share.class_index(), " (", Plain(share.class_name()), ")");
}

std::string BinText(const v1::Whereabouts::ConfidenceBin& bin) {
  return absl::StrFormat("confidence %.2f..%.2f", bin.lower(), bin.upper());
}

// Returns the place with the largest |z| among those that stand out, or null.
template <typename Places>
const typename Places::value_type* Worst(const Places& places) {
  const typename Places::value_type* worst = nullptr;
  for (const auto& place : places) {
    const bool worse = worst == nullptr || std::abs(place.z()) > std::abs(worst->z());
    if (place.stands_out() && worse) worst = &place;
  }
  return worst;
}

// Returns 100 (1 - alpha) %, computed from the threshold of the alarm.
std::string Confidence(const v1::Evidence& evidence) {
  return absl::StrFormat("%.6g %%", 100 * (1 - std::pow(10, -evidence.threshold())));
}

std::string EvidenceText(const v1::Verdict& verdict, const v1::Watch& watch) {
  const v1::Evidence& evidence = watch.evidence();
  const double most = evidence.max_log10_e_value();
  if (most <= 0) {
    return absl::StrFormat(
        "Evidence: so far none against calibration. The e-value is %s (log10 %s); the alarm is "
        "raised at %s.\n",
        PowerOfTen(evidence.log10_e_value()), SignedFixed(evidence.log10_e_value(), 2),
        PowerOfTen(evidence.threshold()));
  }
  std::string text = absl::StrFormat(
      "Evidence: the e-value reached %s (log10 %+.2f) at observation %d. The probability that a "
      "calibrated model ever reaches this is at most %s, however often one looks. The e-value is "
      "now %s; the alarm is raised at %s.\n",
      PowerOfTen(most), most, watch.first_observation() - 1 + evidence.max_observation(),
      most < 6 ? PValue(evidence.anytime_p_value()) : PowerOfTen(-most),
      PowerOfTen(evidence.log10_e_value()), PowerOfTen(evidence.threshold()));
  if (evidence.log10_e_value() > 0 && verdict.evidence_families_size() > 0) {
    absl::StrAppend(&text, "Most of it comes from: ",
                    Plain(absl::StrJoin(verdict.evidence_families(), ", ")), ".\n");
  }
  return text;
}

// Returns the interval that holds at all times; empty without an interval.
std::string IntervalText(const v1::EffectSize& size) {
  if (!size.has_skce_lower_bound() || !size.has_skce_upper_bound()) return "";
  return absl::StrFormat("in %.2e..%.2e", size.skce_lower_bound(), size.skce_upper_bound());
}

std::string EffectText(const v1::Watch& watch) {
  const v1::EffectSize& size = watch.effect_size();
  if (!size.has_skce()) return "";
  std::string text = absl::StrCat("Effect size, with the random features of the kernel: SKCE ",
                                  Signed(size.skce()));
  const std::string interval = IntervalText(size);
  if (!interval.empty()) {
    absl::StrAppend(&text, "; the true value is ", interval, " with ", Confidence(watch.evidence()),
                    " confidence, however often one looks");
  }
  if (size.has_noise_floor()) {
    absl::StrAppend(&text, "; a calibrated model with the same predictions stays below ",
                    Signed(size.noise_floor()), " 19 times in 20");
  }
  return text + ".\n";
}

// Direction, and the cells that stand out, of forecasts.
std::string ForecastDirectionText(const v1::Verdict& verdict) {
  const v1::ForecastDirection& direction = verdict.direction().forecast();
  std::string text = absl::StrFormat(
      "Direction: the Normal distribution that fits the outcomes best has mean %+.2f and standard "
      "deviation %.2f, in units in which the forecast has 0 and 1%s.\n",
      direction.shift(), direction.scale(),
      direction.has_residual_mean()
          ? absl::StrFormat("; (outcome - mean) / standard deviation has mean %s and standard "
                            "deviation %s",
                            SignedFixed(direction.residual_mean(), 3),
                            convert::Fixed(direction.residual_standard_deviation(), 3))
          : "");
  std::string places;
  for (const v1::ForecastCell& cell : verdict.whereabouts().cells()) {
    if (!cell.stands_out()) continue;
    absl::StrAppendFormat(&places, "%s%g..%g (%d, expected %.1f, z = %+.1f)",
                          places.empty() ? "" : "; ", cell.lower(), cell.upper(),
                          cell.observations(), cell.expected(), cell.z());
  }
  return text + (places.empty()
                     ? "Where: chance can explain the number of outcomes in all cells.\n"
                     : absl::StrCat("Cells of the distribution with too many or too few outcomes: ",
                                    places, ". They show where to look and are not a test.\n"));
}

// The newest forecasts, if they are further off than all together; empty otherwise.
std::string RecentText(const v1::CalibrationError& error) {
  const v1::ErrorMeasurement& all =
      error.has_since_acknowledgement() ? error.since_acknowledgement() : error.since_start();
  const v1::ErrorMeasurement& recent = error.recent().forecast();
  if (!recent.has_coverage() || recent.first_observation() == all.first_observation()) return "";
  std::string text = absl::StrFormat(
      "Recently: the %d observations since number %d are off by %s (%s to %s), however often one "
      "looks",
      recent.observations(), recent.first_observation(),
      convert::PointsText(recent.coverage().estimate()), convert::Points(recent.coverage().lower()),
      convert::Points(recent.coverage().upper()));
  for (const v1::CentralCoverage& one : recent.central_coverage()) {
    absl::StrAppendFormat(&text, "; the %.3g %% intervals cover %.1f %% (%.1f to %.1f)",
                          100 * one.promised(), 100 * one.coverage(), 100 * one.lower(),
                          100 * one.upper());
  }
  if (recent.direction().has_residual_mean()) {
    absl::StrAppendFormat(
        &text, "; (outcome - mean) / standard deviation has mean %s and standard deviation %s",
        SignedFixed(recent.direction().residual_mean(), 3),
        convert::Fixed(recent.direction().residual_standard_deviation(), 3));
  }
  return text + ".\n";
}

// Empty without a discrepancy.
std::string DiscrepancyText(const v1::Watch& watch) {
  const v1::Discrepancy& discrepancy = watch.discrepancy();
  if (!discrepancy.has_mmd_squared()) return "";
  std::string text =
      absl::StrCat("Discrepancy between outcomes and draws from their forecasts: MMD^2 ",
                   Signed(discrepancy.mmd_squared()));
  if (discrepancy.has_mmd_lower_bound()) {
    absl::StrAppendFormat(
        &text, "; MMD is in %.2e..%.2e with %s confidence, however often one looks",
        discrepancy.mmd_lower_bound(), discrepancy.mmd_upper_bound(), Confidence(watch.evidence()));
  }
  if (discrepancy.has_block_standard_error()) {
    absl::StrAppendFormat(&text, "; within %d blocks of %d consecutive rows: %s +- %.1e",
                          discrepancy.block_count(), discrepancy.block_size(),
                          Signed(discrepancy.block_mmd_squared()),
                          discrepancy.block_standard_error());
  }
  if (discrepancy.has_block_one_look_p_value()) {
    absl::StrAppend(&text, ", p = ", PValue(discrepancy.block_one_look_p_value()), " (one look)");
  }
  return text + ".\n";
}

std::string DirectionText(const v1::Direction& direction) {
  return absl::StrFormat(
      "Direction: %s: the mean confidence is %.3f and the accuracy %.3f. For a calibrated model "
      "the gap would have a standard deviation of %.1f points.\n",
      convert::GapText(direction.gap()), direction.mean_confidence(), direction.accuracy(),
      100 * direction.gap_standard_deviation());
}

std::string WhereText(const v1::Whereabouts& whereabouts) {
  if (whereabouts.confidence_bins().empty() && whereabouts.classes().empty()) return "";
  std::string text;
  const auto* const bin = Worst(whereabouts.confidence_bins());
  if (bin != nullptr) {
    absl::StrAppendFormat(&text, "%s (confidence %.3f, accuracy %.3f, n = %d, z = %+.1f)",
                          BinText(*bin), bin->mean_confidence(), bin->accuracy(),
                          bin->observations(), bin->z());
  }
  for (const auto& share : whereabouts.classes()) {
    if (!share.stands_out()) continue;
    absl::StrAppendFormat(&text, "%s%s (predicted %.3f, observed %.3f, z = %+.1f)",
                          text.empty() ? "" : "; ", ClassText(share), share.predicted(),
                          share.observed(), share.z());
  }
  return text.empty() ? "Where: chance can explain the deviations of all classes and confidence "
                        "ranges.\n"
                      : absl::StrCat("Largest deviations: ", text,
                                     ". They show where to look and are not a test.\n");
}

// The rejected classes; empty if no class is rejected. The rejection is a test.
std::string ClassesText(const v1::Whereabouts& whereabouts, const v1::Evidence& evidence) {
  if (whereabouts.rejected_classes() == 0) return "";
  std::vector<std::string> shown;
  for (const auto& share : whereabouts.classes()) {
    if (!share.rejected()) continue;
    shown.push_back(
        absl::StrCat(ClassText(share), " (e-value ", PowerOfTen(share.log10_e_value()), ")"));
  }
  const std::int64_t more =
      whereabouts.rejected_classes() - static_cast<std::int64_t>(shown.size());
  if (more > 0) shown.push_back(absl::StrCat(more, " more"));
  return absl::StrFormat(
      "Classes that e-BH rejects, however often one looks (the expected share of false rejections "
      "is at most %.6g %%): %s.\n",
      100 * std::pow(10, -evidence.threshold()), absl::StrJoin(shown, ", "));
}

std::string DriftText(const v1::Drift& drift) {
  return absl::StrFormat(
      "Drift: log10 of the detector is now %s, its maximum so far is %s, and the alarm is raised "
      "at %.2f.\n",
      convert::Fixed(drift.log10_statistic(), 2), convert::Fixed(drift.max_log10_statistic(), 2),
      drift.threshold());
}

std::string OneLookText(const v1::EffectSize& size) {
  if (!size.has_one_look_p_value()) return "";
  return absl::StrCat(
      "Z test: ",
      size.has_one_look_z() ? absl::StrCat("z = ", Number(size.one_look_z()), ", ") : "",
      "p = ", PValue(size.one_look_p_value()),
      " (one look at a chosen n: watching it until it is small is not a test).\n");
}

// A mark for a rejected group; for an untested group, the reason.
std::string RejectedText(const v1::GroupWatch& group) {
  if (group.tested()) return group.rejected() ? "*" : "";
  return absl::StrFormat("not tested: %d of %d observations", group.watch().observations(),
                         group.watch().min_observations());
}

// What the groups are compared by: over-confidence, or how much less than it promises the widest
// interval of forecasts covers; unset for forecasts without a central interval or outcomes.
std::optional<double> GapOf(const v1::GroupWatch& group) {
  if (group.watch().observations() == 0) return std::nullopt;
  if (!group.has_forecast()) return group.direction().gap();
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
  const v1::CalibrationError& error = group.error();
  const v1::ErrorMeasurement& current =
      error.has_since_acknowledgement() ? error.since_acknowledgement() : error.since_start();
  if (current.observations() == 0) return "-";
  const double estimate =
      current.has_coverage() ? current.coverage().estimate() : current.top_label().estimate();
  const std::string text = convert::Fixed(100 * estimate, 1);
  return current.observations() == group.watch().observations()
             ? text
             : absl::StrCat(text, " in ", current.observations(), " rows");
}

std::string DescribeGroups(const v1::GetCalibrationResponse& response) {
  const auto& groups = response.groups();
  if (groups.empty()) return "";
  const bool forecasts = groups[0].direction().has_forecast();
  std::vector<std::vector<std::string>> rows = {
      {"group", "n", "log10 e-value", "largest so far", forecasts ? "CRPS" : "SKCE",
       forecasts ? "promised - covered (points)" : "confidence - accuracy (points)",
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
      "\nGroups%s, in descending order of evidence. e-BH over the %d tested groups of %d rejects "
      "%d (*), however often one looks: the expected share of calibrated groups among them is at "
      "most %.6g %%.\n%s",
      first > 1 ? absl::StrCat(" since row ", first, ", where their evidence began again") : "",
      response.tested_groups(), groups.size(), rejected,
      100 * std::pow(10, -groups[0].watch().evidence().threshold()), FormatTable(rows));
  if (groups.size() > kMaxGroups) {
    absl::StrAppend(&text, "... ", groups.size() - kMaxGroups, " more\n");
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
                     : absl::StrCat(active, active == 1 ? " alarm active" : " alarms active");
}

// The changing values of a model, for a line of `calibctl watch`.
std::string StateText(const std::string& model, const v1::Verdict& verdict,
                      const v1::CalibrationError& error, const v1::Watch& watch,
                      std::int64_t observations) {
  std::string text = absl::StrCat(ShortName(model), " ", VerdictText(verdict, error), ", ",
                                  observations, observations == 1 ? " row" : " rows");
  const std::string off = convert::OffByText(error);
  if (!off.empty()) absl::StrAppend(&text, ", ", off);
  if (watch.has_evidence()) {
    absl::StrAppend(&text, ", e-value ", PowerOfTen(watch.evidence().log10_e_value()),
                    " (rejected at ", PowerOfTen(watch.evidence().threshold()), ")");
  }
  return text;
}

// What an alarm found.
std::string FoundText(const v1::Alarm& alarm) {
  if (alarm.kind() != v1::Alarm::OVER_LIMIT) {
    return absl::StrCat("crossed ", PowerOfTen(alarm.threshold()));
  }
  const v1::Alarm::LimitCrossing& crossing = alarm.crossing();
  return absl::StrCat(
      "off by ", convert::PointsText(crossing.error().estimate()), " (limit ",
      convert::Points(crossing.limit()), ")",
      crossing.is_recent() ? absl::StrCat(" since row ", crossing.first_observation()) : "");
}

}  // namespace

std::string Plain(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return text;
}

std::string GroupName(const std::string& value, bool is_overflow) {
  if (is_overflow) return "(other groups)";
  return value.empty() ? "(no value)" : Plain(value);
}

std::string PowerOfTen(double x) {
  if (std::abs(x) >= 6) return absl::StrFormat("10^%.4g", x);
  const double value = std::pow(10, x);
  return value < 100 ? absl::StrFormat("%.3g", value) : absl::StrFormat("%.0f", value);
}

std::string DescribeVerdict(const v1::GetCalibrationResponse& response) {
  if (!response.has_verdict()) {
    return absl::StrCat(response.model(), ": no verdict, because it is not monitored\n");
  }
  const v1::Verdict& verdict = response.verdict();
  const v1::Watch& watch = response.watch();
  std::string text = Plain(verdict.summary()) + "\n";
  if (watch.has_evidence()) absl::StrAppend(&text, EvidenceText(verdict, watch), EffectText(watch));
  if (verdict.direction().has_forecast()) {
    absl::StrAppend(&text, RecentText(response.error()), DiscrepancyText(watch),
                    ForecastDirectionText(verdict));
  } else if (watch.observations() > 0 && verdict.has_direction()) {
    text += DirectionText(verdict.direction());
  }
  text += WhereText(verdict.whereabouts());
  text += ClassesText(verdict.whereabouts(), watch.evidence());
  if (watch.has_drift()) text += DriftText(watch.drift());
  text += OneLookText(watch.effect_size());
  if (watch.first_observation() > 1) {
    absl::StrAppend(&text, "All this covers the observations since number ",
                    watch.first_observation(), ", when the watch restarted.\n");
  }
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
  std::vector<std::vector<std::string>> rows = {
      {"alarm", "kind", "group", "raised", "row", "found", "acknowledged"}};
  std::string notes;
  for (const v1::Alarm& alarm : alarms) {
    const std::string group = GroupName(alarm.group_value(), alarm.is_overflow_group());
    rows.push_back({absl::StrCat(alarm.id()), KindName(alarm.kind()),
                    alarm.has_group_value() ? group : "-", MinuteText(alarm.raise_time()),
                    absl::StrCat(alarm.observation()), FoundText(alarm),
                    alarm.has_acknowledge_time() ? MinuteText(alarm.acknowledge_time()) : "no"});
    if (!alarm.note().empty()) {
      absl::StrAppend(&notes, "alarm ", alarm.id(), ": ", Plain(alarm.note()), "\n");
    }
  }
  const int active = ActiveAlarms(alarms);
  std::string text =
      absl::StrCat(ShortName(model), ": ", CountAlarms(active), "\n", FormatTable(rows), notes);
  if (active > 0) {
    text += "`calibctl acknowledge MODEL ALARM` records that an alarm was dealt with.\n";
  }
  return text;
}

std::string DescribeAcknowledged(const std::string& model, const v1::Alarm& alarm) {
  return absl::StrFormat("%s: alarm %d (%s) was acknowledged at %s; %s\n", ShortName(model),
                         alarm.id(), KindName(alarm.kind()), MinuteText(alarm.acknowledge_time()),
                         alarm.kind() == v1::Alarm::DRIFT
                             ? "the drift detectors restarted, the evidence continues"
                         : alarm.kind() == v1::Alarm::OVER_LIMIT
                             ? "the error is measured anew from the next row on, the evidence "
                               "continues"
                             : "the evidence restarted with the observations after it");
}

std::string DescribeVerdicts(const v1::ListVerdictsResponse& response,
                             double false_discovery_rate) {
  if (response.models().empty()) return "no models\n";
  std::vector<std::vector<std::string>> rows = {
      {"model", "verdict", "rows", "error", "e-value", "newest row", "e-BH"}};
  for (const auto& model : response.models()) {
    const v1::Evidence& evidence = model.watch().evidence();
    const std::string off = convert::OffByText(model.error());
    rows.push_back(
        {ShortName(model.model()),
         model.has_verdict() ? VerdictText(model.verdict(), model.error()) : "not monitored",
         absl::StrCat(model.observations()), off.empty() ? "-" : off,
         model.watch().has_evidence() ? PowerOfTen(evidence.log10_e_value()) : "-",
         model.has_last_observation_time() ? MinuteText(model.last_observation_time()) : "-",
         model.rejected_among_all() ? "*" : ""});
  }
  return absl::StrFormat(
      "%se-BH over the %d models with evidence rejects %d (*): the expected share of calibrated "
      "models among them is at most %s %%.\n",
      FormatTable(rows), response.tested_models(), response.rejected_models(),
      Number(100 * false_discovery_rate));
}

std::string ChangeLine(const v1::GetCalibrationResponse& response) {
  if (!response.has_verdict()) {
    return absl::StrCat(ShortName(response.model()), " not monitored, ", response.observations(),
                        " rows");
  }
  return absl::StrCat(StateText(response.model(), response.verdict(), response.error(),
                                response.watch(), response.observations()),
                      ", ", CountAlarms(ActiveAlarms(response.alarms())));
}

std::string ChangeLine(const v1::ListVerdictsResponse::ModelVerdict& verdict) {
  if (!verdict.has_verdict()) {
    return absl::StrCat(ShortName(verdict.model()), " not monitored, ", verdict.observations(),
                        " rows");
  }
  return StateText(verdict.model(), verdict.verdict(), verdict.error(), verdict.watch(),
                   verdict.observations());
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
  return CutLines(absl::StrJoin(lines, "\n"), width);
}

std::string CutLines(const std::string& text, std::size_t width) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (std::string& line : lines) {
    std::size_t characters = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      // True for the first byte of a character.
      if ((static_cast<unsigned char>(line[i]) & 0xc0U) == 0x80U) continue;
      if (characters == width) {
        line.resize(i);
        break;
      }
      ++characters;
    }
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace calibd::cli
