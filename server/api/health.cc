#include "server/api/health.h"

#include "absl/strings/str_replace.h"

namespace calibd::server {

bool Health::StartServing() {
  Phase starting = Phase::kStarting;
  return phase_.compare_exchange_strong(starting, Phase::kServing);
}

void Health::ReportDamage(const absl::Status& damage) {
  damaged_ = true;
  damage_log_.Log(absl::StrReplaceAll(damage.message(), {{data_dir_ + "/", ""}}));
}

std::string Health::Unready() const {
  switch (phase_) {
    case Phase::kStarting:
      return "starting, calibd is recovering the models";
    case Phase::kServing:
      break;
    case Phase::kDraining:
      return "draining";
  }
  switch (refusal_()) {
    case CommitQueue::Refusal::kNothing:
      return damaged_ ? "the store is damaged, see the log of calibd" : "";
    case CommitQueue::Refusal::kDatabase:
      return "the disk is full: models cannot be created or deleted, and batches are accepted "
             "only while the log's newest file has room";
    case CommitQueue::Refusal::kLog:
      return "the disk is full: batches are refused";
    case CommitQueue::Refusal::kEverything:
      return "the store failed: batches are refused";
  }
  return "";
}

}  // namespace calibd::server
