// Valid inputs at the limits of validity: no estimate may be NaN or infinite, nothing may crash,
// and a missing result comes with an error that gives the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "calibd/core/evaluation.h"
#include "calibd/core/generator.h"
#include "calibd/core/validation.h"
#include "support/draw.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

struct Hostile {
  std::string name;
  PredictionSet set;
};

PredictionSet Make(std::size_t class_count, std::size_t n) {
  PredictionSet set;
  set.class_count = class_count;
  set.probabilities.assign(n * class_count, 0);
  set.labels.assign(n, 0);
  return set;
}

// Row i predicts class i % m with certainty; the label is `shift` classes further.
PredictionSet Certain(std::size_t m, std::size_t n, std::size_t shift) {
  PredictionSet set = Make(m, n);
  for (std::size_t i = 0; i < n; ++i) {
    set.probabilities[i * m + i % m] = 1;
    set.labels[i] = static_cast<std::int32_t>((i + shift) % m);
  }
  return set;
}

std::vector<Hostile> Inputs() {
  std::vector<Hostile> inputs;
  for (const std::size_t m : {2U, 3U, 10U, 1000U}) {
    inputs.push_back({"certain and right", Certain(m, 40, 0)});
    inputs.push_back({"certain and wrong", Certain(m, 40, 1)});
    for (const std::size_t n : {2U, 3U, 5U})
      inputs.push_back({"few", Draw(GeneratorSpec::M1(m), n, 7)});
  }
  inputs.push_back({"two rows of very many classes", Draw(GeneratorSpec::M1(100000), 2, 7)});
  PredictionSet one_class = Draw(GeneratorSpec::M1(10), 50, 7);
  one_class.labels.assign(50, 4);  // all other classes never occur
  inputs.push_back({"one class alone", one_class});
  PredictionSet tiny = Make(3, 30);
  for (std::size_t i = 0; i < 30; ++i) {
    const double least = std::numeric_limits<double>::denorm_min();
    const std::vector<double> row = {1, least, i % 2 == 0 ? 0 : 1e-300};
    std::copy(row.begin(), row.end(), &tiny.probabilities[3 * i]);
    tiny.labels[i] = static_cast<std::int32_t>(i % 3);
  }
  inputs.push_back({"denormal", tiny});
  PredictionSet off = Draw(GeneratorSpec::M1(4), 40, 7);
  for (double& p : off.probabilities) p *= 0.9995;  // sums that are barely valid
  inputs.push_back({"rows that sum to .9995", off});
  return inputs;
}

// Checks that the numbers of a result are finite, and names the others in a message.
class Finite {
 public:
  void Add(const std::string& what, double value) {
    if (!std::isfinite(value)) bad_ += what + " ";
  }
  void AddPositive(const std::string& what, double value) {
    if (!(value >= 0) || !std::isfinite(value)) bad_ += what + " ";
  }
  void AddProbability(const std::string& what, double value) {
    if (!(value >= 0 && value <= 1)) bad_ += what + " ";
  }
  [[nodiscard]] const std::string& bad() const { return bad_; }

 private:
  std::string bad_;
};

void Check(const Evaluation& evaluation, Finite& finite) {
  for (const Evaluation::OneLens& lens : evaluation.lenses) {
    if (!lens.result.ok()) {
      EXPECT_EQ(lens.result.status().code(), absl::StatusCode::kFailedPrecondition);
      continue;
    }
    const LensTestResult& result = *lens.result;
    if (lens.cme.has_value() && lens.cme->ok()) {
      finite.AddPositive("cme", (*lens.cme)->statistic);
      finite.AddProbability("cme.p", (*lens.cme)->p_value);
    }
    const std::string name = lens.lens.name();
    finite.AddPositive(name + ".biased", result.test.skce.biased);
    finite.Add(name + ".unbiased", result.test.skce.unbiased);
    finite.AddProbability(name + ".p", result.test.p_value);
    finite.AddPositive(name + ".sd", result.test.replicate_standard_deviation);
    finite.AddPositive(name + ".floor_b", result.null_moments.Biased().upper_quantile);
    finite.Add(name + ".floor_uq", result.null_moments.Unbiased().upper_quantile);
    for (const LensTestResult::OneClass& one : result.classes) {
      finite.Add(name + ".class", one.skce.unbiased);
      finite.Add(name + ".class_floor", one.null_moments.Unbiased().upper_quantile);
    }
  }
  for (const RunningBlock& block : evaluation.blocks) {
    finite.Add("block", block.moments.mean);
    finite.AddPositive("block.m2", block.moments.m2);
    if (block.noise_floor) finite.AddPositive("block.floor", block.noise_floor->upper_quantile);
  }
  finite.AddPositive("brier", evaluation.scores.brier);
  finite.AddPositive("log_loss", evaluation.scores.log_loss);
  finite.AddPositive("entropy", evaluation.scores.mean_entropy);
  finite.Add("brier.miscalibration", evaluation.brier.miscalibration);
  for (const Evaluation::OneBinnedError& error : evaluation.binned_errors) {
    finite.AddPositive("ece", error.error.ece);
    finite.AddPositive("mce", error.error.mce);
  }
  if (evaluation.consistency) {
    finite.AddProbability("consistency.p", evaluation.consistency->p_value);
  }
  for (const EventReliability& reliability : evaluation.reliability) {
    for (const ReliabilityBin& bin : reliability.bins) {
      EXPECT_GE(bin.n, 1u);
      finite.AddProbability("frequency", bin.frequency);
      finite.AddProbability("consistency.lower", bin.consistency.lower);
      finite.AddProbability("consistency.upper", bin.consistency.upper);
    }
    for (const BandPoint& point : reliability.corp.band) {
      finite.AddProbability("corp band", point.consistency.lower);
    }
    finite.Add("murphy", reliability.murphy.miscalibration);
  }
}

