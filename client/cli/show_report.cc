#include "show_report.h"

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
#include "google/protobuf/util/time_util.h"
#include "report.h"
#include "time_option.h"
#include "verdict_report.h"

namespace calibd::cli {
namespace {

using convert::Points;
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

std::string Name(const std::string& name) {
  const std::string plain = Plain(name);
  return plain.size() <= kMaxName ? plain : CutLines(plain, kMaxName - 3) + "...";
}

std::string Names(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kMaxNames);
  std::string text =
      absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", ");
  if (names.size() > shown) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

// Breaks the text at spaces into lines that begin in the same column, and cuts it after max_lines.
std::string Part(const std::string& title, const std::string& text, std::size_t max_lines) {
  if (text.empty()) return "";
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
  if (lines.size() > max_lines) {
    lines.resize(max_lines);
    lines.back() = CutLines(lines.back(), kWidth - 4) + " ...";
  }
  return CutLines(absl::StrJoin(lines, "\n"), kWidth) + "\n";
}

const v1::Alarm* Active(const v1::GetCalibrationResponse& response, v1::Alarm::Kind kind) {
  const v1::Alarm* oldest = nullptr;
  for (const v1::Alarm& alarm : response.alarms()) {
    if (alarm.kind() == kind && !alarm.has_acknowledge_time()) oldest = &alarm;
  }
  return oldest;
}

std::string SinceText(const Timestamp& time, std::int64_t observation) {
  return absl::StrCat(" since ", MinuteText(time), " (row ", observation, ")");
}

std::string HeadlineText(const v1::GetCalibrationResponse& response) {
  const v1::Verdict& verdict = response.verdict();
  std::string text = VerdictText(verdict);
  const v1::Alarm* const over = Active(response, v1::Alarm::KIND_OVER_LIMIT);
  if (over != nullptr) {
    text += SinceText(over->raise_time(), over->observation());
  } else if (verdict.has_since()) {
    text += SinceText(verdict.since(), verdict.since_observation());
  }
  return text;
}

std::string HowBad(const v1::CalibrationError& error) {
  const v1::ErrorMeasurement& current = Current(error);
  if (!current.has_top_label()) {
    return absl::StrCat("no labelled row yet",
                        error.has_since_acknowledgement() ? " since the acknowledgement" : "");
  }
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
    absl::StrAppendFormat(&text, "%s-confident by %.2f (%.1f to %.1f)", gap > 0 ? "over" : "under",
                          100 * sign * gap, 100 * low, 100 * high);
  }
  if (error.is_recent()) {
    const v1::CalibrationError::RecentError& recent = error.recent();
    absl::StrAppend(&text, "; the newest ", recent.observations(), " rows: off by ",
                    Points(recent.estimate()), " points, ", convert::GapText(recent.gap()));
  }
  if (current.has_class_1() && current.class_1().lower() > error.limit()) {
    const v1::ErrorInterval& one = current.class_1();
    absl::StrAppend(&text, "; P(class 1): ",
                    convert::OffByText(one.estimate(), one.lower(), one.upper(), error.limit()));
  }
  if (error.has_acknowledged_limit()) {
    absl::StrAppend(&text, "; the next alarm is raised above ", Points(error.acknowledged_limit()));
  }
  return text;
}

