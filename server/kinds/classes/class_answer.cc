#include "server/kinds/classes/class_answer.h"

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/convert/comparison.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/kernel.h"
#include "calibd/core/lens_kernel.h"
#include "server/base/proto_time.h"
#include "server/kinds/classes/class_measure.h"
#include "server/kinds/classes/effect_size.h"
#include "server/kinds/classes/evidence_watch.h"
#include "server/kinds/classes/reliability_proto.h"
#include "server/kinds/provenance.h"

namespace calibd::server {
namespace {

std::string NameOf(const ModelDeclaration& declaration, std::size_t k) {
  return declaration.classes()->names.empty() ? "" : declaration.classes()->names[k];
}

void DescribeEffectSize(const EffectSize& effect, v1::EffectSize& proto) {
  if (effect.skce.has_value()) proto.set_skce(*effect.skce);
  if (effect.skce_lower_bound.has_value()) proto.set_skce_lower_bound(*effect.skce_lower_bound);
  if (effect.skce_upper_bound.has_value()) proto.set_skce_upper_bound(*effect.skce_upper_bound);
  if (effect.noise_floor.has_value()) proto.set_noise_floor(*effect.noise_floor);
  if (effect.one_look.has_value()) {
    proto.set_one_look_p_value(effect.one_look->p_value);
    proto.set_one_look_z(effect.one_look->z);
  }
}

void DescribeWhereabouts(const ModelDeclaration& declaration, const WatchSnapshot& watch,
                         const ClassWatchDetails& details, v1::Whereabouts& proto) {
  const auto n = static_cast<double>(watch.reading.count);
  // Before that, the e-values of classes say nothing about them.
  const bool is_tested = watch.reading.count >= declaration.monitoring.min_observations;
  // Number of classes and bins that are tested together.
  const std::size_t places = declaration.class_count() + details.reliability.bins.size();
  for (const DeviatingClass& one : details.deviating_classes) {
    v1::Whereabouts::ClassShare& out = *proto.add_classes();
    out.set_class_index(static_cast<std::int32_t>(one.index));
    out.set_class_name(NameOf(declaration, one.index));
    out.set_observed(static_cast<double>(one.frequencies.labels) / n);
    out.set_predicted(one.frequencies.predicted / n);
    out.set_z(one.frequencies.Z());
    out.set_stands_out(one.frequencies.StandsOut(places));
    out.set_log10_e_value(one.log10_e_value);
    out.set_rejected(is_tested && one.rejected);
  }
  proto.set_rejected_classes(is_tested ? details.rejected_classes : 0);
  proto.set_class_count(static_cast<std::int64_t>(declaration.class_count()));
  const auto& bins = details.reliability.bins;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (bins[i].count == 0) continue;
    const auto count = static_cast<double>(bins[i].count);
    v1::Whereabouts::ConfidenceBin& out = *proto.add_confidence_bins();
    out.set_lower(static_cast<double>(i) / static_cast<double>(bins.size()));
    out.set_upper(static_cast<double>(i + 1) / static_cast<double>(bins.size()));
    out.set_observations(bins[i].count);
    out.set_mean_confidence(bins[i].confidence / count);
    out.set_accuracy(static_cast<double>(bins[i].correct) / count);
    out.set_z(bins[i].Z());
    out.set_stands_out(bins[i].StandsOut(places));
  }
}

void DescribeDirection(const RunningReliability& reliability, v1::Direction& proto) {
  const RunningReliability::Bin total = reliability.Total();
  const auto n = static_cast<double>(total.count);
  proto.set_mean_confidence(total.confidence / n);
  proto.set_accuracy(static_cast<double>(total.correct) / n);
  proto.set_gap(proto.mean_confidence() - proto.accuracy());
  proto.set_gap_standard_deviation(std::sqrt(total.variance) / n);
}

void DescribeGroupScores(const RunningReliability& reliability, v1::GroupWatch::Scores& proto) {
  const auto n = static_cast<double>(reliability.Total().count);
  proto.set_brier_score(reliability.brier / n);
  proto.set_log_loss(reliability.log_loss / n);
  proto.set_ece(reliability.ExpectedCalibrationError());
}

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

void DescribeWarmup(const ModelDeclaration& declaration, std::int64_t observations,
                    v1::GetCalibrationResponse::InsufficientData& insufficient) {
  insufficient.set_observations(observations);
  insufficient.set_needed(static_cast<std::int64_t>(declaration.warmup) - observations);
  insufficient.set_reason(
      absl::StrCat("the bandwidth is chosen from the first ", declaration.warmup, " predictions"));
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
  *proto.mutable_baseline_reliability() = convert::ToProto(sums.baseline_top_label);
}

// Describes the estimates of all lenses. Before the first estimate it says why there is none.
void DescribeLenses(const DescribedModel& model, v1::GetCalibrationResponse& response) {
  const ModelDeclaration& declaration = model.declaration;
  const KindSnapshot& snapshot = model.snapshot;
  const std::vector<LensSnapshot>& lenses =
      snapshot.lenses.empty() ? snapshot.early_lenses : snapshot.lenses;
  for (const LensSnapshot& lens : lenses) {
    // The canonical lens has no message of its own.
    v1::RunningLens* const out = lens.lens.is_canonical() ? nullptr : response.add_lenses();
    if (out != nullptr) out->set_lens(lens.lens.name());
    *(out != nullptr ? out->mutable_bandwidth_error() : response.mutable_bandwidth_error()) =
        lens.bandwidth_error;
    if (!lens.kernel.has_value()) continue;
    v1::Provenance& provenance =
        *(out != nullptr ? out->mutable_provenance() : response.mutable_provenance());
    DescribeProvenance(declaration, 1, model.observations, model.now, provenance);
    DescribeEstimates(declaration, lens,
                      *(out != nullptr ? out->mutable_estimates() : response.mutable_estimates()),
                      provenance);
  }
  if (snapshot.lenses.empty()) {
    DescribeWarmup(declaration, model.observations, *response.mutable_insufficient_data());
    return;
  }
  const LensSnapshot& canonical = snapshot.lenses.front();
  // Block size 2 always exists, and completes the first block.
  constexpr std::int64_t kFirstBlock = 2;
  if (!canonical.bandwidth_error.empty()) {
    auto& insufficient = *response.mutable_insufficient_data();
    insufficient.set_observations(model.observations);
    insufficient.set_reason(canonical.bandwidth_error);
  } else if (model.observations < kFirstBlock) {
    auto& insufficient = *response.mutable_insufficient_data();
    insufficient.set_observations(model.observations);
    insufficient.set_needed(kFirstBlock - model.observations);
    insufficient.set_reason("the first estimate is made from two observations");
  }
}

}  // namespace

