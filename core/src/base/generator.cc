#include "calibd/core/generator.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/categorical.h"
#include "base/rng.h"
#include "calibd/core/validation.h"

namespace calibd {
namespace {

double Normal(Rng& rng) noexcept {
  return std::sqrt(-2 * std::log(rng.Uniform())) * std::cos(2 * std::numbers::pi * rng.Uniform());
}

// Logarithm of a Gamma(shape, 1) variate. Marsaglia & Tsang, ACM TOMS 26 (2000)
// for shape >= 1; below that log G(shape + 1) + log(U) / shape, which stays finite
// where the variate itself would underflow.
double LogGamma(double shape, Rng& rng) noexcept {
  double boost = 0;
  if (shape < 1) {
    boost = std::log(rng.Uniform()) / shape;
    shape += 1;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = Normal(rng);
    const double v = 1 + c * x;
    if (v <= 0) continue;
    const double log_v = 3 * std::log(v);
    if (std::log(rng.Uniform()) < 0.5 * x * x + d * (1 - std::exp(log_v) + log_v)) {
      return boost + std::log(d) + log_v;
    }
  }
}

GeneratorSpec UniformSpec(std::size_t class_count, double pi) {
  return {std::vector<double>(class_count, 0.1), pi,
          std::vector<double>(class_count, 1.0 / static_cast<double>(class_count))};
}

}  // namespace

GeneratorSpec GeneratorSpec::M1(std::size_t class_count) { return UniformSpec(class_count, 0); }

GeneratorSpec GeneratorSpec::M2(std::size_t class_count) {
  GeneratorSpec spec = UniformSpec(class_count, 0.5);
  for (std::size_t k = 0; k < class_count; ++k) spec.beta[k] = k == 0 ? 1 : 0;
  return spec;
}

GeneratorSpec GeneratorSpec::M3(std::size_t class_count) { return UniformSpec(class_count, 1); }

absl::StatusOr<Generator> Generator::Create(GeneratorSpec spec, std::uint64_t seed) {
  const std::size_t m = spec.alpha.size();
  if (m < kMinClassCount || m > kMaxClassCount) {
    return absl::InvalidArgumentError(
        absl::StrCat("alpha has ", m, " values, expected ", kMinClassCount, "..", kMaxClassCount));
  }
  for (std::size_t k = 0; k < m; ++k) {
    if (!(spec.alpha[k] > 0) || !std::isfinite(spec.alpha[k])) {
      return absl::InvalidArgumentError(
          absl::StrCat("alpha[", k, "] is ", spec.alpha[k], ", expected a finite number > 0"));
    }
  }
  if (!(spec.pi >= 0 && spec.pi <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("pi is ", spec.pi, ", expected a number in [0, 1]"));
  }
  if (spec.beta.size() != m) {
    return absl::InvalidArgumentError(
        absl::StrCat("beta has ", spec.beta.size(), " values, expected ", m, " as alpha"));
  }
  double sum = 0;
  for (std::size_t k = 0; k < m; ++k) {
    if (!(spec.beta[k] >= 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("beta[", k, "] is ", spec.beta[k], ", expected a number in [0, 1]"));
    }
    sum += spec.beta[k];
  }
  if (!(std::abs(sum - 1) <= 1e-9)) {
    return absl::InvalidArgumentError(absl::StrCat("beta sums to ", sum, ", expected 1"));
  }
  return Generator(std::move(spec), seed);
}

void Generator::Draw(std::size_t n, PredictionSet& set) {
  const std::size_t m = spec_.alpha.size();
  if (set.labels.empty()) set.class_count = m;
  set.probabilities.reserve(set.probabilities.size() + n * m);
  set.labels.reserve(set.labels.size() + n);
  for (std::size_t i = 0; i < n; ++i) {
    Rng rng(seed_, drawn_++);
    const std::size_t begin = set.probabilities.size();
    for (const double alpha : spec_.alpha) set.probabilities.push_back(LogGamma(alpha, rng));
    const std::span<double> g(&set.probabilities[begin], m);
    // A Dirichlet variate consists of normalised Gamma variates: the softmax of their logarithms.
    Softmax(g);
    const bool ignores_prediction = rng.Uniform() < spec_.pi;
    set.labels.push_back(ignores_prediction ? Categorical(spec_.beta, rng) : Categorical(g, rng));
  }
}

}  // namespace calibd
