#include "calibd/core/experts.h"

#include <cmath>

#include "expert_terms.h"

namespace calibd {
namespace {

// Below it the witness is taken for constant.
constexpr double kFlatWitness = 1e-12;

// An e-value as e^linear * ratio, the logarithm of which all experts take together.
struct EValue {
  double linear;
  double ratio;
};

EValue Witness(double c, const PastTerms& past) {
  const double loss = past.witness.largest_loss;
  if (loss <= kFlatWitness) return {0, 1};
  // v / L with v = (F - min) - L.
  const double gain = (past.witness_at_label - past.witness.min) / loss - 1;
  return {0, 1 + c * gain};
}

EValue Tilt(double eta, std::size_t index, const PastTerms& past) {
  const double a = eta * (past.witness_at_label - past.witness.max) / (10 + past.match);
  return {a, 1 / past.witness.tilt_sums[index]};
}

EValue Histogram(double theta, double ratio, double sum) {
  return {theta * std::log(ratio), 1 / sum};
}

EValue Power(double beta, std::size_t index, const PredictionTerms& prediction, std::size_t label) {
  return {(beta - 1) * prediction.log_p[label], 1 / prediction.power_sums[index]};
}

EValue Share(double pi, double other, double p) { return {0, (1 - pi) + pi * other / p}; }

// index: among the experts of its kind.
EValue EValueOf(const Expert& expert, std::size_t index, const PredictionTerms& prediction,
                const PastTerms& past, std::size_t label) {
  const double parameter = expert.parameter;
  switch (expert.kind) {
    case ExpertKind::kWitness:
      return Witness(parameter, past);
    case ExpertKind::kTilt:
      return Tilt(parameter, index, past);
    case ExpertKind::kPooledHistogram:
      return Histogram(parameter, past.pooled_ratio, past.pooled_sums[index]);
    case ExpertKind::kClassHistogram:
      return Histogram(parameter, past.class_ratio, past.class_sums[index]);
    case ExpertKind::kPower:
      return Power(parameter, index, prediction, label);
    case ExpertKind::kUniformShare:
      return Share(parameter, 1 / static_cast<double>(prediction.class_count), prediction.p[label]);
    case ExpertKind::kLabelShare:
      break;
  }
  return Share(parameter, past.label_share, prediction.p[label]);
}

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
    case ExpertFamily::kParametric:
      break;
  }
  return "parametric";
}

void LogEValues(const PredictionTerms& prediction, const PastTerms& past, std::size_t label,
                double penalty, double* out) noexcept {
  std::array<double, kPaddedExperts> linear{};
  std::array<double, kPaddedExperts> ratio;
  ratio.fill(1);
  std::size_t index = 0;
  for (std::size_t j = 0; j < kExpertCount; ++j) {
    index = j > 0 && kExperts[j].kind == kExperts[j - 1].kind ? index + 1 : 0;
    const EValue e = EValueOf(kExperts[j], index, prediction, past, label);
    linear[j] = e.linear;
    ratio[j] = e.ratio;
  }
  FinishLogs(linear.data(), ratio.data(), penalty, out);
}

}  // namespace calibd
