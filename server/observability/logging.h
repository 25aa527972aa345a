#ifndef CALIBD_SERVER_OBSERVABILITY_LOGGING_H_
#define CALIBD_SERVER_OBSERVABILITY_LOGGING_H_

#include <string>

namespace calibd::server {

// Makes spdlog's default logger write one line an event to stderr from a thread
// of its own: a reader that does not read delays no one, older lines are lost
// instead. Lines are printable UTF-8 in both formats, whatever the messages hold.
// What libprotobuf logs becomes part of it.
//
// format: "text" or "json" (objects with time, level, message). level: "debug",
// "info", "warning" or "error".
void StartLogging(const std::string& format, const std::string& level);

// Writes what is queued. No logging afterwards.
void StopLogging();

}  // namespace calibd::server

#endif  // CALIBD_SERVER_OBSERVABILITY_LOGGING_H_
