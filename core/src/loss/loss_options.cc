#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/normal_mean.h"
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
  if (batch.kind == ForecastKind::kQuantiles) {
    const std::size_t count = levels != nullptr ? levels->levels.size() : 0;
    if (count != batch.width) {
      return absl::InvalidArgumentError(absl::StrCat("outcome_kernel.levels has ", count,
                                                     " values, expected ", batch.width,
                                                     ", the level of each quantile"));
    }
  } else if (levels != nullptr) {
    return absl::InvalidArgumentError(
        "outcome_kernel is levels, expected another one: only quantiles have levels");
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

// The parts of the squared discrepancy that other penalties do not have.
absl::Status CheckPenalty(const ForecastBatch& batch, const LossOptions& options) {
  if (options.penalty == Penalty::kMmd) return absl::OkStatus();
  const char* const name = PenaltyName(options.penalty);
  const auto fault = [&](const char* field, const char* expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ", expected ", expected, " for the penalty ", name));
  };
  if (!batch.predicts_classes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("penalty is ", name, ", expected mmd for forecasts of numbers"));
  }
  const auto* const condition = std::get_if<ForecastCondition>(&options.condition);
  if (condition == nullptr) return fault("condition is not forecast", "forecast");
  if (options.outcome_kernel.has_value()) return fault("outcome_kernel is set", "none");
  if (options.biased) return fault("biased is set", "none");
  if (IsMmce(options.penalty)) {
    if (std::holds_alternative<TopLabelLens>(options.lens.kind())) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("lens is ", options.lens.name(),
                                                   ", expected top_label for the penalty ", name));
  }
  if (condition->distance == Distance::kTotalVariation) return absl::OkStatus();
  return fault("condition.forecast.kernel is set", "none");
}

bool IsAbove(const ForecastBatch& batch, std::size_t i, double threshold, double alpha,
             std::span<const double> levels) {
  const std::span<const double> row = batch.row(i);
  if (batch.kind == ForecastKind::kQuantiles) {
    return row[static_cast<std::size_t>(std::ranges::find(levels, alpha) - levels.begin())] >=
           threshold;
  }
  if (batch.kind == ForecastKind::kNormal) return NormalCdf((threshold - row[0]) / row[1]) <= alpha;
  const auto below = std::ranges::count_if(row, [&](double draw) { return draw <= threshold; }) +
                     (batch.outcomes[i] <= threshold ? 1 : 0);
  return static_cast<double>(below) <= alpha * static_cast<double>(row.size() + 1);
}

}  // namespace

bool IsMmce(Penalty penalty) noexcept {
  return penalty == Penalty::kMmce || penalty == Penalty::kWeightedMmce;
}
bool IsKernelDensity(Penalty penalty) noexcept {
  return penalty == Penalty::kKernelDensityL1 || penalty == Penalty::kKernelDensityL2;
}

const char* PenaltyName(Penalty penalty) noexcept {
  switch (penalty) {
    case Penalty::kMmd:
      break;
    case Penalty::kMmce:
      return "mmce";
    case Penalty::kWeightedMmce:
      return "weighted_mmce";
    case Penalty::kKernelDensityL1:
      return "kernel_density_l1";
    case Penalty::kKernelDensityL2:
      return "kernel_density_l2";
  }
  return "mmd";
}

GroupCondition ThresholdCondition(const ForecastBatch& batch, double threshold, double alpha,
                                  std::span<const double> levels) {
  GroupCondition sides;
  sides.groups.reserve(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    sides.groups.push_back(IsAbove(batch, i, threshold, alpha, levels) ? 1 : 0);
  }
  return sides;
}

absl::Status CheckLossOptions(const ForecastBatch& batch, const LossOptions& options) {
  if (!IsLossLens(options.lens)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lens is ", options.lens.name(), ", expected canonical, top_label or class_wise"));
  }
  if (!options.lens.is_canonical() && !batch.predicts_classes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lens is ", options.lens.name(), ", expected none for forecasts of numbers"));
  }
  if ((options.gradient || options.penalty_weight.has_value()) &&
      batch.kind == ForecastKind::kQuantiles) {
    return absl::InvalidArgumentError(
        "gradient or penalty_weight is set, expected none for quantiles, which have neither");
  }
  if (options.penalty_weight.has_value()) {
    const double weight = *options.penalty_weight;
    if (!(weight >= 0) || !std::isfinite(weight)) {
      return absl::InvalidArgumentError(
          absl::StrCat("penalty_weight is ", weight, ", expected a finite number >= 0"));
    }
    if (batch.kind == ForecastKind::kSamples) {
      return absl::InvalidArgumentError(
          "penalty_weight is set, expected none for samples, which have no likelihood");
    }
  }
  CALIBD_RETURN_IF_ERROR(CheckPenalty(batch, options));
  CALIBD_RETURN_IF_ERROR(CheckOutcomeKernel(batch, options.outcome_kernel));
  return std::visit([&](const auto& condition) { return CheckCondition(batch, condition); },
                    options.condition);
}

}  // namespace calibd
