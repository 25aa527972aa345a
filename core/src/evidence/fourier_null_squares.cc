#include "calibd/core/fourier_null_squares.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

#include "kernels/pair_terms.h"

namespace calibd {
namespace {

constexpr std::int64_t kAllPairs = 4096;
// The distance in predictions between consecutive pairs after these.
constexpr std::int64_t kStride = 16;
constexpr std::int64_t kPairsPerStride = kStride / 2;

// True if the prediction after `count` others belongs to a pair.
bool IsOfPair(std::int64_t count) noexcept { return count < kAllPairs || count % kStride < 2; }

// The weight of a pair whose second prediction comes after `count` others.
std::int64_t WeightAt(std::int64_t count) noexcept {
  return count < kAllPairs ? 1 : kPairsPerStride;
}

// tr(S_a S_b S_c) for S = diag(g) - g g'. The first three terms that are subtracted have a square
// of one of the predictions.
double NullTraceOfThree(std::span<const double> a, std::span<const double> b,
                        std::span<const double> c) noexcept {
  double ab = 0;
  double bc = 0;
  double ca = 0;
  double abc = 0;
  double squares = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double product = a[k] * b[k] * c[k];
    ab += a[k] * b[k];
    bc += b[k] * c[k];
    ca += c[k] * a[k];
    abc += product;
    squares += product * (a[k] + b[k] + c[k]);
  }
  return abc - squares + abc * (ab + bc + ca) - ab * bc * ca;
}

}  // namespace

FourierNullSquares::FourierNullSquares(std::shared_ptr<const FourierBasis> basis)
    : basis_(std::move(basis)), mapped_(3 * kFourierCount) {
  state_.previous.reserve(basis_->class_count());
  state_.pair.reserve(2 * basis_->class_count());
}

double FourierNullSquares::KernelOf(std::size_t one, std::size_t other) const noexcept {
  // Several sums, because each addition depends on the previous one.
  std::array<double, 8> sums{};
  for (std::size_t j = 0; j < kFourierCount; j += sums.size()) {
    for (std::size_t s = 0; s < sums.size(); ++s) {
      sums[s] += mapped_[one * kFourierCount + j + s] * mapped_[other * kFourierCount + j + s];
    }
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void FourierNullSquares::Add(const PredictionBatch& batch) noexcept {
  // The predictions before this one are mapped, if they are of a pair or triple.
  std::size_t mapped_end = 0;
  for (std::size_t i = 0; i < batch.size(); ++i, ++state_.count) {
    const std::span<const double> g = batch.row(i);
    const bool completes_triple = !state_.pair.empty();
    const auto map = [&](std::size_t place) {
      if (i >= mapped_end) basis_->Map(g, Mapped(place));
    };
    if (completes_triple) {
      map(2);
      AddTriple(g);
    }
    if (!IsOfPair(state_.count)) continue;
    if (state_.count % 2 == 0) {
      if (completes_triple) {
        std::copy_n(Mapped(2).begin(), kFourierCount, Mapped(0).begin());
      } else {
        // The whole triple, because reading the frequencies takes most of the time.
        const std::size_t rows = std::min<std::size_t>(3, batch.size() - i);
        basis_->Map(batch.rows(i, rows).probabilities, rows, mapped_);
        mapped_end = i + rows;
      }
      state_.previous.assign(g.begin(), g.end());
      continue;
    }
    map(1);
    const double kernel = KernelOf(0, 1);
    const double square = kernel * kernel * NullTrace(state_.previous, g);
    state_.moments.Merge({.count = WeightAt(state_.count), .mean = square, .m2 = 0});
    state_.pair.assign(state_.previous.begin(), state_.previous.end());
    state_.pair.insert(state_.pair.end(), g.begin(), g.end());
    state_.previous.clear();
  }
}

void FourierNullSquares::AddTriple(std::span<const double> g) noexcept {
  const std::span<const double> pair = state_.pair;
  const double cube = KernelOf(0, 1) * KernelOf(1, 2) * KernelOf(2, 0) *
                      NullTraceOfThree(pair.first(g.size()), pair.last(g.size()), g);
  state_.cubes.Merge({.count = WeightAt(state_.count - 1), .mean = cube, .m2 = 0});
  state_.pair.clear();
}

bool FourierNullSquares::Restore(State state) {
  const bool waits = state.count % 2 == 1 && IsOfPair(state.count);
  // The weight of the newest pair may include pairs that have not arrived yet.
  const std::int64_t most = state.count / 2 + (state.count > kAllPairs ? kPairsPerStride : 0);
  const std::size_t m = basis_->class_count();
  const bool follows_pair = state.count % 2 == 0 && state.count > 0 && IsOfPair(state.count - 1);
  const auto are_probabilities = [](const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(),
                       [](double value) { return value >= 0 && value <= 1; });
  };
  if (state.count < 0 || state.moments.count < 0 || state.moments.count > most ||
      !std::isfinite(state.moments.mean) || !(state.moments.mean >= 0) ||
      !std::isfinite(state.moments.m2) || !(state.moments.m2 >= 0) || state.cubes.count < 0 ||
      state.cubes.count > most || !std::isfinite(state.cubes.mean) ||
      !std::isfinite(state.cubes.m2) || !(state.cubes.m2 >= 0) ||
      state.previous.size() != (waits ? m : 0) || !are_probabilities(state.previous) ||
      !(state.pair.empty() || (follows_pair && state.pair.size() == 2 * m)) ||
      !are_probabilities(state.pair)) {
    return false;
  }
  state_ = std::move(state);
  state_.previous.reserve(m);
  state_.pair.reserve(2 * m);
  if (!state_.previous.empty()) basis_->Map(state_.previous, Mapped(0));
  if (!state_.pair.empty()) {
    basis_->Map(std::span<const double>(state_.pair).first(m), Mapped(0));
    basis_->Map(std::span<const double>(state_.pair).last(m), Mapped(1));
  }
  return true;
}

}  // namespace calibd
