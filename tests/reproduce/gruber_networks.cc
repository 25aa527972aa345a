#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "calibd/core/validation.h"
#include "check.h"
#include "client/cli/files/npy_reader.h"
#include "gruber.h"

namespace calibd::reproduce {
namespace {

std::optional<cli::NpyArray> ReadArray(const std::filesystem::path& path) {
  auto content = ReadCompressed(path);
  if (!content.has_value()) return std::nullopt;
  absl::StatusOr<cli::NpyArray> array = cli::ReadNpy(*content, path.string());
  if (array.ok()) return *std::move(array);
  Verdict(std::string(array.status().message()), false);
  return std::nullopt;
}

std::optional<PredictionSet> ReadLogits(const std::filesystem::path& folder,
                                        const std::string& network) {
  auto scores = ReadArray(folder / (network + ".scores.npy.xz"));
  const auto targets = ReadArray(folder / (network + ".targets.npy.xz"));
  if (!scores.has_value() || !targets.has_value()) {
    absl::PrintF(
        "left out: %s of G6 to G8, there are no logits in '%s'; they are files of "
        "github.com/luferrer/expected_cost\n",
        network, folder.string());
    return std::nullopt;
  }
  PredictionSet set;
  set.class_count = scores->column_count;
  set.probabilities = std::move(scores->values);
  set.labels.assign(targets->values.begin(), targets->values.end());
  if (!SoftmaxRows(set.probabilities, set.class_count).empty()) {
    Verdict("the logits of " + network + " are finite", false);
    return std::nullopt;
  }
  return set;
}

// What an independent implementation found. The tolerances follow from the digits of its numbers:
// an estimate of ridges has an eigenvalue problem in it.
struct Expected {
  EstimatorKind kind;
  // NaN here and below: not known.
  double parameter;
  double squared_error;
  double tolerance;
  // sqrt(risk) x 100, and the excess x 1e5.
  double root_risk = NAN;
  double excess = NAN;
};

void Check(const std::string& line, const Lens& lens, const SelectionResult& result,
           const std::vector<Expected>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const EstimatorResult& estimator = result.estimators[i];
    const Expected& row = expected[i];
    const std::string name = line + " " + NameOf(lens, row.kind);
    absl::PrintF("      %s: CE^2 %.10f, sqrt(risk) x 100 %.3f, excess x 1e5 %.1f +- %.1f\n", name,
                 estimator.squared_error, 100 * estimator.root_risk, 1e5 * estimator.excess,
                 1e5 * estimator.excess_standard_error);
    if (!std::isnan(row.parameter)) {
      Relative(name + ", parameter", estimator.grid[estimator.best], row.parameter, 1e-12);
    }
    Near(name + ", CE^2", estimator.squared_error, row.squared_error, row.tolerance);
    if (!std::isnan(row.root_risk)) {
      Near(name + ", sqrt(risk) x 100", 100 * estimator.root_risk, row.root_risk, 2e-3);
    }
    if (!std::isnan(row.excess)) {
      Near(name + ", excess x 1e5", 1e5 * estimator.excess, row.excess,
           0.001 * std::abs(row.excess) + (std::abs(row.excess) < 10 ? 0.05 : 0.5));
    }
  }
}

}  // namespace

void ReproduceMoreNetworks(const std::filesystem::path& folder) {
  const Lens top = Lens::TopLabel();
  const Lens canonical = Lens::Canonical();
  if (const auto set = ReadLogits(folder, "cifar100_vgg19_bn")) {
    Check("G6 cifar100_vgg19_bn", top, Select(set->view(), top, TopLabelEstimators()),
          {{kFifteenBins, 15, .0511627502, 6e-8, 18.579, -242.9},
           {kBins, 85, .0636716511, 7e-8, 18.325},
           {kProduct, 1e-11, .0558503, 5.6e-6, 18.218},
           {kFunction, 1e-9, .0594092, 6e-6, 18.256},
           {kDensity, .001, .0593084, 6e-6, 18.101, -418}});
    std::vector<EstimatorGrid> grids = CanonicalEstimators();
    grids.push_back({kDensity, TopLabelEstimators().back().values});
    Check("G7 cifar100_vgg19_bn", canonical,
          Select(set->view().rows(0, 2000), canonical, std::move(grids)),
          {{kFunction, std::pow(10, -1.5), .01947, 7e-6, NAN, -1.9},
           {kProduct, 1e-3, .03775, 9e-6, NAN, -1.1},
           {kDensity, .2, .05372, 1e-5, NAN, 3.0}});
  }
  for (const auto& [network, expected] :
       {std::pair(std::string("cifar10_vgg19_bn"),
                  std::vector<Expected>{{kBins, 100, .00933108832, 1e-8},
                                        {kProduct, NAN, .0047834, 5.3e-7},
                                        {kFunction, NAN, .0071466, 7.7e-7},
                                        {kDensity, NAN, .0067954, 7.3e-7}}),
        std::pair(std::string("pathmnist_resnet50"),
                  std::vector<Expected>{{kBins, 45, .00987929436, 1e-8},
                                        {kProduct, NAN, .0074338, 8e-7},
                                        {kFunction, NAN, .0095691, 1e-6},
                                        {kDensity, NAN, .0100510, 1.1e-6}})}) {
    const auto set = ReadLogits(folder, network);
    if (!set.has_value()) continue;
    std::vector<EstimatorGrid> grids = TopLabelEstimators();
    // 15 bins.
    grids.erase(grids.begin());
    Check("G8 " + network, top, Select(set->view(), top, std::move(grids)), expected);
  }
}

}  // namespace calibd::reproduce
