#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>
#include <variant>

#include "base/normal_mean.h"
#include "loss/distribution_matching.h"
#include "loss/energy_pairs.h"
#include "loss/gaussian_pairs.h"

namespace calibd {
namespace {

// Means, standard deviations and outcomes, each n values.
struct Normals {
  explicit Normals(const ForecastBatch& batch)
      : means(batch.size()),
        deviations(batch.size()),
        outcomes(batch.outcomes.begin(), batch.outcomes.end()) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      means[i] = batch.row(i)[0];
      deviations[i] = batch.row(i)[1];
    }
  }

  std::vector<double> means;
  std::vector<double> deviations;
  std::vector<double> outcomes;
};

// A value, and its derivatives with respect to the mean and the standard deviation of forecast i.
struct Derivatives {
  double value = 0;
  double mean = 0;
  double deviation = 0;
};

// Pair: a function of the normals, i and j that returns A_ij with its derivatives.
template <typename Pair>
class PairwiseTerms final : public OutcomeTerms {
 public:
  PairwiseTerms(const ForecastBatch& batch, Pair pair) : normals_(batch), pair_(std::move(pair)) {}

  void Compute(PairRow row, std::span<const double> weights, std::span<double> terms,
               std::span<double> gradient) const override {
    Derivatives sum;
    for (std::size_t j = 0; j < terms.size(); ++j) {
      const Derivatives pair = pair_(normals_, row.i, row.first + j);
      terms[j] = pair.value;
      sum.mean += weights[j] * pair.mean;
      sum.deviation += weights[j] * pair.deviation;
    }
    if (gradient.empty()) return;
    gradient[0] += sum.mean;
    gradient[1] += sum.deviation;
  }

 private:
  const Normals normals_;
  const Pair pair_;
};

template <typename Pair>
std::unique_ptr<const OutcomeTerms> MakePairwise(const ForecastBatch& batch, Pair pair) {
  return std::make_unique<PairwiseTerms<Pair>>(batch, std::move(pair));
}

class RbfTerms final : public OutcomeTerms {
 public:
  RbfTerms(const ForecastBatch& batch, double gamma) : forecasts_(batch, gamma) {}

  void Compute(PairRow row, std::span<const double> weights, std::span<double> terms,
               std::span<double> gradient) const override {
    if (gradient.empty()) {
      forecasts_.Compute(row.i, row.first, terms);
    } else {
      forecasts_.Compute(row.i, row.first, weights, terms, gradient);
    }
  }

 private:
  const GaussianForecasts forecasts_;
};

// Terms and a kernel of the forecasts together. Forecasts: GaussianForecasts or EnergyForecasts.
template <typename Forecasts>
class NormalProducts final : public PairProducts {
 public:
  explicit NormalProducts(Forecasts forecasts) : forecasts_(std::move(forecasts)) {}

  double Compute(PairRow row, std::span<double> products) const override {
    return forecasts_.ComputeProducts(row.i, row.first, products);
  }

 private:
  const Forecasts forecasts_;
};

std::unique_ptr<const OutcomeTerms> MakeTerms(const ForecastBatch& batch, const RbfKernel& kernel) {
  return std::make_unique<RbfTerms>(batch, kernel.gamma.value());
}

// E|X| for X normal with mean m and standard deviation s, with its derivatives.
Derivatives MeanAbsolute(double m, double s) {
  const double t = m / s;
  const double sign = 2 * NormalCdf(t) - 1;
  const double density = NormalDensity(t);
  return {.value = m * sign + 2 * s * density, .mean = sign, .deviation = 2 * density};
}

std::unique_ptr<const OutcomeTerms> MakeTerms(const ForecastBatch& batch,
                                              const EnergyKernel& /*kernel*/) {
  return MakePairwise(batch, [](const Normals& normals, std::size_t i, std::size_t j) {
    const double sd = normals.deviations[i];
    const double sd_both = std::hypot(sd, normals.deviations[j]);
    const Derivatives both = MeanAbsolute(normals.means[i] - normals.means[j], sd_both);
    const Derivatives own = MeanAbsolute(normals.means[i] - normals.outcomes[j], sd);
    const Derivatives other =
        MeanAbsolute(normals.means[j] - normals.outcomes[i], normals.deviations[j]);
    const double distance = std::abs(normals.outcomes[i] - normals.outcomes[j]);
    return Derivatives{.value = 0.5 * (own.value + other.value - both.value - distance),
                       .mean = 0.5 * (own.mean - both.mean),
                       .deviation = 0.5 * (own.deviation - sd / sd_both * both.deviation)};
  });
}

