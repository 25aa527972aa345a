#include "server/rows/prediction_id.h"

#include <xxhash.h>

#include <bit>
#include <cstring>

namespace calibd::server {

static_assert(std::endian::native == std::endian::little && sizeof(PredictionId) == 16);

PredictionId HashId(std::string_view id) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(id.data(), id.size());
  return {.low = hash.low64, .high = hash.high64};
}

std::string EncodeIds(std::span<const PredictionId> ids) {
  std::string bytes(ids.size_bytes(), '\0');
  if (!ids.empty()) std::memcpy(bytes.data(), ids.data(), bytes.size());
  return bytes;
}

std::vector<PredictionId> DecodeIds(std::string_view bytes) {
  if (bytes.size() % sizeof(PredictionId) != 0) {
    return {};
  }
  std::vector<PredictionId> ids(bytes.size() / sizeof(PredictionId));
  if (!ids.empty()) std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

}  // namespace calibd::server
