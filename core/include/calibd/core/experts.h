#ifndef CALIBD_CORE_EXPERTS_H_
#define CALIBD_CORE_EXPERTS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

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
  // The histogram with bins for each class.
  kClassHistogram,
  // q_y / p_y with q ~ p^beta: predictions too bold (beta < 1) or too timid.
  kPower,
  // q_y / p_y with q = (1 - pi) p + pi / m: some labels are noise.
  kUniformShare,
  // q_y / p_y with q_y = (1 - pi) p_y + pi (c_y + 1/2) / (n + m/2): some labels ignore the
  // prediction.
  kLabelShare,
  // q_y / p_y with q ~ p_k r^theta, r = (c_k + 3) / (G_k + 3), where G_k is the expected number of
  // labels of class k: some classes are more frequent than predicted (label shift).
  kClassCount,
  // The mean over classes of the e-values of ClassEvidence: one class deviates. This e-value and
  // the next two are computed elsewhere, see EvidenceProcess::Consider.
  kClassMean,
  // The mean of the e-values of groups of predictions, with fixed weights: one group deviates.
  kGroupMean,
  // The product of the e-values of these groups: many groups deviate in different directions.
  kGroupProduct,
};

struct Expert {
  // Identifies the expert in saved states: > 0, unique, and never used for another expert.
  std::int32_t id;
  ExpertKind kind;
  // c, eta, theta, beta or pi; 0 for a kind that is computed elsewhere.
  double parameter;
};

[[nodiscard]] consteval auto MakeExperts() {
  using enum ExpertKind;
  return std::to_array<Expert>({
      {1, kWitness, 1. / 64},
      {2, kWitness, 1. / 32},
      {3, kWitness, 1. / 16},
      {4, kWitness, 1. / 8},
      {5, kWitness, 1. / 4},
      {6, kWitness, 1. / 2},
      {7, kWitness, .9},
      {8, kTilt, .5},
      {9, kTilt, 1},
      {10, kTilt, 2},
      {11, kTilt, 4},
      {12, kTilt, 8},
      {13, kTilt, 16},
      {14, kPooledHistogram, .5},
      {15, kPooledHistogram, 1},
      {16, kClassHistogram, .5},
      {17, kClassHistogram, 1},
      {18, kPower, 1. / 3},
      {19, kPower, .5},
      {20, kPower, 2. / 3},
      {21, kPower, .8},
      {22, kPower, .9},
      {23, kPower, 1 / .9},
      {24, kPower, 1.25},
      {25, kPower, 1.5},
      {26, kPower, 2},
      {27, kPower, 3},
      {28, kUniformShare, .001},
      {29, kUniformShare, .01},
      {30, kUniformShare, .05},
      {31, kUniformShare, .2},
      {32, kLabelShare, .02},
      {33, kLabelShare, .1},
      {34, kLabelShare, .4},
      {35, kClassCount, .5},
      {36, kClassCount, 1},
      {37, kClassMean, 0},
      {38, kGroupMean, 0},
      {39, kGroupProduct, 0},
  });
}
// All experts, in the order of their kinds. To add an expert, add a row with an id that was never
// used; a new kind also needs its formula in src/strip_bets.cc. A state that was saved with other
// experts continues with these, see EvidenceProcess::Restore.
inline constexpr auto kExperts = MakeExperts();
inline constexpr std::size_t kExpertCount = kExperts.size();
static_assert(std::is_sorted(kExperts.begin(), kExperts.end(),
                             [](const Expert& a, const Expert& b) { return a.kind < b.kind; }));

[[nodiscard]] constexpr std::size_t CountOf(ExpertKind kind) {
  return static_cast<std::size_t>(std::count_if(
      kExperts.begin(), kExperts.end(), [kind](const Expert& one) { return one.kind == kind; }));
}

// The experts that EvidenceProcess computes itself, which are the first ones.
inline constexpr std::size_t kBettorCount = kExpertCount - CountOf(ExpertKind::kClassMean) -
                                            CountOf(ExpertKind::kGroupMean) -
                                            CountOf(ExpertKind::kGroupProduct);

