#ifndef CALIBD_SERVER_ROWS_ROW_CODEC_H_
#define CALIBD_SERVER_ROWS_ROW_CODEC_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "calibd/store/v1/store.pb.h"
#include "server/model/model_declaration.h"
#include "server/rows/log_row.h"

namespace calibd::server {

// Encodes a row as a store.v1.LogRow, without `elapsed`. Cost: one copy of the values. May throw
// bad_alloc.
[[nodiscard]] std::string EncodeRow(const LogRow& row);
// Completes an encoded row with the field `elapsed`.
void AppendElapsed(std::chrono::microseconds elapsed, std::string& encoded);

// Errors: DataLoss if the data is not a row of a model with this shape.
[[nodiscard]] absl::StatusOr<LogRow> DecodeRow(std::string_view data, const RowShape& shape);

// Parses a row as far as it is intact, without checking its content. Returns false if it is
// damaged.
[[nodiscard]] bool ParseRow(std::string_view data, store::v1::LogRow& row);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_ROW_CODEC_H_
