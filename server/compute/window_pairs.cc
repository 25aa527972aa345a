#include "server/compute/window_pairs.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "server/rows/prediction_id.h"

namespace calibd::server {

bool WindowPairs::in_same_order() const { return std::ranges::is_sorted(baseline_rows); }

WindowPairs FindPairs(const WindowKeys& model, const WindowKeys& baseline) {
  WindowPairs pairs;
  pairs.model_without_id = std::ranges::count(model.id_hashes, kNoIdHash);
  pairs.baseline_without_id = std::ranges::count(baseline.id_hashes, kNoIdHash);
  // The rows go from the newest to the oldest, so that the newest row of an id comes first.
  absl::flat_hash_map<std::uint64_t, std::uint32_t> rows;
  for (std::size_t i = baseline.id_hashes.size(); i-- > 0;) {
    if (baseline.id_hashes[i] == kNoIdHash) continue;
    rows.try_emplace(baseline.id_hashes[i], static_cast<std::uint32_t>(i));
  }
  for (std::size_t i = model.id_hashes.size(); i-- > 0;) {
    const auto found = rows.find(model.id_hashes[i]);
    if (found == rows.end()) continue;
    if (model.SameTruth(i, baseline, found->second)) {
      pairs.model_rows.push_back(static_cast<std::uint32_t>(i));
      pairs.baseline_rows.push_back(found->second);
    } else {
      ++pairs.label_conflicts;
    }
    // A row belongs to one pair.
    rows.erase(found);
  }
  std::ranges::reverse(pairs.model_rows);
  std::ranges::reverse(pairs.baseline_rows);
  return pairs;
}

}  // namespace calibd::server