// The parameters of the experts of one kind.
template <ExpertKind kKind>
[[nodiscard]] consteval auto ParametersOf() {
  std::array<double, CountOf(kKind)> parameters{};
  std::size_t count = 0;
  for (const Expert& expert : kExperts) {
    if (expert.kind == kKind) parameters[count++] = expert.parameter;
  }
  return parameters;
}
inline constexpr auto kWitnessBets = ParametersOf<ExpertKind::kWitness>();
inline constexpr auto kTiltRates = ParametersOf<ExpertKind::kTilt>();
// Both kinds of histogram and the counts of classes have these powers.
inline constexpr auto kHistogramPowers = ParametersOf<ExpertKind::kPooledHistogram>();
static_assert(kHistogramPowers == ParametersOf<ExpertKind::kClassHistogram>());
static_assert(kHistogramPowers == ParametersOf<ExpertKind::kClassCount>());
inline constexpr auto kPowers = ParametersOf<ExpertKind::kPower>();
inline constexpr auto kUniformShares = ParametersOf<ExpertKind::kUniformShare>();
inline constexpr auto kLabelShares = ParametersOf<ExpertKind::kLabelShare>();

// Groups of experts for which the evidence is reported. Saved alarms refer to them by position.
enum class ExpertFamily {
  kWitness,
  kTilt,
  kPooledHistogram,
  kClassHistogram,
  kParametric,
  kClassCounts,
  kClasses,
  kGroups,
};
inline constexpr std::size_t kFamilyCount = 8;

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
    case ExpertKind::kClassCount:
      return ExpertFamily::kClassCounts;
    case ExpertKind::kClassMean:
      return ExpertFamily::kClasses;
    case ExpertKind::kGroupMean:
    case ExpertKind::kGroupProduct:
      return ExpertFamily::kGroups;
    case ExpertKind::kPower:
    case ExpertKind::kUniformShare:
    case ExpertKind::kLabelShare:
      break;
  }
  return ExpertFamily::kParametric;
}

// "witness", "tilt", "pooled_histogram", "class_histogram", "parametric", "class_counts",
// "classes", "groups".
[[nodiscard]] const char* FamilyName(ExpertFamily family) noexcept;

// The share of a kind in the mixture, in parts of 30. Errors that a few predictions reveal need a
// small share only; errors of single classes grow slowly and need a larger one. Networks are mostly
// over-confident at all probabilities, which kPower finds first. Chosen by simulation such that no
// kind of error is detected much later than with the best shares for it.
[[nodiscard]] constexpr int ShareOf(ExpertKind kind) {
  switch (kind) {
    case ExpertKind::kPooledHistogram:
    case ExpertKind::kUniformShare:
    case ExpertKind::kGroupMean:
    case ExpertKind::kGroupProduct:
      return 1;
    case ExpertKind::kWitness:
    case ExpertKind::kClassHistogram:
      return 2;
    case ExpertKind::kTilt:
    case ExpertKind::kLabelShare:
      return 3;
    case ExpertKind::kClassMean:
      return 4;
    case ExpertKind::kPower:
    case ExpertKind::kClassCount:
      break;
  }
  return 6;
}

static_assert([] {
  int sum = 0;
  for (int kind = 0; kind <= static_cast<int>(ExpertKind::kGroupProduct); ++kind) {
    sum += ShareOf(static_cast<ExpertKind>(kind));
  }
  return sum == 30;
}());

[[nodiscard]] consteval std::array<double, kExpertCount> MakePriors() {
  std::array<double, kExpertCount> priors{};
  for (std::size_t j = 0; j < kExpertCount; ++j) {
    const ExpertKind kind = kExperts[j].kind;
    priors[j] = ShareOf(kind) / (30 * static_cast<double>(CountOf(kind)));
  }
  return priors;
}
// Prior weights of the experts in the mixture, which sum to 1: equal for all experts of one kind.
inline constexpr std::array<double, kExpertCount> kPriors = MakePriors();

}  // namespace calibd

#endif  // CALIBD_CORE_EXPERTS_H_
