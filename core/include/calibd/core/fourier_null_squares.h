#ifndef CALIBD_CORE_FOURIER_NULL_SQUARES_H_
#define CALIBD_CORE_FOURIER_NULL_SQUARES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "calibd/core/fourier_basis.h"
#include "calibd/core/moments.h"
#include "calibd/core/prediction_batch.h"

namespace calibd {

// E h_ij^2 of pairs of predictions under labels drawn from them, with the kernel phi'phi:
//   (phi(g_i)'phi(g_j))^2 tr(S_i S_j),  S = diag(g) - g g',
//   tr(S_i S_j) = sum a b - sum a b^2 - sum a^2 b + (sum a b)^2 for a = g_i, b = g_j:
// NullMoments::mean_square of the SKCE that an EvidenceProcess estimates. Labels play no part.
// Pairs are disjoint pairs of consecutive predictions: all of them among the first 4096
// predictions, and every eighth after that, with a weight of eight. A pair and the next prediction
// are a triple for E h_ij h_jk h_ki = phi_i'phi_j phi_j'phi_k phi_k'phi_i tr(S_i S_j S_k):
// NullMoments::mean_cube. Not thread-safe.
class FourierNullSquares {
 public:
  explicit FourierNullSquares(std::shared_ptr<const FourierBasis> basis);

  // batch: valid. The result has the same bits however a sequence is split into calls. Allocates no
  // memory. Cost: O(R m) for a prediction of a pair or triple.
  void Add(const PredictionBatch& batch) noexcept;

  // The count is the sum of the weights of the pairs.
  [[nodiscard]] const RunningMoments& moments() const noexcept { return state_.moments; }
  // The moments of the triples; the count is the sum of their weights.
  [[nodiscard]] const RunningMoments& cubes() const noexcept { return state_.cubes; }

  struct State {
    // Number of predictions, >= 0.
    std::int64_t count = 0;
    RunningMoments moments;
    // The first prediction of an incomplete pair: m values, or empty.
    std::vector<double> previous;
    RunningMoments cubes = {};
    // The newest pair, if the next prediction completes a triple: 2 m values, or empty. States of
    // older versions have no triples.
    std::vector<double> pair = {};
  };
  [[nodiscard]] const State& Save() const noexcept { return state_; }
  // Returns false, and leaves this object unchanged, when the state is invalid for it.
  [[nodiscard]] bool Restore(State state);

 private:
  // The Fourier terms of the first, second and third prediction of a triple.
  [[nodiscard]] std::span<double> Mapped(std::size_t place) noexcept {
    return std::span(mapped_).subspan(place * kFourierCount, kFourierCount);
  }
  [[nodiscard]] double KernelOf(std::size_t one, std::size_t other) const noexcept;
  // g: the prediction after the newest pair, which is mapped.
  void AddTriple(std::span<const double> g) noexcept;

  std::shared_ptr<const FourierBasis> basis_;
  State state_;
  std::vector<double> mapped_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_FOURIER_NULL_SQUARES_H_
