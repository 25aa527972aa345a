#ifndef CALIBD_SERVER_API_HEALTH_H_
#define CALIBD_SERVER_API_HEALTH_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/base/error_log.h"
#include "server/ingest/commit_queue.h"

namespace calibd::server {

// The health of the server, which every transport reports. Thread-safe.
class Health {
 public:
  // data_dir: removed from logged messages. refusal: tells which writes the store refuses.
  // check_owned: tells why calls end, if this process does not own the store.
  Health(std::string data_dir, std::function<CommitQueue::Refusal()> refusal,
         std::function<absl::Status()> check_owned)
      : data_dir_(std::move(data_dir)),
        refusal_(std::move(refusal)),
        check_owned_(std::move(check_owned)) {}

  // Call it when the models are recovered. Returns whether calls may be served; false while
  // draining.
  [[nodiscard]] bool StartServing();
  void StartDraining() { phase_ = Phase::kDraining; }

  // Logs damage of the store. calibd continues after damage in data that it reads later, because
  // the data with which it computes was checked at the start; CommitQueue::Fail ends it after a
  // file was removed or replaced. The same damage is reported with and without the folder.
  void ReportDamage(const absl::Status& damage);
  [[nodiscard]] const std::atomic<bool>& damaged() const noexcept { return damaged_; }

  // The reason why a load balancer should send no requests, as one line of text; empty if there is
  // none. While the disk is full, queries and gRPC's health service still work: a client that does
  // not write loses nothing.
  [[nodiscard]] std::string Unready() const;

  // The line to log if the refused writes have changed since the last line; empty otherwise. At
  // most one line in kLogInterval, because the disk may alternate between full and not full. Not
  // thread-safe.
  [[nodiscard]] std::string RefusalChange(std::chrono::steady_clock::time_point now);
  static constexpr std::chrono::seconds kLogInterval{5};

 private:
  enum class Phase { kStarting, kServing, kDraining };

  const std::string data_dir_;
  const std::function<CommitQueue::Refusal()> refusal_;
  const std::function<absl::Status()> check_owned_;
  std::atomic<Phase> phase_ = Phase::kStarting;
  std::atomic<bool> damaged_ = false;
  ErrorLog damage_log_{"damaged places"};
  // The refusal that RefusalChange logged last, and the earliest time of its next line.
  CommitQueue::Refusal logged_refusal_ = CommitQueue::Refusal::kNothing;
  std::chrono::steady_clock::time_point next_line_at_{};
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_HEALTH_H_
