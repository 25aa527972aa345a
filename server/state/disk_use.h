#ifndef CALIBD_SERVER_STATE_DISK_USE_H_
#define CALIBD_SERVER_STATE_DISK_USE_H_

#include <cstddef>

#include "server/state/model_declaration.h"

namespace calibd::server {

// Bytes of disk that such a model may come to occupy: what the log keeps for it (the window, what
// came since the newest snapshot, predictions whose ids are known, their labels), its snapshot and
// its history. All of it counts twice: files and tables hold up to twice what is needed.
//
// Not included are what the models share (kSharedDiskBytes), some 1 kB for each producer, and what
// comes while a backup or a verification holds the log.
[[nodiscard]] std::size_t DiskUse(const ModelDeclaration& declaration) noexcept;

// DiskUse of a model of 2 classes with all defaults: a smaller limit fits none.
[[nodiscard]] std::size_t LeastModelDisk();

// Bytes that each prediction of max_pending adds to DiskUse.
[[nodiscard]] std::size_t DiskUsePerPending(const ModelDeclaration& declaration) noexcept;

// Bytes of disk that the models share, part of every sum of what they reserve: the files of the log
// are not given back before there are more than four, one is being filled and one kept for later,
// 64 MiB each; the write-ahead log.
inline constexpr std::size_t kSharedDiskBytes = std::size_t{512} << 20;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_DISK_USE_H_