// A_ij = <f_i, f_j> for f = phi(y) - E phi(Y') with up to two components.
class ProductTerms final : public OutcomeTerms {
 public:
  using Factors = std::array<Derivatives, 2>;

  // factor(mean, deviation, outcome): f with its derivatives.
  template <typename Factor>
  ProductTerms(const ForecastBatch& batch, const Factor& factor) {
    factors_.reserve(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      factors_.push_back(factor(batch.row(i)[0], batch.row(i)[1], batch.outcomes[i]));
    }
  }

  void Compute(PairRow row, std::span<const double> weights, std::span<double> terms,
               std::span<double> gradient) const override {
    const Factors& own = factors_[row.i];
    double sum[2] = {};
    for (std::size_t j = 0; j < terms.size(); ++j) {
      const Factors& other = factors_[row.first + j];
      terms[j] = own[0].value * other[0].value + own[1].value * other[1].value;
      for (std::size_t k = 0; k < 2; ++k) sum[k] += weights[j] * other[k].value;
    }
    if (gradient.empty()) return;
    for (std::size_t k = 0; k < 2; ++k) {
      gradient[0] += sum[k] * own[k].mean;
      gradient[1] += sum[k] * own[k].deviation;
    }
  }

 private:
  std::vector<Factors> factors_;
};

std::unique_ptr<const OutcomeTerms> MakeTerms(const ForecastBatch& batch,
                                              const MomentsKernel& kernel) {
  const auto factor = [&kernel](double mean, double deviation, double outcome) {
    const double mu = (mean - kernel.center) / kernel.scale;
    const double sd = deviation / kernel.scale;
    const double error = (outcome - mean) / kernel.scale;
    return ProductTerms::Factors{Derivatives{.value = error, .mean = -1 / kernel.scale},
                                 Derivatives{.value = error * (error + 2 * mu) - sd * sd,
                                             .mean = -2 * mu / kernel.scale,
                                             .deviation = -2 * sd / kernel.scale}};
  };
  return std::make_unique<ProductTerms>(batch, factor);
}

std::unique_ptr<const OutcomeTerms> MakeTerms(const ForecastBatch& batch,
                                              const ThresholdKernel& kernel) {
  const auto factor = [c = kernel.threshold](double mean, double deviation, double outcome) {
    const double t = (mean - c) / deviation;
    const double slope = 2 * NormalDensity(t) / deviation;
    // 1 - (2 Phi(t) - 1) and -1 - (2 Phi(t) - 1) without cancellation.
    return ProductTerms::Factors{
        Derivatives{.value = outcome >= c ? 2 * NormalCdf(-t) : -2 * NormalCdf(t),
                    .mean = -slope,
                    .deviation = slope == 0 ? 0 : t * slope}};
  };
  return std::make_unique<ProductTerms>(batch, factor);
}

std::unique_ptr<const OutcomeTerms> MakeTerms(const ForecastBatch& batch,
                                              const TanhKernel& kernel) {
  const auto factor = [&kernel](double mean, double deviation, double outcome) {
    const NormalMean expected =
        MeanTanh((mean - kernel.threshold) / kernel.width, deviation / kernel.width);
    return ProductTerms::Factors{Derivatives{
        .value = std::tanh((outcome - kernel.threshold) / kernel.width) - expected.value,
        .mean = -expected.d_mean / kernel.width,
        .deviation = -expected.d_deviation / kernel.width}};
  };
  return std::make_unique<ProductTerms>(batch, factor);
}

// A_ij is a function of the probability integral transforms. Kernel: Of(u, u') and its derivative
// Slope(u, u') with respect to u.
template <typename Kernel>
class PitTerms final : public OutcomeTerms {
 public:
  PitTerms(const ForecastBatch& batch, Kernel kernel) : kernel_(std::move(kernel)) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const double deviation = batch.row(i)[1];
      const double t = (batch.outcomes[i] - batch.row(i)[0]) / deviation;
      const double density = NormalDensity(t) / deviation;
      // For a far tail the density is 0, and t may be so large that the product is not a number.
      pits_.push_back(
          {.value = NormalCdf(t), .mean = -density, .deviation = density == 0 ? 0 : -t * density});
    }
  }

  void Compute(PairRow row, std::span<const double> weights, std::span<double> terms,
               std::span<double> gradient) const override {
    const Derivatives& own = pits_[row.i];
    double sum = 0;
    for (std::size_t j = 0; j < terms.size(); ++j) {
      const double other = pits_[row.first + j].value;
      terms[j] = kernel_.Of(own.value, other);
      sum += weights[j] * kernel_.Slope(own.value, other);
    }
    if (gradient.empty()) return;
    gradient[0] += sum * own.mean;
    gradient[1] += sum * own.deviation;
  }

 private:
  const Kernel kernel_;
  std::vector<Derivatives> pits_;
};