TEST(HostileValuesTest, EverythingStaysFinite) {
  for (const Hostile& hostile : Inputs()) {
    const PredictionBatch batch = hostile.set.view();
    SCOPED_TRACE(hostile.name + ", n = " + std::to_string(batch.size()) +
                 ", m = " + std::to_string(batch.class_count));
    ASSERT_TRUE(ValidateBatch(batch).ok());
    EvaluationOptions options;
    std::vector<Lens> lenses = {Lens::TopLabel(), Lens::ClassWise(), Lens::OneClass(1)};
    if (batch.class_count > 2) lenses.push_back(Lens::TopK(2));
    std::vector<std::int32_t> groups(batch.class_count, 1);
    groups[0] = 0;
    lenses.push_back(Lens::Grouped(groups));
    for (const Lens& lens : lenses) {
      options.lenses.push_back({.lens = lens, .kernel = KernelOfLens(lens, {})});
    }
    options.block_sizes = {2, 3};
    options.replicates = 99;
    options.consistency_replicates = 99;
    options.cme_test_locations = 2;
    options.reliability_classes = {0};
    options.band_replicates = 99;
    std::vector<std::pair<Distance, double>> kernels;
    for (const Distance distance :
         {Distance::kTotalVariation, Distance::kEuclidean, Distance::kSquaredEuclidean}) {
      // A tiny bandwidth, an enormous one, and one in between.
      for (const double bandwidth : {1e-300, 0.5, 1e300}) kernels.emplace_back(distance, bandwidth);
    }
    // These take long. What depends on the distance is the same for any number of classes.
    if (batch.class_count >= 1000) kernels.resize(batch.class_count == 1000 ? 3 : 1);
    for (const auto& [distance, bandwidth] : kernels) {
      options.lenses[0].kernel.rule.distance = distance;
      options.lenses[0].kernel.rule.bandwidth = {
          .kind = BandwidthRule::Kind::kFixed, .fixed = bandwidth, .alpha = {}};
      const auto evaluation = Evaluate(batch, options);
      ASSERT_TRUE(evaluation.ok()) << evaluation.status();
      Finite finite;
      Check(*evaluation, finite);
      EXPECT_EQ(finite.bad(), "");
    }
  }
}

TEST(HostileValuesTest, EqualRowsHaveFiniteResults) {
  PredictionSet set = Make(3, 20);
  for (std::size_t i = 0; i < 20; ++i) set.probabilities[3 * i] = 1;
  for (const Distance distance : {Distance::kTotalVariation, Distance::kCityblock,
                                  Distance::kEuclidean, Distance::kSquaredEuclidean}) {
    for (const auto kind :
         {BandwidthRule::Kind::kMedian, BandwidthRule::Kind::kMedianOffDiagonal}) {
      EvaluationOptions options;
      options.lenses[0].kernel.rule = {.distance = distance,
                                       .bandwidth = {.kind = kind, .fixed = 0, .alpha = {}}};
      const auto evaluation = Evaluate(set.view(), options);
      ASSERT_TRUE(evaluation.ok()) << evaluation.status();
      EXPECT_TRUE(evaluation->lenses[0].result->is_constant);
      Finite finite;
      Check(*evaluation, finite);
      EXPECT_EQ(finite.bad(), "");
    }
  }
}

TEST(HostileValuesTest, OneRowIsTooFew) {
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 1, 7);
  const absl::Status status = Evaluate(set.view(), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1"));
}

}  // namespace
}  // namespace calibd
