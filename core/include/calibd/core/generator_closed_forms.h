#ifndef CALIBD_CORE_GENERATOR_CLOSED_FORMS_H_
#define CALIBD_CORE_GENERATOR_CLOSED_FORMS_H_

#include <span>

#include "absl/status/statusor.h"
#include "calibd/core/generator.h"

namespace calibd {

// Largest sum of alpha that the closed forms accept; above it they lose accuracy.
inline constexpr double kMaxConcentration = 1e8;

// Limits of estimates on draws from a GeneratorSpec, in closed form.

// The expected calibration error of the reference model by total variation,
//   pi sum_i [ beta_i I(beta_i; alpha_i, a0 - alpha_i)
//              - alpha_i / a0 I(beta_i; alpha_i + 1, a0 - alpha_i) ],
// a0 = sum alpha, I the regularised incomplete beta function; in [0, pi]. Source:
// Widmann, Lindsten & Zachariah, NeurIPS 2019, App. J.2.1.
// Errors: those of Generator::Create; InvalidArgument if a0 > kMaxConcentration.
// Cost: O(m).
[[nodiscard]] absl::StatusOr<double> ExpectedCalibrationError(const GeneratorSpec& spec);

// The mean total variation distance of two independent draws from Dirichlet(alpha),
//   2 B(a0, a0) / a0 sum_i 1 / (B(alpha_i, alpha_i) B(a0 - alpha_i, a0 - alpha_i)),
// B the beta function; in (0, 1). Source: the same, App. J.2.2.
// alpha: m in [2, 100000] finite values > 0 of sum <= kMaxConcentration.
// Errors: InvalidArgument naming the value. Cost: O(m).
// Accuracy: relative 1e-12 + 4e-16 a0 ln a0, of logarithms of gamma functions.
[[nodiscard]] absl::StatusOr<double> MeanTotalVariation(std::span<const double> alpha);

}  // namespace calibd

#endif  // CALIBD_CORE_GENERATOR_CLOSED_FORMS_H_
