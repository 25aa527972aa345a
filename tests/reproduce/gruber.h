#ifndef CALIBD_TESTS_REPRODUCE_GRUBER_H_
#define CALIBD_TESTS_REPRODUCE_GRUBER_H_

#include <filesystem>
#include <string>
#include <vector>

#include "calibd/core/estimator_selection.h"

namespace calibd::reproduce {

inline constexpr EstimatorKind kFifteenBins = EstimatorKind::kFifteenBins;
inline constexpr EstimatorKind kBins = EstimatorKind::kBins;
inline constexpr EstimatorKind kDensity = EstimatorKind::kKernelDensity;
inline constexpr EstimatorKind kProduct = EstimatorKind::kProductRidge;
inline constexpr EstimatorKind kFunction = EstimatorKind::kFunctionRidge;

[[nodiscard]] std::string NameOf(const Lens& lens, EstimatorKind kind);
// The estimators of tables 1 and 2, 15 bins first, and those of table 3 without kernel density.
[[nodiscard]] std::vector<EstimatorGrid> TopLabelEstimators();
[[nodiscard]] std::vector<EstimatorGrid> CanonicalEstimators();
// Algorithm 1 with five folds.
[[nodiscard]] SelectionResult Select(const PredictionBatch& batch, const Lens& lens,
                                     std::vector<EstimatorGrid> estimators);

// G6 to G8: networks of other data sets. folder: that of their logits.
void ReproduceMoreNetworks(const std::filesystem::path& folder);

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_GRUBER_H_
