#ifndef CALIBD_CORE_LENS_KERNEL_H_
#define CALIBD_CORE_LENS_KERNEL_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "calibd/core/bandwidth.h"
#include "calibd/core/lens.h"
#include "calibd/core/matrix_kernel.h"
#include "calibd/core/run_control.h"

namespace calibd {

// A requested kernel over the whole vector.
struct KernelSpec {
  KernelRule rule;
  // If set, replaces the rule; its terms have their own bandwidths.
  std::shared_ptr<const MatrixKernel> matrix;
};

// The kernel of a lens if `asked` is the kernel of the canonical lens. Scalar lenses use
// exp(-|c - c'| / kScalarBandwidth). top_k and grouped use the same distance (total variation if a
// matrix-valued kernel is asked for) with a bandwidth of their own: the median over their reduced
// predictions, or median_off_diagonal if the rule is that.
[[nodiscard]] KernelSpec KernelOfLens(const Lens& lens, const KernelSpec& asked);

// predictions: n x m after reduction by the lens; unused unless the rule needs them. Errors and
// cost: those of ChooseKernel.
[[nodiscard]] absl::StatusOr<RunningKernel> MakeKernel(const KernelSpec& spec,
                                                       std::span<const double> predictions,
                                                       std::size_t class_count,
                                                       const RunControl& control = {});

}  // namespace calibd

#endif  // CALIBD_CORE_LENS_KERNEL_H_
