#ifndef CALIBD_CLIENT_CLI_COMMANDS_HTTP_PROBE_H_
#define CALIBD_CLIENT_CLI_COMMANDS_HTTP_PROBE_H_

#include <string>

namespace calibd::cli {

// Whether what listens at HOST:PORT answers a request of HTTP/1. False also if nothing answers
// within a second.
[[nodiscard]] bool AnswersHttp(const std::string& address);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_HTTP_PROBE_H_
