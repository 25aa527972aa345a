#ifndef CALIBD_CORE_FOURIER_BASIS_H_
#define CALIBD_CORE_FOURIER_BASIS_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/fourier_size.h"
#include "calibd/core/line_vector.h"
#include "calibd/core/matrix_kernel.h"

namespace calibd {

// A finite map phi of predictions whose inner product approximates a kernel:
//   phi(g) = [cos(w_1'g), ..., cos(w_R'g), sin(w_1'g), ..., sin(w_R'g)] / sqrt(R),
//   E phi(x)'phi(z) = k(x, z) over the draw of w, and phi(g)'phi(g) = 1.
// Source: Rahimi & Recht, NIPS 2007, Algorithm 1. By Bochner's theorem w has the Fourier
// transform of the kernel as its density:
//   exp(-TV / nu) = prod_k exp(-|x_k - z_k| / (2 nu)): independent Cauchy of scale 1/(2 nu),
//   exp(-L1 / nu): independent Cauchy of scale 1/nu,
//   exp(-L2 / nu): m-variate Cauchy of scale 1/nu, a normal vector over one |normal|,
//   exp(-gamma L2^2): independent normal of variance 2 gamma.
// A matrix-valued kernel sum_l k_l A_l has the map of its average scalar factor sum_l tr(A_l)
// k_l / sum_l tr(A_l): the coupling of classes by its matrices is not represented.
//
// phi' phi is a kernel of its own: 64 frequencies approximate k to about 1/8 a pair. Computations
// are exact for the kernel phi'phi, and evidence is valid for any kernel.
//
// The frequencies are a function of the kernel and the class alone, the same in every
// process, so that sums of Fourier terms of different replicas add. Immutable; share one among
// all streams of a kernel and class count.
class FourierBasis {
 public:
  // Errors: InvalidArgument unless class_count is in [2, 100000] and that of a matrix-valued
  // kernel, which must not be zero. Cost: O(R m), and 512 bytes a class.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const FourierBasis>> Create(
      const RunningKernel& kernel, std::size_t class_count);

  [[nodiscard]] std::size_t class_count() const noexcept { return class_count_; }

  // g: m probabilities. out: kFourierCount values in [-1, 1] / sqrt(R). Cost: O(R m).
  void Map(std::span<const double> g, std::span<double> out) const noexcept;
  // Maps `rows` predictions, row-major, with the same bits. It is faster than row by row, because
  // the frequencies are read once for all rows.
  void Map(std::span<const double> g, std::size_t rows, std::span<double> out) const noexcept;
  // Single-precision values, of phases in double precision: faster.
  void Map(std::span<const double> g, std::size_t rows, std::span<float> out) const noexcept;

  // w / (2 pi), m x kFrequencyCount, row-major: |w'g| / (2 pi) counts turns. At most 1e6 in
  // size, where a phase is exact to 1e-9 turns; a Cauchy variate goes beyond once in 1e6.
  [[nodiscard]] std::span<const double> frequencies() const noexcept { return frequencies_; }

  friend bool operator==(const FourierBasis&, const FourierBasis&) = default;

 private:
  template <typename T>
  void MapRows(std::span<const double> g, std::size_t rows, T* out) const noexcept;

  FourierBasis(std::size_t class_count, LineVector frequencies)
      : class_count_(class_count), frequencies_(std::move(frequencies)) {}

  std::size_t class_count_;
  LineVector frequencies_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_FOURIER_BASIS_H_
