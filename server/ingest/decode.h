#ifndef CALIBD_SERVER_INGEST_DECODE_H_
#define CALIBD_SERVER_INGEST_DECODE_H_

#include <chrono>
#include <cstdint>

#include "calibd/v1/ingest_service.pb.h"
#include "server/model/model_declaration.h"
#include "server/rows/log_row.h"

namespace calibd::server {

// Maximum number of rows of a batch.
inline constexpr std::int32_t kMaxRowsPerBatch = 65536;

// Converts floats, doubles or logits to doubles and checks shape, limits, values and class order.
// The row holds all predictions or labels of the batch, or the reason why the batch is rejected.
// The result depends only on the message, the declaration and, if there are prediction times, on
// the server's time `now`: otherwise, a batch that is sent again gets the same result and the same
// error. Cost: O(n m). May throw bad_alloc.
[[nodiscard]] LogRow Decode(
    const v1::Observations& observations, const ModelDeclaration& declaration,
    std::chrono::system_clock::time_point now = std::chrono::system_clock::now());
[[nodiscard]] LogRow Decode(const v1::Labels& labels, const ModelDeclaration& declaration);

// Number of rows that a message has, or claims to have if its fields disagree: at least 1. It does
// not check the message. Cost: O(1).
[[nodiscard]] std::uint64_t ClaimedRows(const v1::Observations& observations,
                                        const RowShape& shape);
[[nodiscard]] std::uint64_t ClaimedRows(const v1::Labels& labels, const RowShape& shape);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_DECODE_H_
