#include "calibd/core/lens_test.h"

#include <algorithm>

#include "calibd/core/bandwidth.h"
#include "calibd/core/skce.h"

namespace calibd {
namespace {

RunControl Quietly(const RunControl& control) {
  RunControl quiet = control;
  quiet.progress = nullptr;
  return quiet;
}

absl::Status ChooseBandwidth(const LensBatch& seen, const Lens& lens,
                             const LensTestOptions& options, const RunControl& control,
                             LensTestResult& result) {
  if (options.bandwidth.has_value() || lens.is_scalar()) {
    result.bandwidth = options.bandwidth.value_or(kScalarBandwidth);
    return absl::OkStatus();
  }
  const PredictionSet& part = seen.parts.front();
  const absl::StatusOr<double> median =
      MedianBandwidth(part.probabilities, part.class_count, Quietly(control));
  if (!median.ok()) return median.status();
  result.bandwidth = *median;
  result.bandwidth_is_median = true;
  return absl::OkStatus();
}

absl::Status Test(const LensBatch& seen, const Kernel& kernel, const LensTestOptions& options,
                  const RunControl& control, BootstrapTestResult& result) {
  if (options.replicates != 0) {
    absl::StatusOr<BootstrapTestResult> test = BootstrapTest(
        seen, kernel, {.replicates = options.replicates, .seed = options.seed}, control);
    if (!test.ok()) return test.status();
    result = *std::move(test);
    return absl::OkStatus();
  }
  const absl::StatusOr<QuadraticSkce> skce = EstimateQuadraticSkce(seen, kernel, control);
  if (!skce.ok()) return skce.status();
  const auto n = static_cast<double>(skce->n);
  result.skce = *skce;
  result.statistic = n / (n - 1) * skce->unbiased - skce->biased;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LensTestResult> TestLens(const PredictionBatch& batch, const Lens& lens,
                                        const LensTestOptions& options, const RunControl& control) {
  absl::StatusOr<LensBatch> seen = ApplyLens(batch, lens);
  if (!seen.ok()) return seen.status();
  LensTestResult result;
  result.bound = seen->bound;
  absl::Status status = ChooseBandwidth(*seen, lens, options, control, result);
  if (!status.ok()) return status;
  const absl::StatusOr<Kernel> kernel = Kernel::ExponentialTotalVariation(result.bandwidth);
  if (!kernel.ok()) return kernel.status();
  status = Test(*seen, *kernel, options, control, result.test);
  if (!status.ok()) return status;
  if (seen->parts.size() == 1) {
    absl::StatusOr<NullMoments> moments =
        EstimateNullMoments(seen->parts.front().view(), *kernel, Quietly(control), seen->weight);
    if (!moments.ok()) return moments.status();
    result.null_moments = *moments;
  }
  return result;
}

double LensTestMemory(std::size_t n, std::size_t class_count, const Lens& lens,
                      std::int32_t replicates, std::size_t threads) noexcept {
  const std::size_t m = lens.reduced_class_count(class_count);
  const auto size = static_cast<double>(n);
  // The reduced batch and, for the noise floor, its squares.
  const double reduced = size * static_cast<double>(lens.parts(class_count)) *
                         static_cast<double>(2 * m * sizeof(double) + sizeof(std::int32_t));
  return reduced + static_cast<double>(BootstrapMemory(n, m, std::max(replicates, 1), threads));
}

double LensTestOperations(std::size_t n, std::size_t class_count, const Lens& lens,
                          std::int32_t replicates) noexcept {
  const auto size = static_cast<double>(n);
  const auto m = static_cast<double>(lens.reduced_class_count(class_count));
  if (lens.is_scalar()) {
    // A recursion for each part and replicate, and one pass over the pairs for the floor.
    const auto parts = static_cast<double>(lens.parts(class_count));
    return 8 * size * parts * (replicates + 20.0) + (parts == 1 ? 2 * size * size : 0);
  }
  return size * size * (4 * m + replicates) / 2;
}

}  // namespace calibd
