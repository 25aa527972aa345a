#include "calibd/core/generator_closed_forms.h"

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/boost_policy.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

// ln B(x, x). Not computed as the logarithm of beta, which underflows for large x.
double LogBeta(double x) {
  return 2 * boost::math::lgamma(x, MathPolicy()) - boost::math::lgamma(2 * x, MathPolicy());
}

struct Concentrations {
  double total = 0;
  // total - alpha_i, without the cancellation of this difference: > 0.
  std::vector<double> others;
};

// Errors: InvalidArgument if a spec would not accept alpha.
absl::StatusOr<Concentrations> Sum(std::span<const double> alpha) {
  Concentrations sums;
  sums.others.resize(alpha.size());
  for (std::size_t k = 0; k < alpha.size(); ++k) {
    sums.others[k] = sums.total;
    sums.total += alpha[k];
  }
  double above = 0;
  for (std::size_t k = alpha.size(); k-- > 0;) {
    sums.others[k] += above;
    above += alpha[k];
  }
  if (sums.total <= kMaxConcentration) return sums;
  return absl::InvalidArgumentError(
      absl::StrCat("alpha sums to ", sums.total, ", expected at most ", kMaxConcentration));
}

}  // namespace

absl::StatusOr<double> ExpectedCalibrationError(const GeneratorSpec& spec) {
  CALIBD_RETURN_IF_ERROR(Generator::Create(spec, 0).status());
  CALIBD_ASSIGN_OR_RETURN(const Concentrations sums, Sum(spec.alpha));
  double error = 0;
  for (std::size_t k = 0; k < spec.alpha.size(); ++k) {
    const double alpha = spec.alpha[k];
    // Rounding may make a sum of 1 slightly larger.
    const double beta = std::min(1.0, spec.beta[k]);
    error += beta * boost::math::ibeta(alpha, sums.others[k], beta, MathPolicy()) -
             alpha / sums.total * boost::math::ibeta(alpha + 1, sums.others[k], beta, MathPolicy());
  }
  return spec.pi * error;
}

absl::StatusOr<double> MeanTotalVariation(std::span<const double> alpha) {
  GeneratorSpec spec = GeneratorSpec::M1(alpha.size());
  spec.alpha.assign(alpha.begin(), alpha.end());
  CALIBD_RETURN_IF_ERROR(Generator::Create(std::move(spec), 0).status());
  CALIBD_ASSIGN_OR_RETURN(const Concentrations sums, Sum(alpha));
  // A logarithm, because 2 / a0 may overflow.
  const double log_factor = std::log(2.0) - std::log(sums.total) + LogBeta(sums.total);
  double mean = 0;
  for (std::size_t k = 0; k < alpha.size(); ++k) {
    mean += std::exp(log_factor - LogBeta(alpha[k]) - LogBeta(sums.others[k]));
  }
  return mean;
}

}  // namespace calibd
