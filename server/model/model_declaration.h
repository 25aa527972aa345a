#ifndef CALIBD_SERVER_MODEL_MODEL_DECLARATION_H_
#define CALIBD_SERVER_MODEL_MODEL_DECLARATION_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "calibd/core/lens.h"
#include "calibd/core/lens_kernel.h"
#include "calibd/core/multilabel.h"
#include "calibd/v1/model_service.pb.h"
#include "server/model/forecast_spec.h"
#include "server/model/model_name.h"
#include "server/model/monitoring.h"
#include "server/model/row_shape.h"

namespace calibd::server {

// How the answers of a model server become predictions.
struct InferenceOutput {
  using Transform = v1::InferenceOutput::Transform;
  std::string name;
  Transform transform = v1::InferenceOutput::UNSPECIFIED;
  // The column of each class; empty: the columns are in the order of the classes, or of the values
  // of a forecast.
  std::vector<std::size_t> columns{};
  // The output with the predictions of the baseline; empty: the answers do not contain them.
  std::string baseline_name{};

  friend bool operator==(const InferenceOutput&, const InferenceOutput&) = default;
};

// What the declaration of a classifier says of its classes and of the estimators for them.
struct ClassesSpec {
  // m.
  std::size_t count = 0;
  // m names, or empty.
  std::vector<std::string> names{};
  // Kernel of the canonical lens.
  KernelSpec kernel{};
  // Distinct; the canonical lens is the first.
  std::vector<Lens> lenses = {Lens::Canonical()};
  // Ascending and distinct; they include 2.
  std::vector<std::size_t> block_sizes{};
  double row_sum_tolerance = 0;
  // The name of the baseline whose probabilities each batch holds too; empty without a baseline.
  std::string baseline{};

  friend bool operator==(const ClassesSpec&, const ClassesSpec&);
};

// What the declaration of a model that forecasts a number says of the forecasts.
struct NumbersSpec {
  NumberForecastKind forecast;
  // Only with monitoring.
  std::optional<ThresholdDecision> decision{};

  friend bool operator==(const NumbersSpec&, const NumbersSpec&) = default;
};

// What the declaration of a model of several labels says of them.
struct LabelsSpec {
  // K distinct names.
  std::vector<std::string> names;

  friend bool operator==(const LabelsSpec&, const LabelsSpec&) = default;
};

// A model's declaration, with every default filled in and every limit checked. Immutable: an update
// makes a new one (model_update.h).
struct ModelDeclaration {
  ModelName name;
  // What the model predicts.
  std::variant<ClassesSpec, NumbersSpec, LabelsSpec> kind;
  // 2..window if a lens chooses its bandwidth from the first predictions, or if a watch chooses the
  // strata of forecasts from them, else 0.
  std::size_t warmup = 0;
  // Number of newest observations that are kept, >= 2.
  std::size_t window = 0;
  // Age at which a prediction with an id matures; 0: predictions have no ids.
  std::chrono::microseconds label_grace{};
  // Maximum number of pending predictions; 0 without label_grace.
  std::size_t max_pending = 0;
  // Predictions with ids have labels and mature at once. Only with label_grace.
  bool labels_come_with_predictions = false;
  Monitoring monitoring;
  std::string description;
  InferenceOutput inference_output{};
  // Distinct; empty for a model without features.
  std::vector<std::string> feature_names;

  // Each returns nullptr for a model of another kind.
  [[nodiscard]] const ClassesSpec* classes() const noexcept {
    return std::get_if<ClassesSpec>(&kind);
  }
  [[nodiscard]] const NumbersSpec* numbers() const noexcept {
    return std::get_if<NumbersSpec>(&kind);
  }
  [[nodiscard]] const LabelsSpec* labels() const noexcept { return std::get_if<LabelsSpec>(&kind); }

  // Number of classes; 0 for a model without classes.
  [[nodiscard]] std::size_t class_count() const noexcept {
    return classes() == nullptr ? 0 : classes()->count;
  }
  // Empty for a model without classes.
  [[nodiscard]] std::span<const Lens> lenses() const noexcept {
    return classes() == nullptr ? std::span<const Lens>() : classes()->lenses;
  }
  // Names of the values of a prediction, in their order; empty if they have none.
  [[nodiscard]] std::span<const std::string> value_names() const noexcept {
    if (labels() != nullptr) return labels()->names;
    return classes() == nullptr ? std::span<const std::string>() : classes()->names;
  }
  // Name of class 1 of two classes; empty without names, and for other models.
  [[nodiscard]] std::string class_1_name() const {
    return classes() != nullptr && classes()->names.size() == 2 ? classes()->names[1] : "";
  }
  // Empty for a model without a baseline.
  [[nodiscard]] std::string_view baseline() const noexcept {
    return classes() == nullptr ? std::string_view() : classes()->baseline;
  }
  [[nodiscard]] bool has_baseline() const noexcept { return !baseline().empty(); }
  // Number of values of a prediction: m or K probabilities, or those of a forecast.
  [[nodiscard]] std::size_t row_width() const noexcept {
    if (labels() != nullptr) return labels()->names.size();
    return numbers() != nullptr ? ForecastWidth(numbers()->forecast) : class_count();
  }
  // Number of values that a batch holds for each row.
  [[nodiscard]] std::size_t values_per_row() const noexcept {
    return (has_baseline() ? 2 : 1) * row_width() + feature_names.size();
  }
  // Number of predicted classes whose labels are counted apart. All predictions without classes are
  // of one.
  [[nodiscard]] std::size_t counted_classes() const noexcept {
    return classes() == nullptr ? 1 : class_count();
  }
  // Whether the window keeps the group of each row, for an evaluation of each group of classes, or
  // a test of forecasts by group.
  [[nodiscard]] bool keeps_groups() const noexcept {
    if (monitoring.group_tag.empty()) return false;
    return classes() != nullptr ||
           (numbers() != nullptr &&
            !std::holds_alternative<QuantileForecasts>(numbers()->forecast));
  }

  [[nodiscard]] TruthShape truth_shape() const noexcept {
    if (numbers() != nullptr) return {.labels = 0};
    if (labels() != nullptr) {
      return {.labels = row_width(), .least_label = kMissingTruth, .end_label = 2};
    }
    return {.labels = 1, .end_label = static_cast<std::int32_t>(class_count())};
  }
  [[nodiscard]] RowShape row_shape() const noexcept {
    return {row_width(), counted_classes(), truth_shape(), feature_names.size()};
  }

  friend bool operator==(const ModelDeclaration&, const ModelDeclaration&) = default;
};

// Converts the declaration for the API; create_time stays unset.
[[nodiscard]] v1::Model ToProto(const ModelDeclaration& declaration);
// Converts only the settings: tolerances, label_grace, max_pending, monitoring, description and
// inference output.
[[nodiscard]] v1::Model SettingsToProto(const ModelDeclaration& declaration);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_MODEL_MODEL_DECLARATION_H_
