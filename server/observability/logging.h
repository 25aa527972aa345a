#ifndef CALIBD_SERVER_OBSERVABILITY_LOGGING_H_
#define CALIBD_SERVER_OBSERVABILITY_LOGGING_H_

#include <string>

namespace calibd::server {

// Configures spdlog's default logger: it writes one line per event to stderr on a thread of its
// own. A reader that does not read delays nobody; the oldest lines are lost instead. Lines are
// printable UTF-8 in both formats, whatever the messages contain. Messages of libprotobuf are
// logged too.
//
// format: "text" or "json" (objects with time, level, message). level: "debug", "info", "warning"
// or "error".
void StartLogging(const std::string& format, const std::string& level);

// Writes the queued lines. Nothing may be logged afterwards.
void StopLogging();

}  // namespace calibd::server

#endif  // CALIBD_SERVER_OBSERVABILITY_LOGGING_H_
