#ifndef CALIBD_SERVER_API_QUOTA_USE_H_
#define CALIBD_SERVER_API_QUOTA_USE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/access/access_control.h"
#include "server/access/quota.h"
#include "server/api/call.h"
#include "server/ingest/decode.h"
#include "server/ingest/ingest_queue.h"
#include "server/model/row_shape.h"

namespace calibd::server {

// How calls of the API use the quotas of their callers.

// Number of rows of a batch, before it is checked, so that invalid rows count. Batch:
// ObserveRequest or a batch of a stream.
template <typename Batch>
[[nodiscard]] std::uint64_t RowsForQuota(const Batch& batch, const RowShape& shape) {
  return batch.has_labels() ? ClaimedRows(batch.labels(), shape)
                            : ClaimedRows(batch.observations(), shape);
}

// Returns the pointer, together with a part of a quota that is returned when nobody has the pointer
// any more.
template <typename Owned>
[[nodiscard]] std::shared_ptr<Owned> WithPart(std::shared_ptr<Owned> owned, Quota::Part part) {
  struct Both {
    Quota::Part part;
    std::shared_ptr<Owned> owned;
  };
  auto both = std::make_shared<Both>(Both{std::move(part), std::move(owned)});
  return std::shared_ptr<Owned>(both, both->owned.get());
}

// Counts and records a call that exceeds a quota, and returns its error. model: its name.
[[nodiscard]] inline absl::Status RefuseByQuota(const AccessControl& access,
                                                const CallContext& call, const std::string& model,
                                                const QuotaRefusal& refusal) {
  return access.Refuse(*call.identity, call.address, call.method, model, refusal);
}

// Takes the rows and the bytes of a batch, which belong to its room in the queue until the batch is
// counted. Errors: ResourceExhausted.
[[nodiscard]] inline absl::Status TakeBatchQuota(const AccessControl& access,
                                                 const CallContext& call, const std::string& model,
                                                 std::uint64_t rows, std::size_t bytes,
                                                 IngestQueue::RoomPtr& room) {
  Quota* const quota = call.identity->quota();
  if (quota == nullptr) return absl::OkStatus();
  Quota::Part part;
  const std::optional<QuotaRefusal> refusal =
      quota->TakeBatch(rows, bytes, part, Quota::Clock::now());
  if (refusal.has_value()) return RefuseByQuota(access, call, model, *refusal);
  room = WithPart(std::move(room), std::move(part));
  return absl::OkStatus();
}

// Takes a stream or a watch. Errors: ResourceExhausted.
[[nodiscard]] inline absl::Status TakeQuota(const AccessControl& access, const CallContext& call,
                                            const std::string& model, QuotaKind kind,
                                            Quota::Part& part) {
  Quota* const quota = call.identity->quota();
  if (quota == nullptr) return absl::OkStatus();
  const std::optional<QuotaRefusal> refusal = quota->Take(kind, part);
  return refusal.has_value() ? RefuseByQuota(access, call, model, *refusal) : absl::OkStatus();
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_QUOTA_USE_H_
