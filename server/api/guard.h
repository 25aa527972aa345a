#ifndef CALIBD_SERVER_API_GUARD_H_
#define CALIBD_SERVER_API_GUARD_H_

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "server/base/failpoint.h"
#include "server/base/status_mapping.h"

namespace calibd::server {

// The points at which a transport, or a thread that answers a call, enters the code of a call.
enum class Stage {
  kStart,     // the method is called
  kRead,      // a message was read
  kWritten,   // a message was written
  kCancel,    // the client has disconnected
  kDone,      // the transport is done with the call
  kOpened,    // a producer was opened
  kProgress,  // a part of a long answer is due
  kAnswer,    // the answer is ready
  kRoom,      // the ingest queue has room again
  kEnd,       // the server ends the call
};
constexpr const char* StageName(Stage stage) noexcept {
  constexpr std::array kNames{"start",  "read",     "written", "cancel", "done",
                              "opened", "progress", "answer",  "room",   "end"};
  return kNames[static_cast<std::size_t>(stage)];
}

// Runs the code of one entry. body: returns an absl::Status or nothing. No exception escapes: it is
// logged and returned as the error with which the caller ends the call. method: such as "GetModel".
// Tests make the code throw with failpoints such as "GetModel.start".
template <typename Body>
[[nodiscard]] absl::Status Guarded(const char* method, Stage stage, Body&& body) noexcept {
  try {
    EntryFailpoint(method, StageName(stage));
    if constexpr (std::is_void_v<decltype(body())>) {
      std::forward<Body>(body)();
      return absl::OkStatus();
    } else {
      return std::forward<Body>(body)();
    }
  } catch (...) {
    return CurrentExceptionStatus(method, StageName(stage));
  }
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_GUARD_H_
