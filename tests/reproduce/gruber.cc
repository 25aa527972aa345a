// Repeats results of Gruber & Bach, "Optimizing Estimators of Squared Calibration Errors in
// Classification", 2025. Each line has the measured value, its expectation and a verdict. The
// expectations of G2 to G4 come from an independent implementation in double precision.
#include "gruber.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "calibd/core/calibration_function.h"
#include "calibd/core/calibration_risk.h"
#include "calibd/core/estimator_selection.h"
#include "check.h"
#include "support/test_data.h"

namespace calibd::reproduce {
namespace {

// softmax(factor ln P) for each row.
std::vector<double> Tempered(const std::vector<double>& logs, std::size_t m, double factor) {
  std::vector<double> result(logs.size());
  for (std::size_t first = 0; first < logs.size(); first += m) {
    const double largest = *std::max_element(&logs[first], &logs[first] + m);
    double sum = 0;
    for (std::size_t k = first; k < first + m; ++k) {
      sum += result[k] = std::exp(factor * (logs[k] - largest));
    }
    for (std::size_t k = first; k < first + m; ++k) result[k] /= sum;
  }
  return result;
}

// Figure 1: the risk of <f - softmax(theta ln P), ..> is smallest at the truth, theta = 1.
void ReproduceG1() {
  constexpr std::size_t kRows = 500;
  constexpr std::size_t kClasses = 5;
  constexpr std::size_t kRuns = 100;
  constexpr std::size_t kThetas = 200;
  constexpr std::size_t kTruth = 100;
  const auto theta = [](std::size_t i) { return std::exp2(-5 + 0.05 * static_cast<double>(i)); };
  std::mt19937_64 random(1);
  std::gamma_distribution<double> gamma(1.04);
  std::uniform_real_distribution<double> uniform;
  std::vector<std::vector<double>> risks(kThetas, std::vector<double>(kRuns));
  std::vector<double> minimisers;
  std::vector<double> accuracies;
  std::vector<double> squared_errors;
  for (std::size_t run = 0; run < kRuns; ++run) {
    // ln of a Gamma(0.04) variable, which may be too small for a double.
    std::vector<double> logs(kRows * kClasses);
    for (double& log : logs) log = std::log(gamma(random)) + std::log(1 - uniform(random)) / 0.04;
    const std::vector<double> truth = Tempered(logs, kClasses, 1);
    ResidualSample rows{
        .columns = kClasses, .predictions = Tempered(logs, kClasses, 0.3), .residuals = {}};
    rows.residuals = rows.predictions;
    double hits = 0;
    for (std::size_t first = 0; first < logs.size(); first += kClasses) {
      const double drawn = uniform(random);
      std::size_t label = 0;
      for (double sum = truth[first]; drawn >= sum && label + 1 < kClasses;) {
        sum += truth[first + ++label];
      }
      rows.residuals[first + label] -= 1;
      const double largest = *std::max_element(&truth[first], &truth[first] + kClasses);
      hits += truth[first + label] == largest ? 1 : 0;
    }
    accuracies.push_back(hits / kRows);
    std::size_t best = 0;
    for (std::size_t t = 0; t < kThetas; ++t) {
      FunctionValues values{
          .width = kClasses, .left = Tempered(logs, kClasses, theta(t)), .right = {}};
      for (std::size_t k = 0; k < logs.size(); ++k) {
        values.left[k] = rows.predictions[k] - values.left[k];
      }
      risks[t][run] = ComputeCalibrationRisk(rows, values, {})->risk;
      if (risks[t][run] < risks[best][run]) best = t;
      if (t == kTruth) squared_errors.push_back(SquaredCalibrationError(values));
    }
    minimisers.push_back(theta(best));
  }
  const auto smallest =
      static_cast<std::size_t>(std::min_element(risks.begin(), risks.end(),
                                                [](const auto& a, const auto& b) {
                                                  return MeanOf(a).mean < MeanOf(b).mean;
                                                }) -
                               risks.begin());
  Verdict(absl::StrFormat("G1 theta of the smallest mean risk: %.3f, expected 0.93 to 1.07",
                          theta(smallest)),
          theta(smallest) >= 0.93 && theta(smallest) <= 1.07);
  struct Excess {
    std::size_t index;
    double expected;
    double standard_error;
  };
  // theta = 0.5, 0.81, 1.23 and 2.
  for (const auto& [index, expected, standard_error] : {Excess{80, 5.8e-4, 0.9e-4},
                                                        {94, 6.6e-5, 3.5e-5},
                                                        {106, 7.8e-5, 3.5e-5},
                                                        {120, 6.9e-4, 1.2e-4}}) {
    std::vector<double> excess = risks[index];
    for (std::size_t run = 0; run < kRuns; ++run) excess[run] -= risks[kTruth][run];
    NearMean(absl::StrFormat("G1 excess risk at theta = %.2f over theta = 1", theta(index)), excess,
             expected, standard_error);
  }
  NearMean("G1 mean risk at theta = 1", risks[kTruth], 0.00874, 0.0006);
  // 50000 independent rows.
  NearMean("G1 accuracy", accuracies, 0.906, 0.0013);
  NearMean("G1 squared calibration error", squared_errors, 0.0636, 0.0006);
  std::sort(minimisers.begin(), minimisers.end());
  // The quantiles of 100 runs vary by some 0.1.
  Near("G1 5 % quantile of the runs' minimisers", minimisers[5], 0.76, 0.2);
  Near("G1 95 % quantile of the runs' minimisers", minimisers[94], 1.28, 0.25);
}

// Section 4: single estimators on resnet18.
void ReproduceG2(const PredictionBatch& batch) {
  constexpr double kTolerance = 1e-8;
  const auto check = [&](const std::string& what, double measured, double expected) {
    Relative("G2 " + what, measured, expected, kTolerance);
  };
  const auto part = [&](std::size_t first, std::size_t count, const Lens& lens) {
    return *ReduceToResiduals(batch.rows(first, count), lens);
  };
  const Lens top = Lens::TopLabel();
  const ResidualSample top_fit = part(0, 2000, top);
  const ResidualSample top_risk = part(3000, 1000, top);
  const CalibrationRisk bins =
      *ComputeCalibrationRisk(top_risk, EvaluateBins(top_fit, top_risk, 15), {});
  check("risk of 0, top label", bins.risk - bins.excess, .005073572621733867);
  check("15 bins, in sample", SquaredCalibrationError(EvaluateBins(top_fit, top_fit, 15)),
        .007271788682159331);
  check("15 bins, out of sample",
        SquaredCalibrationError(EvaluateBins(top_fit, part(2000, 1000, top), 15)),
        .008259935464199427);
  check("15 bins, risk", bins.risk, .005044634222615033);

  const Lens canonical = Lens::Canonical();
  const ResidualSample fit = part(0, 2000, canonical);
  const ResidualSample test = part(2000, 1000, canonical);
  const ResidualSample risk = part(3000, 1000, canonical);
  const double bandwidth = 0.1;
  const auto density = [&](const ResidualSample& rows) {
    return EvaluateKernelDensity(fit, rows, {&bandwidth, 1}, {})->front();
  };
  const CalibrationRisk density_risk = *ComputeCalibrationRisk(risk, density(risk), {});
  check("risk of 0, canonical", density_risk.risk - density_risk.excess, .003410319227798191);
  check("kernel density, out of sample", SquaredCalibrationError(density(test)),
        .009850134926683981);
  check("kernel density, risk", density_risk.risk, .0034087933220167945);

  const KernelRidge ridge = *KernelRidge::Fit(fit, {});
  const auto product = [&](const ResidualSample& rows) {
    return *ridge.EvaluateProduct(*ridge.Eigenfunctions(rows, {}), 0.01, {});
  };
  const auto function = [&](const ResidualSample& rows) {
    return ridge.EvaluateFunction(*ridge.Eigenfunctions(rows, {}), 0.01);
  };
  check("kkr, in sample", SquaredCalibrationError(product(fit)), .005023711506465591);
  check("kkr, out of sample", SquaredCalibrationError(product(test)), .0050859697247976855);
  check("kkr, risk", ComputeCalibrationRisk(risk, product(risk), {})->risk, .0034017997197824394);
  check("ukkr, in sample", SquaredCalibrationError(function(fit)), .005322075539088119);
  check("ukkr, out of sample", SquaredCalibrationError(function(test)), .00533248617771221);
  check("ukkr, risk", ComputeCalibrationRisk(risk, function(risk), {})->risk, .0034008486567997987);
}

// 10^first, 10^(first + step), ..
std::vector<double> Powers(double first, double step, int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(std::pow(10.0, first + step * i));
  return values;
}

std::vector<double> GridOf(EstimatorKind kind) {
  for (const EstimatorGrid& grid : DefaultEstimators(Lens::TopLabel())) {
    if (grid.kind == kind) return grid.values;
  }
  return {};
}

}  // namespace

std::string NameOf(const Lens& lens, EstimatorKind kind) {
  static const std::map<EstimatorKind, const char*> kNames = {{kFifteenBins, "15 bins"},
                                                              {kBins, "bins"},
                                                              {kDensity, "kernel density"},
                                                              {kProduct, "kkr"},
                                                              {kFunction, "ukkr"}};
  return lens.name() + " " + kNames.at(kind);
}

SelectionResult Select(const PredictionBatch& batch, const Lens& lens,
                       std::vector<EstimatorGrid> estimators) {
  SelectionOptions options;
  options.lens = lens;
  options.estimators = std::move(estimators);
  absl::StatusOr<SelectionResult> result =
      SelectEstimator(batch, options, ControlOnAllProcessors());
  return *std::move(result);
}

std::vector<EstimatorGrid> TopLabelEstimators() {
  return {{kFifteenBins, {15}},
          {kBins, GridOf(kBins)},
          {kProduct, {1e-11, 1e-9, 1e-7, 1e-5, 1e-3, 1e-1}},
          {kFunction, Powers(-9, 1, 9)},
          {kDensity, {.001, .003727593720314938, .013894954943731374, .0517947467923121, .2, 1}}};
}

std::vector<EstimatorGrid> CanonicalEstimators() {
  return {{kFunction, Powers(-4.5, 0.5, 14)}, {kProduct, Powers(-6, 1, 9)}};
}

namespace {

// Algorithm 1 on the first 2000 rows of resnet18.
void ReproduceG3(const PredictionBatch& batch) {
  struct Line {
    Lens lens;
    EstimatorGrid grid;
    double parameter;
    double squared_error;
  };
  const Lens top = Lens::TopLabel();
  const Lens canonical = Lens::Canonical();
  const std::vector<Line> lines = {
      {top, {kBins, GridOf(kBins)}, 10, .006276366815900891},
      {top, {kDensity, GridOf(kDensity)}, .003727593720314938, .007933510391729211},
      {canonical, {kDensity, GridOf(kDensity)}, 1, .005594413358241267},
      {top, {kProduct, Powers(-7, 2, 4)}, 1e-5, .003398735486071876},
      {top, {kFunction, Powers(-5, 1, 5)}, 1e-5, .0065657837506940524},
      {canonical, {kProduct, Powers(-6, 1, 11)}, 1e-4, .007502140750887777},
      {canonical, {kFunction, Powers(-3.5, 0.5, 12)}, .00031622776601683794, .012764249200250327}};
  for (const Line& line : lines) {
    const EstimatorResult result =
        Select(batch.rows(0, 2000), line.lens, {line.grid}).estimators.front();
    const std::string name = "G3 " + NameOf(line.lens, line.grid.kind);
    Relative(name + ", parameter", result.grid[result.best], line.parameter, 1e-12);
    Relative(name + ", CE^2", result.squared_error, line.squared_error, 1e-7);
  }
}

struct NetworkResult {
  SelectionResult top_label;
  SelectionResult canonical;
};

// The estimators of tables 1, 2 and 5 on all rows.
NetworkResult RunNetwork(const std::string& network, const PredictionBatch& batch) {
  const auto start = std::chrono::steady_clock::now();
  NetworkResult result;
  result.top_label = Select(batch, Lens::TopLabel(), TopLabelEstimators());
  result.canonical = Select(batch, Lens::Canonical(), CanonicalEstimators());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  absl::PrintF("      G4 %s: %.1f s\n", network, seconds.count());
  for (const auto& [lens, selected] : {std::pair(Lens::TopLabel(), &result.top_label),
                                       std::pair(Lens::Canonical(), &result.canonical)}) {
    for (const EstimatorResult& e : selected->estimators) {
      absl::PrintF(
          "      %-25s parameter %-7.3g CE^2 %.11f  CE %.5f +- %.5f  sqrt(risk) x 100 "
          "%.4f +- %.4f  excess x 1e5 %.3f +- %.3f\n",
          NameOf(lens, e.kind), e.grid[e.best], e.squared_error, e.error, e.error_standard_error,
          100 * e.root_risk, 100 * e.root_risk_standard_error, 1e5 * e.excess,
          1e5 * e.excess_standard_error);
    }
  }
  return result;
}

struct Row {
  double parameter;
  double squared_error;
  double error;
  double error_se;
  double root_risk;
  double root_risk_se;
  double excess;
  double excess_se;
  double tolerance;
};

// The excess of equal formulas in double precision differs by up to 1e-16 l^2 / c relatively, with
// the largest eigenvalue l of some 6400 and the smallest constant c of 5e-6 of kkr.
constexpr double kExcessTolerance = 8e-4;

// The digits of the table bound the tolerance of each column.
void CheckRow(const std::string& name, const EstimatorResult& result, const Row& row) {
  Relative(name + ", parameter", result.grid[result.best], row.parameter, 1e-12);
  Relative(name + ", CE^2", result.squared_error, row.squared_error, row.tolerance);
  const auto rounded = [&](const char* what, double measured, double expected, double digit) {
    Near(name + what, measured, expected, digit / 2 + row.tolerance * std::abs(expected));
  };
  rounded(", CE", result.error, row.error, 1e-5);
  rounded(", standard error of CE", result.error_standard_error, row.error_se, 1e-5);
  rounded(", sqrt(risk) x 100", 100 * result.root_risk, row.root_risk, 1e-4);
  rounded(", its standard error", 100 * result.root_risk_standard_error, row.root_risk_se, 1e-4);
  const double rounding = row.tolerance > 1e-6 ? kExcessTolerance * std::abs(row.excess) : 0;
  rounded(", excess x 1e5", 1e5 * result.excess, row.excess, 1e-3 + 2 * rounding);
  rounded(", its standard error", 1e5 * result.excess_standard_error, row.excess_se, 1e-3);
}

void CheckResnet18(const NetworkResult& result) {
  // The rows have the order of RunNetwork. Rounding shows at the weakest penalties.
  const std::vector<Row> top = {
      {15, .0057870737, .07607, .00079, 6.3478, .1817, -2.515, .841, 1e-6},
      {30, .00780893393, .08837, .00062, 6.3385, .1809, -3.700, 1.319, 1e-6},
      {1e-11, .00710668782, .08430, .00083, 6.3212, .1784, -5.930, 1.408, 1e-4},
      {1e-9, .00770029988, .08775, .00067, 6.3223, .1789, -5.777, 1.401, 1e-4},
      {.001, .00841917974, .09176, .00066, 6.3188, .1776, -6.242, 1.582, 1e-6}};
  const std::vector<Row> canonical = {
      {1e-4, .00862013838, .09284, .00085, 5.3995, .1050, -2.426, .785, 1e-6},
      {1e-5, .00514099264, .07170, .00071, 5.4033, .1052, -2.011, .756, 1e-6}};
  for (std::size_t i = 0; i < top.size(); ++i) {
    const EstimatorResult& estimator = result.top_label.estimators[i];
    CheckRow("G4 " + NameOf(Lens::TopLabel(), estimator.kind), estimator, top[i]);
  }
  for (std::size_t i = 0; i < canonical.size(); ++i) {
    const EstimatorResult& estimator = result.canonical.estimators[i];
    CheckRow("G4 " + NameOf(Lens::Canonical(), estimator.kind), estimator, canonical[i]);
  }
}

// The paper's finding in form is that tuned bins, kkr and ukkr have the same plain risk.
void CheckForm(const std::string& network, const NetworkResult& result) {
  const std::vector<EstimatorResult>& top = result.top_label.estimators;
  const auto [least, most] = std::minmax({top[1].root_risk, top[2].root_risk, top[3].root_risk});
  Verdict(absl::StrFormat("G4 %s, range of sqrt(risk) x 100 of bins, kkr, ukkr: %.4f, expected at "
                          "most 0.1",
                          network, 100 * (most - least)),
          most - least <= 0.001);
  Verdict(absl::StrFormat("G4 %s, sqrt(risk) x 100 of 15 bins: %.4f, expected not below tuned bins "
                          "by more than a standard error, %.4f - %.4f",
                          network, 100 * top[0].root_risk, 100 * top[1].root_risk,
                          100 * top[1].root_risk_standard_error),
          top[0].root_risk >= top[1].root_risk - top[1].root_risk_standard_error);
}

// Plain risks do not separate the estimators from each other or from 0; the excess does.
void ReproduceG5(const std::string& network, const SelectionResult& result) {
  double least = 1;
  double most = 0;
  double error = 1;
  double smallest_excess = 0;
  double largest_excess = -1e9;
  for (const EstimatorResult& estimator : result.estimators) {
    // The root of the risk of 0, approximately.
    const double zero = std::sqrt(estimator.root_risk * estimator.root_risk - estimator.excess);
    least = std::min(least, estimator.root_risk);
    most = std::max({most, estimator.root_risk, zero});
    error = std::min(error, estimator.root_risk_standard_error);
    const double in_errors = estimator.excess / estimator.excess_standard_error;
    smallest_excess = std::min(smallest_excess, in_errors);
    largest_excess = std::max(largest_excess, in_errors);
  }
  Verdict(
      absl::StrFormat("G5 %s, range of sqrt(risk) x 100 of all estimators and 0: %.4f, expected "
                      "below the standard error of one, %.4f",
                      network, 100 * (most - least), 100 * error),
      most - least < error);
  Verdict(
      absl::StrFormat("G5 %s, excess over 0 in standard errors: %.1f to %.1f, expected below -2",
                      network, smallest_excess, largest_excess),
      largest_excess < -2);
}

int Run(const std::filesystem::path& data) {
  ReproduceG1();
  for (const std::string network : {"resnet18", "densenet121", "googlenet"}) {
    const auto set = data.empty() ? std::nullopt : testing::ReadCifar10(network, data / "cifar10");
    if (!set.has_value()) {
      absl::PrintF("left out: %s of G2 to G5, there are no predictions in '%s'\n", network,
                   data.string());
      continue;
    }
    const PredictionBatch batch = set->view();
    const bool resnet18 = network == "resnet18";
    if (resnet18) {
      ReproduceG2(batch);
      ReproduceG3(batch);
    }
    const NetworkResult result = RunNetwork(network, batch);
    if (resnet18) CheckResnet18(result);
    CheckForm(network, result);
    if (resnet18) ReproduceG5(network, result.top_label);
  }
  ReproduceMoreNetworks(data / "reproduce" / "gruber");
  return Finish();
}

}  // namespace
}  // namespace calibd::reproduce

int main(int argc, char** argv) { return calibd::reproduce::Run(argc > 1 ? argv[1] : ""); }
