#ifndef CALIBD_SERVER_MODEL_ROW_SHAPE_H_
#define CALIBD_SERVER_MODEL_ROW_SHAPE_H_

#include <cstddef>
#include <cstdint>

namespace calibd::server {

// What is known to be true about a prediction: integer labels, or the outcome of a forecast.
struct TruthShape {
  // Number of labels of a prediction; 0: it has an outcome instead.
  std::size_t labels = 1;
  // The labels are in [least_label, end_label).
  std::int32_t least_label = 0;
  std::int32_t end_label = 0;

  // Memory of the truth of a prediction.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return labels == 0 ? sizeof(double) : labels * sizeof(std::int32_t);
  }
};

// What a row of the log must have to be one of a model.
struct RowShape {
  // NOLINTNEXTLINE(google-explicit-constructor): a model of classes has only their number.
  RowShape(std::size_t m) : RowShape(m, m, {1, 0, static_cast<std::int32_t>(m)}, 0) {}
  RowShape(std::size_t values, std::size_t predicted_classes, const TruthShape& truth_shape,
           std::size_t feature_count)
      : width(values), classes(predicted_classes), truths(truth_shape), features(feature_count) {}

  // Number of values of a prediction, and of predicted classes.
  std::size_t width;
  std::size_t classes;
  TruthShape truths;
  // Number of features of a row.
  std::size_t features;

  // The values are probabilities, unless the predictions are forecasts with outcomes.
  [[nodiscard]] bool has_probabilities() const noexcept { return truths.labels > 0; }
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_MODEL_ROW_SHAPE_H_
