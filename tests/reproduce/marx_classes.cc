#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "calibd/core/binned_error.h"
#include "calibd/core/lens_evaluation.h"
#include "calibd/core/scores.h"
#include "marx.h"
#include "training.h"

namespace calibd::reproduce {
namespace {

constexpr double kWeight = 100;

std::vector<std::int32_t> LabelsOf(const DataPart& part) {
  return {part.targets.begin(), part.targets.end()};
}

// The p-value of the exact test of SKCE_uq.
double PValue(const PredictionBatch& batch) {
  const Lens lens = Lens::Canonical();
  const LensTestOptions options{.kernel = KernelOfLens(lens, {}),
                                .replicates = 999,
                                .seed = 1,
                                .null = NullHypothesis::kForecast};
  return TestLens(batch, lens, options)->test.p_value;
}

Metrics Measure(Matrix logits, const std::vector<std::int32_t>& labels,
                const FeatureCondition& condition) {
  logits = (logits.colwise() - logits.rowwise().maxCoeff()).array().exp();
  logits.array().colwise() /= logits.rowwise().sum().array();
  const PredictionBatch batch{{logits.data(), static_cast<std::size_t>(logits.size())},
                              labels,
                              static_cast<std::size_t>(logits.cols())};
  LossOptions options;
  options.condition = condition;
  options.gradient = false;
  const Scores scores = *ComputeScores(batch);
  return {
      {"log loss", scores.log_loss},
      {"entropy", scores.mean_entropy},
      {"accuracy", scores.accuracy},
      {"ECE", EstimateBinnedError(batch, TopLabelBins{15})->ece},
      {"KCE given features",
       Compute({ForecastKind::kProbabilities, batch.probabilities, batch.class_count, labels, {}},
               options)
           .mmd_squared},
      {"p of SKCE", PValue(batch)}};
}

Metrics TrainClasses(const TrainingStart& start, double weight) {
  const DataSplit& split = start.split;
  const std::vector<std::int32_t> labels = LabelsOf(split.train);
  LossOptions options;
  options.mmd_weight = weight;
  const auto gradient_of = [&](const std::vector<std::size_t>& rows, const Matrix& logits) {
    std::vector<std::int32_t> truth;
    for (const std::size_t row : rows) truth.push_back(labels[row]);
    options.condition = start.Given(split.train.features(rows, Eigen::all));
    const auto width = static_cast<std::size_t>(logits.cols());
    const std::span<const double> values(logits.data(), static_cast<std::size_t>(logits.size()));
    return RowsOf(Compute({ForecastKind::kLogits, values, width, truth, {}}, options).gradient,
                  logits.cols());
  };
  const Network network = start.Train({.epochs = 100, .rate = 1e-3}, gradient_of, nullptr);
  return Measure(network.Evaluate(split.test.features), LabelsOf(split.test),
                 start.Given(split.test.features));
}

PairedRuns Train(const std::string& name, const DataPart& data) {
  PairedRuns runs(data, 2, {0, kWeight}, TrainClasses);
  runs.Print("F5 " + name);
  const Mean mean = MeanOf(runs.ChangeOf("log loss", 1));
  const double errors = mean.mean / mean.standard_error;
  Verdict(absl::StrFormat("F5 %s, change of the log loss in standard errors: %.1f, expected below "
                          "-3",
                          name, errors),
          errors < -3);
  return runs;
}

}  // namespace

void ReproduceClasses(const std::filesystem::path& folder) {
  if (const auto data = ReadBreastCancer(folder)) {
    const PairedRuns runs = Train("BREAST-CANCER", *data);
    const auto change = [&](const char* metric, double expected, double error) {
      NearMean(absl::StrFormat("F5 BREAST-CANCER, change of %s", metric), runs.ChangeOf(metric, 1),
               expected, error);
    };
    change("log loss", -.119, .020);
    change("ECE", -.0003, .002);
    change("accuracy", -.006, .002);
  } else {
    absl::PrintF("left out: F5 BREAST-CANCER, there is no wdbc.data in '%s'\n", folder.string());
  }
  if (const auto data = ReadHeartDisease(folder)) {
    (void)Train("HEART-DISEASE", *data);
  } else {
    absl::PrintF("left out: F5 HEART-DISEASE, there is no heart_disease_uci.csv in '%s'\n",
                 folder.string());
  }
  absl::PrintF("left out: F5 DRY-BEAN, ONLINE-SHOPPERS and ADULT\n");
}

}  // namespace calibd::reproduce