// exp(-gamma (u - u')^2) minus its means over uniform arguments.
class PitRbf {
 public:
  explicit PitRbf(double gamma)
      : gamma_(gamma),
        root_(std::sqrt(gamma)),
        factor_(std::sqrt(std::numbers::pi) / root_),
        mean_of_both_(factor_ * std::erf(root_) + std::expm1(-gamma) / gamma) {}

  [[nodiscard]] double Of(double u, double other) const {
    return std::exp(-gamma_ * (u - other) * (u - other)) - Mean(u) - Mean(other) + mean_of_both_;
  }
  [[nodiscard]] double Slope(double u, double other) const {
    return -2 * gamma_ * (u - other) * std::exp(-gamma_ * (u - other) * (u - other)) -
           (std::exp(-gamma_ * u * u) - std::exp(-gamma_ * (1 - u) * (1 - u)));
  }

 private:
  [[nodiscard]] double Mean(double u) const {
    return 0.5 * factor_ * (std::erf(root_ * u) + std::erf(root_ * (1 - u)));
  }

  double gamma_;
  double root_;
  double factor_;
  double mean_of_both_;
};

struct PitMin {
  [[nodiscard]] static double Of(double u, double other) {
    return std::min(u, other) - (u - 0.5 * u * u) - (other - 0.5 * other * other) + 1.0 / 3;
  }
  // On equal arguments, the mean of the one-sided derivatives.
  [[nodiscard]] static double Slope(double u, double other) {
    const double step = u < other ? 1 : u == other ? 0.5 : 0;
    return step - (1 - u);
  }
};

std::unique_ptr<const OutcomeTerms> MakeTerms(const ForecastBatch& batch,
                                              const PitRbfKernel& kernel) {
  return std::make_unique<PitTerms<PitRbf>>(batch, PitRbf(kernel.gamma));
}
std::unique_ptr<const OutcomeTerms> MakeTerms(const ForecastBatch& batch,
                                              const PitMinKernel& /*kernel*/) {
  return std::make_unique<PitTerms<PitMin>>(batch, PitMin());
}
// See MakeLevelTerms.
std::unique_ptr<const OutcomeTerms> MakeTerms(const ForecastBatch& /*batch*/,
                                              const LevelsKernel& /*kernel*/) {
  return nullptr;
}

}  // namespace

std::unique_ptr<const OutcomeTerms> MakeNormalTerms(const ForecastBatch& batch,
                                                    const OutcomeKernel& kernel) {
  return std::visit([&](const auto& chosen) { return MakeTerms(batch, chosen); }, kernel);
}

std::unique_ptr<const PairProducts> MakeNormalProducts(const ForecastBatch& batch,
                                                       const OutcomeKernel& kernel,
                                                       double condition_gamma) {
  const auto* const rbf = std::get_if<RbfKernel>(&kernel);
  if (rbf == nullptr && !std::holds_alternative<EnergyKernel>(kernel)) return nullptr;
  const double gamma = rbf != nullptr ? rbf->gamma.value() : 0;
  // No square of a difference, and no product of one with a gamma, reaches 1e301.
  const double most = std::sqrt(1e300 / std::max({1.0, gamma, condition_gamma}));
  const auto is_small = [most](double value) { return std::abs(value) < most; };
  if (!std::ranges::all_of(batch.values, is_small) ||
      !std::ranges::all_of(batch.outcomes, is_small)) {
    return nullptr;
  }
  if (rbf == nullptr) {
    return std::make_unique<NormalProducts<EnergyForecasts>>(
        EnergyForecasts(batch, condition_gamma));
  }
  return std::make_unique<NormalProducts<GaussianForecasts>>(
      GaussianForecasts(batch, gamma, condition_gamma));
}

}  // namespace calibd
