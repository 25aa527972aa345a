#ifndef CALIBD_CORE_GENERATOR_H_
#define CALIBD_CORE_GENERATOR_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/prediction_batch.h"

namespace calibd {

// The reference model of Widmann, Lindsten & Zachariah, NeurIPS 2019, App. J.2:
//   g ~ Dirichlet(alpha),  Z ~ Bernoulli(pi),
//   y ~ Categorical(beta) if Z = 1, else Categorical(g).
struct GeneratorSpec {
  // m concentrations, each > 0.
  std::vector<double> alpha;
  // Share of labels that ignore the prediction, in [0, 1].
  double pi = 0;
  // m probabilities that sum to 1: the distribution of the labels if Z = 1.
  std::vector<double> beta;

  // The three models of Sec. 7, over m classes with alpha = (.1, ..., .1).
  static GeneratorSpec M1(std::size_t class_count = 10);  // pi = 0: calibrated
  static GeneratorSpec M2(std::size_t class_count = 10);  // pi = .5, beta = e_1
  static GeneratorSpec M3(std::size_t class_count = 10);  // pi = 1, beta uniform
};

// Draws from a GeneratorSpec. The sequence depends only on the seed: it is the same on every
// platform, and does not depend on how it is split into calls.
class Generator {
 public:
  // Errors: InvalidArgument naming the field and the value.
  [[nodiscard]] static absl::StatusOr<Generator> Create(GeneratorSpec spec, std::uint64_t seed);

  // Appends the next n observations to `set`, whose class_count is set if empty.
  void Draw(std::size_t n, PredictionSet& set);

 private:
  Generator(GeneratorSpec spec, std::uint64_t seed) : spec_(std::move(spec)), seed_(seed) {}

  GeneratorSpec spec_;
  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;
};

}  // namespace calibd

#endif  // CALIBD_CORE_GENERATOR_H_
