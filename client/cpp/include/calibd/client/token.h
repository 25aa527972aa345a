#ifndef CALIBD_CLIENT_TOKEN_H_
#define CALIBD_CLIENT_TOKEN_H_

#include <functional>
#include <string>

namespace calibd::client {

// Returns a source of tokens for ClientOptions: the first word of the file, which is read for each
// call. There is no token if the file cannot be read.
[[nodiscard]] std::function<std::string()> TokenOfFile(const std::string& path);

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_TOKEN_H_