std::string Where(const v1::GetCalibrationResponse& response) {
  std::vector<std::string> places;
  for (const v1::GroupWatch& group : response.groups()) {
    const v1::CalibrationError& error = group.error();
    if (error.status() != v1::LIMIT_STATUS_OVER_LIMIT) continue;
    const v1::ErrorInterval& interval = Current(error).top_label();
    places.push_back(absl::StrCat("group ", group.overflow() ? "(overflow)" : Name(group.value()),
                                  " ", Points(interval.estimate()), " points off (",
                                  Points(interval.lower()), " to ", Points(interval.upper()), ")"));
  }
  const std::string over = Names(places);
  places.clear();
  const v1::Whereabouts& whereabouts = response.verdict().whereabouts();
  const v1::Whereabouts::ConfidenceBin* worst = nullptr;
  for (const auto& bin : whereabouts.confidence_bins()) {
    const bool worse = worst == nullptr || std::abs(bin.z()) > std::abs(worst->z());
    if (bin.stands_out() && worse) worst = &bin;
  }
  if (!over.empty()) places.push_back(over);
  if (worst != nullptr) {
    places.push_back(
        absl::StrFormat("confidence %.2f to %.2f: says %.1f %%, right %.1f %% (%d rows)",
                        worst->lower(), worst->upper(), 100 * worst->mean_confidence(),
                        100 * worst->accuracy(), worst->observations()));
  }
  std::vector<std::string> classes;
  for (const auto& share : whereabouts.classes()) {
    if (!share.rejected() && !share.stands_out()) continue;
    const std::string name =
        share.class_name().empty() ? absl::StrCat(share.class_index()) : Name(share.class_name());
    const std::string says = absl::StrFormat("%.1f", 100 * share.predicted());
    const std::string is = absl::StrFormat("%.1f", 100 * share.observed());
    // A class may be wrong for other reasons than its frequency.
    classes.push_back(says == is ? name
                                 : absl::StrCat(name, " (says ", says, " %, is ", is, " %)"));
  }
  if (!classes.empty()) places.push_back("classes " + Names(classes));
  if (!places.empty()) return absl::StrJoin(places, "; ");
  return response.observations() > 0 ? "nothing stands out" : "";
}

std::string Changed(const v1::GetCalibrationResponse& response) {
  const v1::Alarm* const over = Active(response, v1::Alarm::KIND_OVER_LIMIT);
  if (over != nullptr && over->crossing().is_recent() &&
      over->crossing().first_observation() > Current(response.error()).first_observation()) {
    return absl::StrCat("yes, at about row ", over->crossing().first_observation());
  }
  const v1::Alarm* const drift = Active(response, v1::Alarm::KIND_DRIFT);
  if (over != nullptr) return "no change is visible: off from the first row on";
  if (drift == nullptr) return "";
  if (response.verdict().status() == v1::Verdict::STATUS_MISCALIBRATED) {
    return absl::StrCat("perhaps not: the drift alarm of row ", drift->observation(),
                        " came with evidence over all rows");
  }
  return absl::StrCat("perhaps: the drift detector reacted at row ", drift->observation());
}

