#ifndef CALIBD_TESTS_SUPPORT_SMALL_FORECASTS_H_
#define CALIBD_TESTS_SUPPORT_SMALL_FORECASTS_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "calibd/core/calibration_loss.h"
#include "calibd/core/forecast.h"
#include "support/test_data.h"

// The cases of small_cases_34.json as the input of core.
namespace calibd::testing {

// Forecasts with their own memory.
struct ForecastSet {
  ForecastKind kind;
  std::size_t width;
  std::vector<double> values;
  std::vector<std::int32_t> labels;
  std::vector<double> outcomes;

  [[nodiscard]] ForecastBatch view() const { return {kind, values, width, labels, outcomes}; }
};

inline std::vector<double> Flatten(const nlohmann::json& rows) {
  std::vector<double> values;
  for (const auto& row : rows) {
    for (const auto& value : row) values.push_back(value.get<double>());
  }
  return values;
}

// The cases of one kind, such as "forecast".
inline std::vector<nlohmann::json> SmallCasesOf(const std::string& kind) {
  std::vector<nlohmann::json> cases;
  for (const nlohmann::json& small :
       ReadJson(std::filesystem::path(CALIBD_GOLDEN_DIR) / "small_cases_34.json")) {
    if (small.at("kind") == kind) cases.push_back(small);
  }
  return cases;
}

inline ForecastSet ClassesOf(const nlohmann::json& small, const char* field = "P") {
  const bool logits = std::string(field) == "logits";
  return {logits ? ForecastKind::kLogits : ForecastKind::kProbabilities,
          small.at("m"),
          Flatten(small.at(field)),
          small.at("y0"),
          {}};
}

inline ForecastSet NormalsOf(const nlohmann::json& small) {
  ForecastSet set{ForecastKind::kNormal, 2, {}, {}, small.at("y")};
  for (std::size_t i = 0; i < set.outcomes.size(); ++i) {
    set.values.push_back(small.at("mean").at(i));
    set.values.push_back(small.at("standard_deviation").at(i));
  }
  return set;
}

inline ForecastSet SamplesOf(const nlohmann::json& small) {
  const nlohmann::json& samples = small.at("samples").at("samples");
  return {ForecastKind::kSamples, samples.at(0).size(), Flatten(samples), {}, small.at("y")};
}

// The options of a form of classes, such as "canonical_tv_rbf".
inline LossOptions ClassOptions(const nlohmann::json& small, const std::string& form) {
  LossOptions options;
  ForecastCondition condition{.distance = Distance::kSquaredEuclidean,
                              .bandwidth = 1 / small.at("gamma_z").get<double>(),
                              .gamma = {}};
  if (form.find("_tv_") != std::string::npos) {
    condition.distance = Distance::kTotalVariation;
    condition.bandwidth = small.at("tv_bandwidth").get<double>();
  }
  if (form.starts_with("top_label")) options.lens = Lens::TopLabel();
  if (form.starts_with("marginal")) options.lens = Lens::ClassWise();
  if (form.ends_with("rbf")) options.outcome_kernel = RbfKernel{small.at("gamma_y")};
  options.condition = condition;
  return options;
}

// The options of a form of numbers, such as "individual_tanh".
inline LossOptions NumberOptions(const nlohmann::json& small, const std::string& form) {
  LossOptions options;
  options.condition = NoCondition();
  options.outcome_kernel = RbfKernel{small.at("gamma_y")};
  if (form.ends_with("_min")) options.outcome_kernel = EnergyKernel();
  if (form.starts_with("quantile") || form == "threshold") {
    options.outcome_kernel = PitRbfKernel{small.at("gamma_pit")};
  }
  if (form == "quantile_min") options.outcome_kernel = PitMinKernel();
  if (form == "threshold") options.condition = GroupCondition{small.at("threshold_event")};
  if (form == "decision") options.condition = GroupCondition{small.at("action")};
  if (form == "group") options.condition = GroupCondition{small.at("group")};
  if (form == "decision_sign") options.outcome_kernel = ThresholdKernel{small.at("decision_c")};
  if (form == "point_estimate") options.outcome_kernel = MomentsKernel();
  if (form == "individual_tanh") options.outcome_kernel = TanhKernel{small.at("decision_c"), 1};
  if (form.starts_with("individual")) {
    options.condition = FeatureCondition{Flatten(small.at("X")), small.at("gamma_x")};
  }
  if (form == "local") {
    FeatureCondition first{{}, small.at("gamma_x")};
    for (const nlohmann::json& row : small.at("X")) first.values.push_back(row.at(0));
    options.condition = first;
  }
  if (form.starts_with("distribution") || form == "point_estimate") {
    options.condition = ForecastCondition{.bandwidth = {}, .gamma = small.at("gamma_z")};
  }
  return options;
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_SMALL_FORECASTS_H_
