#include "server/kinds/labels/label_measure.h"

#include <algorithm>

#include "calibd/store/v1/store.pb.h"
#include "server/kinds/labels/label_sums.h"

namespace calibd::server {
namespace {

// The ends of a stretch after an alarm, for RecoveredAfterChange and OverAgainSince.
auto EndsOfStretch(std::size_t label_count) noexcept {
  return [label_count](const LabelErrorSums& part, double level) {
    const auto interval = part.totals.Interval(label_count, RecoveryLevels(level));
    return interval.has_value() ? ErrorEnds{.lower = interval->lower, .upper = interval->upper}
                                : ErrorEnds{};
  };
}

}  // namespace

ErrorReading MeasuredLabels::Read(const ErrorSnapshot& error) const {
  ErrorReading reading;
  reading.since_start[0] = since_start.totals.Interval(label_count, levels);
  reading.now[0] = sums.totals.Interval(label_count, levels);
  if (error.over || error.acknowledged) {
    reading.status = LimitStatus::kOverLimit;
  } else if (error.count >= error.min_observations && reading.now[0].has_value() &&
             reading.now[0]->upper <= error.error_limit) {
    reading.status = LimitStatus::kWithinLimit;
  }
  std::optional<std::int64_t> start;
  ErrorLevels own = kSingleErrorLevels;
  if (error.over) start = RecoveredAfterChange(error, sums, *marks, EndsOfStretch(label_count));
  reading.recovered = start.has_value();
  if (reading.recovered) {
    own = RecoveryLevels(RecoveryLevel(error.over_at, *start));
  } else if (is_model) {
    start = NewestStart(error.count);
  }
  if (!start.has_value()) return reading;
  const LabelErrorSums part = SumsSince(sums, *marks, *start);
  reading.newest = {.start = *start,
                    .first_observation = part.first_observation,
                    .start_time = part.start_time,
                    .observations = part.count(),
                    .intervals = {part.totals.Interval(label_count, own), std::nullopt}};
  return reading;
}

std::optional<std::int64_t> MeasuredLabels::OverAgainSince(const ErrorSnapshot& error) const {
  const auto start = server::OverAgainSince(sums, *marks, error.over_at, error.error_limit,
                                            EndsOfStretch(label_count));
  if (!start.has_value()) return std::nullopt;
  return SumsSince(sums, *marks, *start).first_observation;
}

void LabelMeasure::Add(const Row& row, double /*limit*/, Sums& since_start, Sums& sums,
                       std::span<EventDeviations> deviations) {
  since_start.totals.Add(row);
  sums.totals.Add(row);
  if (deviations.empty()) return;
  // The mean over the known truths of the row; 0 without one.
  double sum = 0;
  double known = 0;
  for (std::size_t k = 0; k < row.truths.size(); ++k) {
    if (row.truths[k] == kMissingTruth) continue;
    sum += row.probabilities[k] - row.truths[k];
    ++known;
  }
  deviations[0].blocks.Add(known > 0 ? sum / known : 0);
}

LimitCheck LabelMeasure::Check(const Sums& sums, std::int64_t /*count*/, double limit,
                               double error_limit) const noexcept {
  // The sums are divided by the number of known truths over K. A row changes the sums and this
  // number by at most 1, and the boundaries never decrease: see ClassMeasure::Check.
  LimitCheck check;
  const std::optional<ErrorInterval> interval = Interval(sums, 0);
  if (!interval.has_value()) return {.over = std::nullopt, .rows_to_over = 0, .rows_to_within = 1};
  if (interval->lower > limit) {
    check.over = 0;
    return check;
  }
  const double n =
      static_cast<double>(sums.totals.sums.Total().count) / static_cast<double>(label_count_);
  check.rows_to_over = n * (limit - interval->lower);
  check.rows_to_within = n * (interval->upper - error_limit) / (1 + error_limit);
  return check;
}

std::shared_ptr<const MeasuredError> LabelMeasure::Snapshot(const Sums& since_start,
                                                            const Sums& sums,
                                                            std::int64_t /*count*/) const {
  auto snapshot = std::make_shared<MeasuredLabels>();
  snapshot->label_count = label_count_;
  snapshot->levels = levels_;
  snapshot->since_start = since_start;
  snapshot->sums = sums;
  snapshot->is_model = of_ == Of::kModel;
  snapshot->marks = marks_.values();
  return snapshot;
}

void LabelMeasure::Fields(StateFields& fields, const Sums& /*sums*/) {
  marks_.Fields(fields, [this](StateFields& inner, Sums& mark) { SumsFields(inner, mark); });
}

void LabelMeasure::SumsFields(StateFields& fields, Sums& sums) const {
  using Stored = store::v1::ErrorState::Sums;
  fields(Stored::kFirstObservationFieldNumber, sums.first_observation);
  fields(Stored::kStartTimeUsFieldNumber, sums.start_time);
  fields(Stored::kLabelsFieldNumber, sums.totals, TotalsFields);
  fields.Require(sums.first_observation >= 1 && FitLabels(sums.totals, label_count_),
                 "has sums of the error that cannot be");
}

}  // namespace calibd::server
