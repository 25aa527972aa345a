#include "server/api/health.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace calibd::server {
namespace {

const char* RefusalText(CommitQueue::Refusal refusal) {
  switch (refusal) {
    case CommitQueue::Refusal::kNothing:
      break;
    case CommitQueue::Refusal::kCatalog:
      return "the disk is full: models cannot be created or deleted, and batches are accepted "
             "only while the log's newest file has room";
    case CommitQueue::Refusal::kLog:
      return "the disk is full: batches are refused";
    case CommitQueue::Refusal::kEverything:
      return "the store failed: batches are refused";
  }
  return "";
}

}  // namespace

bool Health::StartServing() {
  Phase starting = Phase::kStarting;
  return phase_.compare_exchange_strong(starting, Phase::kServing);
}

void Health::ReportDamage(const absl::Status& damage) {
  // Unready() refers to the log.
  damage_log_.Log(absl::StrReplaceAll(damage.message(), {{data_dir_ + "/", ""}}));
  damaged_ = true;
}

std::string Health::Unready() const {
  const Phase phase = phase_;
  if (phase != Phase::kDraining) {
    if (const absl::Status owned = check_owned_(); !owned.ok()) return std::string(owned.message());
  }
  switch (phase) {
    case Phase::kStarting:
      return "starting, calibd is recovering the models";
    case Phase::kServing:
      break;
    case Phase::kDraining:
      return "draining";
  }
  const CommitQueue::Refusal refusal = refusal_();
  if (refusal != CommitQueue::Refusal::kNothing) return RefusalText(refusal);
  return damaged_ ? "the store is damaged, see the log of calibd" : "";
}

std::string Health::RefusalChange(std::chrono::steady_clock::time_point now) {
  const CommitQueue::Refusal refusal = refusal_();
  if (phase_ != Phase::kServing || refusal == logged_refusal_ || now < next_line_at_) return "";
  logged_refusal_ = refusal;
  next_line_at_ = now + kLogInterval;
  return refusal == CommitQueue::Refusal::kNothing
             ? "the disk has room again: all writes are accepted"
             : absl::StrCat("not ready: ", RefusalText(refusal));
}

}  // namespace calibd::server
