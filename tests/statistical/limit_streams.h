#ifndef CALIBD_TESTS_STATISTICAL_LIMIT_STREAMS_H_
#define CALIBD_TESTS_STATISTICAL_LIMIT_STREAMS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

#include "calibd/core/prediction_batch.h"
#include "server/kinds/classes/class_measure.h"

namespace calibd::testing {

// How the stated probabilities of the top label are distributed.
enum class Sharpness {
  // Beta(20, 1).
  kSharp,
  // Beta(6, 1).
  kMedium,
  // Uniform on [.5, .95].
  kVague
};

// A stream of predictions whose top label is `excess` less often right than they say.
class LimitStream {
 public:
  // class_count: with more than two classes the top label is class 1, with two it is either.
  LimitStream(Sharpness sharpness, double excess, std::size_t class_count, std::uint64_t seed)
      : sharpness_(sharpness), excess_(excess), rng_(seed) {
    set_.class_count = class_count;
    set_.probabilities.resize(class_count);
    set_.labels.resize(1);
  }

  // row: of the next prediction, counted from 1.
  void AddTo(server::ClassErrorWatch& watch, std::int64_t row) {
    const bool is_binary = set_.class_count == 2;
    const double c = std::max(Stated(), is_binary ? 0.5 : 0.1);
    const std::size_t top = is_binary && uniform_(rng_) < 0.7 ? 0 : 1;
    std::ranges::fill(set_.probabilities, (1 - c) / static_cast<double>(set_.class_count - 1));
    set_.probabilities[top] = c;
    const bool is_right = uniform_(rng_) < c - excess_;
    set_.labels[0] = static_cast<std::int32_t>(is_right ? top : 1 - top);
    watch.Add({.batch = set_.view(), .index = 0}, row);
  }

 private:
  double Stated() {
    const double u = uniform_(rng_);
    if (sharpness_ == Sharpness::kVague) return 0.5 + 0.45 * u;
    return std::pow(u, sharpness_ == Sharpness::kSharp ? 1.0 / 20 : 1.0 / 6);
  }

  Sharpness sharpness_;
  double excess_;
  std::mt19937_64 rng_;
  std::uniform_real_distribution<double> uniform_{0, 1};
  PredictionSet set_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_STATISTICAL_LIMIT_STREAMS_H_
