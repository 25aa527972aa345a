#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast_evidence.h"
#include "calibd/core/forecast_metrics.h"
#include "check.h"
#include "marx.h"
#include "support/small_forecasts.h"

namespace calibd::reproduce {
namespace {

using nlohmann::json;

// Compares values with those of one case, 1e-9 relative and 1e-12 absolute.
class Comparison {
 public:
  void Compare(double actual, const json& expected) {
    const double value = expected;
    ++count_;
    worst_ = std::max(worst_, std::abs(actual - value) / (1e-12 + 1e-9 * std::abs(value)));
  }
  void CompareAll(const std::vector<double>& actual, const std::vector<double>& expected) {
    if (actual.size() != expected.size()) worst_ = HUGE_VAL;
    for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
      Compare(actual[i], expected[i]);
    }
  }
  void Print(const json& small) const {
    Verdict(absl::StrFormat("F6 %s: the largest difference of %d values is %.2g of the tolerance, "
                            "expected at most 1",
                            small.at("name").get<std::string>(), count_, worst_),
            worst_ <= 1);
  }
  [[nodiscard]] int count() const { return count_; }

 private:
  int count_ = 0;
  double worst_ = 0;
};

CalibrationLoss Compute(const testing::ForecastSet& set, LossOptions options, bool biased) {
  options.biased = biased;
  absl::StatusOr<CalibrationLoss> loss = ComputeLoss(set.view(), options);
  return *std::move(loss);
}

void CompareBoth(const testing::ForecastSet& set, const LossOptions& options, const json& unbiased,
                 const json& biased, Comparison& comparison) {
  comparison.Compare(Compute(set, options, false).penalty_value, unbiased);
  comparison.Compare(Compute(set, options, true).penalty_value, biased);
}

// Every discrepancy and gradient of the case; a key names the form and the estimator.
void CompareClasses(const json& small, Comparison& comparison) {
  const testing::ForecastSet classes = testing::ClassesOf(small);
  for (const auto& [key, expected] : small.items()) {
    const bool biased = key.ends_with("_biased");
    const auto options_of = [&, &name = key](const std::string& prefix) {
      const std::size_t suffix = biased ? 7 : name.ends_with("_unbiased") ? 9 : 0;
      return testing::ClassOptions(
          small, name.substr(prefix.size(), name.size() - prefix.size() - suffix));
    };
    if (key.starts_with("mmd_")) {
      comparison.Compare(Compute(classes, options_of("mmd_"), biased).penalty_value, expected);
    } else if (key.starts_with("grad_p_")) {
      comparison.CompareAll(Compute(classes, options_of("grad_p_"), biased).gradient,
                            testing::Flatten(expected));
    } else if (key.starts_with("grad_logit_")) {
      comparison.CompareAll(
          Compute(testing::ClassesOf(small, "logits"), options_of("grad_logit_"), biased).gradient,
          testing::Flatten(expected));
    }
  }
  LossOptions options;
  if (small.contains("group")) {
    const json& group = small.at("group");
    options.condition = GroupCondition{group.at("group")};
    CompareBoth(classes, options, group.at("mmd_unbiased"), group.at("mmd_biased"), comparison);
  }
  if (small.contains("individual")) {
    const json& individual = small.at("individual");
    options.condition =
        FeatureCondition{testing::Flatten(individual.at("X")), individual.at("gamma")};
    CompareBoth(classes, options, individual.at("mmd_unbiased"), individual.at("mmd_biased"),
                comparison);
  }
  if (!small.contains("decision")) return;
  const json& expected = small.at("decision");
  const DecisionCalibration decision = *EvaluateDecisions(
      {classes.values, classes.labels, classes.width}, testing::Flatten(expected.at("loss")));
  comparison.Compare(decision.squared_error, expected.at("dce_sq_biased"));
  comparison.Compare(decision.squared_error_unbiased, expected.at("dce_sq_unbiased"));
  comparison.Compare(decision.given_action, expected.at("conditional_dce_sq_biased"));
  comparison.Compare(decision.given_action_unbiased, expected.at("conditional_dce_sq_unbiased"));
  comparison.Compare(decision.realised_loss, expected.at("realised_loss"));
  comparison.Compare(decision.expected_loss, expected.at("expected_loss"));
}

void CompareMetrics(const json& small, const testing::ForecastSet& normals,
                    Comparison& comparison) {
  const std::vector<double> pit = ProbabilityIntegralTransforms(normals.view(), 1);
  comparison.CompareAll(pit, small.at("pit"));
  comparison.Compare(QuantileCalibrationError(pit), small.at("qce_tv20"));
  comparison.Compare(QuantileLevelError(pit), small.at("qce_levels20"));
  comparison.Compare(CramerVonMises(pit), small.at("cramer_von_mises"));
  const std::vector<double> features = testing::Flatten(small.at("X"));
  const std::size_t width = features.size() / pit.size();
  for (std::size_t i = 0; i < pit.size(); ++i) {
    const std::span<const double> x = std::span(features).subspan(i * width, width);
    comparison.Compare(*LocalCalibrationError(pit, features, x, small.at("gamma_x")),
                       small.at("lce_total20_at_rows").at(i));
  }
  const DecisionCalibration decision =
      *EvaluateThreshold(normals.view(), {small.at("decision_c").get<double>()});
  comparison.Compare(std::sqrt(decision.squared_error), small.at("dce"));
  comparison.Compare(decision.realised_loss, small.at("decision_realised_loss"));
  comparison.Compare(decision.expected_loss, small.at("decision_expected_loss"));
  const auto cells = *ForecastCells::Create(NormalForecasts{}, {}, 1, kDefaultTolerance);
  std::vector<ForecastRow> rows(pit.size());
  cells->Describe({normals.values, normals.outcomes}, 1, rows);
  const auto n = static_cast<double>(rows.size());
  double crps = 0;
  double log_score = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    crps += rows[i].crps / n;
    log_score += rows[i].log_score / n;
    comparison.Compare(rows[i].cell, small.at("pit_cell").at(i));
  }
  comparison.Compare(crps, small.at("mean_crps"));
  comparison.Compare(log_score, small.at("mean_log_loss"));
}

