#ifndef CALIBD_SERVER_API_HEALTH_H_
#define CALIBD_SERVER_API_HEALTH_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/error_log.h"
#include "server/store/commit_queue.h"

namespace calibd::server {

// The health of the server, which every transport reports. Thread-safe.
class Health {
 public:
  // data_dir: left out of what is logged. refusal: which writes the store refuses.
  Health(std::string data_dir, std::function<CommitQueue::Refusal()> refusal)
      : data_dir_(std::move(data_dir)), refusal_(std::move(refusal)) {}

  // The models are recovered. Returns whether calls may be served: not so while draining.
  [[nodiscard]] bool StartServing();
  void StartDraining() { phase_ = Phase::kDraining; }

  // Logs damage of the store. calibd goes on after damage in data that it reads, because the data
  // that it computes with was checked at the start; CommitQueue::Fail ends it after a file was
  // removed or replaced. The same damage is reported with and without the folder.
  void ReportDamage(const absl::Status& damage);
  [[nodiscard]] const std::atomic<bool>& damaged() const noexcept { return damaged_; }

  // Why a load balancer should send nothing here, one line of text; empty if it should. Queries and
  // gRPC's health service go on while the disk is full: a client that needs no writes loses
  // nothing.
  [[nodiscard]] std::string Unready() const;

  // What to log if the store refuses other writes than the last line said; empty otherwise. At most
  // one line in kLogInterval, because a disk may be full and have room in turns. Not thread-safe.
  [[nodiscard]] std::string RefusalChange(std::chrono::steady_clock::time_point now);
  static constexpr std::chrono::seconds kLogInterval{5};

 private:
  enum class Phase { kStarting, kServing, kDraining };

  const std::string data_dir_;
  const std::function<CommitQueue::Refusal()> refusal_;
  std::atomic<Phase> phase_ = Phase::kStarting;
  std::atomic<bool> damaged_ = false;
  ErrorLog damage_log_{"damaged places"};
  // The refusal in the last line of RefusalChange, and when the next line may follow.
  CommitQueue::Refusal logged_refusal_ = CommitQueue::Refusal::kNothing;
  std::chrono::steady_clock::time_point next_line_at_{};
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_HEALTH_H_
