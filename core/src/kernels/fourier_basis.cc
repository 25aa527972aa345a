#include "calibd/core/fourier_basis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

#include "absl/status/status.h"
#include "base/rng.h"
#include "calibd/core/status_macros.h"
#include "kernels/fourier_simd.h"

namespace calibd {
namespace {

// Never change this seed: stored sums depend on the frequencies.
constexpr std::uint64_t kFrequencySeed = 0x63616c69626421ULL;
constexpr double kMaxFrequency = 1e6;
// The frequencies of this many classes fit into the cache together with the phases of some rows.
constexpr std::size_t kClassesAtOnce = 32;
constexpr std::size_t kRowsAtOnce = 16;

double StandardCauchy(Rng& rng) noexcept {
  return std::tan(std::numbers::pi * (rng.Uniform() - 0.5));
}

// The factor of one frequency that all classes share.
struct Frequency {
  Kernel kernel;
  double scale;
};

Frequency MakeFrequency(const Kernel& kernel, Rng& rng) {
  const double inverse = 1 / kernel.bandwidth();
  switch (kernel.distance()) {
    case Distance::kTotalVariation:
      return {kernel, inverse / 2};
    case Distance::kCityblock:
      return {kernel, inverse};
    case Distance::kEuclidean:
      return {kernel, inverse / std::abs(StandardNormal(rng))};
    case Distance::kSquaredEuclidean:
      break;
  }
  return {kernel, std::sqrt(2 * inverse)};
}

double Draw(const Frequency& frequency, Rng& rng) noexcept {
  const Distance distance = frequency.kernel.distance();
  const bool cauchy = distance == Distance::kTotalVariation || distance == Distance::kCityblock;
  const double variate = cauchy ? StandardCauchy(rng) : StandardNormal(rng);
  const double turns = frequency.scale * variate / (2 * std::numbers::pi);
  return std::clamp(turns, -kMaxFrequency, kMaxFrequency);
}

// The kernel of one frequency: that of a term of a matrix-valued kernel, with a
// probability in proportion to the term's trace.
const Kernel& PickKernel(const RunningKernel& kernel, Rng& rng) {
  if (const auto* const scalar = std::get_if<Kernel>(&kernel)) return *scalar;
  const MatrixKernel& matrix = *MatrixOf(kernel);
  const std::size_t m = matrix.class_count();
  std::vector<double> cumulative;
  double sum = 0;
  for (const MatrixKernel::Term& term : matrix.terms()) {
    for (std::size_t k = 0; k < m; ++k) sum += term.matrix[k * m + k];
    cumulative.push_back(sum);
  }
  const double u = rng.Uniform() * sum;
  std::size_t term = 0;
  while (term + 1 < cumulative.size() && u >= cumulative[term]) ++term;
  return matrix.terms()[term].kernel;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const FourierBasis>> FourierBasis::Create(
    const RunningKernel& kernel, std::size_t class_count) {
  CALIBD_RETURN_IF_ERROR(CheckClassCount(class_count, kernel));
  const MatrixKernel* const matrix = MatrixOf(kernel);
  if (matrix != nullptr && matrix->terms().empty()) {
    return absl::InvalidArgumentError("the kernel is zero, expected a matrix that is not");
  }
  std::vector<Frequency> shared;
  shared.reserve(kFrequencyCount);
  for (std::size_t r = 0; r < kFrequencyCount; ++r) {
    Rng rng(kFrequencySeed, r);
    shared.push_back(MakeFrequency(PickKernel(kernel, rng), rng));
  }
  LineVector frequencies;
  frequencies.reserve(class_count * kFrequencyCount);
  for (std::size_t k = 0; k < class_count; ++k) {
    // One random stream for each class, after the streams of what the classes share.
    for (std::size_t r = 0; r < kFrequencyCount; ++r) {
      Rng rng(kFrequencySeed, (k + 1) * kFrequencyCount + r);
      frequencies.push_back(Draw(shared[r], rng));
    }
  }
  return std::shared_ptr<const FourierBasis>(new FourierBasis(class_count, std::move(frequencies)));
}

void FourierBasis::Map(std::span<const double> g, std::span<double> out) const noexcept {
  Map(g, 1, out);
}

void FourierBasis::Map(std::span<const double> g, std::size_t rows,
                       std::span<double> out) const noexcept {
  MapRows(g, rows, out.data());
}

void FourierBasis::Map(std::span<const double> g, std::size_t rows,
                       std::span<float> out) const noexcept {
  MapRows(g, rows, out.data());
}

template <typename T>
void FourierBasis::MapRows(std::span<const double> g, std::size_t rows, T* out) const noexcept {
  const std::size_t m = class_count_;
  alignas(64) std::array<double, kRowsAtOnce * kFrequencyCount> phases;
  for (std::size_t row = 0; row < rows; row += kRowsAtOnce) {
    const std::size_t count = std::min(kRowsAtOnce, rows - row);
    std::fill_n(phases.begin(), count * kFrequencyCount, 0.0);
    for (std::size_t first = 0; first < m; first += kClassesAtOnce) {
      AddPhases({.rows = count,
                 .probabilities = &g[row * m + first],
                 .class_count = m,
                 .count = std::min(kClassesAtOnce, m - first),
                 .frequencies = &frequencies_[first * kFrequencyCount],
                 .phases = phases.data()});
    }
    PhasesToFourier(count, phases.data(), out + row * kFourierCount);
  }
}

}  // namespace calibd
