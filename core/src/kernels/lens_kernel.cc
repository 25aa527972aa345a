#include "calibd/core/lens_kernel.h"

#include "calibd/core/status_macros.h"

namespace calibd {

KernelSpec KernelOfLens(const Lens& lens, const KernelSpec& asked) {
  if (lens.is_canonical()) return asked;
  KernelSpec spec;
  if (lens.is_scalar()) {
    spec.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
    spec.rule.bandwidth.fixed = kScalarBandwidth;
    return spec;
  }
  if (asked.matrix != nullptr) return spec;
  spec.rule.distance = asked.rule.distance;
  if (asked.rule.bandwidth.needs_predictions()) spec.rule.bandwidth = asked.rule.bandwidth;
  return spec;
}

absl::StatusOr<RunningKernel> MakeKernel(const KernelSpec& spec,
                                         std::span<const double> predictions,
                                         std::size_t class_count, const RunControl& control) {
  if (spec.matrix != nullptr) return RunningKernel(spec.matrix);
  CALIBD_ASSIGN_OR_RETURN(const Kernel kernel,
                          ChooseKernel(spec.rule, predictions, class_count, control));
  return RunningKernel(kernel);
}

}  // namespace calibd
