#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <variant>

#include "base/exponential.h"
#include "loss/distribution_matching.h"

namespace calibd {
namespace {

// A kernel of two numbers a and b, and its derivative with respect to a.
struct PairValue {
  double value = 0;
  double slope = 0;
};

// Kernels of two mapped numbers.
struct RbfPair {
  double gamma;
  [[nodiscard]] PairValue Of(double a, double b) const {
    const double value = std::exp(-gamma * (a - b) * (a - b));
    return {value, -2 * gamma * (a - b) * value};
  }
};
struct EnergyPair {
  [[nodiscard]] static PairValue Of(double a, double b) {
    return {-0.5 * std::abs(a - b), 0.5 * (static_cast<int>(a < b) - static_cast<int>(a > b))};
  }
};
struct MomentsPair {
  [[nodiscard]] static PairValue Of(double a, double b) {
    return {a * b * (1 + a * b), b * (1 + 2 * a * b)};
  }
};
struct ProductPair {
  [[nodiscard]] static PairValue Of(double a, double b) { return {a * b, b}; }
};

// The sum over the pairs of a and each of the others.
template <typename Pair>
PairValue SumOf(const Pair& pair, double a, std::span<const double> others) {
  PairValue sum;
  for (const double b : others) {
    const PairValue one = pair.Of(a, b);
    sum.value += one.value;
    sum.slope += one.slope;
  }
  return sum;
}
// The exponentials take nearly all of the time, so they are computed together.
PairValue SumOf(const RbfPair& pair, double a, std::span<const double> others) {
  constexpr std::size_t kTogether = 64;
  std::array<double, kTogether> values{};
  PairValue sum;
  for (std::size_t first = 0; first < others.size(); first += kTogether) {
    const auto some = others.subspan(first, std::min(kTogether, others.size() - first));
    for (std::size_t k = 0; k < some.size(); ++k) {
      values[k] = -pair.gamma * (a - some[k]) * (a - some[k]);
    }
    Exponentiate(values.data(), some.size());
    for (std::size_t k = 0; k < some.size(); ++k) {
      sum.value += values[k];
      sum.slope += (a - some[k]) * values[k];
    }
  }
  sum.slope *= -2 * pair.gamma;
  return sum;
}

// A number that the kernel maps, and the derivative of the map.
struct Mapped {
  double value = 0;
  double slope = 1;
};

template <typename Pair>
class SampleTerms final : public OutcomeTerms {
 public:
  // map(x): the Mapped x.
  template <typename Map>
  SampleTerms(const ForecastBatch& batch, Pair pair, const Map& map)
      : pair_(std::move(pair)), draws_{{}, batch.width}, slopes_{{}, batch.width} {
    for (const double draw : batch.values) {
      const Mapped mapped = map(draw);
      draws_.values.push_back(mapped.value);
      slopes_.values.push_back(mapped.slope);
    }
    for (const double outcome : batch.outcomes) outcomes_.push_back(map(outcome).value);
  }

  void Compute(PairRow row, std::span<const double> weights, std::span<double> terms,
               std::span<double> gradient) const override {
    const std::span<const double> own = draws_.row(row.i);
    const std::span<const double> slopes = slopes_.row(row.i);
    const double y = outcomes_[row.i];
    const double r = static_cast<double>(own.size());
    for (std::size_t column = 0; column < terms.size(); ++column) {
      const std::size_t j = row.first + column;
      const bool same = j == row.i;
      const std::span<const double> other = draws_.row(j);
      // The two draws of a forecast with itself are different ones.
      const double pairs = r * (same ? r - 1 : r);
      double term = pair_.Of(y, outcomes_[j]).value;
      term -= SumOf(pair_, y, other).value / r;
      for (std::size_t s = 0; s < own.size(); ++s) {
        PairValue draws = SumOf(pair_, own[s], other);
        if (same) {
          const PairValue itself = pair_.Of(own[s], own[s]);
          draws.value -= itself.value;
          draws.slope -= itself.slope;
        }
        const PairValue outcome = pair_.Of(own[s], outcomes_[j]);
        term += draws.value / pairs - outcome.value / r;
        if (gradient.empty()) continue;
        gradient[s] += weights[column] * slopes[s] * (draws.slope / pairs - outcome.slope / r);
      }
      terms[column] = term;
    }
  }

 private:
  const Pair pair_;
  Points draws_;
  Points slopes_;
  std::vector<double> outcomes_;
};

template <typename Pair, typename Map>
std::unique_ptr<const OutcomeTerms> MakeSample(const ForecastBatch& batch, Pair pair,
                                               const Map& map) {
  return std::make_unique<SampleTerms<Pair>>(batch, std::move(pair), map);
}

std::unique_ptr<const OutcomeTerms> MakeTermsOf(const ForecastBatch& batch,
                                                const RbfKernel& kernel) {
  return MakeSample(batch, RbfPair{kernel.gamma.value()}, [](double x) { return Mapped{x}; });
}
std::unique_ptr<const OutcomeTerms> MakeTermsOf(const ForecastBatch& batch,
                                                const EnergyKernel& /*kernel*/) {
  return MakeSample(batch, EnergyPair(), [](double x) { return Mapped{x}; });
}
std::unique_ptr<const OutcomeTerms> MakeTermsOf(const ForecastBatch& batch,
                                                const MomentsKernel& kernel) {
  return MakeSample(batch, MomentsPair(), [&kernel](double x) {
    return Mapped{(x - kernel.center) / kernel.scale, 1 / kernel.scale};
  });
}
std::unique_ptr<const OutcomeTerms> MakeTermsOf(const ForecastBatch& batch,
                                                const ThresholdKernel& kernel) {
  return MakeSample(batch, ProductPair(), [&kernel](double x) {
    return Mapped{x >= kernel.threshold ? 1.0 : -1.0, 0};
  });
}
std::unique_ptr<const OutcomeTerms> MakeTermsOf(const ForecastBatch& batch,
                                                const TanhKernel& kernel) {
  return MakeSample(batch, ProductPair(), [&kernel](double x) {
    const double value = std::tanh((x - kernel.threshold) / kernel.width);
    return Mapped{value, (1 - value * value) / kernel.width};
  });
}
// Draws have no exact probability integral transform; CheckLossOptions refuses these kernels.
std::unique_ptr<const OutcomeTerms> MakeTermsOf(const ForecastBatch& /*batch*/,
                                                const PitRbfKernel& /*kernel*/) {
  return nullptr;
}
std::unique_ptr<const OutcomeTerms> MakeTermsOf(const ForecastBatch& /*batch*/,
                                                const PitMinKernel& /*kernel*/) {
  return nullptr;
}
std::unique_ptr<const OutcomeTerms> MakeTermsOf(const ForecastBatch& /*batch*/,
                                                const LevelsKernel& /*kernel*/) {
  return nullptr;
}

}  // namespace

std::unique_ptr<const OutcomeTerms> MakeSampleTerms(const ForecastBatch& batch,
                                                    const OutcomeKernel& kernel) {
  return std::visit([&](const auto& chosen) { return MakeTermsOf(batch, chosen); }, kernel);
}

}  // namespace calibd
