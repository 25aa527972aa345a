#ifndef CALIBD_SERVER_ROWS_ROW_VIEW_H_
#define CALIBD_SERVER_ROWS_ROW_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "calibd/core/forecast_cells.h"
#include "calibd/core/prediction_batch.h"
#include "server/rows/row_extras.h"

namespace calibd::server {

// Observations of a model: the values of each prediction, and its truth. A view.
struct RowView {
  RowView() = default;
  RowView(std::span<const double> the_values, std::size_t the_width,
          std::span<const std::int32_t> the_labels, std::span<const double> the_outcomes,
          const RowExtras& the_extras)
      : values(the_values),
        width(the_width),
        labels(the_labels),
        outcomes(the_outcomes),
        extras(the_extras) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a batch is rows without extras.
  RowView(const PredictionBatch& batch, const RowExtras& the_extras = {})
      : RowView(batch.probabilities, batch.class_count, batch.labels, {}, the_extras) {}

  // n x width, row-major.
  std::span<const double> values{};
  std::size_t width = 1;
  // The truths: as many labels for each row as its kind has, or one outcome. The other one is
  // empty.
  std::span<const std::int32_t> labels{};
  std::span<const double> outcomes{};
  RowExtras extras{};

  [[nodiscard]] std::size_t size() const noexcept { return values.size() / width; }
  [[nodiscard]] RowView rows(std::size_t first, std::size_t count) const noexcept {
    const auto part = [&]<typename T>(std::span<const T> all) {
      const std::size_t each = all.empty() ? 0 : all.size() / size();
      return all.subspan(first * each, count * each);
    };
    return {part(values), width, part(labels), part(outcomes), extras.rows(first, count)};
  }

  [[nodiscard]] PredictionBatch classes() const noexcept { return {values, labels, width}; }
  [[nodiscard]] NumberForecastBatch numbers() const noexcept {
    return {.forecasts = values, .outcomes = outcomes};
  }
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_ROW_VIEW_H_
