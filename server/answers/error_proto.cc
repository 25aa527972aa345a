#include "server/answers/error_proto.h"

#include <optional>

#include "calibd/convert/evaluation.h"
#include "calibd/convert/forecast.h"
#include "server/answers/forecast_proto.h"
#include "server/answers/proto_time.h"
#include "server/answers/verdict.h"
#include "server/kinds/classes/class_measure.h"
#include "server/kinds/numbers/coverage_measure.h"

namespace calibd::server {
namespace {

void DescribeSums(const ErrorSums& sums,
                  const std::array<std::optional<ErrorInterval>, 2>& intervals,
                  v1::ErrorMeasurement& proto) {
  const ReliabilitySums::Bin total = sums.series[0].Total();
  proto.set_observations(total.count);
  proto.set_first_observation(sums.first_observation);
  if (sums.start_time.has_value()) *proto.mutable_start_time() = ToTimestamp(*sums.start_time);
  if (total.count == 0) return;
  const auto n = static_cast<double>(total.count);
  *proto.mutable_top_label() = convert::ToProto(*intervals[0]);
  proto.set_mean_confidence(total.confidence / n);
  proto.set_accuracy(static_cast<double>(total.correct) / n);
  if (intervals[1].has_value()) *proto.mutable_class_1() = convert::ToProto(*intervals[1]);
}

// sums: CoverageSums or a CoverageStretch. coverage: unset without observations.
template <typename Sums>
void DescribeCoverage(const ForecastCells& cells, const Sums& sums,
                      const std::optional<ForecastCoverage>& coverage,
                      v1::ErrorMeasurement& proto) {
  proto.set_first_observation(sums.first_observation);
  if (sums.start_time.has_value()) *proto.mutable_start_time() = ToTimestamp(*sums.start_time);
  if (!coverage.has_value()) return;
  proto.set_observations(coverage->count);
  *proto.mutable_coverage() = convert::ToProto(IntervalOf(*coverage));
  *proto.mutable_central_coverage() = convert::ToProto(*coverage);
  DescribeDirection(cells, sums.counts, *proto.mutable_direction());
}

void DescribeStretch(const std::optional<ErrorStretch>& stretch,
                     v1::CalibrationError::RecentError& proto) {
  if (!stretch.has_value()) return;
  proto.set_first_observation(stretch->first_observation);
  if (stretch->start_time.has_value()) {
    *proto.mutable_start_time() = ToTimestamp(*stretch->start_time);
  }
  proto.set_observations(stretch->observations);
  proto.set_estimate(stretch->interval.estimate);
  proto.set_gap(stretch->interval.gap);
}

}  // namespace

void DescribeError(const ErrorSnapshot& error, v1::CalibrationError& proto) {
  const ErrorReading& reading = error.Read();
  proto.set_status(ToProto(reading.status));
  proto.set_limit(error.error_limit);
  if (error.acknowledged) proto.set_acknowledged_limit(error.limit);
  proto.set_is_recent(reading.is_recent);
  proto.set_is_acknowledged(error.acknowledged && !error.over);
  v1::ErrorMeasurement* now = nullptr;
  if (error.first_observation != error.start_observation) {
    now = proto.mutable_since_acknowledgement();
  }
  if (const auto* const coverage = error.As<MeasuredCoverage>()) {
    DescribeCoverage(*coverage->cells, coverage->since_start, coverage->SinceStart(),
                     *proto.mutable_since_start());
    if (now != nullptr) DescribeCoverage(*coverage->cells, coverage->sums, coverage->Now(), *now);
    if (const std::optional<CoverageStretch> recent = coverage->Recent()) {
      DescribeStretch(reading.stretch, *proto.mutable_recent());
      DescribeCoverage(*coverage->cells, *recent, recent->coverage,
                       *proto.mutable_recent()->mutable_forecast());
    }
  }
  const auto* const classes = error.As<MeasuredClassError>();
  if (classes != nullptr) {
    DescribeSums(classes->since_start, reading.since_start, *proto.mutable_since_start());
    if (now != nullptr) DescribeSums(classes->sums, reading.now, *now);
  }
  if (reading.observations_needed.has_value()) {
    proto.set_observations_needed(*reading.observations_needed);
  }
  if (classes == nullptr || classes->budget.recent == 0) return;
  v1::CalibrationError::RecentError& recent = *proto.mutable_recent();
  if (classes->recent_log10_e_value.has_value()) {
    recent.set_log10_e_value(*classes->recent_log10_e_value);
  }
  recent.set_threshold(classes->recent_threshold);
  DescribeStretch(reading.stretch, recent);
}

}  // namespace calibd::server
