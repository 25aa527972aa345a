#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "calibd/core/calibration_loss.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

absl::Status CheckPositive(const char* field, double value) {
  if (value > 0 && std::isfinite(value) && std::isfinite(1 / value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, ", expected a finite number > 0"));
}
absl::Status CheckPositive(const char* field, const std::optional<double>& value) {
  return value.has_value() ? CheckPositive(field, *value) : absl::OkStatus();
}
absl::Status CheckFinite(const char* field, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, ", expected a finite number"));
}

absl::Status CheckKernel(const RbfKernel& kernel) {
  return CheckPositive("outcome_kernel.rbf.gamma", kernel.gamma);
}
absl::Status CheckKernel(const EnergyKernel& /*kernel*/) { return absl::OkStatus(); }
absl::Status CheckKernel(const MomentsKernel& kernel) {
  CALIBD_RETURN_IF_ERROR(CheckFinite("outcome_kernel.moments.center", kernel.center));
  return CheckPositive("outcome_kernel.moments.scale", kernel.scale);
}
absl::Status CheckKernel(const ThresholdKernel& kernel) {
  return CheckFinite("outcome_kernel.threshold.threshold", kernel.threshold);
}
absl::Status CheckKernel(const TanhKernel& kernel) {
  CALIBD_RETURN_IF_ERROR(CheckFinite("outcome_kernel.tanh.threshold", kernel.threshold));
  return CheckPositive("outcome_kernel.tanh.width", kernel.width);
}
absl::Status CheckKernel(const PitRbfKernel& kernel) {
  return CheckPositive("outcome_kernel.pit_rbf.gamma", kernel.gamma);
}
absl::Status CheckKernel(const PitMinKernel& /*kernel*/) { return absl::OkStatus(); }
absl::Status CheckKernel(const LevelsKernel& kernel) {
  const auto inside = [](double level) { return level > 0 && level < 1; };
  if (std::ranges::all_of(kernel.levels, inside) &&
      std::ranges::adjacent_find(kernel.levels, std::greater_equal<>()) == kernel.levels.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "outcome_kernel.levels does not increase strictly inside (0, 1)");
}

absl::Status CheckOutcomeKernel(const ForecastBatch& batch,
                                const std::optional<OutcomeKernel>& kernel) {
  const auto* const levels = kernel.has_value() ? std::get_if<LevelsKernel>(&*kernel) : nullptr;
  if ((levels != nullptr) != (batch.kind == ForecastKind::kQuantiles) ||
      (levels != nullptr && levels->levels.size() != batch.width)) {
    return absl::InvalidArgumentError(
        "outcome_kernel does not suit the forecasts: expected levels, one for each quantile, for "
        "quantiles and for no other "
        "forecasts");
  }
  if (!kernel.has_value()) return absl::OkStatus();
  if (batch.predicts_classes()) {
    const auto* const rbf = std::get_if<RbfKernel>(&*kernel);
    if (rbf == nullptr) {
      return absl::InvalidArgumentError(
          "outcome_kernel compares numbers, expected rbf or none for classes");
    }
    if (!rbf->gamma.has_value()) {
      return absl::InvalidArgumentError(
          "outcome_kernel.rbf.gamma is missing, expected a finite number > 0 for classes");
    }
  }
  const bool of_pit = std::holds_alternative<PitRbfKernel>(*kernel) ||
                      std::holds_alternative<PitMinKernel>(*kernel);
  if (of_pit && batch.kind == ForecastKind::kSamples) {
    return absl::InvalidArgumentError(
        "outcome_kernel needs the distribution function, which samples do not have: expected rbf, "
        "energy, moments, threshold or tanh");
  }
  return std::visit([](const auto& chosen) { return CheckKernel(chosen); }, *kernel);
}

absl::Status CheckCondition(const ForecastBatch& batch, const ForecastCondition& condition) {
  if (batch.predicts_classes() && condition.gamma.has_value()) {
    return absl::InvalidArgumentError(
        "condition.forecast.gamma is set, expected a bandwidth for classes");
  }
  if (!batch.predicts_classes() && condition.bandwidth.has_value()) {
    return absl::InvalidArgumentError(
        "condition.forecast.bandwidth is set, expected a gamma for forecasts of numbers");
  }
  CALIBD_RETURN_IF_ERROR(CheckPositive("condition.forecast.bandwidth", condition.bandwidth));
  return CheckPositive("condition.forecast.gamma", condition.gamma);
}
absl::Status CheckCondition(const ForecastBatch& /*batch*/, const NoCondition& /*condition*/) {
  return absl::OkStatus();
}
absl::Status CheckCondition(const ForecastBatch& batch, const FeatureCondition& condition) {
  if (condition.values.empty() || condition.values.size() % batch.size() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("condition.features.values has ", condition.values.size(),
                     " values, expected a multiple of ", batch.size(), " rows"));
  }
  const auto invalid = std::find_if(condition.values.begin(), condition.values.end(),
                                    [](double value) { return !std::isfinite(value); });
  if (invalid != condition.values.end()) {
    return absl::InvalidArgumentError(absl::StrCat("condition.features.values[",
                                                   invalid - condition.values.begin(), "] is ",
                                                   *invalid, ", expected a finite number"));
  }
  return CheckPositive("condition.features.gamma", condition.gamma);
}
absl::Status CheckCondition(const ForecastBatch& batch, const GroupCondition& condition) {
  if (condition.groups.size() == batch.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("condition.groups.groups has ",
                                                 condition.groups.size(), " values, expected ",
                                                 batch.size(), " rows"));
}

bool IsLossLens(const Lens& lens) {
  return lens.is_canonical() || std::holds_alternative<TopLabelLens>(lens.kind()) ||
         std::holds_alternative<ClassWiseLens>(lens.kind());
}

}  // namespace

absl::Status CheckLossOptions(const ForecastBatch& batch, const LossOptions& options) {
  if (!IsLossLens(options.lens)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lens is ", options.lens.name(), ", expected canonical, top_label or class_wise"));
  }
  if (!options.lens.is_canonical() && !batch.predicts_classes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lens is ", options.lens.name(), ", expected none for forecasts of numbers"));
  }
  if ((options.gradient || options.mmd_weight.has_value()) &&
      batch.kind == ForecastKind::kQuantiles) {
    return absl::InvalidArgumentError(
        "gradient or mmd_weight is set, expected none for quantiles, which have neither");
  }
  if (options.mmd_weight.has_value()) {
    const double weight = *options.mmd_weight;
    if (!(weight >= 0) || !std::isfinite(weight)) {
      return absl::InvalidArgumentError(
          absl::StrCat("mmd_weight is ", weight, ", expected a finite number >= 0"));
    }
    if (batch.kind == ForecastKind::kSamples) {
      return absl::InvalidArgumentError(
          "mmd_weight is set, expected none for samples, which have no likelihood");
    }
  }
  CALIBD_RETURN_IF_ERROR(CheckOutcomeKernel(batch, options.outcome_kernel));
  return std::visit([&](const auto& condition) { return CheckCondition(batch, condition); },
                    options.condition);
}

}  // namespace calibd
