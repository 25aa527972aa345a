#include "calibd/convert/loss.h"

#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/convert/kernel.h"
#include "calibd/core/status_macros.h"
#include "prefixed_error.h"

namespace calibd::convert {
namespace {

std::optional<double> Optional(bool is_set, double value) {
  return is_set ? std::optional<double>(value) : std::nullopt;
}

absl::StatusOr<Condition> FromProto(const v1::Condition& proto) {
  switch (proto.kind_case()) {
    case v1::Condition::kForecast:
    case v1::Condition::KIND_NOT_SET:
      break;
    case v1::Condition::kNone:
      return NoCondition();
    case v1::Condition::kFeatures: {
      const v1::Condition::Features& features = proto.features();
      return FeatureCondition{{features.values().begin(), features.values().end()},
                              Optional(features.has_gamma(), features.gamma())};
    }
    case v1::Condition::kGroups:
      return GroupCondition{{proto.groups().groups().begin(), proto.groups().groups().end()}};
  }
  const v1::Condition::Forecast& forecast = proto.forecast();
  if (forecast.kernel().has_matrix()) {
    return absl::InvalidArgumentError(
        "condition.forecast.kernel is matrix, expected exponential or gaussian");
  }
  // The kernel of a model with a bandwidth rule; the bandwidth of a loss is a number of its own.
  const absl::StatusOr<KernelSpec> kernel =
      convert::FromProto(forecast.kernel(), v1::BandwidthRule(), 2);
  if (!kernel.ok()) return PrefixedError("condition.forecast.", kernel.status());
  return ForecastCondition{.distance = kernel->rule.distance,
                           .bandwidth = Optional(forecast.has_bandwidth(), forecast.bandwidth()),
                           .gamma = Optional(forecast.has_gamma(), forecast.gamma())};
}

absl::StatusOr<Penalty> FromProto(v1::LossSettings::Penalty penalty) {
  switch (penalty) {
    case v1::LossSettings::UNSPECIFIED:
    case v1::LossSettings::MMD:
      return Penalty::kMmd;
    case v1::LossSettings::MMCE:
      return Penalty::kMmce;
    case v1::LossSettings::WEIGHTED_MMCE:
      return Penalty::kWeightedMmce;
    case v1::LossSettings::KERNEL_DENSITY_L1:
      return Penalty::kKernelDensityL1;
    case v1::LossSettings::KERNEL_DENSITY_L2:
      return Penalty::kKernelDensityL2;
    default:
      return absl::InvalidArgumentError(absl::StrCat("penalty is ", static_cast<int>(penalty),
                                                     ", expected a value of LossSettings.Penalty"));
  }
}

void Put(const RbfKernel& kernel, v1::OutcomeKernel& out) {
  v1::OutcomeKernel::Rbf& rbf = *out.mutable_rbf();
  if (kernel.gamma.has_value()) rbf.set_gamma(*kernel.gamma);
}
void Put(const EnergyKernel& /*kernel*/, v1::OutcomeKernel& out) { out.mutable_energy(); }
void Put(const MomentsKernel& kernel, v1::OutcomeKernel& out) {
  out.mutable_moments()->set_center(kernel.center);
  out.mutable_moments()->set_scale(kernel.scale);
}
void Put(const ThresholdKernel& kernel, v1::OutcomeKernel& out) {
  out.mutable_threshold()->set_threshold(kernel.threshold);
}
void Put(const TanhKernel& kernel, v1::OutcomeKernel& out) {
  out.mutable_tanh()->set_threshold(kernel.threshold);
  out.mutable_tanh()->set_width(kernel.width);
}
void Put(const PitRbfKernel& kernel, v1::OutcomeKernel& out) {
  out.mutable_pit_rbf()->set_gamma(kernel.gamma);
}
void Put(const PitMinKernel& /*kernel*/, v1::OutcomeKernel& out) { out.mutable_pit_min(); }
void Put(const LevelsKernel& kernel, v1::OutcomeKernel& out) {
  out.mutable_levels()->mutable_levels()->Add(kernel.levels.begin(), kernel.levels.end());
}

void Put(const ForecastCondition& condition, v1::Condition& out) {
  v1::Condition::Forecast& forecast = *out.mutable_forecast();
  if (condition.gamma.has_value()) forecast.set_gamma(*condition.gamma);
  if (condition.bandwidth.has_value()) {
    KernelSpec spec;
    spec.rule.distance = condition.distance;
    *forecast.mutable_kernel() = KernelToProto(spec);
    forecast.set_bandwidth(*condition.bandwidth);
  }
}
void Put(const NoCondition& /*condition*/, v1::Condition& out) { out.mutable_none(); }
void Put(const FeatureCondition& condition, v1::Condition& out) {
  v1::Condition::Features& features = *out.mutable_features();
  if (condition.gamma.has_value()) features.set_gamma(*condition.gamma);
}
void Put(const GroupCondition& /*condition*/, v1::Condition& out) { out.mutable_groups(); }

}  // namespace

OutcomeKernel FromProto(const v1::OutcomeKernel& proto) {
  switch (proto.kind_case()) {
    case v1::OutcomeKernel::kRbf:
    case v1::OutcomeKernel::KIND_NOT_SET:
      break;
    case v1::OutcomeKernel::kEnergy:
      return EnergyKernel();
    case v1::OutcomeKernel::kMoments:
      return MomentsKernel{proto.moments().center(),
                           proto.moments().has_scale() ? proto.moments().scale() : 1};
    case v1::OutcomeKernel::kThreshold:
      return ThresholdKernel{proto.threshold().threshold()};
    case v1::OutcomeKernel::kTanh:
      return TanhKernel{proto.tanh().threshold(),
                        proto.tanh().has_width() ? proto.tanh().width() : 1};
    case v1::OutcomeKernel::kPitRbf:
      return PitRbfKernel{proto.pit_rbf().has_gamma() ? proto.pit_rbf().gamma()
                                                      : PitRbfKernel().gamma};
    case v1::OutcomeKernel::kPitMin:
      return PitMinKernel();
    case v1::OutcomeKernel::kLevels:
      return LevelsKernel{{proto.levels().levels().begin(), proto.levels().levels().end()}};
  }
  return RbfKernel{Optional(proto.rbf().has_gamma(), proto.rbf().gamma())};
}
v1::OutcomeKernel ToProto(const OutcomeKernel& kernel) {
  v1::OutcomeKernel proto;
  std::visit([&](const auto& chosen) { Put(chosen, proto); }, kernel);
  return proto;
}
v1::Condition ToProto(const Condition& condition) {
  v1::Condition proto;
  std::visit([&](const auto& chosen) { Put(chosen, proto); }, condition);
  return proto;
}

absl::StatusOr<LossOptions> FromProto(const v1::LossSettings& settings, std::size_t width) {
  LossOptions options;
  CALIBD_ASSIGN_OR_RETURN(options.penalty, FromProto(settings.penalty()));
  const absl::StatusOr<Lens> lens = convert::FromProto(settings.lens(), width);
  if (!lens.ok()) return PrefixedError("lens ", lens.status());
  options.lens = *lens;
  if (IsMmce(options.penalty) && settings.lens().kind_case() == v1::Lens::KIND_NOT_SET) {
    options.lens = Lens::TopLabel();
  }
  if (settings.outcome_kernel().kind_case() != v1::OutcomeKernel::KIND_NOT_SET) {
    options.outcome_kernel = FromProto(settings.outcome_kernel());
  }
  CALIBD_ASSIGN_OR_RETURN(options.condition, FromProto(settings.condition()));
  options.biased = settings.biased();
  options.penalty_weight = Optional(settings.has_penalty_weight(), settings.penalty_weight());
  return options;
}

v1::CalibrationLoss ToProto(const CalibrationLoss& loss) {
  v1::CalibrationLoss proto;
  proto.set_value(loss.value);
  if (loss.negative_log_likelihood.has_value()) {
    proto.set_negative_log_likelihood(*loss.negative_log_likelihood);
  }
  proto.set_penalty_value(loss.penalty_value);
  if (loss.outcome_kernel.has_value()) {
    *proto.mutable_outcome_kernel() = ToProto(*loss.outcome_kernel);
  }
  *proto.mutable_condition() = ToProto(loss.condition);
  if (IsKernelDensity(loss.penalty)) proto.mutable_condition()->mutable_forecast()->clear_kernel();
  return proto;
}

}  // namespace calibd::convert
