#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_format.h"
#include "calibd/core/bandwidth.h"
#include "calibd/core/binned_error.h"
#include "calibd/core/generator_closed_forms.h"
#include "calibd/core/moments.h"
#include "calibd/core/running_skce.h"
#include "calibd/core/skce.h"
#include "check.h"
#include "widmann.h"
#include "widmann_pictures.h"

namespace calibd::reproduce {
namespace {

using Estimates = std::map<std::string, double>;

// SKCE_ul: the mean over the pairs (1, 2), (3, 4), ...
double Linear(const PredictionBatch& batch, const Kernel& kernel) {
  RunningBlockSkce running = *RunningBlockSkce::Create(2, batch.class_count, kernel);
  running.Add(batch.probabilities, batch.labels);
  return running.moments().mean;
}

// The eight estimates of a set; the names are those of the columns `estimator` and `bandwidth`.
Estimates EstimateAll(const PredictionBatch& batch, double mean_bandwidth) {
  Estimates estimates = {
      {"ECE_uniform-", EstimateBinnedError(batch, UniformBins{10})->ece},
      {"ECE_dynamic-", EstimateBinnedError(batch, MedianVarianceBins{.min_size = 5})->ece}};
  const double median = *MedianBandwidth(batch.probabilities, batch.class_count);
  for (const auto& [name, bandwidth] :
       {std::pair("median", median), std::pair("mean", mean_bandwidth)}) {
    const Kernel kernel = *Kernel::ExponentialTotalVariation(bandwidth);
    const QuadraticSkce skce = *EstimateQuadraticSkce(batch, kernel);
    estimates[absl::StrCat("SKCEb", name)] = skce.biased;
    estimates[absl::StrCat("SKCEuq", name)] = skce.unbiased;
    estimates[absl::StrCat("SKCEul", name)] = Linear(batch, kernel);
  }
  return estimates;
}

// What the panels of one model have missed.
struct Panels {
  int count = 0;
  int means_missed = 0;
  int deviations_missed = 0;
  double worst_z = 0;
  double worst_ratio = 1;
};

}  // namespace

void ReproduceEstimates(const std::filesystem::path& data, const Scope& scope) {
  const bool full = scope.full;
  const PublishedTable table = ReadPublished(data / "figures_3_to_34.csv");
  std::map<ReferenceModel, std::vector<const std::vector<std::string>*>> models;
  for (const auto& row : table.rows) models[table.Model(row)].push_back(&row);
  std::map<std::string, Panels> totals;
  double worst_true_value = 0;
  PanelsByName<EstimatePanel> figure;
  for (const auto& [model, panels] : models) {
    const auto in_figure = std::ranges::find(ModelsOfFigures(), model) - ModelsOfFigures().begin();
    const bool large = model.class_count >= 1000;
    const std::size_t sets = full ? 10000 : (large ? 100 : 1000);
    const GeneratorSpec spec = model.Spec();
    const double mean_bandwidth = *MeanTotalVariation(spec.alpha);
    std::vector<Estimates> drawn(sets);
    ForEachSet(model, sets, [&](std::size_t i, const PredictionBatch& batch) {
      drawn[i] = EstimateAll(batch, mean_bandwidth);
    });
    for (const std::vector<std::string>* row : panels) {
      const std::string& estimator = table.Text(*row, "estimator");
      const std::string& bandwidth = table.Text(*row, "bandwidth");
      std::vector<double> values;
      for (const Estimates& estimates : drawn)
        values.push_back(estimates.at(estimator + bandwidth));
      const RunningMoments moments = MomentsOf(values);
      const double deviation = std::sqrt(moments.Variance());
      const double published_deviation = table.Number(*row, "sd_of_histogram");
      const double published = table.Number(*row, "mean");
      const double error =
          published_deviation * std::sqrt(1 / static_cast<double>(sets) + 1 / kPublishedSets);
      const double z = (moments.mean - published) / error;
      const double ratio = deviation / published_deviation;
      const double bound = large ? 0.3 : 0.15;
      Panels& total = totals[estimator + " " + bandwidth];
      ++total.count;
      if (std::abs(z) > std::abs(total.worst_z)) total.worst_z = z;
      if (std::abs(ratio - 1) > std::abs(total.worst_ratio - 1)) total.worst_ratio = ratio;
      const bool mean_missed = std::abs(z) > 4;
      const bool deviation_missed = std::abs(ratio - 1) > bound;
      total.means_missed += mean_missed ? 1 : 0;
      total.deviations_missed += deviation_missed ? 1 : 0;
      if (mean_missed || deviation_missed) {
        absl::PrintF(
            "      W1 %s %s, %s: mean %.6g, published %.6g (z %+.1f); sd %.4g, published "
            "%.4g\n",
            estimator, bandwidth, model.Name(), moments.mean, published, z, deviation,
            published_deviation);
      }
      if (static_cast<std::size_t>(in_figure) < ModelsOfFigures().size()) {
        figure[{estimator + bandwidth, in_figure}] = {
            .first_edge = table.Number(*row, "first_edge"),
            .bin_width = table.Number(*row, "bin_width"),
            .counts = NumbersOf(table.Text(*row, "counts")),
            .true_value = table.Number(*row, "true_value"),
            .estimates = std::move(values)};
      }
      if (estimator == "ECE_uniform") {
        const double true_value = table.Number(*row, "true_value");
        const double closed_form = *ExpectedCalibrationError(spec);
        worst_true_value = std::max(
            worst_true_value, std::abs(closed_form - true_value) / std::max(true_value, 1e-300));
        if (true_value == 0) worst_true_value = std::max(worst_true_value, closed_form);
      }
    }
  }
  for (const auto& [name, total] : totals) {
    Verdict(absl::StrFormat("W1 %s, %d panels: means with |z| > 4: %d (worst z %+.1f); standard "
                            "deviations out of bounds: %d (worst ratio %.2f)",
                            name, total.count, total.means_missed, total.worst_z,
                            total.deviations_missed, total.worst_ratio),
            total.means_missed == 0 && total.deviations_missed == 0);
  }
  if (!totals.empty()) {
    DrawEstimates(scope.pictures, figure);
    Verdict(absl::StrFormat("W2 closed form of the ECE of %d models: largest relative difference "
                            "%.1g, expected at most 1e-12",
                            models.size(), worst_true_value),
            worst_true_value <= 1e-12);
  }
}

}  // namespace calibd::reproduce
