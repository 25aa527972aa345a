#ifndef CALIBD_TESTS_SUPPORT_TEST_DATA_H_
#define CALIBD_TESTS_SUPPORT_TEST_DATA_H_

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "calibd/core/prediction_batch.h"

namespace calibd::testing {

// Returns |actual - expected| / |expected|, or |actual| if expected is 0.
inline double RelativeDifference(double actual, double expected) {
  const double difference = std::abs(actual - expected);
  return expected == 0 ? difference : difference / std::abs(expected);
}

inline nlohmann::json ReadJson(const std::filesystem::path& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

// Returns the nine small cases with inputs and expected values.
inline nlohmann::json SmallCases() {
  return ReadJson(std::filesystem::path(CALIBD_GOLDEN_DIR) / "small_cases.json");
}

inline PredictionSet ToPredictionSet(const nlohmann::json& small_case) {
  PredictionSet set;
  set.class_count = small_case.at("m").get<std::size_t>();
  set.labels = small_case.at("y0").get<std::vector<std::int32_t>>();
  for (const auto& row : small_case.at("P")) {
    for (const auto& value : row) set.probabilities.push_back(value.get<double>());
  }
  return set;
}

inline std::filesystem::path Cifar10Dir() {
  return std::filesystem::path(CALIBD_TEST_DATA) / "cifar10";
}

// Returns the predictions of a network for the CIFAR-10 test images with 0-based labels; nothing if
// there is no data folder.
inline std::optional<PredictionSet> ReadCifar10(
    const std::string& network, const std::filesystem::path& folder = Cifar10Dir()) {
  std::ifstream predictions(folder / (network + ".csv"));
  std::ifstream labels(folder / "labels.csv");
  if (!predictions || !labels) return std::nullopt;
  PredictionSet set;
  set.class_count = 10;
  for (std::string line; std::getline(predictions, line);) {
    std::istringstream row(line);
    for (std::string value; std::getline(row, value, ',');) {
      set.probabilities.push_back(std::stod(value));
    }
  }
  for (std::string line; std::getline(labels, line);) set.labels.push_back(std::stoi(line) - 1);
  return set;
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_TEST_DATA_H_
