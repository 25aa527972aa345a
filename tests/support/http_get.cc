#include "support/http_get.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "support/tcp_proxy.h"

namespace calibd::testing {

HttpAnswer HttpGet(const std::string& address, const std::string& target) {
  HttpAnswer answer;
  const int fd = ConnectTo(address);
  if (fd < 0) {
    return answer;
  }
  // HTTP/1.0: the answer is not chunked and ends with the connection.
  const std::string request = "GET " + target + " HTTP/1.0\r\nHost: " + address + "\r\n\r\n";
  send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::string text;
  std::array<char, 16384> buffer{};
  for (ssize_t count = 0; (count = recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  close(fd);
  const std::size_t end_of_header = text.find("\r\n\r\n");
  if (text.size() > 12 && end_of_header != std::string::npos) {
    answer.status = std::stoi(text.substr(9, 3));
    answer.body = text.substr(end_of_header + 4);
  }
  return answer;
}

}  // namespace calibd::testing
