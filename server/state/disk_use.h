#ifndef CALIBD_SERVER_STATE_DISK_USE_H_
#define CALIBD_SERVER_STATE_DISK_USE_H_

#include <cstddef>

#include "server/model/model_declaration.h"

namespace calibd::server {

// Maximum number of bytes that a model may occupy on disk: the rows of the log that it needs (the
// window, rows after the newest snapshot, predictions with known ids and their labels), its
// snapshot and its history. Everything counts twice, because files and tables hold up to twice the
// needed bytes.
//
// Does not include what the models share (kSharedDiskBytes), about 1 kB per producer, 200 bytes per
// expired producer and request, and rows that are appended while a backup or a verification holds
// the log.
[[nodiscard]] std::size_t DiskUse(const ModelDeclaration& declaration) noexcept;

// Bytes that each prediction of max_pending adds to DiskUse.
[[nodiscard]] std::size_t DiskUsePerPending(const ModelDeclaration& declaration) noexcept;

// Bytes of disk that the models share, included in every sum of reserved bytes: six files of the
// log of 64 MiB each, and changes of the catalog that are not in their place yet. Segments are
// removed only when there are more than four, and one more is being filled. Files of removed
// segments are kept for reuse if there are then at most six, or if only one is kept.
inline constexpr std::size_t kSharedDiskBytes = std::size_t{512} << 20;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_DISK_USE_H_
