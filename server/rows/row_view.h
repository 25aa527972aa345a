#ifndef CALIBD_SERVER_ROWS_ROW_VIEW_H_
#define CALIBD_SERVER_ROWS_ROW_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "calibd/core/forecast_cells.h"
#include "calibd/core/prediction_batch.h"
#include "server/rows/row_extras.h"
#include "server/rows/truths.h"

namespace calibd::server {

// Observations of a model: the values of each prediction, and its truth. A view.
struct RowView {
  RowView() = default;
  RowView(std::span<const double> the_values, std::size_t the_width, const TruthView& the_truths,
          const RowExtras& the_extras)
      : values(the_values), width(the_width), truths(the_truths), extras(the_extras) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a batch is rows without extras.
  RowView(const PredictionBatch& batch, const RowExtras& the_extras = {})
      : RowView(batch.probabilities, batch.class_count, {.labels = batch.labels}, the_extras) {}

  // n x width, row-major.
  std::span<const double> values{};
  std::size_t width = 1;
  TruthView truths{};
  RowExtras extras{};

  [[nodiscard]] std::size_t size() const noexcept { return values.size() / width; }
  [[nodiscard]] RowView rows(std::size_t first, std::size_t count) const noexcept {
    return {values.subspan(first * width, count * width), width, truths.rows(first, count),
            extras.rows(first, count)};
  }

  [[nodiscard]] PredictionBatch classes() const noexcept { return {values, truths.labels, width}; }
  [[nodiscard]] NumberForecastBatch numbers() const noexcept {
    return {.forecasts = values, .outcomes = truths.outcomes};
  }
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_ROW_VIEW_H_
