#include "server/answers/watch_proto.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "calibd/core/confidence_sequence.h"
#include "calibd/core/e_bh.h"
#include "server/answers/error_proto.h"
#include "server/answers/reference_proto.h"
#include "server/answers/verdict.h"
#include "server/base/proto_time.h"
#include "server/kinds/kind_table.h"

namespace calibd::server {
namespace {

using Time = std::chrono::system_clock::time_point;

// Minimum share of the evidence for which a family is named.
constexpr double kLeastShare = 0.1;

// Minimum number of newest rows for which warnings are given.
constexpr std::int64_t kLeastScreened = 100;
// Minimum number of rows, or the window if that is shorter, for the warning of predicted classes.
// All of them are certain.
constexpr std::int64_t kLeastCertain = 1000;
// Minimum shares of the newest rows that give a warning.
constexpr double kDuplicateShare = 0.01;
constexpr double kPrintedShare = 0.99;
constexpr double kInexactShare = 0.01;
// Five times what a calibrated model is expected to have.
constexpr double kSurprisingShare = 5 * RowScreen::kSurprise;

double ToLog10(double log_value) { return log_value / std::numbers::ln10; }

// Adds the names of the families with large shares of the evidence, the largest first.
void NameFamilies(const ModelDeclaration& declaration,
                  const std::array<double, kFamilyCount>& shares,
                  google::protobuf::RepeatedPtrField<std::string>& names) {
  const std::span<const char* const> families = KindOf(declaration).families();
  std::array<std::size_t, kFamilyCount> order{};
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  for (const std::size_t family : order) {
    if (shares[family] >= kLeastShare && family < families.size()) *names.Add() = families[family];
  }
}

void DescribeEvidence(const ModelDeclaration& declaration, const EvidenceReading& reading,
                      v1::Evidence& proto) {
  proto.set_log10_e_value(reading.evidence.log10_e_value);
  proto.set_max_log10_e_value(ToLog10(reading.maximum.log_value));
  proto.set_max_observation(reading.maximum.at);
  proto.set_anytime_p_value(AnytimePValue(reading.maximum));
  proto.set_threshold(EvidenceThreshold(declaration.monitoring.significance_level));
  proto.set_valid_for_repeated_looks(true);
  const std::span<const char* const> families = KindOf(declaration).families();
  for (std::size_t i = 0; i < families.size(); ++i) {
    const bool has_begun =
        reading.evidence.family_share[i] != 0 || reading.evidence.family_log10_e_value[i] != 0;
    if (!has_begun) continue;
    v1::Evidence::Family& family = *proto.add_families();
    family.set_name(families[i]);
    family.set_log10_e_value(reading.evidence.family_log10_e_value[i]);
    family.set_share(reading.evidence.family_share[i]);
  }
}

void DescribeDrift(const Drift& drift, double average_run_length, v1::Drift& proto) {
  proto.set_log10_statistic(drift.log10_now);
  proto.set_max_log10_statistic(ToLog10(drift.maximum.log_value));
  proto.set_threshold(DriftThreshold(average_run_length));
}

// Warns if a label with probability 0 carries most of the evidence.
void WarnOfImpossibleLabel(const WatchSnapshot& watch,
                           google::protobuf::RepeatedPtrField<std::string>& warnings) {
  const RunningMaximum& label = watch.reading.impossible_label;
  if (label.at == 0 || 2 * label.log_value < watch.reading.maximum.log_value) return;
  *warnings.Add() =
      absl::StrCat("Most of the evidence comes from one label with probability 0, at observation ",
                   watch.first_observation - 1 + label.at,
                   ": check whether this probability was rounded or the label is wrong.");
}

// Warns if the client seems to send predicted classes: each row is certain of one class. First of
// all warnings, because it makes everything else false. A model that is certain of every row looks
// the same, so that its rows are not refused.
void WarnOfClasses(const ModelDeclaration& declaration, const RowScreen::Counts& screen,
                   google::protobuf::RepeatedPtrField<std::string>& warnings) {
  const std::int64_t least = std::max(
      kLeastScreened, std::min(kLeastCertain, static_cast<std::int64_t>(declaration.window)));
  if (declaration.numbers() != nullptr || screen.digit_rows < least ||
      screen.certain_rows < screen.digit_rows) {
    return;
  }
  *warnings.Add() = absl::StrFormat(
      "All probabilities of the newest %d rows are exactly 0 or 1: they seem to be predicted "
      "classes, and then nothing here says whether the probabilities can be trusted. Check that "
      "the client sends the result of predict_proba, not that of predict. If the model is really "
      "certain of every row, as a full-grown decision tree is, ignore this.",
      screen.digit_rows);
}

// The share of labels that differ from the prediction, divided by the share that the predictions
// promise, at most 1. A model of a rare event that is stated too often, or an under-confident one,
// has equal labels more often than its predictions say, without any row twice. 1 if it is unknown.
double DisagreementOf(const v1::ErrorMeasurement& error) {
  const double promised = 1 - error.mean_confidence();
  return error.has_top_label() && promised > 0 ? std::min(1.0, (1 - error.accuracy()) / promised)
                                               : 1;
}

// The share of the screened rows that seem to repeat earlier ones; 0 if it is small. error:
// CalibrationError.since_start.
double RepeatedShare(const RowScreen::Counts& screen, const v1::ErrorMeasurement& error) {
  if (screen.rows < kLeastScreened) return 0;
  const double share = static_cast<double>(screen.Duplicates(DisagreementOf(error))) /
                       static_cast<double>(screen.rows);
  return share >= kDuplicateShare ? share : 0;
}

void WarnOfDuplicates(const ModelDeclaration& declaration, const RowScreen::Counts& screen,
                      const v1::ErrorMeasurement& error,
                      google::protobuf::RepeatedPtrField<std::string>& warnings) {
  const double share = RepeatedShare(screen, error);
  if (share == 0) return;
  *warnings.Add() = absl::StrFormat(
      "%.1f %% of the newest %d observations seem to repeat earlier ones: their %s are equal. If "
      "they are counted twice, they look like evidence: send them with ids or in numbered "
      "batches.",
      100 * share, screen.rows,
      declaration.numbers() != nullptr ? "forecasts and outcomes" : "probabilities and labels");
}

// Warns if probabilities were rounded so much that it may look like evidence. It says nothing of
// the error.
void WarnOfDigits(const ModelDeclaration& declaration, const RowScreen::Counts& screen,
                  google::protobuf::RepeatedPtrField<std::string>& warnings) {
  const auto digit_rows = static_cast<double>(screen.digit_rows);
  double unit = 1;
  for (std::size_t i = 0; i < screen.at_most_digits.size(); ++i) {
    unit /= 10;
    const auto printed = static_cast<double>(screen.at_most_digits[i]);
    if (printed < kPrintedShare * digit_rows) continue;
    const double tolerance =
        std::min(kMaxTolerance, static_cast<double>(declaration.row_width()) * unit / 2);
    // Without the rows that have more digits.
    const double inexact = static_cast<double>(screen.inexact_sums) - digit_rows + printed;
    if (tolerance > declaration.monitoring.tolerance && inexact >= kInexactShare * digit_rows) {
      *warnings.Add() = absl::StrFormat(
          "The probabilities have %d decimal digit%s, and the rounding error can look like "
          "evidence: "
          "send more digits, or declare monitoring.tolerance = %.3g (now %.3g).",
          i + 1, i == 0 ? "" : "s", tolerance, declaration.monitoring.tolerance);
    }
    return;
  }
}

// min_observations: the setting for the model or for a group.
void DescribeOne(const ModelDeclaration& declaration, const WatchSnapshot& watch,
                 std::int64_t min_observations, v1::Watch& proto) {
  const Monitoring& monitoring = declaration.monitoring;
  const EvidenceReading& reading = watch.reading;
  proto.set_observations(reading.count);
  proto.set_first_observation(watch.first_observation);
  proto.set_min_observations(min_observations);
  proto.set_observations_needed(std::max<std::int64_t>(0, min_observations - reading.count));
  DescribeEvidence(declaration, reading, *proto.mutable_evidence());
  DescribeDrift(reading.drift, monitoring.average_run_length, *proto.mutable_drift());
  watch.details->Describe(watch, monitoring.significance_level, proto);
}

}  // namespace

std::string UnavailableReason(const ModelDeclaration& declaration, const ModelSnapshot& snapshot) {
  if (snapshot.monitor->watch.has_value()) return "";
  return KindOf(declaration).NoWatchReason(declaration, snapshot);
}

void DescribeVerdict(const Model& model, const ModelSnapshot& snapshot, const Verdict& verdict,
                     v1::Verdict& proto) {
  const ModelDeclaration& declaration = *snapshot.declaration;
  const MonitorSnapshot& monitor = *snapshot.monitor;
  proto.set_limit_status(verdict.limit_status);
  proto.set_is_recent(verdict.is_recent);
  proto.set_is_acknowledged(verdict.is_acknowledged);
  proto.set_is_recovered(verdict.is_recovered);
  for (const GroupSnapshot* const group : verdict.groups_over_limit) {
    proto.add_groups_over_limit(convert::GroupName(group->id.value, group->id.overflow));
  }
  for (const GroupSnapshot* const group : verdict.rejected_groups) {
    proto.add_rejected_groups(convert::GroupName(group->id.value, group->id.overflow));
  }
  constexpr std::size_t kMostLabels = 100;
  for (const std::size_t k : verdict.labels_over_limit) {
    if (static_cast<std::size_t>(proto.labels_over_limit_size()) == kMostLabels) break;
    proto.add_labels_over_limit(declaration.value_names()[k]);
  }
  proto.set_status(verdict.status);
  proto.set_stale(verdict.stale);
  proto.set_reference_status(ReferenceStatus(monitor));
  if (verdict.alarm != nullptr) {
    *proto.mutable_since() = ToTimestamp(verdict.alarm->raise_time);
    proto.set_since_observation(verdict.alarm->observation);
  } else if (verdict.status == v1::Verdict::STALE) {
    *proto.mutable_since() =
        ToTimestamp(LastCounted(model, snapshot) + declaration.monitoring.stale_after);
    proto.set_since_observation(snapshot.observations);
  }
  if (monitor.watch.has_value()) {
    const EvidenceReading& reading = monitor.watch->reading;
    // A mixture that has lost money has no evidence to attribute.
    if (reading.evidence.log10_e_value > 0) {
      NameFamilies(declaration, reading.evidence.family_share, *proto.mutable_evidence_families());
    }
    if (reading.count > 0) {
      monitor.watch->details->DescribeVerdict(declaration, *monitor.watch, proto);
    }
  }
}

void DescribeWatch(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                   v1::Watch& proto) {
  const std::optional<WatchSnapshot>& watch = snapshot.monitor->watch;
  if (!watch.has_value()) {
    const std::int64_t least = declaration.monitoring.min_observations;
    proto.set_min_observations(least);
    proto.set_unavailable_reason(UnavailableReason(declaration, snapshot));
    // The observations of the warm-up are counted when the evidence begins.
    const auto warmup = static_cast<std::int64_t>(declaration.warmup);
    if (snapshot.observations < warmup) {
      proto.set_observations_needed(std::max(least, warmup) - snapshot.observations);
    }
    return;
  }
  DescribeOne(declaration, *watch, declaration.monitoring.min_observations, proto);
}

void DescribeGroups(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                    const Verdict& verdict, GroupsShown shown,
                    v1::GetCalibrationResponse& response) {
  const Monitoring& monitoring = declaration.monitoring;
  std::vector<const GroupSnapshot*> groups;
  for (const std::shared_ptr<const GroupSnapshot>& group : snapshot.monitor->groups) {
    groups.push_back(group.get());
  }
  const auto is_rejected = [&verdict](const GroupSnapshot* group) {
    return std::ranges::find(verdict.rejected_groups, group) != verdict.rejected_groups.end();
  };
  std::ranges::stable_sort(groups, IsFurtherOff);
  std::stable_partition(groups.begin(), groups.end(), is_rejected);
  std::int32_t tested = 0;
  for (const GroupSnapshot* const group : groups) {
    const bool is_over = group->error.Read().status == LimitStatus::kOverLimit;
    if (shown == GroupsShown::kRejected && !is_over && !is_rejected(group)) continue;
    v1::GroupWatch& proto = *response.add_groups();
    proto.set_value(group->id.value);
    proto.set_overflow(group->id.overflow);
    DescribeError(declaration, group->error, *proto.mutable_error());
    DescribeOne(declaration, group->watch, monitoring.min_group_observations,
                *proto.mutable_watch());
    group->watch.details->DescribeGroup(group->watch, proto);
    proto.set_tested(IsTested(monitoring, *group));
    tested += proto.tested() ? 1 : 0;
    proto.set_rejected(is_rejected(group));
  }
  response.set_tested_groups(tested);
}

void WarnOfOutcomes(const RowScreen::Counts& screen,
                    google::protobuf::RepeatedPtrField<std::string>& warnings) {
  const auto warn = [&](std::int64_t count, const char* what, const char* advice) {
    const double share = static_cast<double>(count) / static_cast<double>(screen.digit_rows);
    if (share < kSurprisingShare) return;
    *warnings.Add() = absl::StrFormat(
        "%.1f %% of the newest %d outcomes %s, although their forecasts give each a probability "
        "below %.0f %%: %s.",
        100 * share, screen.digit_rows, what, 100 * RowScreen::kSurprise, advice);
  };
  warn(screen.outcomes_as_forecast, "are exactly the middle of their forecasts",
       "check whether missing outcomes were filled in with the forecast");
  warn(screen.outcomes_as_before, "equal the outcome before, under another forecast",
       "several forecasts of one outcome, or a source that repeats its last value, look like "
       "evidence; send one forecast for each outcome");
}

bool HasDoubtfulEvidence(const ModelSnapshot& snapshot) {
  if (snapshot.monitor->evidence_is_doubtful) return true;
  // The error, which costs more, only lowers their number.
  if (snapshot.monitor->screen.Duplicates(1) == 0) return false;
  v1::CalibrationError error;
  DescribeError(*snapshot.declaration, snapshot.monitor->error, error);
  return RepeatedShare(snapshot.monitor->screen, error.since_start()) > 0;
}

void WarnOfRows(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                v1::GetCalibrationResponse& response) {
  google::protobuf::RepeatedPtrField<std::string>& warnings = *response.mutable_warnings();
  WarnOfClasses(declaration, snapshot.monitor->screen, warnings);
  if (snapshot.monitor->watch.has_value() &&
      snapshot.monitor->FindActive(Alarm::Kind::kEvidence) != nullptr) {
    WarnOfImpossibleLabel(*snapshot.monitor->watch, warnings);
  }
  if (snapshot.monitor->dependence_found_at > 0) {
    const std::optional<std::size_t> label = snapshot.monitor->dependent_label;
    *warnings.Add() = absl::StrCat(
        convert::DependenceText(snapshot.monitor->dependence_found_at),
        label.has_value()
            ? absl::StrCat(" The outcomes of label ",
                           convert::CutName(declaration.value_names()[*label]), " alone show this.")
            : "",
        " Evidence, alarms and intervals assume that this is not so, and may be false. Send sorted "
        "rows in random order (calibctl send --shuffle 1), each row once, and one row of each "
        "user: shuffling does not mend repeats and rows of one user, but hides them. The warning "
        "stays until the evidence begins anew, as after the acknowledgement of its alarm, and all "
        "alarms of the rows before are acknowledged.");
  }
  const RowScreen::Counts& screen = snapshot.monitor->screen;
  const bool is_screened = screen.rows >= kLeastScreened;
  const bool is_of_numbers = declaration.numbers() != nullptr;
  if (is_screened) {
    WarnOfDuplicates(declaration, screen, response.error().since_start(), warnings);
    if (is_of_numbers) WarnOfOutcomes(screen, warnings);
  }
  warnings.MergeFrom(response.label_arrivals().warnings());
  response.set_rows_are_doubtful(!warnings.empty());
  if (is_screened && !is_of_numbers) WarnOfDigits(declaration, screen, warnings);
}

void DescribeAlarm(const ModelDeclaration& declaration, const Alarm& alarm, v1::Alarm& proto) {
  proto.set_id(alarm.id);
  proto.set_kind(static_cast<v1::Alarm::Kind>(alarm.kind));
  *proto.mutable_raise_time() = ToTimestamp(alarm.raise_time);
  proto.set_observation(alarm.observation);
  if (!alarm.crossing.has_value()) proto.set_threshold(alarm.threshold);
  if (alarm.skce.has_value()) proto.set_skce(*alarm.skce);
  if (alarm.skce_lower_bound.has_value()) proto.set_skce_lower_bound(*alarm.skce_lower_bound);
  proto.set_gap(alarm.gap);
  NameFamilies(declaration, alarm.family_share, *proto.mutable_evidence_families());
  if (alarm.acknowledge_time.has_value()) {
    *proto.mutable_acknowledge_time() = ToTimestamp(*alarm.acknowledge_time);
  }
  proto.set_note(alarm.note);
  if (alarm.group.has_value()) {
    proto.set_group_value(alarm.group->value);
    proto.set_is_overflow_group(alarm.group->overflow);
  }
  if (alarm.label.has_value()) proto.set_label(declaration.value_names()[*alarm.label]);
  if (alarm.finding.has_value()) DescribeFinding(*alarm.finding, *proto.mutable_finding());
  if (!alarm.crossing.has_value()) return;
  v1::Alarm::LimitCrossing& crossing = *proto.mutable_crossing();
  crossing.set_is_recent(alarm.crossing->recent);
  crossing.set_limit(alarm.crossing->limit);
  crossing.set_is_class_1(alarm.crossing->series == 1);
  if (crossing.is_class_1()) crossing.set_class_1_name(declaration.class_1_name());
  if (alarm.crossing->interval.has_value()) {
    *crossing.mutable_error() = convert::ToProto(*alarm.crossing->interval);
  }
  crossing.set_first_observation(alarm.crossing->first_observation);
}

}  // namespace calibd::server
