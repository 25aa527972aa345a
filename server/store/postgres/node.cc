#include "server/store/postgres/node.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "calibd/core/status_macros.h"
#include "server/store/postgres/queries.h"
#include "server/version.h"

namespace calibd::server {
namespace {

using std::chrono::steady_clock;

// A heartbeat that takes longer is sent again on a new connection.
constexpr std::chrono::seconds kBeatTime{3};
constexpr std::chrono::milliseconds kRetryPause{250};
constexpr std::chrono::seconds kLeaveTime{1};

// Unlike steady_clock, this clock goes on while the machine sleeps.
std::int64_t BootTime() {
  timespec now{};
  if (clock_gettime(CLOCK_BOOTTIME, &now) != 0) std::abort();
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

PgNode::PgNode(std::string connection, std::string id, std::int32_t cell, PgNodeTimes times)
    : text_(std::move(connection)), id_(std::move(id)), cell_(cell), times_(times) {}

PgNode::~PgNode() { Stop(); }

void PgNode::Start(std::string address) {
  address_ = std::move(address);
  thread_ = std::thread([this] { Run(); });
}

void PgNode::Own(std::int64_t epoch) {
  epoch_ = epoch;
  {
    const std::lock_guard lock(mutex_);
    hastens_ = true;
  }
  changed_.notify_all();
}

void PgNode::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool PgNode::holds_lease() const { return !fenced_ && BootTime() < lease_end_; }

void PgNode::Run() {
  pthread_setname_np(pthread_self(), "calibd-node");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    hastens_ = false;
    lock.unlock();
    const absl::Status status = Beat();
    if (!status.ok()) {
      connection_.reset();
      if (!std::exchange(logged_failure_, true)) {
        spdlog::warn("no heartbeat reaches the database: {}", std::string(status.message()));
      }
    } else if (std::exchange(logged_failure_, false)) {
      spdlog::info("heartbeats reach the database again");
    }
    lock.lock();
    changed_.wait_for(lock,
                      status.ok() ? times_.heartbeat : std::min(times_.heartbeat, kRetryPause),
                      [this] { return stopping_ || hastens_; });
  }
  lock.unlock();
  if (connection_ == nullptr) return;
  // Otherwise the node expires.
  static_cast<void>(
      connection_->RunOne({.query = &queries::kLeaveNodes, .values = PgValues().Bytes(id_)},
                          steady_clock::now() + kLeaveTime));
}

absl::Status PgNode::Beat() {
  if (connection_ == nullptr) {
    CALIBD_ASSIGN_OR_RETURN(connection_, PgConnection::Open(text_));
    connection_->StopWaitingAt(stopping_);
    // The server does not notice that a heartbeat was given up while it waits for a standby. Later
    // ones then wait for its lock, and each of them would keep a session.
    CALIBD_RETURN_IF_ERROR(
        connection_->RunOne({.query = &queries::kLimitBeat}, steady_clock::now() + kBeatTime)
            .status());
  }
  const std::int64_t epoch = epoch_;
  const auto sent = std::chrono::system_clock::now();
  const std::int64_t sent_at = BootTime();
  CALIBD_ASSIGN_OR_RETURN(
      const PgResult result,
      connection_->RunOne(
          {.query = &queries::kBeat,
           .values =
               PgValues().Int4(cell_).Int8(epoch).Bytes(id_).Bytes(address_).Bytes(kVersion).Int8(
                   times_.expiry.count())},
          steady_clock::now() + kBeatTime));
  const PgRow beat = result.row(0);
  CheckClock(beat.Int8(1), sent);
  CheckDurability(beat.Int4(2) != 0);
  if (epoch >= 0 && beat.Int8(0) == 0) {
    fenced_ = true;
  } else if (epoch == epoch_) {
    lease_end_ = sent_at + std::chrono::nanoseconds(times_.lease).count();
  }
  return absl::OkStatus();
}

void PgNode::CheckDurability(bool synchronous) {
  if (synchronous_.exchange(synchronous) && !synchronous) {
    spdlog::warn(
        "the PostgreSQL server has no synchronous standby: what was acknowledged is lost with its "
        "disk");
  }
}

void PgNode::CheckClock(std::int64_t database_us, std::chrono::system_clock::time_point sent) {
  const std::chrono::system_clock::time_point database{std::chrono::microseconds(database_us)};
  // The database has read its clock in between.
  const auto behind = sent - database;
  const auto ahead = database - std::chrono::system_clock::now();
  clock_off_ = std::max(behind, ahead) > times_.clock_difference;
  if (clock_off_ && !std::exchange(logged_clock_, true)) {
    spdlog::warn(
        "the clock of this machine differs from that of the database by {:.0f} s, so this calibd "
        "takes no store: set the clocks, for example by NTP",
        std::chrono::duration<double>(std::max(behind, ahead)).count());
  } else if (!clock_off_) {
    logged_clock_ = false;
  }
}

}  // namespace calibd::server
