#include "server/http/json_call.h"

#include <cstddef>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "calibd/convert/json.h"
#include "calibd/core/status_macros.h"
#include "server/http/json_route.h"

namespace calibd::server {
namespace {

// A shorter answer takes no reservation, because it is no larger than the buffers of its
// connection. The answer to a write is short: it must not become an error after the write was
// counted, when the memory of the request is not free yet.
constexpr std::size_t kShortAnswer = 4096;

// The beginning of a server-sent event. The id of a calibration is its revision, with which a
// client continues.
std::string EventBegin(const google::protobuf::Message& message) {
  const auto* const state = dynamic_cast<const v1::WatchCalibrationResponse*>(&message);
  return state == nullptr ? "data: " : absl::StrCat("id: ", state->revision(), "\ndata: ");
}

}  // namespace

absl::StatusOr<JsonCall::Text> JsonCall::Print(const Message& message) const {
  const Message* answer = &message;
  if (route_.part != nullptr) {
    CALIBD_ASSIGN_OR_RETURN(answer, route_.part(message));
  }
  const std::string begin = route_.events ? EventBegin(message) : "";
  const std::string_view end = route_.events ? "\n\n" : "\n";
  const std::size_t length = begin.size() + convert::MaxJsonLength(*answer) + end.size();
  const std::size_t held = message.SpaceUsedLong();
  Text printed{.text = {}, .memory = std::make_unique<CallReservation>(memory_, peer_)};
  const bool is_short = !route_.events && held + length <= kShortAnswer;
  if (!is_short) CALIBD_RETURN_IF_ERROR(printed.memory->Add(held + length));
  printed.text.reserve(length);
  printed.text += begin;
  convert::AppendJson(*answer, printed.text);
  printed.text += end;
  // The caller drops the message now.
  if (!is_short) printed.memory->Release(held);
  return printed;
}

bool JsonCall::Send(const Message& message) {
  if (!route_.events) return false;
  {
    const std::lock_guard lock(mutex_);
    if (!IsIdleLocked()) return false;
    printing_ = true;
  }
  absl::StatusOr<Text> printed = Print(message);
  {
    const std::lock_guard lock(mutex_);
    printing_ = false;
    if (printed.ok() && !end_.has_value()) {
      texts_.push_back(*std::move(printed));
      if (wake_) wake_();
      return true;
    }
  }
  if (!printed.ok()) End(printed.status(), nullptr);
  return false;
}

void JsonCall::End(absl::Status status, const Message* last) {
  std::optional<Text> text;
  if (last != nullptr && !ended()) {
    absl::StatusOr<Text> printed = Print(*last);
    if (printed.ok()) {
      text = *std::move(printed);
    } else {
      status.Update(printed.status());
    }
  }
  std::function<void()> on_end;
  // Destroyed after the lock is released, because it may own the object that answers the call.
  std::function<void()> on_taken;
  {
    const std::lock_guard lock(mutex_);
    if (!end_.has_value()) {
      if (text.has_value()) texts_.push_back(*std::move(text));
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
  return IsIdleLocked();
}

bool JsonCall::IsIdleLocked() const {
  return !printing_ && !writing_ && texts_.empty() && !end_.has_value();
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
  if (!texts_.empty()) {
    step.text = std::move(texts_.front());
    texts_.pop_front();
    writing_ = true;
  }
  if (texts_.empty() && !end_taken_) {
    step.end = end_;
    end_taken_ = end_.has_value();
  }
  return step;
}

void JsonCall::Taken() {
  std::function<void()> on_taken;
  {
    const std::lock_guard lock(mutex_);
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
  texts_.clear();
}

}  // namespace calibd::server
