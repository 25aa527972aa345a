#include "server/kinds/numbers/number_predictions.h"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/validation.h"
#include "server/base/errors.h"
#include "server/kinds/numbers/number_answer.h"
#include "server/kinds/numbers/number_kind.h"
#include "server/kinds/numbers/number_state.h"
#include "server/model/forecast_spec.h"
#include "server/watch/row_screen.h"

namespace calibd::server {
namespace {

const NumbersSpec& SpecOf(const ModelDeclaration& declaration) {
  return std::get<NumbersSpec>(declaration.kind);
}

std::span<const double> RowOf(const RowValues& values, std::size_t i) {
  return std::span(values.values).subspan(i * values.width, values.width);
}

class Numbers final : public PredictionKind {
 public:
  v1::Model::KindCase field() const noexcept override { return v1::Model::kForecast; }

  bool CheckSpec(const v1::Model& model, const SpecContext& /*context*/,
                 ModelDeclaration& declaration, std::vector<Violation>& violations) const override {
    const v1::Forecast& declared = model.forecast();
    NumbersSpec spec{.forecast = CheckForecast(declared, violations)};
    if (declared.has_decision()) {
      spec.decision = CheckDecision(declared.decision(), spec.forecast, violations);
      if (model.monitoring().disabled()) {
        Violate(violations, "model.forecast.decision",
                "is set, but monitoring.disabled is too: expected one of both");
      }
    }
    declaration.kind = std::move(spec);
    return violations.empty();
  }
  // The strata are chosen for the watch.
  bool NeedsWarmup(const ModelDeclaration& declaration) const override {
    return !declaration.monitoring.disabled;
  }
  std::size_t MostWarmup(const ModelDeclaration& /*declaration*/) const override {
    return std::numeric_limits<std::size_t>::max();
  }
  double default_error_limit() const noexcept override { return kDefaultCoverageErrorLimit; }
  std::string Predicts(const ModelDeclaration& declaration) const override {
    return absl::StrCat("forecasts of ", declaration.row_width(), " values");
  }
  void Compare(const ModelDeclaration& existing, const ModelDeclaration& declared,
               std::vector<std::string>& differences) const override {
    if (SpecOf(existing).forecast != SpecOf(declared).forecast) {
      differences.emplace_back("forecast differs");
    } else if (SpecOf(existing).decision != SpecOf(declared).decision) {
      differences.emplace_back("forecast.decision differs");
    }
  }

  const char* does() const noexcept override { return "forecasts a number"; }
  std::vector<Violation> ConvertRows(const ValueForm& /*form*/, const ModelDeclaration& declaration,
                                     std::size_t first, std::size_t count,
                                     RowValues& values) const override {
    const NumberForecastKind& kind = SpecOf(declaration).forecast;
    std::vector<Violation> violations;
    for (std::size_t i = first; i < first + count && violations.size() < kMaxReportedViolations;
         ++i) {
      const std::span<const double> row = RowOf(values, i);
      std::optional<Violation> violation = FindForecastViolation(kind, row);
      if (!violation.has_value() && !values.truths.empty()) {
        violation = FindOutcomeViolation(kind, row, values.truths.outcomes[i]);
      }
      if (!violation.has_value()) continue;
      violation->row = i;
      violations.push_back(*std::move(violation));
    }
    return violations;
  }
  // An outcome that is too far from its forecast cannot be scored. With its forecast it would have
  // been rejected.
  void LeaveOut(const ModelDeclaration& declaration, const RowValues& predictions,
                const TruthView& truths, std::vector<bool>& labelled) const override {
    const NumberForecastKind& kind = SpecOf(declaration).forecast;
    for (std::size_t i = 0; i < labelled.size(); ++i) {
      if (!labelled[i]) continue;
      labelled[i] =
          !FindOutcomeViolation(kind, RowOf(predictions, i), truths.outcomes[i]).has_value();
    }
  }

  KindSizes Sizes(const ModelDeclaration& declaration) const noexcept override {
    const bool screened = !declaration.monitoring.disabled;
    // A bucket counts the observations of each of at most 64 cells, and those that equal each
    // quantile.
    const bool quantiles = std::holds_alternative<QuantileForecasts>(SpecOf(declaration).forecast);
    return {.watches = NumberKind::MaxMemory(declaration.monitoring, SpecOf(declaration).forecast),
            .other = screened ? RowScreen::MaxMemory(declaration.window) : 0,
            .history_bucket = std::size_t{quantiles ? 2U : 1U} * 64 * sizeof(std::int64_t)};
  }
  std::size_t SnapshotRows(const ModelDeclaration& /*declaration*/) const noexcept override {
    return 8192;
  }

  // In the order of ForecastFamily.
  std::span<const char* const> families() const noexcept override {
    static constexpr std::array<const char*, kForecastFamilyCount> kNames{
        "location_scale", "histogram", "by_scale", "by_location", "levels"};
    return kNames;
  }
  void Describe(const DescribedModel& model, v1::GetCalibrationResponse& out) const override {
    DescribeNumbers(model, out);
  }
  std::string NoWatchReason(const ModelDeclaration& declaration,
                            const KindSnapshot& /*snapshot*/) const override {
    return absl::StrCat("it begins after ", declaration.warmup,
                        " rows, from which the strata of the forecasts are chosen");
  }
  void DescribeBucket(const ModelDeclaration& declaration, const KindSnapshot& snapshot,
                      const HistoryBucket& bucket, std::span<const std::string> /*labels*/,
                      v1::HistoryBucket& out) const override {
    DescribeNumberBucket(SpecOf(declaration), *snapshot.forecast_cells, bucket, out);
  }
  void DescribeOpened(const ModelDeclaration& declaration,
                      v1::StreamObservationsResponse::Opened& out) const override {
    *out.mutable_forecast() = ToProto(SpecOf(declaration).forecast);
  }
  const char* kernel_name(const ModelDeclaration& /*declaration*/) const override { return "none"; }
  absl::Status CheckCall(const ModelDeclaration& declaration, WindowCall call) const override {
    const char* instead = nullptr;
    const char* needs = "needs a model of classes";
    if (call == WindowCall::kErrorEstimate) {
      instead =
          "forecasts a number: the interval of its coverage error is in GetCalibration (calibctl "
          "show), and its discrepancies with exact tests are in Evaluate (calibctl "
          "evaluate-forecasts --model)";
    } else if (const auto* const quantiles =
                   std::get_if<QuantileForecasts>(&SpecOf(declaration).forecast);
               call == WindowCall::kRecalibration && quantiles != nullptr &&
               quantiles->levels.size() < 2) {
      needs = "needs quantiles of two or more levels";
      instead =
          "has one: GetCalibration (calibctl show) has the share of outcomes below it, by which "
          "its forecasts can be moved";
    }
    if (instead == nullptr) return absl::OkStatus();
    return MakeError(absl::StatusCode::kFailedPrecondition, "FORECAST_MODEL",
                     absl::StrCat(NameOf(call), " ", needs, ", and ", declaration.name.ToString(),
                                  " ", instead));
  }

  std::unique_ptr<KindState> NewState(
      std::shared_ptr<const ModelDeclaration> declaration) const override {
    return MakeNumberState(std::move(declaration));
  }
};

}  // namespace

const PredictionKind& NumberPredictions() noexcept {
  static const Numbers kKind;
  return kKind;
}

}  // namespace calibd::server
