#ifndef CALIBD_SERVER_ROWS_ROW_EXTRAS_H_
#define CALIBD_SERVER_ROWS_ROW_EXTRAS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "server/rows/group_values.h"

namespace calibd::server {

// What is known of some labelled predictions besides the predictions and labels. A view.
struct RowExtras {
  // PredictionId::low of each row; empty if the rows have no ids.
  std::span<const std::uint64_t> id_hashes{};
  // n x feature_count; empty for a model without features.
  std::span<const double> features{};
  std::size_t feature_count = 0;
  GroupValues groups{};

  [[nodiscard]] RowExtras rows(std::size_t first, std::size_t count) const noexcept {
    return {.id_hashes = id_hashes.empty() ? id_hashes : id_hashes.subspan(first, count),
            .features = features.empty()
                            ? features
                            : features.subspan(first * feature_count, count * feature_count),
            .feature_count = feature_count,
            .groups = groups.rows(first, count)};
  }
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_ROW_EXTRAS_H_
