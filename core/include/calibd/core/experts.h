#ifndef CALIBD_CORE_EXPERTS_H_
#define CALIBD_CORE_EXPERTS_H_

#include <array>
#include <cstddef>

namespace calibd {

// The kind of bet of an expert. An expert is a function E(y) of the label, chosen from the
// prediction and the past before y is seen, with E >= 0 and sum_y p_y E(y) <= 1 for the prediction
// p: an e-value. Against a calibrated model no expert gains in expectation. Against a miscalibrated
// model the growth rate of the best expert is the strength of the evidence.
// Sources: Shekhar & Ramdas, arXiv:2112.09162 (betting on a witness function); Arnold,
// Henzi & Ziegel, Ann. Appl. Stat. 17 (2023) 1909 (calibration).
//
// Notation for the past: F = phi' A, the residuals of similar predictions summed by similarity; M =
// max(0, phi' S), the effective number of similar predictions; O and E, the observed and the
// expected number of labels in a bin of a class's log odds; c_y, the number of labels of class y;
// n, the number of all labels.
enum class ExpertKind {
  // 1 + c v_y / L with v = F - <p, F>, L = -min_k v_k; 1 where L <= 1e-12.
  kWitness,
  // e^{a_y} / sum_k p_k e^{a_k} with a = eta F / (10 + M).
  kTilt,
  // q_y / p_y with q ~ p_k r^theta, r = (O + 3) / (E + 3) of the bin of p_k among 24 of
  // the log odds in [-12, 12], all classes together.
  kPooledHistogram,
  // The same with bins for each class.
  kClassHistogram,
  // q_y / p_y with q ~ p^beta: predictions too bold (beta < 1) or too timid.
  kPower,
  // q_y / p_y with q = (1 - pi) p + pi / m: some labels are noise.
  kUniformShare,
  // q_y / p_y with q_y = (1 - pi) p_y + pi (c_y + 1/2) / (n + m/2): some labels ignore the
  // prediction.
  kLabelShare,
};

struct Expert {
  ExpertKind kind;
  // c, eta, theta, beta or pi.
  double parameter;
};

inline constexpr std::array kWitnessBets = {1. / 64, 1. / 32, 1. / 16, 1. / 8, 1. / 4, 1. / 2, .9};
inline constexpr std::array kTiltRates = {.5, 1., 2., 4., 8., 16.};
inline constexpr std::array kHistogramPowers = {.5, 1.};
inline constexpr std::array kPowers = {1. / 3, .5, 2. / 3, .8, .9, 1 / .9, 1.25, 1.5, 2., 3.};
inline constexpr std::array kUniformShares = {.001, .01, .05, .2};
inline constexpr std::array kLabelShares = {.02, .1, .4};

inline constexpr std::size_t kExpertCount = kWitnessBets.size() + kTiltRates.size() +
                                            2 * kHistogramPowers.size() + kPowers.size() +
                                            kUniformShares.size() + kLabelShares.size();

// All experts. To add an expert, add its parameter to an array above; a new kind needs its formula
// in src/experts.cc. Saved state uses this order.
[[nodiscard]] constexpr std::array<Expert, kExpertCount> MakeExperts() {
  std::array<Expert, kExpertCount> experts{};
  std::size_t count = 0;
  const auto add = [&](ExpertKind kind, const auto& parameters) {
    for (const double parameter : parameters) experts[count++] = {kind, parameter};
  };
  add(ExpertKind::kWitness, kWitnessBets);
  add(ExpertKind::kTilt, kTiltRates);
  add(ExpertKind::kPooledHistogram, kHistogramPowers);
  add(ExpertKind::kClassHistogram, kHistogramPowers);
  add(ExpertKind::kPower, kPowers);
  add(ExpertKind::kUniformShare, kUniformShares);
  add(ExpertKind::kLabelShare, kLabelShares);
  return experts;
}
inline constexpr std::array<Expert, kExpertCount> kExperts = MakeExperts();

// Groups of experts for which the evidence is reported.
enum class ExpertFamily { kWitness, kTilt, kPooledHistogram, kClassHistogram, kParametric };
inline constexpr std::size_t kFamilyCount = 5;

[[nodiscard]] constexpr ExpertFamily FamilyOf(ExpertKind kind) {
  switch (kind) {
    case ExpertKind::kWitness:
      return ExpertFamily::kWitness;
    case ExpertKind::kTilt:
      return ExpertFamily::kTilt;
    case ExpertKind::kPooledHistogram:
      return ExpertFamily::kPooledHistogram;
    case ExpertKind::kClassHistogram:
      return ExpertFamily::kClassHistogram;
    case ExpertKind::kPower:
    case ExpertKind::kUniformShare:
    case ExpertKind::kLabelShare:
      break;
  }
  return ExpertFamily::kParametric;
}

// "witness", "tilt", "pooled_histogram", "class_histogram", "parametric".
[[nodiscard]] const char* FamilyName(ExpertFamily family) noexcept;

[[nodiscard]] constexpr std::array<double, kExpertCount> MakePriors() {
  std::array<double, kExpertCount> priors{};
  std::size_t kinds = 0;
  for (std::size_t j = 0; j < kExpertCount; ++j) {
    if (j == 0 || kExperts[j].kind != kExperts[j - 1].kind) ++kinds;
    for (const Expert& other : kExperts) priors[j] += kExperts[j].kind == other.kind ? 1 : 0;
  }
  for (double& prior : priors) prior = 1 / (static_cast<double>(kinds) * prior);
  return priors;
}
// Prior weights of the experts in the mixture, which sum to 1: equal for all kinds, and equal for
// all experts of one kind.
inline constexpr std::array<double, kExpertCount> kPriors = MakePriors();

}  // namespace calibd

#endif  // CALIBD_CORE_EXPERTS_H_
