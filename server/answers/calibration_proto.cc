#include "server/answers/calibration_proto.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "calibd/convert/comparison.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/kernel.h"
#include "calibd/convert/reading.h"
#include "calibd/core/lens_kernel.h"
#include "server/answers/error_proto.h"
#include "server/answers/forecast_proto.h"
#include "server/answers/label_arrivals_proto.h"
#include "server/answers/proto_time.h"
#include "server/answers/reliability_proto.h"
#include "server/answers/verdict.h"
#include "server/answers/watch_proto.h"
#include "server/kinds/classes/class_measure.h"
#include "server/version.h"

namespace calibd::server {
namespace {

// The bound B of the terms that the estimators of a lens sum.
double TermBound(const LensSnapshot& lens) {
  return std::holds_alternative<Kernel>(*lens.kernel) ? lens.lens.DistributionFreeBound()
                                                      : DistributionFreeBound(*lens.kernel);
}

// lens: must have a kernel.
void DescribeEstimates(const ModelDeclaration& declaration, const LensSnapshot& lens,
                       google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates,
                       v1::Provenance& provenance) {
  const double bound = TermBound(lens);
  for (const RunningBlock& block : lens.blocks) *estimates.Add() = convert::ToProto(block, bound);
  const KernelSpec spec = KernelOfLens(lens.lens, declaration.classes()->kernel);
  provenance.set_lens(lens.lens.name());
  *provenance.mutable_kernel() = convert::KernelToProto(spec);
  if (spec.matrix == nullptr) {
    *provenance.mutable_bandwidth_rule() =
        convert::BandwidthToProto(spec.rule.bandwidth, declaration.warmup);
  }
  convert::ToProto(*lens.kernel, provenance);
}

void DescribeWarmup(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                    v1::GetCalibrationResponse::InsufficientData& insufficient) {
  insufficient.set_observations(snapshot.observations);
  insufficient.set_needed(static_cast<std::int64_t>(declaration.warmup) - snapshot.observations);
  insufficient.set_reason(
      absl::StrCat("the bandwidth is chosen from the first ", declaration.warmup, " predictions"));
}

void DescribeMonitor(const Model& model, const ModelSnapshot& snapshot,
                     std::chrono::system_clock::time_point now,
                     v1::GetCalibrationResponse& response) {
  const ModelDeclaration& declaration = *snapshot.declaration;
  const Verdict verdict = MakeVerdict(model, snapshot, now);
  DescribeVerdict(model, snapshot, verdict, *response.mutable_verdict());
  DescribeError(snapshot.monitor->error, *response.mutable_error());
  DescribeWatch(declaration, snapshot, *response.mutable_watch());
  const std::vector<Alarm>& alarms = *snapshot.monitor->alarms;
  // The newest first.
  for (std::size_t i = alarms.size(); i-- > 0;) {
    DescribeAlarm(declaration, alarms[i], *response.add_alarms());
  }
  DescribeGroups(declaration, snapshot, verdict, response);
  WarnOfRows(declaration, snapshot, *response.mutable_warnings());
  response.mutable_warnings()->MergeFrom(response.label_arrivals().warnings());
}

void DescribeForecasts(const ModelSnapshot& snapshot, v1::GetCalibrationResponse& response) {
  const ModelDeclaration& declaration = *snapshot.declaration;
  if (snapshot.forecasts.count > 0) {
    DescribeScores(*snapshot.forecast_cells, snapshot.forecasts.ToCounts(),
                   *response.mutable_forecast());
  }
  const auto warmup = static_cast<std::int64_t>(declaration.warmup);
  if (snapshot.observations > 0 && snapshot.observations >= warmup) return;
  auto& insufficient = *response.mutable_insufficient_data();
  insufficient.set_observations(snapshot.observations);
  insufficient.set_needed(std::max<std::int64_t>(1, warmup) - snapshot.observations);
  insufficient.set_reason(
      warmup > 0 ? absl::StrCat("the strata of the forecasts are chosen from the first ", warmup,
                                " observations")
                 : "there is no observation yet");
}

void DescribeComparison(const RunningComparison& sums, v1::GetCalibrationResponse& response) {
  const std::optional<Comparison> comparison = sums.Read();
  if (!comparison.has_value()) return;
  v1::Comparison& proto = *response.mutable_comparison();
  proto = convert::ToProto(*comparison);
  proto.set_paired(true);
  proto.set_observations(sums.brier.model.count);
  proto.set_baseline_observations(sums.brier.model.count);
  proto.set_repeated_looks_valid(true);
}

void DescribeCounts(Model& model, const ModelSnapshot& snapshot,
                    v1::GetCalibrationResponse& response) {
  const ModelDeclaration& declaration = *snapshot.declaration;
  response.set_model(declaration.name.ToString());
  response.set_observations(snapshot.observations);
  response.set_rejected_rows(snapshot.rejected_rows);
  response.set_dropped_rows(snapshot.dropped_rows);
  if (snapshot.last_observation_time.has_value()) {
    *response.mutable_last_observation_time() = ToTimestamp(*snapshot.last_observation_time);
  }
  if (snapshot.label_arrivals.has_value()) {
    DescribeLabelArrivals(model, *snapshot.label_arrivals, *response.mutable_label_arrivals());
  }
  if (snapshot.reliability.Total().count > 0) {
    v1::RunningScores& scores = *response.mutable_scores();
    DescribeReliability(snapshot.reliability, scores);
    if (snapshot.monitor.has_value() && declaration.class_count() == 2) {
      const ReliabilitySums& class_1 =
          snapshot.monitor->error.As<MeasuredClassError>()->since_start.series[1];
      if (class_1.Total().count > 0) DescribeBins(class_1, *scores.mutable_class_1_bins());
    }
  }
  if (const auto advice = model.recalibration()) *response.mutable_recalibration() = *advice;
  if (declaration.has_baseline()) response.set_baseline(declaration.classes()->baseline);
  if (snapshot.comparison.has_value()) DescribeComparison(*snapshot.comparison, response);
}

// Describes the estimates of all lenses, or why there are none yet.
void DescribeLenses(const ModelSnapshot& snapshot, std::chrono::system_clock::time_point now,
                    v1::GetCalibrationResponse& response) {
  const ModelDeclaration& declaration = *snapshot.declaration;
  const std::vector<LensSnapshot>& lenses =
      snapshot.warming_up() ? snapshot.early_lenses : snapshot.lenses;
  for (const LensSnapshot& lens : lenses) {
    // The canonical lens has no message of its own.
    v1::RunningLens* const out = lens.lens.is_canonical() ? nullptr : response.add_lenses();
    if (out != nullptr) out->set_lens(lens.lens.name());
    *(out != nullptr ? out->mutable_bandwidth_error() : response.mutable_bandwidth_error()) =
        lens.bandwidth_error;
    if (!lens.kernel.has_value()) continue;
    v1::Provenance& provenance =
        *(out != nullptr ? out->mutable_provenance() : response.mutable_provenance());
    DescribeProvenance(declaration, 1, snapshot.observations, now, provenance);
    DescribeEstimates(declaration, lens,
                      *(out != nullptr ? out->mutable_estimates() : response.mutable_estimates()),
                      provenance);
  }
  if (snapshot.warming_up()) {
    DescribeWarmup(declaration, snapshot, *response.mutable_insufficient_data());
    return;
  }
  const LensSnapshot& canonical = snapshot.lenses.front();
  // Block size 2 always exists, and completes the first block.
  constexpr std::int64_t kFirstBlock = 2;
  if (!canonical.bandwidth_error.empty()) {
    auto& insufficient = *response.mutable_insufficient_data();
    insufficient.set_observations(snapshot.observations);
    insufficient.set_reason(canonical.bandwidth_error);
  } else if (snapshot.observations < kFirstBlock) {
    auto& insufficient = *response.mutable_insufficient_data();
    insufficient.set_observations(snapshot.observations);
    insufficient.set_needed(kFirstBlock - snapshot.observations);
    insufficient.set_reason("the first estimate is made from two observations");
  }
}

}  // namespace

void DescribeProvenance(const ModelDeclaration& declaration, std::int64_t first_observation,
                        std::int64_t last_observation, std::chrono::system_clock::time_point time,
                        v1::Provenance& provenance) {
  provenance.set_observations(last_observation - first_observation + 1);
  provenance.set_first_observation(first_observation);
  provenance.set_last_observation(last_observation);
  provenance.set_class_count(static_cast<std::int32_t>(declaration.class_count()));
  *provenance.mutable_compute_time() = ToTimestamp(time);
  provenance.set_valid_for_repeated_looks(false);
  provenance.set_version(kVersion);
}

void DescribeCalibration(Model& model, const ModelSnapshot& snapshot,
                         std::chrono::system_clock::time_point now,
                         v1::GetCalibrationResponse& response) {
  DescribeCounts(model, snapshot, response);
  if (snapshot.monitor.has_value()) DescribeMonitor(model, snapshot, now, response);
  if (snapshot.declaration->numbers() != nullptr) {
    DescribeForecasts(snapshot, response);
  } else {
    DescribeLenses(snapshot, now, response);
  }
  *response.mutable_reading() = convert::ReadingOf(response, ToTimestamp(now));
}

}  // namespace calibd::server
