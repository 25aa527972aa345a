#ifndef CALIBD_CONVERT_EVALUATION_H_
#define CALIBD_CONVERT_EVALUATION_H_

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "calibd/core/evaluation.h"
#include "calibd/core/lens.h"
#include "calibd/core/lens_kernel.h"
#include "calibd/core/lens_test.h"
#include "calibd/core/running_lens.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/evaluation.pb.h"

namespace calibd::convert {

// Block estimates with their test, bounds and noise floor. bound: B of the lens and its
// kernel.
[[nodiscard]] v1::BlockEstimate ToProto(const RunningBlock& block, double bound);

// What a kernel says of itself: bandwidth and universality. The bound stays unset.
void ToProto(const RunningKernel& kernel, v1::Provenance& provenance);

// Fills the estimates, the test, the bounds and the noise floors, and of the provenance
// the lens, the kernel, the bandwidth and its rule, and what it was computed with.
// spec: of this lens.
void ToProto(const Lens& lens, const KernelSpec& spec, Precision precision,
             const LensTestResult& result, v1::QuadraticTestResult& proto);

[[nodiscard]] absl::StatusOr<Precision> FromProto(v1::Precision proto);

// Everything but the lenses' kernels and the seed, when it is unset.
// kernel: of the canonical lens, which comes first. default_lenses: when none are asked for.
// Errors: InvalidArgument that begins with the field and a space. CheckEvaluation passes
// what is returned.
[[nodiscard]] absl::StatusOr<EvaluationOptions> FromProto(const v1::EvaluateRequest& request,
                                                          const KernelSpec& kernel,
                                                          std::span<const Lens> default_lenses,
                                                          std::size_t class_count);

// options: of this evaluation. Each lens's provenance lacks what is not of the
// computation: numbers of the observations, time, threads, version.
[[nodiscard]] v1::Evaluation ToProto(const Evaluation& evaluation,
                                     const EvaluationOptions& options);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_EVALUATION_H_
