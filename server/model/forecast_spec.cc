#include "server/model/forecast_spec.h"

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"

namespace calibd::server {

NumberForecastKind CheckForecast(const v1::Forecast& forecast, std::vector<Violation>& violations) {
  switch (forecast.kind_case()) {
    case v1::Forecast::kNormal:
      return NormalForecasts{};
    case v1::Forecast::kQuantiles: {
      const auto& levels = forecast.quantiles().levels();
      double below = 0;
      for (int k = 0; k < levels.size() && violations.empty(); ++k) {
        // Written so that NaN fails the check too.
        if (!(levels[k] > below && levels[k] < 1)) {
          violations.push_back(
              {absl::StrCat("model.forecast.quantiles.levels[", k, "]"),
               absl::StrCat("is ", levels[k], ", expected more than ", below, " and less than 1")});
        }
        below = levels[k];
      }
      return QuantileForecasts{.levels = {levels.begin(), levels.end()}};
    }
    case v1::Forecast::kSamples:
      return SampleForecasts{.draws = static_cast<std::size_t>(forecast.samples().draws())};
    case v1::Forecast::KIND_NOT_SET:
      break;
  }
  return NormalForecasts{};
}

v1::Forecast ToProto(const NumberForecastKind& kind) {
  v1::Forecast proto;
  if (const auto* const quantiles = std::get_if<QuantileForecasts>(&kind)) {
    proto.mutable_quantiles()->mutable_levels()->Add(quantiles->levels.begin(),
                                                     quantiles->levels.end());
  } else if (const auto* const samples = std::get_if<SampleForecasts>(&kind)) {
    proto.mutable_samples()->set_draws(static_cast<std::int32_t>(samples->draws));
  } else {
    proto.mutable_normal();
  }
  return proto;
}

ThresholdDecision CheckDecision(const v1::ThresholdDecision& decision,
                                const NumberForecastKind& kind,
                                std::vector<Violation>& violations) {
  const auto cost = [](double value) { return value == 0 ? 1 : value; };
  const ThresholdDecision checked{.threshold = decision.threshold(),
                                  .false_alarm_cost = cost(decision.false_alarm_cost()),
                                  .miss_cost = cost(decision.miss_cost())};
  if (std::holds_alternative<QuantileForecasts>(kind)) {
    violations.push_back(
        {"model.forecast.decision",
         "is set, but quantiles do not give the probability that the outcome reaches a threshold: "
         "expected none, or a model with normal or samples"});
  }
  if (const std::optional<Violation> violation = FindDecisionViolation(checked)) {
    violations.push_back(
        {absl::StrCat("model.forecast.decision.", violation->field), violation->description});
  }
  return checked;
}

v1::ThresholdDecision ToProto(const ThresholdDecision& decision) {
  v1::ThresholdDecision proto;
  proto.set_threshold(decision.threshold);
  proto.set_false_alarm_cost(decision.false_alarm_cost);
  proto.set_miss_cost(decision.miss_cost);
  return proto;
}

}  // namespace calibd::server
