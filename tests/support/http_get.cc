#include "support/http_get.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "support/tcp_proxy.h"

namespace calibd::testing {

HttpAnswer HttpGet(const std::string& address, const std::string& target) {
  HttpAnswer answer;
  // With HTTP/1.0 the response is not chunked and ends with the connection.
  const std::string text =
      HttpExchange(address, "GET " + target + " HTTP/1.0\r\nHost: " + address + "\r\n\r\n");
  const std::size_t end_of_header = text.find("\r\n\r\n");
  if (text.size() > 12 && end_of_header != std::string::npos) {
    answer.status = std::stoi(text.substr(9, 3));
    answer.body = text.substr(end_of_header + 4);
  }
  return answer;
}

std::string HttpExchange(const std::string& address, const std::string& request) {
  const int fd = ConnectTo(address);
  if (fd < 0) return "";
  send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::string text = ReadToEnd(fd);
  close(fd);
  return text;
}

std::string ReadToEnd(int fd) {
  std::string text;
  std::array<char, 16384> buffer{};
  for (ssize_t count = 0; (count = recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

}  // namespace calibd::testing