void ClassWatchDetails::Describe(const WatchSnapshot& watch, double significance_level,
                                 v1::Watch& out) const {
  DescribeEffectSize(ComputeEffectSize(watch.reading, null_moments, significance_level),
                     *out.mutable_effect_size());
}

void ClassWatchDetails::DescribeVerdict(const ModelDeclaration& declaration,
                                        const WatchSnapshot& watch, v1::Verdict& out) const {
  DescribeDirection(reliability, *out.mutable_direction());
  DescribeWhereabouts(declaration, watch, *this, *out.mutable_whereabouts());
}

void ClassWatchDetails::DescribeGroup(const WatchSnapshot& watch, v1::GroupWatch& out) const {
  if (watch.reading.count == 0) return;
  DescribeDirection(reliability, *out.mutable_direction());
  DescribeGroupScores(reliability, *out.mutable_scores());
}

void MeasuredClassError::DescribeEvent(std::size_t place, v1::DatedChange& out) const {
  out.set_event(place == 0 ? v1::DatedChange::TOP_LABEL : v1::DatedChange::CLASS_1);
}

void MeasuredClassError::Describe(const ErrorSnapshot& error, const ErrorReading& reading,
                                  v1::CalibrationError& out) const {
  DescribeSums(since_start, reading.since_start, *out.mutable_since_start());
  if (error.first_observation != error.start_observation) {
    DescribeSums(sums, reading.now, *out.mutable_since_acknowledgement());
  }
  if (reading.newest.has_value() && error.recovery == nullptr) {
    DescribeSums(Since(reading.newest->start), reading.newest->intervals, *out.mutable_newest());
  }
  if (budget.recent == 0) return;
  v1::CalibrationError::RecentError& evidence = *out.mutable_recent();
  if (recent_log10_e_value.has_value()) evidence.set_log10_e_value(*recent_log10_e_value);
  evidence.set_threshold(recent_threshold);
}

void MeasuredClassError::DescribeIntervals(const ErrorStretch& stretch,
                                           v1::ErrorMeasurement& out) const {
  const ErrorInterval& top_label = *stretch.intervals[0];
  *out.mutable_top_label() = convert::ToProto(top_label);
  out.set_mean_confidence(top_label.stated.value_or(0));
  out.set_accuracy(out.mean_confidence() - top_label.gap);
  if (budget.series == 2 && stretch.intervals[1].has_value()) {
    *out.mutable_class_1() = convert::ToProto(*stretch.intervals[1]);
  }
}

void DescribeClasses(const DescribedModel& model, v1::GetCalibrationResponse& response) {
  const ModelDeclaration& declaration = model.declaration;
  const KindSnapshot& snapshot = model.snapshot;
  if (snapshot.reliability.Total().count > 0) {
    v1::RunningScores& scores = *response.mutable_scores();
    DescribeReliability(snapshot.reliability, scores);
    scores.set_class_1_name(declaration.class_1_name());
    if (snapshot.monitor.has_value() && declaration.class_count() == 2) {
      const ReliabilitySums& class_1 =
          snapshot.monitor->error.As<MeasuredClassError>()->since_start.series[1];
      if (class_1.Total().count > 0) DescribeBins(class_1, *scores.mutable_class_1_bins());
    }
  }
  if (declaration.has_baseline()) response.set_baseline(declaration.classes()->baseline);
  if (snapshot.comparison.has_value()) DescribeComparison(*snapshot.comparison, response);
  DescribeLenses(model, response);
}

void DescribeClassBucket(const HistoryBucket& bucket, v1::HistoryBucket& out) {
  const RunningMoments& pairs = bucket.pairs;
  out.set_pairs(pairs.count);
  if (pairs.count > 0) out.set_skce(pairs.mean);
  if (pairs.count > 1) {
    out.set_skce_standard_error(std::sqrt(pairs.Variance() / static_cast<double>(pairs.count)));
  }
  if (bucket.reliability.Total().count == 0) return;
  DescribeReliability(bucket.reliability, out);
  const ErrorIntervals error =
      *EventIntervals(bucket.reliability, bucket.class_1, kSingleErrorLevels);
  *out.mutable_error() = convert::ToProto(error.top_label);
  if (error.class_1.has_value()) *out.mutable_class_1_error() = convert::ToProto(*error.class_1);
}

std::string NoClassWatchReason(const ModelDeclaration& declaration, const KindSnapshot& snapshot) {
  if (snapshot.lenses.empty()) {
    return absl::StrCat("it begins after ", declaration.warmup,
                        " rows, from which the bandwidth is chosen");
  }
  const std::string& error = snapshot.lenses.front().bandwidth_error;
  return error.empty() ? "the kernel is zero" : error;
}

}  // namespace calibd::server
