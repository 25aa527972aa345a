#ifndef CALIBD_SERVER_STATE_DECLARATION_SIZE_H_
#define CALIBD_SERVER_STATE_DECLARATION_SIZE_H_

#include <chrono>
#include <cstddef>

#include "server/model/model_declaration.h"
#include "server/rows/log_row.h"

namespace calibd::server {

// Number of rows in one chunk of the window: about 1 MiB, at most the window. width: the number of
// values of a prediction and its features.
[[nodiscard]] std::size_t WindowChunkRows(std::size_t width, std::size_t window) noexcept;

// Maximum number of bytes that the state of such a model can hold: the window, a copy of the
// warm-up predictions, blocks, class names, predictions whose ids are known, watches and buckets of
// the history.
[[nodiscard]] std::size_t StateMemory(const ModelDeclaration& declaration) noexcept;

// The part of StateMemory for History::kMostBuckets.
[[nodiscard]] std::size_t HistoryMemory(const ModelDeclaration& declaration) noexcept;

// Maximum number of bytes that a row with these observations adds to the history besides what
// StateMemory includes: additions to closed buckets, until a snapshot stores them. now: time of the
// row.
[[nodiscard]] std::size_t LateHistoryMemory(const ModelDeclaration& declaration,
                                            const RowValues& values, std::chrono::sys_seconds now);

// Number of observations or predictions after which a snapshot of such a model is due. It bounds
// the work of replaying the model's log.
[[nodiscard]] std::size_t SnapshotRows(const ModelDeclaration& declaration) noexcept;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_DECLARATION_SIZE_H_
