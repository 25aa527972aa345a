#ifndef CALIBD_TESTS_SUPPORT_HTTP_GET_H_
#define CALIBD_TESTS_SUPPORT_HTTP_GET_H_

#include <string>

namespace calibd::testing {

struct HttpAnswer {
  // 0 if there was no response.
  int status = 0;
  std::string body;
};

// address: "127.0.0.1:PORT". target: path and query.
HttpAnswer HttpGet(const std::string& address, const std::string& target);

// Sends these bytes and returns the bytes received until the server closes the connection.
std::string HttpExchange(const std::string& address, const std::string& request);

// The bytes received on this socket until the other side closes it.
std::string ReadToEnd(int fd);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_HTTP_GET_H_
