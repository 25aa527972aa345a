#ifndef CALIBD_SERVER_ACCESS_QUOTA_H_
#define CALIBD_SERVER_ACCESS_QUOTA_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "server/base/token_bucket.h"

namespace calibd::server {

enum class QuotaKind {
  kModels,
  kRowsPerSecond,
  kPendingBytes,
  kStreams,
  kWatches,
  kComputeSecondsPerHour
};
inline constexpr std::size_t kQuotaKinds = 6;

// The key in the access file, such as "rows_per_second". Metrics use it too.
[[nodiscard]] std::string_view QuotaKey(QuotaKind kind);

// The limit of each kind, by its number. A missing one limits nothing.
using QuotaLimits = std::array<std::optional<std::uint64_t>, kQuotaKinds>;

// Why something was not taken.
struct QuotaRefusal {
  QuotaKind kind = QuotaKind::kModels;
  std::uint64_t limit = 0;
  std::uint64_t used = 0;
  std::uint64_t asked = 0;
  // Time after which the same may be taken. Missing where a wait does not help.
  std::optional<std::chrono::milliseconds> wait{};
};

// What one principal may use, and what it uses now. It stays the same object when the access file
// changes. Thread-safe.
class Quota : public std::enable_shared_from_this<Quota> {
 public:
  using Clock = std::chrono::steady_clock;

  // A part of a quota that is in use. The destructor returns it. Default-constructed: nothing.
  class Part {
   public:
    Part() = default;
    ~Part();
    Part(Part&& other) noexcept { swap(other); }
    Part& operator=(Part&& other) noexcept {
      Part old(std::move(other));
      swap(old);
      return *this;
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    friend class Quota;
    Part(std::shared_ptr<Quota> quota, QuotaKind kind, std::uint64_t amount)
        : quota_(std::move(quota)), kind_(kind), amount_(amount) {}
    void swap(Part& other) noexcept {
      std::swap(quota_, other.quota_);
      std::swap(kind_, other.kind_);
      std::swap(amount_, other.amount_);
    }

    std::shared_ptr<Quota> quota_;
    QuotaKind kind_ = QuotaKind::kModels;
    std::uint64_t amount_ = 0;
  };

  // The place of a batch in the line of those that wait. The destructor gives it up.
  // Default-constructed: none. It must not be used on two threads at once.
  class Turn {
   public:
    Turn() = default;
    ~Turn() { Leave(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    [[nodiscard]] bool waits() const noexcept { return quota_ != nullptr; }
    void Leave();

   private:
    friend class Quota;
    std::shared_ptr<Quota> quota_;
    std::uint64_t number_ = 0;
  };

  // principal: its name, for errors.
  explicit Quota(std::string principal) : principal_(std::move(principal)) {}

  // What is in use stays in use, also above a lower limit.
  void SetLimits(const QuotaLimits& limits);
  [[nodiscard]] std::optional<std::uint64_t> limit(QuotaKind kind) const;

  // Takes one stream or watch.
  [[nodiscard]] std::optional<QuotaRefusal> Take(QuotaKind kind, Part& part);
  // Takes room for a batch, and counts its rows. A batch passes if nothing else is pending, and if
  // the batches before it were within the rate: so every batch passes sometime, and the average is
  // the rate. turn: null if the batch does not wait. Otherwise a refusal gives it a place in the
  // line, and it passes after those that came before it.
  [[nodiscard]] std::optional<QuotaRefusal> TakeBatch(std::uint64_t rows, std::uint64_t bytes,
                                                      Part& part, Clock::time_point now,
                                                      Turn* turn = nullptr);
  // Takes the time of processors that a computation may need. It may begin if no other one runs and
  // the ones before it were within the quota, or if the quota also has what the running ones may
  // need.
  [[nodiscard]] std::optional<QuotaRefusal> TakeCompute(double seconds, Part& part,
                                                        Clock::time_point now);
  // Counts the time of processors that a computation has taken.
  void SpendCompute(double seconds, Clock::time_point now);

  // True if nothing is in use and nothing is to be paid.
  [[nodiscard]] bool unused(Clock::time_point now);

  // ResourceExhausted, with a RetryInfo where a wait helps.
  [[nodiscard]] absl::Status ErrorOf(const QuotaRefusal& refusal) const;

 private:
  [[nodiscard]] std::optional<QuotaRefusal> CheckRateLocked(QuotaKind kind,
                                                            std::optional<TokenBucket>& bucket,
                                                            std::uint64_t asked,
                                                            Clock::time_point now) const;
  // What keeps a batch from passing now, apart from those that wait.
  [[nodiscard]] std::optional<QuotaRefusal> CheckBatchLocked(std::uint64_t rows,
                                                             std::uint64_t bytes,
                                                             Clock::time_point now);
  // The same for a batch that waits for the ones before it.
  [[nodiscard]] std::optional<QuotaRefusal> CheckTurnLocked(std::uint64_t rows, std::uint64_t bytes,
                                                            const Turn& turn,
                                                            Clock::time_point now);

  const std::string principal_;
  mutable std::mutex mutex_;
  // Everything below is guarded by mutex_.
  QuotaLimits limits_;
  // What is in use of each kind. Of computations: milliseconds that the running ones may need.
  std::array<std::uint64_t, kQuotaKinds> used_{};
  // The rows of the batches that wait, in the order in which they came.
  std::map<std::uint64_t, std::uint64_t> waiting_;
  std::uint64_t last_turn_ = 0;
  // Missing before the first limit. A limit that is removed and comes back finds what was spent.
  std::optional<TokenBucket> rows_;
  std::optional<TokenBucket> compute_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ACCESS_QUOTA_H_
