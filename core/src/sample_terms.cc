#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "distribution_matching.h"

namespace calibd {
namespace {

// Kernels of two mapped numbers: Of(a, b), and its derivative Slope(a, b) with respect to a.
struct RbfPair {
  double gamma;
  [[nodiscard]] double Of(double a, double b) const { return std::exp(-gamma * (a - b) * (a - b)); }
  [[nodiscard]] double Slope(double a, double b) const { return -2 * gamma * (a - b) * Of(a, b); }
};
struct EnergyPair {
  [[nodiscard]] static double Of(double a, double b) { return -0.5 * std::abs(a - b); }
  [[nodiscard]] static double Slope(double a, double b) {
    return 0.5 * (static_cast<int>(a < b) - static_cast<int>(a > b));
  }
};
struct MomentsPair {
  [[nodiscard]] static double Of(double a, double b) { return a * b * (1 + a * b); }
  [[nodiscard]] static double Slope(double a, double b) { return b * (1 + 2 * a * b); }
};
struct ProductPair {
  [[nodiscard]] static double Of(double a, double b) { return a * b; }
  [[nodiscard]] static double Slope(double /*a*/, double b) { return b; }
};

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
      double term = pair_.Of(y, outcomes_[j]);
      for (const double draw : other) term -= pair_.Of(draw, y) / r;
      for (std::size_t s = 0; s < own.size(); ++s) {
        term -= pair_.Of(own[s], outcomes_[j]) / r;
        term += SumOf(own, s, other, same) / pairs;
        if (gradient.empty()) continue;
        gradient[s] +=
            weights[column] * slopes[s] *
            (SumOfSlopes(own, s, other, same) / pairs - pair_.Slope(own[s], outcomes_[j]) / r);
      }
      terms[column] = term;
    }
  }

 private:
  // Of draw s and each draw of the other forecast, without the same one.
  double SumOf(std::span<const double> own, std::size_t s, std::span<const double> other,
               bool same) const {
    double sum = 0;
    for (const double draw : other) sum += pair_.Of(own[s], draw);
    return same ? sum - pair_.Of(own[s], own[s]) : sum;
  }
  double SumOfSlopes(std::span<const double> own, std::size_t s, std::span<const double> other,
                     bool same) const {
    double sum = 0;
    for (const double draw : other) sum += pair_.Slope(own[s], draw);
    return same ? sum - pair_.Slope(own[s], own[s]) : sum;
  }

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

}  // namespace

std::unique_ptr<const OutcomeTerms> MakeSampleTerms(const ForecastBatch& batch,
                                                    const OutcomeKernel& kernel) {
  return std::visit([&](const auto& chosen) { return MakeTermsOf(batch, chosen); }, kernel);
}

}  // namespace calibd
