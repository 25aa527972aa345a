#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "calibd/core/estimator_selection.h"

namespace calibd::convert {
namespace {

// At most this share of the calibrated models has such a small p-value.
constexpr double kLevel = 0.05;

// What is off, as the beginning of a sentence. The lens of class 3 has the name "class_wise[3]".
std::string Subject(const v1::Provenance& provenance, std::span<const std::string> class_names) {
  const std::string& lens = provenance.lens();
  if (lens == "canonical") return "The vector of probabilities";
  if (lens == "class_wise") return "The probability of a class";
  std::size_t k = 0;
  absl::string_view number = lens;
  if (!absl::ConsumePrefix(&number, "class_wise[") || !absl::ConsumeSuffix(&number, "]") ||
      !absl::SimpleAtoi(number, &k)) {
    return "The probability of the top label";
  }
  if (provenance.class_count() == 2 && k == 1) return Class1Event(Class1Name(class_names));
  return absl::StrCat("The probability of class ",
                      k < class_names.size() ? CutName(class_names[k]) : absl::StrCat(k));
}

// What follows if no estimator is better than 0. The simulation may see an error that the
// comparison of risks does not see.
std::string NoneText(const v1::CalibrationErrorEstimate& estimate) {
  const std::int64_t n = estimate.provenance().observations();
  const bool comparable = estimate.tuning_observations() / estimate.folds() >=
                          static_cast<std::int64_t>(kMinComparedRows);
  const std::string text =
      comparable
          ? absl::StrCat("No estimator is better than 0 here: with ", n,
                         " observations, none predicts the errors of new observations better than "
                         "the statement that there is no error.")
          : absl::StrCat("No estimator is better than 0 here: ", n,
                         " observations are too few to say. Each of the ", estimate.folds(),
                         " folds needs ", kMinComparedRows, " of them.");
  if (estimate.has_simulation() && estimate.simulation().p_value() <= kLevel) {
    return absl::StrCat(text, " But the simulation rejects that there is no error, at level ",
                        kLevel, ".");
  }
  return text + " This does not prove calibration. The estimates may be noise.";
}

// Whether the error that the chosen estimator sees is real.
std::string ComparisonWithZero(const v1::CalibrationErrorEstimate& estimate,
                               const v1::EstimatorOutcome& chosen) {
  if (chosen.better_than_zero()) return ", and better than the statement that there is no error.";
  std::vector<std::string> better;
  for (const v1::EstimatorOutcome& outcome : estimate.estimators()) {
    if (outcome.better_than_zero()) better.push_back(EstimatorName(outcome.estimator()));
  }
  return absl::StrCat(", but only ", absl::StrJoin(better, ", "),
                      better.size() == 1 ? " is" : " are",
                      " clearly better than the statement that there is no error.");
}

// Which other estimators may be as good as the chosen one.
std::string OthersText(const v1::CalibrationErrorEstimate& estimate,
                       const v1::EstimatorOutcome& chosen) {
  if (estimate.estimators_size() == 1) return "";
  std::vector<std::string> similar;
  double least = chosen.error();
  double most = chosen.error();
  for (const v1::EstimatorOutcome& outcome : estimate.estimators()) {
    if (!outcome.as_good_as_chosen() || outcome.estimator() == chosen.estimator()) continue;
    similar.push_back(EstimatorName(outcome.estimator()));
    least = std::min(least, outcome.error());
    most = std::max(most, outcome.error());
  }
  if (similar.empty()) return " All others are clearly worse.";
  const std::string text = absl::StrCat(
      " The data cannot tell whether these are as good: ", absl::StrJoin(similar, ", "), ".");
  if (Points(least) == Points(most)) return text + " They give the same estimate.";
  return absl::StrCat(text, " With them, the estimates range from ", Points(least), " to ",
                      PointsText(most), ".");
}

}  // namespace

std::string EstimatorName(v1::EstimatorOutcome::Estimator estimator) {
  return absl::AsciiStrToLower(v1::EstimatorOutcome::Estimator_Name(estimator));
}

std::string EstimateText(const v1::CalibrationErrorEstimate& estimate,
                         std::span<const std::string> class_names) {
  if (!estimate.any_better_than_zero()) return NoneText(estimate);
  const auto chosen =
      std::find_if(estimate.estimators().begin(), estimate.estimators().end(),
                   [&](const auto& outcome) { return outcome.estimator() == estimate.chosen(); });
  if (chosen == estimate.estimators().end()) return "";
  return absl::StrCat(
      Subject(estimate.provenance(), class_names), " is off by ", PointsText(chosen->error()),
      " (percentage points, root mean square), according to ", EstimatorName(chosen->estimator()),
      ". This estimator predicts the errors of new observations best",
      ComparisonWithZero(estimate, *chosen), OthersText(estimate, *chosen));
}

}  // namespace calibd::convert