void CompareNumbers(const json& small, Comparison& comparison) {
  const testing::ForecastSet normals = testing::NormalsOf(small);
  for (const auto& [form, expected] : small.at("mmd").items()) {
    CompareBoth(normals, testing::NumberOptions(small, form), expected.at("unbiased"),
                expected.at("biased"), comparison);
  }
  for (const auto& [key, expected] : small.at("gradient").items()) {
    const bool biased = key.ends_with("_biased");
    const LossOptions options =
        testing::NumberOptions(small, biased ? key.substr(0, key.size() - 7) : key);
    const std::vector<double> gradient = Compute(normals, options, biased).gradient;
    for (std::size_t i = 0; i < normals.outcomes.size(); ++i) {
      comparison.Compare(gradient.at(2 * i), expected.at("mean").at(i));
      comparison.Compare(gradient.at(2 * i + 1), expected.at("standard_deviation").at(i));
    }
  }
  CompareMetrics(small, normals, comparison);
  if (!small.contains("samples")) return;
  const json& samples = small.at("samples");
  CompareBoth(testing::SamplesOf(small), testing::NumberOptions(small, "marginal"),
              samples.at("marginal_unbiased"), samples.at("marginal_biased"), comparison);
}

void CompareEvidence(const json& small, Comparison& comparison) {
  const auto cells = *ForecastCells::Create(NormalForecasts{}, {}, 1, small.at("tolerance"));
  ForecastEvidence evidence(cells);
  for (std::size_t i = 0; i < small.at("cells").size(); ++i) {
    ForecastRow row;
    row.cell = small.at("cells").at(i);
    row.strata = small.at("strata").at(i);
    evidence.Add(std::span(&row, 1));
    comparison.Compare(evidence.LogEValue(), small.at("log_e").at(i));
  }
  const MixedForecastEvidence result = evidence.Read().evidence;
  comparison.Compare(result.log10_e_value, small.at("log10_e_value"));
  for (std::size_t f = 0; f < kCellFamilyCount; ++f) {
    comparison.Compare(result.family_log10_e_value[f] * std::log(10), small.at("families").at(f));
  }
}

}  // namespace

void ReproduceSmallCases() {
  int count = 0;
  using Compare = void (*)(const json&, Comparison&);
  for (const auto& [kind, compare] :
       {std::pair<const char*, Compare>("classification", CompareClasses),
        {"forecast", CompareNumbers},
        {"evidence", CompareEvidence}}) {
    for (const json& small : testing::SmallCasesOf(kind)) {
      Comparison comparison;
      compare(small, comparison);
      comparison.Print(small);
      count += comparison.count();
    }
  }
  Near("F6 number of values", count, 1009, 0);
}

}  // namespace calibd::reproduce
