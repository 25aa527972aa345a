#include "calibd/core/experts.h"

#include <cmath>

#include "expert_terms.h"

namespace calibd {
namespace {

// Below this value the witness is treated as constant.
constexpr double kFlatWitness = 1e-12;

// The linear term of a bet that loses everything.
constexpr double kLoss = -800;

// e^linear numerator / denominator.
struct EValue {
  double linear;
  double numerator;
  double denominator;
};

EValue Witness(double c, const PastTerms& past) {
  const double loss = past.witness.largest_loss;
  if (loss <= kFlatWitness) return {0, 1, 1};
  // 1 + c v / L with v = (F - min) - L.
  return {0, 1 + c * ((past.witness_at_label - past.witness.min) / loss - 1), 1};
}

EValue Tilt(double eta, std::size_t index, const PastTerms& past) {
  const double a = eta * (past.witness_at_label - past.witness.max) / (10 + past.match);
  return {a, 1, past.witness.tilt_sums[index]};
}

EValue Histogram(double theta, double ratio, double sum) {
  if (theta == 1) return {0, ratio, sum};
  if (theta == 0.5) return {0, std::sqrt(ratio), sum};
  return {theta * std::log(ratio), 1, sum};
}

EValue Power(double beta, std::size_t index, const PredictionTerms& prediction, std::size_t label) {
  return {(beta - 1) * prediction.log_p[label], 1, prediction.power_sums[index]};
}

EValue Share(double pi, double other, double p) { return {0, (1 - pi) * p + pi * other, p}; }

}  // namespace

const char* FamilyName(ExpertFamily family) noexcept {
  switch (family) {
    case ExpertFamily::kWitness:
      return "witness";
    case ExpertFamily::kTilt:
      return "tilt";
    case ExpertFamily::kPooledHistogram:
      return "pooled_histogram";
    case ExpertFamily::kClassHistogram:
      return "class_histogram";
    case ExpertFamily::kClassCounts:
      return "class_counts";
    case ExpertFamily::kClasses:
      return "classes";
    case ExpertFamily::kGroups:
      return "groups";
    case ExpertFamily::kParametric:
      break;
  }
  return "parametric";
}

ExpertBets Bets(const PredictionTerms& prediction, const PastTerms& past,
                const ClassCountTerms& classes, std::size_t label) noexcept {
  ExpertBets bets;
  std::size_t count = 0;
  // In the order of kExperts. index: the position among the parameters of a kind.
  const auto add = [&](const auto& parameters, const auto& bet) {
    for (std::size_t index = 0; index < parameters.size(); ++index) {
      const EValue e = bet(parameters[index], index);
      bets.linear[count] = e.linear;
      bets.numerator[count] = e.numerator;
      bets.denominator[count] = e.denominator;
      ++count;
    }
  };
  const double p = prediction.p[label];
  const double uniform = 1 / static_cast<double>(prediction.class_count);
  add(kWitnessBets, [&](double c, std::size_t) { return Witness(c, past); });
  add(kTiltRates, [&](double eta, std::size_t index) { return Tilt(eta, index, past); });
  add(kHistogramPowers, [&](double theta, std::size_t index) {
    return Histogram(theta, past.pooled_ratio, past.pooled_sums[index]);
  });
  add(kHistogramPowers, [&](double theta, std::size_t index) {
    return Histogram(theta, classes.ratio, classes.sums[index]);
  });
  add(kPowers,
      [&](double beta, std::size_t index) { return Power(beta, index, prediction, label); });
  add(kUniformShares, [&](double pi, std::size_t) { return Share(pi, uniform, p); });
  add(kLabelShares, [&](double pi, std::size_t) { return Share(pi, past.label_share, p); });
  add(kHistogramPowers, [&](double theta, std::size_t index) {
    return Histogram(theta, past.count_ratio, past.count_sums[index]);
  });
  for (; count < kExpertCount; ++count) {
    bets.linear[count] = kLoss;
    bets.numerator[count] = bets.denominator[count] = 1;
  }
  for (; count < kPaddedExperts; ++count) {
    bets.linear[count] = 0;
    bets.numerator[count] = bets.denominator[count] = 1;
  }
  return bets;
}

}  // namespace calibd