std::string Certain(const v1::GetCalibrationResponse& response) {
  const v1::Watch& watch = response.watch();
  std::vector<std::string> facts;
  if (response.error().has_observations_needed()) {
    facts.push_back(absl::StrCat("about ",
                                 convert::RoundedCount(response.error().observations_needed()),
                                 " more labelled rows decide about the limit"));
  }
  if (!watch.unavailable_reason().empty()) {
    facts.push_back("no evidence: " + Plain(watch.unavailable_reason()));
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
  std::vector<std::string> facts = {absl::StrCat(response.observations(), " labelled rows"),
                                    absl::StrCat(response.rejected_rows(), " rejected")};
  if (response.dropped_rows() > 0) {
    facts.push_back(absl::StrCat(response.dropped_rows(), " dropped by producers"));
  }
  if (response.has_label_coverage()) {
    const v1::LabelCoverage& coverage = response.label_coverage();
    const bool waits = response.observations() == 0 && coverage.has_next_maturation_time();
    facts.push_back(absl::StrCat(coverage.pending(), " pending",
                                 waits ? absl::StrCat("; the first will count on ",
                                                      MinuteText(coverage.next_maturation_time()))
                                       : ""));
    facts.push_back(absl::StrCat(coverage.missing(), " without a label"));
    facts.push_back(absl::StrCat(coverage.duplicate_predictions(), " duplicates"));
  }
  std::string text = absl::StrJoin(facts, ", ");
  if (response.has_last_observation_time()) {
    const auto age = now - response.last_observation_time();
    absl::StrAppend(&text, "; the newest row came ",
                    age < TimeUtil::SecondsToDuration(1)
                        ? "just now"
                        : ShortDuration(TimeUtil::SecondsToDuration(age.seconds())) + " ago");
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

std::string Next(const v1::GetCalibrationResponse& response) {
  const std::string model = ShortName(response.model());
  std::vector<std::string> commands;
  const v1::Alarm* alarm = Active(response, v1::Alarm::KIND_OVER_LIMIT);
  if (alarm == nullptr) alarm = Active(response, v1::Alarm::KIND_EVIDENCE);
  if (alarm == nullptr) alarm = Active(response, v1::Alarm::KIND_DRIFT);
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
  const v1::ErrorMeasurement& current = Current(error);
  if (!current.has_top_label()) return "";
  const v1::ErrorInterval& interval = current.top_label();
  return convert::OffByText(interval.estimate(), interval.lower(), interval.upper(), error.limit());
}

std::string VerdictText(const v1::Verdict& verdict) {
  std::string text;
  if (verdict.limit_status() != v1::LIMIT_STATUS_UNSPECIFIED) {
    text = convert::StatusName(verdict.limit_status());
    if (verdict.is_recent()) text += " (recent)";
    if (verdict.is_acknowledged()) text += " (acknowledged)";
    if (!verdict.groups_over_limit().empty()) {
      std::vector<std::string> groups;
      for (const std::string& group : verdict.groups_over_limit()) groups.push_back(Name(group));
      absl::StrAppend(&text, groups.size() == 1 ? " in group " : " in groups ", Names(groups));
    }
    text += ", ";
  }
  text += convert::StatusName(verdict.status());
  if (verdict.stale() && verdict.status() != v1::Verdict::STATUS_STALE) text += ", STALE";
  return text;
}

std::string DescribeShow(const v1::GetCalibrationResponse& response, const Timestamp& now) {
  const std::string name = ShortName(response.model());
  if (!response.has_verdict()) {
    return Part("model", name + ": not monitored, so there is no verdict", 2) +
           Part("data", Data(response, now), 2) +
           Part("next", absl::StrCat("calibctl show ", name, " --verbose"), 2);
  }
  std::string text = Part("verdict", absl::StrCat(name, ": ", HeadlineText(response)), 2) +
                     Part("how bad", HowBad(response.error()), 3) +
                     Part("where", Where(response), 2) + Part("changed", Changed(response), 1) +
                     Part("certain", Certain(response), 2) + Part("data", Data(response, now), 2);
  if (!response.warnings().empty()) {
    const int more = response.warnings_size() - 1;
    text += Part("warning",
                 absl::StrCat(more > 0 ? absl::StrCat("(and ", more, " more) ") : "",
                              Plain(response.warnings(0))),
                 1);
  }
  return text + Part("next", Next(response), 2);
}

std::string DescribeBins(const v1::RunningScores& scores) {
  std::vector<std::vector<std::string>> rows = {
      {"confidence", "rows", "says %", "right %", "gap (points)"}};
  const double bins = scores.bins_size();
  for (int i = 0; i < scores.bins_size(); ++i) {
    const v1::HistoryBucket::Bin& bin = scores.bins(i);
    if (bin.observations() == 0) continue;
    rows.push_back({absl::StrFormat("%.3f to %.3f", i / bins, (i + 1) / bins),
                    absl::StrCat(bin.observations()),
                    absl::StrFormat("%.1f", 100 * bin.mean_confidence()),
                    absl::StrFormat("%.1f", 100 * bin.accuracy()),
                    absl::StrFormat("%+.1f", 100 * (bin.mean_confidence() - bin.accuracy()))});
  }
  return FormatTable(rows);
}

}  // namespace calibd::cli
