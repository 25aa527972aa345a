#include "server/kinds/labels/label_answer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calibd/convert/evaluation.h"
#include "calibd/convert/multilabel.h"
#include "calibd/core/e_bh.h"
#include "server/base/proto_time.h"
#include "server/kinds/labels/label_kind.h"

namespace calibd::server {
namespace {

// The label or all labels together, by the sums that the status applies to.
LabelResult ResultOf(const ErrorSnapshot& error) {
  const LabelTotals& totals = error.As<MeasuredLabels>()->sums.totals;
  const ReliabilitySums::Bin total = totals.sums.Total();
  LabelResult result{.truths = total.count, .error = error.Read().now[0]};
  if (total.count > 0) {
    const auto truths = static_cast<double>(total.count);
    result.held = static_cast<double>(total.correct) / truths;
    result.stated = total.confidence / truths;
  }
  result.over_limit = error.Read().status == LimitStatus::kOverLimit;
  return result;
}

void DescribeSums(const LabelErrorSums& sums, const std::optional<ErrorInterval>& interval,
                  v1::ErrorMeasurement& out) {
  out.set_observations(sums.totals.rows);
  out.set_first_observation(sums.first_observation);
  if (sums.start_time.has_value()) *out.mutable_start_time() = ToTimestamp(*sums.start_time);
  if (interval.has_value()) *out.mutable_labels() = convert::ToProto(*interval);
}

LabelReport ReportOf(const MonitorSnapshot& monitor, const Monitoring& monitoring) {
  const LabelTotals& totals = monitor.error.As<MeasuredLabels>()->sums.totals;
  const LabelEvidenceReading& evidence = monitor.watch->As<LabelWatchDetails>()->reading;
  const std::vector<bool> rejected =
      RejectedByEbh(evidence.label_log10_e_values, monitoring.significance_level);
  LabelReport report{.rows = totals.rows,
                     .truths = totals.sums.Total().count,
                     .brier = totals.Brier(),
                     .error = monitor.error.Read().now[0],
                     .log10_e_value = evidence.log10_e_value,
                     .labels = {}};
  for (std::size_t k = 0; k < monitor.labels.size(); ++k) {
    LabelResult& label = report.labels.emplace_back(ResultOf(monitor.labels[k]));
    label.index = k;
    label.log10_e_value = evidence.label_log10_e_values[k];
    label.rejected = rejected[k] && evidence.count >= monitoring.min_observations;
  }
  return report;
}

}  // namespace

void MeasuredLabels::Describe(const ErrorSnapshot& error, const ErrorReading& reading,
                              v1::CalibrationError& out) const {
  DescribeSums(since_start, reading.since_start[0], *out.mutable_since_start());
  if (reading.newest.has_value() && error.recovery == nullptr) {
    DescribeSums(SumsSince(sums, *marks, reading.newest->start), reading.newest->intervals[0],
                 *out.mutable_newest());
  }
  if (error.first_observation == error.start_observation) return;
  DescribeSums(sums, reading.now[0], *out.mutable_since_acknowledgement());
}

void MeasuredLabels::DescribeIntervals(const ErrorStretch& stretch,
                                       v1::ErrorMeasurement& out) const {
  *out.mutable_labels() = convert::ToProto(*stretch.intervals[0]);
}

void DescribeLabels(const DescribedModel& model, v1::GetCalibrationResponse& response) {
  const KindSnapshot& snapshot = model.snapshot;
  if (model.observations == 0) {
    auto& insufficient = *response.mutable_insufficient_data();
    insufficient.set_needed(1);
    insufficient.set_reason("there is no observation yet");
  }
  if (!snapshot.monitor.has_value()) return;
  const MonitorSnapshot& monitor = *snapshot.monitor;
  const Monitoring& monitoring = model.declaration.monitoring;
  LabelReportOptions options;
  options.error_limit = monitoring.error_limit;
  options.significance_level = monitoring.significance_level;
  v1::MultilabelCalibration& labels = *response.mutable_labels();
  labels =
      convert::ToProto(ReportOf(monitor, monitoring), options, model.declaration.value_names());
  labels.set_status(ToProto(monitor.error.Read().status));
  for (std::size_t k = 0; k < monitor.labels.size(); ++k) {
    const ErrorSnapshot& error = monitor.labels[k];
    v1::LabelCalibration& label = *labels.mutable_labels(static_cast<int>(k));
    label.set_status(ToProto(error.Read().status));
    if (error.first_observation != error.start_observation) {
      label.set_since_observation(error.first_observation);
    }
    if (error.acknowledged) label.set_acknowledged_limit(error.limit);
    const ErrorReading& reading = error.Read();
    if (reading.recovered) label.set_recovered_since(reading.newest->first_observation);
    if (const auto again = error.OverAgainSince()) label.set_over_again_since(*again);
    if (std::ranges::find(model.request.label_diagrams(), label.name()) !=
        model.request.label_diagrams().end()) {
      *label.mutable_reliability() = convert::ToProto(error.As<MeasuredLabels>()->sums.totals.sums);
    }
  }
}

void DescribeLabelBucket(const LabelsSpec& spec, const HistoryBucket& bucket,
                         std::span<const std::string> labels, v1::HistoryBucket& out) {
  const LabelSums& sums = bucket.labels;
  const std::vector<std::string>& names = spec.names;
  // A damaged bucket may have another number of labels.
  if (sums.labels.size() != names.size()) return;
  struct Span {
    std::size_t index;
    ErrorInterval gap;
    // The distance of the interval from 0.
    double distance;
  };
  const LabelErrorLevels levels(kSingleErrorLevels, names.size());
  const LabelTotals& totals = sums.totals.front();
  out.set_observations(totals.rows);
  const auto all = totals.Interval(names.size(), levels.of_all);
  if (!all.has_value()) return;
  *out.mutable_error() = convert::ToProto(*all);
  out.set_brier_score(totals.Brier());
  std::vector<Span> spans;
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (!labels.empty() && std::ranges::find(labels, names[k]) == labels.end()) continue;
    const std::optional<ErrorInterval> gap = sums.labels[k].Interval(levels.of_each);
    if (!gap.has_value()) continue;
    spans.push_back({k, *gap, std::max({0.0, gap->gap_lower, -gap->gap_upper})});
  }
  std::ranges::stable_sort(spans, [](const Span& a, const Span& b) {
    return std::pair(a.distance, std::abs(a.gap.gap)) > std::pair(b.distance, std::abs(b.gap.gap));
  });
  spans.resize(std::min(spans.size(), kMostDescribedLabels));
  for (const Span& span : spans) {
    const LabelSums::Label& label = sums.labels[span.index];
    const auto truths = static_cast<double>(label.truths);
    v1::LabelSpan& one = *out.add_labels();
    one.set_index(static_cast<std::int32_t>(span.index));
    one.set_name(names[span.index]);
    one.set_truths(label.truths);
    one.set_stated(label.stated / truths);
    one.set_held(static_cast<double>(label.held) / truths);
    one.set_gap_lower(span.gap.gap_lower);
    one.set_gap_upper(span.gap.gap_upper);
  }
}

}  // namespace calibd::server
