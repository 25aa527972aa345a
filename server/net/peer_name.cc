#include "server/net/peer_name.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <system_error>

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

struct Name {
  std::uint64_t connection = 0;
  std::string address;
};

std::optional<Name> ParseName(std::string_view grpc_peer) {
  if (!grpc_peer.starts_with(kScheme)) return std::nullopt;
  const std::string text = PercentDecode(grpc_peer.substr(kScheme.size()));
  if (!text.starts_with(ProcessPrefix())) return std::nullopt;
  const char* const begin = text.data() + ProcessPrefix().size();
  const char* const end = text.data() + text.size();
  Name name;
  const std::from_chars_result parsed = std::from_chars(begin, end, name.connection);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '/') return std::nullopt;
  name.address.assign(parsed.ptr + 1, end);
  return name;
}

}  // namespace

std::string MakePeerName(std::uint64_t connection, std::string_view address) {
  return absl::StrCat(ProcessPrefix(), connection, "/", std::string(address));
}

std::optional<std::string> ParsePeerName(std::string_view grpc_peer) {
  const std::optional<Name> name = ParseName(grpc_peer);
  return name.has_value() ? std::optional(name->address) : std::nullopt;
}

std::optional<std::uint64_t> ParsePeerConnection(std::string_view grpc_peer) {
  const std::optional<Name> name = ParseName(grpc_peer);
  return name.has_value() ? std::optional(name->connection) : std::nullopt;
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
