#ifndef CALIBD_SERVER_API_QUOTA_USE_H_
#define CALIBD_SERVER_API_QUOTA_USE_H_

#include <algorithm>
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
#include "server/model/row_shape.h"

namespace calibd::server {

// How calls of the API use the quotas of their callers.

// Number of predictions or labels of a batch, as the quota of rows counts them: before the batch is
// checked. Batch: ObserveRequest or a batch of a stream.
template <typename Batch>
[[nodiscard]] std::uint64_t RowsForQuota(const Batch& batch, const RowShape& shape) {
  const auto truths = static_cast<int>(std::max<std::size_t>(shape.truths.labels, 1));
  int rows = 0;
  if (batch.has_labels()) {
    rows = std::max(batch.labels().prediction_ids_size(), batch.labels().labels_size() / truths);
  } else {
    const auto& sent = batch.observations();
    rows = std::max({sent.prediction_ids_size(), sent.labels_size() / truths,
                     sent.label_names_size(), sent.outcomes_size()});
  }
  return static_cast<std::uint64_t>(rows);
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

// Takes a model, a stream or a watch. used: see Quota::Take. Errors: ResourceExhausted.
[[nodiscard]] inline absl::Status TakeQuota(const AccessControl& access, const CallContext& call,
                                            const std::string& model, QuotaKind kind,
                                            Quota::Part& part, std::uint64_t used = 0) {
  Quota* const quota = call.identity->quota();
  if (quota == nullptr) return absl::OkStatus();
  const std::optional<QuotaRefusal> refusal = quota->Take(kind, part, used);
  return refusal.has_value() ? RefuseByQuota(access, call, model, *refusal) : absl::OkStatus();
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_QUOTA_USE_H_
