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
// Time until a running computation may have ended.
constexpr milliseconds kComputeDelay{5000};
// Time until the batch before a batch in the line may have looked again.
constexpr milliseconds kTurnDelay{5};

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
      if (refusal.used > 0) {
        return absl::StrCat("the running tests and evaluations may need ", refusal.used,
                            " s, which is all that is left, and the next may begin when one of "
                            "them has ended");
      }
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
  if (!burst.has_value()) return;
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

void Quota::Turn::Leave() {
  if (quota_ == nullptr) return;
  const std::shared_ptr<Quota> quota = std::move(quota_);
  const std::lock_guard lock(quota->mutex_);
  quota->waiting_.erase(number_);
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
                                             Clock::time_point now, Turn* turn) {
  const std::shared_ptr<Quota> self = shared_from_this();
  Part taken(self, QuotaKind::kPendingBytes, 0);
  {
    const std::lock_guard lock(mutex_);
    const std::optional<QuotaRefusal> refusal = turn == nullptr
                                                    ? CheckBatchLocked(rows, bytes, now)
                                                    : CheckTurnLocked(rows, bytes, *turn, now);
    if (refusal.has_value()) {
      if (turn != nullptr && !turn->waits()) {
        turn->number_ = waiting_.emplace(last_turn_ + 1, rows).first->first;
        last_turn_ = turn->number_;
        turn->quota_ = self;
      }
      return refusal;
    }
    if (turn != nullptr && turn->waits()) {
      waiting_.erase(turn->number_);
      turn->quota_.reset();
    }
    if (limits_[Index(QuotaKind::kRowsPerSecond)].has_value()) {
      rows_->Spend(now, static_cast<double>(rows));
    }
    used_[Index(QuotaKind::kPendingBytes)] += bytes;
    taken.amount_ = bytes;
  }
  part = std::move(taken);
  return std::nullopt;
}

std::optional<QuotaRefusal> Quota::CheckBatchLocked(std::uint64_t rows, std::uint64_t bytes,
                                                    Clock::time_point now) {
  const std::uint64_t pending = used_[Index(QuotaKind::kPendingBytes)];
  const std::optional<std::uint64_t> limit = limits_[Index(QuotaKind::kPendingBytes)];
  if (limit.has_value() && pending > 0 && pending + bytes > *limit) {
    return QuotaRefusal{.kind = QuotaKind::kPendingBytes,
                        .limit = *limit,
                        .used = pending,
                        .asked = bytes,
                        .wait = kRoomDelay};
  }
  return CheckRateLocked(QuotaKind::kRowsPerSecond, rows_, rows, now);
}

std::optional<QuotaRefusal> Quota::CheckTurnLocked(std::uint64_t rows, std::uint64_t bytes,
                                                   const Turn& turn, Clock::time_point now) {
  std::optional<QuotaRefusal> refusal = CheckBatchLocked(rows, bytes, now);
  std::uint64_t earlier_rows = 0;
  bool is_first = true;
  for (const auto& [number, waiting_rows] : waiting_) {
    if (turn.waits() && number == turn.number_) break;
    earlier_rows += waiting_rows;
    is_first = false;
  }
  if (is_first) return refusal;
  const std::optional<std::uint64_t> rate = limits_[Index(QuotaKind::kRowsPerSecond)];
  if (!refusal.has_value()) {
    const QuotaKind kind = rate.has_value() ? QuotaKind::kRowsPerSecond : QuotaKind::kPendingBytes;
    refusal = QuotaRefusal{
        .kind = kind, .limit = limits_[Index(kind)].value_or(0), .asked = rows, .wait = kTurnDelay};
  }
  if (rate.has_value()) {
    *refusal->wait += milliseconds(static_cast<std::int64_t>(
        1000 * static_cast<double>(earlier_rows) / static_cast<double>(*rate)));
  }
  return refusal;
}

std::optional<QuotaRefusal> Quota::TakeCompute(double seconds, Part& part, Clock::time_point now) {
  constexpr QuotaKind kKind = QuotaKind::kComputeSecondsPerHour;
  Part taken(shared_from_this(), kKind, 0);
  {
    const std::lock_guard lock(mutex_);
    std::optional<QuotaRefusal> refusal = CheckRateLocked(kKind, compute_, 1, now);
    if (refusal.has_value()) return refusal;
    std::uint64_t& reserved = used_[Index(kKind)];
    const std::optional<std::uint64_t> limit = limits_[Index(kKind)];
    const double reserved_seconds = static_cast<double>(reserved) / 1000;
    if (limit.has_value() && reserved > 0 &&
        compute_->Wait(now, 1 + reserved_seconds).count() > 0) {
      return QuotaRefusal{.kind = kKind,
                          .limit = *limit,
                          .used = static_cast<std::uint64_t>(std::ceil(reserved_seconds)),
                          .asked = 1,
                          .wait = kComputeDelay};
    }
    taken.amount_ = static_cast<std::uint64_t>(std::ceil(1000 * std::clamp(seconds, 0.0, 1e12)));
    reserved += taken.amount_;
  }
  part = std::move(taken);
  return std::nullopt;
}

void Quota::SpendCompute(double seconds, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (limits_[Index(QuotaKind::kComputeSecondsPerHour)].has_value()) compute_->Spend(now, seconds);
}

bool Quota::unused(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const auto is_full = [now](std::optional<TokenBucket>& bucket) {
    return !bucket.has_value() || bucket->full(now);
  };
  const bool holds_nothing = std::ranges::all_of(used_, [](auto used) { return used == 0; });
  return holds_nothing && is_full(rows_) && is_full(compute_);
}

std::optional<QuotaRefusal> Quota::CheckRateLocked(QuotaKind kind,
                                                   std::optional<TokenBucket>& bucket,
                                                   std::uint64_t asked,
                                                   Clock::time_point now) const {
  if (!limits_[Index(kind)].has_value()) return std::nullopt;
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
