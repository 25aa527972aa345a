#ifndef CALIBD_SERVER_ROWS_PREDICTION_ID_H_
#define CALIBD_SERVER_ROWS_PREDICTION_ID_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace calibd::server {

// The XXH3 128-bit hash of a caller's id. For a million ids of one model, the probability that two
// ids collide is below 1e-24.
struct PredictionId {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const PredictionId&, const PredictionId&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const PredictionId& id) {
    return H::combine(std::move(hash), id.low, id.high);
  }
};

[[nodiscard]] PredictionId HashId(std::string_view id) noexcept;

// The window keeps PredictionId::low of each observation, and this for one without an id.
// CompareModels pairs observations by it. For windows of a million rows, the probability that any
// two different ids collide is below 1e-6, and a collision causes one wrong pair.
inline constexpr std::uint64_t kNoIdHash = 0;

// The form of the store: 16 bytes for each id, the low half first, little-endian.
[[nodiscard]] std::string EncodeIds(std::span<const PredictionId> ids);
// Returns an empty vector unless the length of `bytes` is a multiple of 16.
[[nodiscard]] std::vector<PredictionId> DecodeIds(std::string_view bytes);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_PREDICTION_ID_H_
