#include "server/api/guard.h"

namespace calibd::server {

const char* StageName(Stage stage) noexcept {
  switch (stage) {
    case Stage::kStart:
      return "start";
    case Stage::kRead:
      return "read";
    case Stage::kWritten:
      return "written";
    case Stage::kCancel:
      return "cancel";
    case Stage::kDone:
      return "done";
    case Stage::kOpened:
      return "opened";
    case Stage::kProgress:
      return "progress";
    case Stage::kAnswer:
      return "answer";
    case Stage::kRoom:
      return "room";
    case Stage::kEnd:
      return "end";
  }
  return "unknown";
}

}  // namespace calibd::server
