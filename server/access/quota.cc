#include "server/access/quota.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

using std::chrono::milliseconds;

// Time until a stream, a watch or room for a batch may be free.
constexpr milliseconds kPlaceDelay{1000};
constexpr milliseconds kRoomDelay{100};
constexpr double kSecondsPerHour = 3600;

struct QuotaText {
  const char* key;
  // What the caller can do.
  const char* remedy;
};
constexpr std::array<QuotaText, kQuotaKinds> kTexts{{
    {"models", "delete a model"},
    {"rows_per_second", "wait, or send over a stream, which waits by itself"},
    {"pending_bytes", "wait, or send over a stream, which waits by itself"},
    {"streams", "end a stream that is not used"},
    {"watches", "end a watch that is not used"},
    {"compute_seconds_per_hour", "wait, or use a smaller window or fewer replicates"},
}};

std::size_t Index(QuotaKind kind) { return static_cast<std::size_t>(kind); }

// What is asked for and what is in use.
std::string UseOf(const QuotaRefusal& refusal) {
  switch (refusal.kind) {
    case QuotaKind::kModels:
      return absl::StrCat("it may already create, update and delete ", refusal.used,
                          " models, and this would be one more");
    case QuotaKind::kRowsPerSecond:
      return absl::StrCat("the rows before this batch of ", refusal.asked,
                          " came faster than that, and the next may come in ",
                          refusal.wait.value_or(milliseconds(0)).count(), " ms");
    case QuotaKind::kPendingBytes:
      return absl::StrCat("batches of ", refusal.used,
                          " bytes wait to be written, and this one takes ", refusal.asked);
    case QuotaKind::kStreams:
    case QuotaKind::kWatches:
      return absl::StrCat(refusal.used, " are open, and this would be one more");
    case QuotaKind::kComputeSecondsPerHour:
      return absl::StrCat(
          "the tests and evaluations before this one have used them up, and the "
          "next may begin in ",
          (refusal.wait.value_or(milliseconds(0)).count() + 999) / 1000, " s");
  }
  return "";
}

// A bucket with another rate. What was spent stays spent.
void SetRate(std::optional<TokenBucket>& bucket, std::optional<std::uint64_t> burst,
             double seconds) {
  if (!burst.has_value()) {
    bucket.reset();
    return;
  }
  const auto most = static_cast<double>(*burst);
  if (bucket.has_value()) {
    bucket->SetRate(most / seconds, most);
  } else {
    bucket.emplace(most / seconds, most);
  }
}

}  // namespace

std::string_view QuotaKey(QuotaKind kind) { return kTexts[Index(kind)].key; }

Quota::Part::~Part() {
  if (quota_ == nullptr) return;
  const std::lock_guard lock(quota_->mutex_);
  quota_->used_[Index(kind_)] -= amount_;
}

void Quota::SetLimits(const QuotaLimits& limits) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
  SetRate(rows_, limits[Index(QuotaKind::kRowsPerSecond)], 1);
  SetRate(compute_, limits[Index(QuotaKind::kComputeSecondsPerHour)], kSecondsPerHour);
}

std::optional<std::uint64_t> Quota::limit(QuotaKind kind) const {
  const std::lock_guard lock(mutex_);
  return limits_[Index(kind)];
}

std::optional<QuotaRefusal> Quota::Take(QuotaKind kind, Part& part) {
  // Before the lock, because the part may return an older one.
  Part taken(shared_from_this(), kind, 0);
  {
    const std::lock_guard lock(mutex_);
    std::uint64_t& in_use = used_[Index(kind)];
    const std::optional<std::uint64_t> limit = limits_[Index(kind)];
    if (limit.has_value() && in_use >= *limit) {
      return QuotaRefusal{
          .kind = kind, .limit = *limit, .used = in_use, .asked = 1, .wait = kPlaceDelay};
    }
    ++in_use;
    taken.amount_ = 1;
  }
  part = std::move(taken);
  return std::nullopt;
}

std::optional<QuotaRefusal> Quota::TakeBatch(std::uint64_t rows, std::uint64_t bytes, Part& part,
                                             Clock::time_point now) {
  Part taken(shared_from_this(), QuotaKind::kPendingBytes, 0);
  {
    const std::lock_guard lock(mutex_);
    std::uint64_t& pending = used_[Index(QuotaKind::kPendingBytes)];
    const std::optional<std::uint64_t> limit = limits_[Index(QuotaKind::kPendingBytes)];
    if (limit.has_value() && pending > 0 && pending + bytes > *limit) {
      return QuotaRefusal{.kind = QuotaKind::kPendingBytes,
                          .limit = *limit,
                          .used = pending,
                          .asked = bytes,
                          .wait = kRoomDelay};
    }
    auto refusal = CheckRateLocked(QuotaKind::kRowsPerSecond, rows_, rows, now);
    if (refusal.has_value()) return refusal;
    if (rows_.has_value()) rows_->Spend(now, static_cast<double>(rows));
    pending += bytes;
    taken.amount_ = bytes;
  }
  part = std::move(taken);
  return std::nullopt;
}

std::optional<QuotaRefusal> Quota::CheckCompute(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  return CheckRateLocked(QuotaKind::kComputeSecondsPerHour, compute_, 1, now);
}

void Quota::SpendCompute(double seconds, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (compute_.has_value()) compute_->Spend(now, seconds);
}

std::optional<QuotaRefusal> Quota::CheckRateLocked(QuotaKind kind,
                                                   std::optional<TokenBucket>& bucket,
                                                   std::uint64_t asked,
                                                   Clock::time_point now) const {
  if (!bucket.has_value()) return std::nullopt;
  const std::chrono::duration<double, std::milli> wait = bucket->Wait(now);
  if (wait.count() <= 0) return std::nullopt;
  return QuotaRefusal{.kind = kind,
                      .limit = limits_[Index(kind)].value_or(0),
                      .asked = asked,
                      .wait = milliseconds(static_cast<std::int64_t>(std::ceil(wait.count())))};
}

absl::Status Quota::ErrorOf(const QuotaRefusal& refusal) const {
  const QuotaText& text = kTexts[Index(refusal.kind)];
  const absl::Status error = MakeError(
      absl::StatusCode::kResourceExhausted, "QUOTA_EXCEEDED",
      absl::StrCat("the quota ", text.key, " of ", principal_, " is ", refusal.limit, ": ",
                   UseOf(refusal), "; ", text.remedy,
                   ", or ask whoever keeps the server's --access-file for a larger quota"));
  return refusal.wait.has_value() ? WithRetryDelay(error, *refusal.wait) : error;
}

}  // namespace calibd::server
