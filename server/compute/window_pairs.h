#ifndef CALIBD_SERVER_COMPUTE_WINDOW_PAIRS_H_
#define CALIBD_SERVER_COMPUTE_WINDOW_PAIRS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/rows/truths.h"

namespace calibd::server {

// The rows of a window that identify its observations, one value per row. See kNoIdHash.
struct WindowKeys {
  std::span<const std::uint64_t> id_hashes;
  TruthView truths;

  [[nodiscard]] bool SameTruth(std::size_t row, const WindowKeys& other,
                               std::size_t other_row) const {
    return truths.labels.empty() ? truths.outcomes[row] == other.truths.outcomes[other_row]
                                 : std::ranges::equal(truths.rows(row, 1).labels,
                                                      other.truths.rows(other_row, 1).labels);
  }
};

// The rows of two windows with the same id and the same truth. If an id occurs more than once in a
// window, its newest row is used.
struct WindowPairs {
  // The indices of each pair, in the order of the model's window.
  std::vector<std::uint32_t> model_rows;
  std::vector<std::uint32_t> baseline_rows;
  // Number of rows of each window with the same id and different truths.
  std::int64_t label_conflicts = 0;
  // Number of rows without an id.
  std::int64_t model_without_id = 0;
  std::int64_t baseline_without_id = 0;

  // The pairs have the same order in both windows. While both windows grow, later pairs then follow
  // the earlier ones.
  [[nodiscard]] bool in_same_order() const;
};

// Both windows are of models of the same kind. Cost: O(n) expected; about 40 bytes per row of the
// baseline.
[[nodiscard]] WindowPairs FindPairs(const WindowKeys& model, const WindowKeys& baseline);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_COMPUTE_WINDOW_PAIRS_H_
