#include "client/cli/commands/http_probe.h"

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <istream>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"

namespace calibd::cli {

bool AnswersHttp(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return false;
  // The brackets of an IPv6 address separate it from the port.
  const std::string host = absl::StrReplaceAll(address.substr(0, colon), {{"[", ""}, {"]", ""}});
  boost::asio::ip::tcp::iostream stream;
  stream.expires_after(std::chrono::seconds(1));
  stream.connect(host, address.substr(colon + 1));
  stream << "HEAD / HTTP/1.0\r\n\r\n" << std::flush;
  std::string line;
  std::getline(stream, line);
  return absl::StartsWith(line, "HTTP/1");
}

}  // namespace calibd::cli
