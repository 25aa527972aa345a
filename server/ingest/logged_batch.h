#ifndef CALIBD_SERVER_INGEST_LOGGED_BATCH_H_
#define CALIBD_SERVER_INGEST_LOGGED_BATCH_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/ingest/decode.h"
#include "server/state/producer_cursors.h"

namespace calibd::server {

// What the log holds of a batch, a store.v1.LoggedBatch. May throw bad_alloc.
[[nodiscard]] std::string EncodeLogged(const DecodedBatch& batch,
                                       const std::optional<ProducerPosition>& position);

// The values, rows and dropped rows of a batch of the log; validity says whether it was
// accepted. Errors: DataLoss when it is none of a model of class_count classes.
[[nodiscard]] absl::StatusOr<DecodedBatch> DecodeLogged(std::string_view data,
                                                        std::size_t class_count);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_LOGGED_BATCH_H_
