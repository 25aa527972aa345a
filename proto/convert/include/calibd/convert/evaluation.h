#ifndef CALIBD_CONVERT_EVALUATION_H_
#define CALIBD_CONVERT_EVALUATION_H_

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "calibd/core/bootstrap.h"
#include "calibd/core/error_interval.h"
#include "calibd/core/evaluation.h"
#include "calibd/core/group_evaluation.h"
#include "calibd/core/individual_calibration.h"
#include "calibd/core/lens.h"
#include "calibd/core/lens_evaluation.h"
#include "calibd/core/lens_kernel.h"
#include "calibd/core/reliability.h"
#include "calibd/core/running_lens.h"
#include "calibd/core/running_reliability.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/evaluation.pb.h"
#include "calibd/v1/monitoring.pb.h"

namespace calibd::convert {

// Converts block estimates with their test, bounds and noise floor. bound: the bound B of the lens
// and its kernel.
[[nodiscard]] v1::BlockEstimate ToProto(const RunningBlock& block, double bound);

[[nodiscard]] v1::ErrorInterval ToProto(const ErrorInterval& interval);
[[nodiscard]] v1::Reliability::Block ToProto(const ReliabilityBlock& block);
// The bins with their intervals of 90 %, without CORP.
[[nodiscard]] v1::Reliability ToProto(const ReliabilitySums& sums);

// Converts the bandwidth and universality of a kernel. Does not set the term bound.
void ToProto(const RunningKernel& kernel, v1::Provenance& provenance);

// Fills the estimates, the test, the bounds and the noise floors, and these
// fields of the provenance: lens, kernel, bandwidth, bandwidth rule, precision and SIMD target.
// spec: the specification of this lens.
void ToProto(const Lens& lens, const KernelSpec& spec, Precision precision,
             const LensTestResult& result, v1::QuadraticTestResult& proto);

[[nodiscard]] absl::StatusOr<Precision> FromProto(v1::Provenance::Precision proto);
[[nodiscard]] v1::QuadraticTestResult::NullHypothesis ToProto(NullHypothesis null);
[[nodiscard]] absl::StatusOr<NullHypothesis> FromProto(
    v1::QuadraticTestResult::NullHypothesis proto);
// Of forecasts of a number, which have no Pearson curve.
[[nodiscard]] absl::StatusOr<NullHypothesis> NumberNullFromProto(
    v1::QuadraticTestResult::NullHypothesis proto);

// Writes what every message about resampling has; its seed is optional. Proto: QuadraticTestResult,
// ConsistencyTest or CalibrationErrorSimulation.
template <typename Proto>
void ResamplingToProto(const ResamplingResult& result, Proto& proto) {
  proto.set_p_value(result.p_value);
  proto.set_replicates(result.replicates);
  proto.set_exceedances(result.exceedances);
  proto.set_replicate_mean(result.replicate_mean);
  proto.set_replicate_standard_deviation(result.replicate_standard_deviation);
  proto.set_replicate_upper_quantile(result.replicate_upper_quantile);
  proto.set_null(ToProto(result.null));
  proto.set_null_description(std::string(Describe(result.null)));
}

[[nodiscard]] v1::SimulatedStatistic StatisticToProto(double value, const ResamplingResult& result);

// Converts everything except the kernels of the lenses, and the seed if it is unset. kernel: the
// kernel of the canonical lens, which comes first. default_lenses: used if the request has no
// lenses. Errors: InvalidArgument whose message begins with the field and a space. CheckEvaluation
// accepts the returned value.
[[nodiscard]] absl::StatusOr<EvaluationOptions> FromProto(const v1::EvaluateRequest& request,
                                                          const KernelSpec& kernel,
                                                          std::span<const Lens> default_lenses,
                                                          std::size_t class_count);

// options: the options of this evaluation. Lacks the names of the actions. The provenance of each
// lens lacks the numbers of the observations, the time, the threads and the version, which the
// computation does not know.
[[nodiscard]] v1::Evaluation ToProto(const Evaluation& evaluation,
                                     const EvaluationOptions& options);
// result: the result of TestIndividual with valid options. An error about the features becomes
// left_out_reason. Errors: all others, such as Cancelled.
[[nodiscard]] absl::StatusOr<v1::Evaluation::Individual> ToProto(
    const absl::StatusOr<IndividualTestResult>& result);
// name: that of the group, as in the file. error_limit: the acceptable error.
[[nodiscard]] v1::EvaluatedGroup ToProto(const GroupResult& group, const std::string& name,
                                         double error_limit);
// actions: the actions of the request, whose names the evaluation lacks.
void NameActions(const google::protobuf::RepeatedPtrField<v1::Action>& actions,
                 v1::Evaluation& evaluation);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_EVALUATION_H_
