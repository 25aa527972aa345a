#include "server/ingest/decode_forecasts.h"

#include <cmath>
#include <cstddef>
#include <span>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

// Refuses labels for forecasts, and outcomes for classes.
template <typename Message>
absl::Status CheckTruths(const Message& message, const ModelDeclaration& declaration) {
  if (declaration.numbers() != nullptr && !message.labels().empty()) {
    return InvalidFieldError("labels",
                             "are given, expected outcomes because the model forecasts a number");
  }
  if (declaration.numbers() == nullptr && !message.outcomes().empty()) {
    return InvalidFieldError("outcomes",
                             "are given, expected labels because the model predicts classes");
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<Violation> FindLaterOutcomeViolation(const v1::Labels& labels, int i) {
  if (std::isfinite(labels.outcomes(i))) return std::nullopt;
  return Violation{
      .field = absl::StrCat("outcomes[", i, "]"),
      .description = absl::StrCat("is ", labels.outcomes(i), ", expected a finite number")};
}

absl::Status CheckKind(const v1::Observations& observations, const ModelDeclaration& declaration) {
  const bool forecasts = declaration.numbers() != nullptr;
  if (observations.predictions_case() == v1::Observations::PREDICTIONS_NOT_SET) {
    return InvalidFieldError("predictions", forecasts
                                                ? "is not set, expected forecasts"
                                                : "is not set, expected one of probabilities, "
                                                  "probabilities_float32, logits, logits_float32");
  }
  if (observations.has_forecasts() && !forecasts) {
    return InvalidFieldError(
        "forecasts",
        "are given, expected probabilities or logits because the model predicts "
        "classes; a model that forecasts a number declares `forecast`");
  }
  if (!observations.has_forecasts() && forecasts) {
    return InvalidFieldError(
        "predictions",
        "are probabilities or logits, expected forecasts because the model forecasts a number");
  }
  return CheckTruths(observations, declaration);
}

absl::Status CheckKind(const v1::Labels& labels, const ModelDeclaration& declaration) {
  return CheckTruths(labels, declaration);
}

std::optional<Violation> FindForecastRowViolation(const NumberForecastKind& kind,
                                                  const RowValues& values, int i) {
  const auto place = static_cast<std::size_t>(i);
  const std::span<const double> row =
      std::span(values.values).subspan(place * values.width, values.width);
  std::optional<Violation> violation = FindForecastViolation(kind, row);
  if (!violation.has_value() && !values.truths.empty()) {
    violation = FindOutcomeViolation(kind, row, values.truths.outcomes[place]);
  }
  if (violation.has_value()) violation->field = absl::StrCat("rows[", i, "].", violation->field);
  return violation;
}

}  // namespace calibd::server
