#include "server/net/peer_name.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace calibd::server {
namespace {

constexpr std::string_view kScheme = "unix-abstract:";

// Different for each process, even if two processes had the same id one after another.
const std::string& ProcessPrefix() {
  static const std::string prefix = absl::StrCat(
      "calibd/", getpid(), "-", std::chrono::system_clock::now().time_since_epoch().count(), "/");
  return prefix;
}

std::string PercentDecode(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned int code = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 3], code, 16).ptr == &text[i + 3]) {
      decoded += static_cast<char>(code);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

}  // namespace

std::string MakePeerName(std::uint64_t connection, std::string_view address) {
  return absl::StrCat(ProcessPrefix(), connection, "/", std::string(address));
}

std::optional<std::string> ParsePeerName(std::string_view grpc_peer) {
  if (!grpc_peer.starts_with(kScheme)) return std::nullopt;
  const std::string name = PercentDecode(grpc_peer.substr(kScheme.size()));
  if (!name.starts_with(ProcessPrefix())) return std::nullopt;
  const std::size_t slash = name.find('/', ProcessPrefix().size());
  return slash == std::string::npos ? std::nullopt : std::optional(name.substr(slash + 1));
}

bool BindPeerName(int socket, std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A leading zero byte makes the name abstract.
  name = name.substr(0, sizeof(address.sun_path) - 1);
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return bind(socket, reinterpret_cast<const sockaddr*>(&address), length) == 0;
}

}  // namespace calibd::server
