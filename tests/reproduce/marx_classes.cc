#include <optional>

#include "absl/strings/str_format.h"
#include "calibd/core/binned_error.h"
#include "calibd/core/lens_evaluation.h"
#include "calibd/core/scores.h"
#include "marx.h"
#include "training_classes.h"

namespace calibd::reproduce {
namespace {

constexpr double kWeight = 100;

// The p-value of the exact test of SKCE_uq.
double PValue(const PredictionBatch& batch) {
  const Lens lens = Lens::Canonical();
  const LensTestOptions options{.kernel = KernelOfLens(lens, {}),
                                .replicates = 999,
                                .seed = 1,
                                .null = NullHypothesis::kForecast};
  return TestLens(batch, lens, options)->test.p_value;
}

Metrics TrainClasses(const TrainingStart& start, double weight) {
  const DataPart& test = start.split->test;
  const PredictionSet set = Predict(
      TrainClassifier(start, {.epochs = 100, .rate = 1e-3}, weight, /*best_epoch=*/false), test);
  const PredictionBatch batch = set.view();
  LossOptions options;
  options.condition = start.Given(test.features);
  options.gradient = false;
  const Scores scores = *ComputeScores(batch);
  return {
      {"log loss", scores.log_loss},
      {"entropy", scores.mean_entropy},
      {"accuracy", scores.accuracy},
      {"ECE", EstimateBinnedError(batch, TopLabelBins{15})->ece},
      {"KCE given features",
       Compute(
           {ForecastKind::kProbabilities, batch.probabilities, batch.class_count, batch.labels, {}},
           options)
           .penalty_value},
      {"p of SKCE", PValue(batch)}};
}

}  // namespace

void ReproduceClasses(const std::filesystem::path& folder) {
  const auto data = ReadBreastCancer(folder);
  if (!data.has_value()) {
    absl::PrintF("left out: F5, there is no wdbc.data in '%s'\n", folder.string());
    return;
  }
  const PairedRuns runs(AtRandom(*data), 2, 16, {0, kWeight}, TrainClasses);
  runs.Print("F5 BREAST-CANCER");
  const auto change = [&](const char* metric, double expected, double error) {
    NearMean(absl::StrFormat("F5 BREAST-CANCER, change of %s", metric), runs.ChangeOf(metric, 1),
             expected, error);
  };
  change("log loss", -.119, .020);
  change("ECE", -.0003, .002);
  change("accuracy", -.006, .002);
  const Mean mean = MeanOf(runs.ChangeOf("log loss", 1));
  const double errors = mean.mean / mean.standard_error;
  Verdict(absl::StrFormat("F5 BREAST-CANCER, change of the log loss in standard errors: %.1f, "
                          "expected below -3",
                          errors),
          errors < -3);
}

}  // namespace calibd::reproduce
