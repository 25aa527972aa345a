#include "server/http/json_call.h"

namespace calibd::server {

absl::Status JsonCall::HoldLocked(Message message) {
  absl::Status reserved = reservation_.Add(ResponseMemory(*message));
  if (reserved.ok()) messages_.push_back(std::move(message));
  return reserved;
}

bool JsonCall::Send(Message message) {
  if (!stream_) return false;
  absl::Status held;
  {
    const std::lock_guard lock(mutex_);
    if (writing_ || !messages_.empty() || end_.has_value()) return false;
    held = HoldLocked(std::move(message));
    if (held.ok() && wake_) wake_();
  }
  if (!held.ok()) End(held, nullptr);
  return held.ok();
}

void JsonCall::End(absl::Status status, Message last) {
  std::function<void()> on_end;
  // Destroyed after the lock is released, because it may own the object that answers the call.
  std::function<void()> on_taken;
  {
    const std::lock_guard lock(mutex_);
    if (!end_.has_value()) {
      if (last != nullptr) status.Update(HoldLocked(std::move(last)));
      end_ = std::move(status);
      if (wake_) wake_();
    }
    on_end = std::exchange(on_end_, nullptr);
    on_taken = std::exchange(on_taken_, nullptr);
  }
  if (on_end) on_end();
}

bool JsonCall::idle() const {
  const std::lock_guard lock(mutex_);
  return !writing_ && messages_.empty() && !end_.has_value();
}

bool JsonCall::ended() const {
  const std::lock_guard lock(mutex_);
  return end_.has_value();
}

void JsonCall::OnTaken(std::function<void()> on_taken) {
  const std::lock_guard lock(mutex_);
  if (!end_.has_value()) on_taken_ = std::move(on_taken);
}

void JsonCall::OnEnd(std::function<void()> on_end) {
  {
    const std::lock_guard lock(mutex_);
    if (!end_.has_value()) {
      on_end_ = std::move(on_end);
      return;
    }
  }
  on_end();
}

JsonCall::Step JsonCall::Take() {
  const std::lock_guard lock(mutex_);
  Step step;
  if (!messages_.empty()) {
    step.message = std::move(messages_.front());
    messages_.pop_front();
    writing_ = true;
  }
  if (messages_.empty() && !end_taken_) {
    step.end = end_;
    end_taken_ = end_.has_value();
  }
  return step;
}

void JsonCall::Taken() {
  std::function<void()> on_taken;
  {
    const std::lock_guard lock(mutex_);
    reservation_.Release(reservation_.bytes());
    writing_ = false;
    if (!end_.has_value()) on_taken = on_taken_;
  }
  if (on_taken) on_taken();
}

void JsonCall::Disconnect() {
  {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
  }
  End(absl::CancelledError("the client has disconnected"), nullptr);
  // The function that answers may hold this object for longer than the connection.
  const std::lock_guard lock(mutex_);
  messages_.clear();
  reservation_.Release(reservation_.bytes());
}

}  // namespace calibd::server
