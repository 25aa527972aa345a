#ifndef CALIBD_CORE_RESAMPLING_H_
#define CALIBD_CORE_RESAMPLING_H_

#include <cstdint>
#include <string_view>

namespace calibd {

inline constexpr std::int32_t kMinReplicates = 99;
inline constexpr std::int32_t kMaxReplicates = 100000;

// What a resampling test rejects, which decides how its replicates are drawn.
enum class NullHypothesis {
  // The model is calibrated in the tested part of its predictions. Observations are drawn with
  // replacement. Asymptotic.
  kForm,
  // Each label is drawn from its prediction, independently of the others. The predictions are kept
  // and labels are drawn from them, so that the test is exact for every n and every statistic:
  // P(p <= a) <= a. For one part with its own predictions (every lens but class_wise) this follows
  // from the calibration of that part; the sum over classes can be calibrated class by class and
  // still be rejected.
  kForecast,
  // The hypothesis of kForecast, without replicates: the distribution of SKCE_uq is approximated by
  // a Pearson curve, see NullMoments::PearsonPValue. Only for TestLens and Evaluate.
  kPearson,
};

// The hypothesis in words, e.g. for a report.
[[nodiscard]] std::string_view Describe(NullHypothesis null) noexcept;

// The default number of replicates: the size of an exact test is then the level, if that is a
// multiple of .001 and ties are rare.
inline constexpr std::int32_t kDefaultReplicates = 999;

struct BootstrapOptions {
  // In [kMinReplicates, kMaxReplicates].
  std::int32_t replicates = kDefaultReplicates;
  // One seed gives the same result for a batch, whatever the threads.
  std::uint64_t seed = 0;
  NullHypothesis null = NullHypothesis::kForm;
};

// How a statistic compares with its replicates.
struct ResamplingResult {
  // (1 + exceedances) / (1 + replicates): never 0. For ONE look.
  double p_value = 1;
  std::int32_t replicates = 0;
  // #{replicates >= statistic}.
  std::int32_t exceedances = 0;
  std::uint64_t seed = 0;
  NullHypothesis null = NullHypothesis::kForm;
  // Mean and standard deviation of the replicates, with divisor replicates - 1, and their 95 %
  // quantile. With kForecast they are the simulated noise floor of the statistic.
  double replicate_mean = 0;
  double replicate_standard_deviation = 0;
  double replicate_upper_quantile = 0;
};

// A statistic with its test.
struct SimulatedStatistic {
  double value = 0;
  ResamplingResult test;
};

}  // namespace calibd

#endif  // CALIBD_CORE_RESAMPLING_H_
