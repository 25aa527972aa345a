#include "server/answers/verdict_text.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"
#include "server/answers/error_proto.h"
#include "server/answers/forecast_proto.h"
#include "server/answers/watch_proto.h"
#include "server/watch/coverage_watch.h"

namespace calibd::server {
namespace {

using convert::GapText;
using convert::Points;
using convert::PointsText;

// Maximum number of groups or classes that a sentence names.
constexpr std::size_t kMostNamed = 3;

std::string Plural(std::int64_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

// "a, b and 3 more".
std::string Names(std::vector<std::string> names) {
  if (names.size() <= kMostNamed) return absl::StrJoin(names, ", ");
  const std::size_t more = names.size() - kMostNamed;
  names.resize(kMostNamed);
  return absl::StrCat(absl::StrJoin(names, ", "), " and ", more, " more");
}

// "off by 5.4 points (4.2 to 6.8; limit 2)".
std::string OffBy(const ErrorInterval& interval, double limit) {
  return convert::OffByText(interval.estimate, interval.lower, interval.upper, limit);
}

// Of two series, the interval with the larger lower end, or the larger estimate.
ErrorInterval Largest(const ErrorSnapshot& error) {
  const auto& [top_label, class_1] = error.Read().now;
  const bool is_class_1 =
      class_1.has_value() && std::pair(class_1->lower, class_1->estimate) >
                                 std::pair(top_label->lower, top_label->estimate);
  return is_class_1 ? *class_1 : *top_label;
}

// The gap between confidence and accuracy. Empty for forecasts, whose direction is a sentence.
std::string AndGap(const ErrorSnapshot& error, double gap) {
  return error.coverage != nullptr ? "" : absl::StrCat(" and ", GapText(gap));
}

// The text after "OVER_LIMIT". now: the interval now.
std::string OverLimitText(const ErrorSnapshot& error, const LimitCrossing& crossing,
                          const ErrorInterval& now) {
  const std::string since = absl::StrCat(error.Read().is_recent ? " (recent)" : "",
                                         " since observation ", crossing.observation, ": ");
  const std::string is = OffBy(now, error.error_limit);
  if (now.lower > error.error_limit) return absl::StrCat(since, is, AndGap(error, now.gap));
  if (!crossing.recent) {
    return absl::StrCat(since, "it was ", OffBy(crossing.interval, crossing.limit),
                        AndGap(error, crossing.interval.gap), "; now it is ", is);
  }
  return absl::StrCat(since, "from about observation ", crossing.first_observation,
                      " on it was off by ", PointsText(crossing.interval.estimate), " (limit ",
                      Points(crossing.limit), ")", AndGap(error, crossing.interval.gap), "; all ",
                      error.coverage != nullptr ? "forecasts" : "predictions", " together are ",
                      is);
}

// In which direction the newest forecasts are off if only they exceed the limit, and else all.
std::string ForecastSentences(const ErrorSnapshot& error) {
  const CoverageSnapshot& coverage = *error.coverage;
  if (error.Read().is_recent) {
    const std::optional<CoverageStretch> recent = coverage.Recent();
    if (!recent.has_value()) return "";
    const std::string sentences =
        DirectionSentences(*coverage.cells, recent->counts, recent->coverage);
    return sentences.empty()
               ? ""
               : absl::StrCat(" Since observation ", recent->first_observation, ":", sentences);
  }
  const std::optional<ForecastCoverage> now = coverage.Now();
  return now.has_value() ? DirectionSentences(*coverage.cells, coverage.sums.counts, *now) : "";
}

// The answer to how far off the model or a group is. subject: empty for the model. alarm: its
// active alarm OVER_LIMIT, or null.
std::string ErrorSentence(const ErrorSnapshot& error, const std::string& subject,
                          const Alarm* alarm) {
  std::string text = subject.empty() ? "" : absl::StrCat(subject, " is ");
  const LimitStatus status = error.Read().status;
  const std::string now =
      error.count() > 0 ? OffBy(Largest(error), error.error_limit) : "not measured yet";
  if (status == LimitStatus::kOverLimit && alarm != nullptr && error.count() == 0) {
    absl::StrAppend(&text, "OVER_LIMIT since observation ", alarm->observation, ": it was ",
                    OffBy(alarm->crossing->interval, alarm->crossing->limit), "; now it is ", now);
  } else if (status == LimitStatus::kOverLimit && alarm != nullptr) {
    absl::StrAppend(&text, "OVER_LIMIT", OverLimitText(error, *alarm->crossing, Largest(error)));
  } else if (status == LimitStatus::kOverLimit) {
    absl::StrAppend(&text, "OVER_LIMIT (acknowledged): since observation ",
                    error.sums.first_observation, " it is ", now,
                    "; until it is within the limit, the next alarm is raised above ",
                    PointsText(error.limit));
  } else if (status == LimitStatus::kWithinLimit) {
    absl::StrAppend(&text, "WITHIN_LIMIT: ", now);
  } else {
    absl::StrAppend(&text, "UNDECIDED: ", now);
    const std::optional<std::int64_t> needed = error.Read().observations_needed;
    if (needed.has_value()) {
      absl::StrAppend(&text, ", to be decided after about ", convert::RoundedCount(*needed),
                      error.coverage != nullptr ? " more outcome" : " more labelled prediction",
                      *needed == 1 ? "" : "s");
    }
  }
  text += ".";
  return error.coverage == nullptr ? text : text + ForecastSentences(error);
}

const Alarm* ActiveOverLimit(const MonitorSnapshot& monitor, const std::optional<GroupId>& group) {
  const std::vector<Alarm>& alarms = *monitor.alarms;
  const auto found = std::find_if(alarms.begin(), alarms.end(), [&](const Alarm& alarm) {
    return alarm.kind == Alarm::Kind::kOverLimit && !alarm.acknowledge_time.has_value() &&
           alarm.group == group;
  });
  return found == alarms.end() ? nullptr : &*found;
}

std::string ErrorSentences(const MonitorSnapshot& monitor) {
  std::string text = ErrorSentence(monitor.error, "", ActiveOverLimit(monitor, std::nullopt));
  std::size_t named = 0;
  for (const std::shared_ptr<const GroupSnapshot>& group : monitor.groups) {
    if (group->error.Read().status != LimitStatus::kOverLimit || named++ >= kMostNamed) continue;
    absl::StrAppend(&text, " ",
                    ErrorSentence(group->error, absl::StrCat("Group ", GroupName(group->id)),
                                  ActiveOverLimit(monitor, group->id)));
  }
  if (named > kMostNamed) {
    const auto more = static_cast<std::int64_t>(named - kMostNamed);
    absl::StrAppend(&text, " ", Plural(more, "more group"), more == 1 ? " is" : " are",
                    " OVER_LIMIT.");
  }
  return text;
}

// Says whether a drift alarm indicates a change of the model's calibration: whether the evidence
// over all observations had crossed its threshold by then.
std::string ChangeSentence(const MonitorSnapshot& monitor, const Alarm& drift) {
  const bool came_first = std::ranges::any_of(*monitor.alarms, [&drift](const Alarm& alarm) {
    return alarm.kind == Alarm::Kind::kEvidence && alarm.observation <= drift.observation &&
           (!alarm.acknowledge_time.has_value() || *alarm.acknowledge_time > drift.raise_time);
  });
  return came_first ? "This need not be a change: the evidence over all observations had crossed "
                      "its threshold by then, as it does for a model that was wrong from the start."
                    : "This may be a change: the evidence over all observations had not crossed "
                      "its threshold by then.";
}

// Names the groups and classes that e-BH rejects; empty without such groups and classes.
std::string RejectedSentence(const ModelDeclaration& declaration, const MonitorSnapshot& monitor,
                             const Verdict& verdict) {
  std::vector<std::string> groups;
  for (const GroupSnapshot* const group : verdict.rejected_groups) {
    groups.push_back(GroupName(group->id));
  }
  std::vector<std::string> classes;
  for (const DeviatingClass& one : monitor.watch->deviating_classes) {
    if (!one.rejected || verdict.rejected_classes == 0) continue;
    classes.push_back(declaration.classes()->names.empty()
                          ? absl::StrCat(one.index)
                          : declaration.classes()->names[one.index]);
  }
  std::string text;
  if (!groups.empty()) {
    absl::StrAppend(&text, " Calibration is rejected for group", groups.size() > 1 ? "s " : " ",
                    Names(groups), ".");
  }
  if (!classes.empty()) {
    absl::StrAppend(&text, " Calibration is rejected for class", classes.size() > 1 ? "es " : " ",
                    Names(classes), ".");
  }
  return text;
}

// Empty unless a label with probability 0 carries most of the evidence.
std::string ImpossibleLabelSentence(const WatchSnapshot& watch) {
  const RunningMaximum& label = watch.reading.impossible_label;
  if (label.at == 0 || 2 * label.log_value < watch.reading.maximum.log_value) return "";
  return absl::StrCat(
      " Most of the evidence comes from one label with probability 0, at observation ",
      watch.first_observation - 1 + label.at,
      ": check whether this probability was rounded or the label is wrong.");
}

std::string CalibrationSentence(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                                const Verdict& verdict) {
  const Monitoring& monitoring = declaration.monitoring;
  const MonitorSnapshot& monitor = *snapshot.monitor;
  if (verdict.status == v1::Verdict::MISCALIBRATED) {
    std::string note;
    if (monitor.watch.has_value()) note = ImpossibleLabelSentence(*monitor.watch);
    if (note.empty() && monitor.error.Read().status == LimitStatus::kWithinLimit) {
      note = " The error is real, but smaller than the limit.";
    }
    return absl::StrFormat(
        "MISCALIBRATED: calibration was rejected at observation %d, where the e-value had reached "
        "%.4g; a calibrated model ever reaches it with a probability of at most %.3g.%s",
        verdict.alarm->observation, std::pow(10, verdict.alarm->threshold),
        std::pow(10, -verdict.alarm->threshold), note);
  }
  if (verdict.status == v1::Verdict::DRIFTED) {
    return absl::StrFormat(
        "DRIFTED: the newest observations were not calibrated at observation %d; for a calibrated "
        "model the detector says so at most once in %s observations on average. %s",
        verdict.alarm->observation,
        convert::RoundedCount(std::llround(std::pow(10, verdict.alarm->threshold) - 1)),
        ChangeSentence(monitor, *verdict.alarm));
  }
  if (!monitor.watch.has_value()) {
    return absl::StrCat("INSUFFICIENT_DATA: there is no evidence, because ",
                        UnavailableReason(declaration, snapshot), ".");
  }
  const std::int64_t count = monitor.watch->reading.count;
  if (count < monitoring.min_observations) {
    return absl::StrCat(
        "INSUFFICIENT_DATA: ", count, " of ",
        Plural(monitoring.min_observations,
               declaration.numbers() != nullptr ? "outcome" : "labelled prediction"),
        ".");
  }
  return absl::StrFormat(
      "NOT_REJECTED: the evidence against calibration is too small after %s (the e-value is %.2g, "
      "its maximum %.2g, and it rejects at %.4g); this does not prove calibration.",
      Plural(count, "observation"), std::pow(10, monitor.watch->reading.evidence.log10_e_value),
      std::exp(monitor.watch->reading.maximum.log_value), 1 / monitoring.significance_level);
}

}  // namespace

std::string VerdictSummary(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                           const Verdict& verdict) {
  const MonitorSnapshot& monitor = *snapshot.monitor;
  std::string text = absl::StrCat(ErrorSentences(monitor), " ",
                                  CalibrationSentence(declaration, snapshot, verdict));
  if (monitor.watch.has_value()) text += RejectedSentence(declaration, monitor, verdict);
  if (verdict.stale) {
    const double stale_seconds =
        std::chrono::duration<double>(declaration.monitoring.stale_after).count();
    absl::StrAppend(&text, absl::StrFormat(" STALE: no observation was counted for %.4g s or "
                                           "longer, so this may be outdated.",
                                           stale_seconds));
  }
  return text;
}

}  // namespace calibd::server
