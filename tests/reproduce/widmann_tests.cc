#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "calibd/core/bandwidth.h"
#include "calibd/core/bootstrap.h"
#include "calibd/core/consistency_resampling.h"
#include "calibd/core/generator_closed_forms.h"
#include "calibd/core/p_value.h"
#include "calibd/core/running_skce.h"
#include "check.h"
#include "widmann.h"
#include "widmann_pictures.h"

namespace calibd::reproduce {
namespace {

constexpr std::int32_t kReplicates = 1000;
// The levels at which the curves are compared, as indices of the published values.
constexpr std::array<std::size_t, 4> kLevels = {1, 5, 10, 50};

// p-values by the name of the test.
using PValues = std::map<std::string, double>;

// The tests that need no replicates.
void AddFastTests(const PredictionBatch& batch, const std::string& bandwidth, const Kernel& kernel,
                  PValues& values) {
  const double bound = Kernel::DistributionFreeBound();
  const std::size_t n = batch.size();
  const QuadraticSkce skce = *EstimateQuadraticSkce(batch, kernel);
  RunningBlockSkce linear = *RunningBlockSkce::Create(2, batch.class_count, kernel);
  linear.Add(batch.probabilities, batch.labels);
  const std::string free = bandwidth + "_distribution_free";
  values["SKCEb_" + free] = BiasedPValueUpperBound(skce.biased, n, bound);
  values["SKCEuq_" + free] = UnbiasedPValueUpperBound(skce.unbiased, n, bound);
  values["SKCEul_" + free] = UnbiasedPValueUpperBound(linear.moments().mean, n, bound);
  const auto normal = TestMeanIsPositive(linear.moments());
  values["SKCEul_" + bandwidth + "_asymptotic"] = normal.has_value() ? normal->p_value : 1;
}

// The tests by resampling. seed: that of the replicates.
void AddResampledTests(const PredictionBatch& batch, std::uint64_t seed, PValues& values) {
  const BootstrapOptions options{.replicates = kReplicates, .seed = seed};
  values["ECE_uniform"] = ConsistencyTest(batch, UniformBins{10}, options)->p_value;
  values["ECE_dynamic"] =
      ConsistencyTest(batch, MedianVarianceBins{.min_size = 5}, options)->p_value;
}

void AddBootstrapTest(const PredictionBatch& batch, const std::string& bandwidth,
                      const Kernel& kernel, std::uint64_t seed, PValues& values) {
  const BootstrapOptions options{.replicates = kReplicates, .seed = seed};
  values["SKCEuq_" + bandwidth + "_asymptotic"] = BootstrapTest(batch, kernel, options)->p_value;
}

// The share of wrong results at the levels 0, .01, ..., 1.
std::vector<double> ErrorsOf(std::span<const double> p_values, bool calibrated) {
  std::vector<double> errors;
  for (int level = 0; level <= 100; ++level) {
    double rejected = 0;
    for (const double p : p_values) rejected += p <= level / 100.0 ? 1 : 0;
    rejected /= static_cast<double>(p_values.size());
    errors.push_back(calibrated ? rejected : 1 - rejected);
  }
  return errors;
}

// Compares the errors of one test on `sets` sets of one model with the published ones. Returns
// whether all levels agree: the shares of both sides have binomial errors, and a p-value that
// counts its own statistic among the replicates differs from the published one by 1 / replicates.
bool Compare(const std::string& line, const TestPanel& errors, std::size_t sets, bool calibrated,
             bool print) {
  const auto n = static_cast<double>(sets);
  bool agrees = true;
  std::string text;
  for (const std::size_t level : kLevels) {
    const double measured = errors.measured[level];
    const double published = errors.published.at(level);
    const double pooled = (measured * n + published * kPublishedSets) / (n + kPublishedSets);
    const double error = std::sqrt(pooled * (1 - pooled) * (1 / n + 1 / kPublishedSets));
    agrees = agrees && std::abs(measured - published) <= 4 * error + 0.002;
    absl::StrAppendFormat(&text, " %.4f (%.4f)", measured, published);
  }
  if (print || !agrees) {
    const std::string whole = absl::StrFormat("%s, %s errors (published) at .01, .05, .1, .5:%s",
                                              line, calibrated ? "type I" : "type II", text);
    if (print) {
      Verdict(whole, agrees);
    } else {
      absl::PrintF("      %s\n", whole);
    }
  }
  return agrees;
}

}  // namespace

void ReproduceTests(const std::filesystem::path& data, const Scope& scope) {
  const bool full = scope.full;
  const PublishedTable table = ReadPublished(data / "pvalue_curves.csv");
  const auto main_number = [](const ReferenceModel& model) {
    const std::vector<ReferenceModel>& main = ModelsOfFigures();
    return static_cast<std::size_t>(std::ranges::find(main, model) - main.begin());
  };
  std::map<ReferenceModel, std::vector<const std::vector<std::string>*>> models;
  for (const auto& row : table.rows) {
    const ReferenceModel model = table.Model(row);
    if (full || main_number(model) < ModelsOfFigures().size()) models[model].push_back(&row);
  }
  PanelsByName<TestPanel> figure;
  int panels = 0;
  int missed = 0;
  for (const auto& [model, rows] : models) {
    const std::size_t sets = full ? 10000 : 1000;
    // Tests by resampling take a thousand times as long.
    const std::size_t resampled_sets = full ? 1000 : 300;
    const std::size_t main = main_number(model);
    const bool in_paper = main < ModelsOfFigures().size();
    const double mean_bandwidth = *MeanTotalVariation(model.Spec().alpha);
    std::vector<PValues> drawn(sets);
    ForEachSet(model, sets, [&](std::size_t i, const PredictionBatch& batch) {
      if (i < resampled_sets) AddResampledTests(batch, i, drawn[i]);
      const double median = *MedianBandwidth(batch.probabilities, batch.class_count);
      for (const auto& [name, bandwidth] :
           {std::pair("median", median), std::pair("mean", mean_bandwidth)}) {
        const Kernel kernel = *Kernel::ExponentialTotalVariation(bandwidth);
        AddFastTests(batch, name, kernel, drawn[i]);
        if (i < resampled_sets) AddBootstrapTest(batch, name, kernel, i, drawn[i]);
      }
    });
    for (const std::vector<std::string>* row : rows) {
      const std::string& test = table.Text(*row, "test");
      std::vector<double> p_values;
      for (const PValues& values : drawn) {
        if (const auto value = values.find(test); value != values.end()) {
          p_values.push_back(value->second);
        }
      }
      const std::string line =
          absl::StrFormat("%s %s %s", in_paper ? "W3" : "W4",
                          in_paper ? absl::StrCat("M", main + 1) : model.Name(), test);
      const bool calibrated = model.pi == 0;
      const TestPanel errors{
          .published = NumbersOf(table.Text(*row, "values_at_levels_0_to_1_by_0.01")),
          .measured = ErrorsOf(p_values, calibrated)};
      ++panels;
      if (!Compare(line, errors, p_values.size(), calibrated, in_paper)) ++missed;
      if (in_paper) figure[{test, main}] = errors;
    }
  }
  if (!figure.empty()) DrawTests(scope.pictures, figure);
  if (full) {
    Verdict(
        absl::StrFormat("W4 %d panels of p-values, missed: %d, expected at most 2", panels, missed),
        missed <= 2);
  }
}

}  // namespace calibd::reproduce
