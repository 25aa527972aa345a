#ifndef CALIBD_SERVER_INGEST_DECODE_H_
#define CALIBD_SERVER_INGEST_DECODE_H_

#include <cstdint>

#include "calibd/v1/ingest_service.pb.h"
#include "server/state/log_row.h"
#include "server/state/model_declaration.h"

namespace calibd::server {

// The most rows of one batch.
inline constexpr std::int32_t kMaxRowsPerBatch = 65536;

// Decodes float, double or logits to double and checks shape, limits, values and class order. The
// row holds all predictions or labels of the batch, or why the batch is rejected. Whether it is
// depends on nothing but the message and the declaration, so that a batch that is sent again is
// judged again in the same words. Cost: O(n m). May throw bad_alloc.
[[nodiscard]] LogRow Decode(const v1::Observations& observations,
                            const ModelDeclaration& declaration);
[[nodiscard]] LogRow Decode(const v1::Labels& labels, const ModelDeclaration& declaration);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_DECODE_H_
