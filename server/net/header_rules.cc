#include "server/net/header_rules.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

namespace calibd::server {
namespace {

// The pseudo-header fields of a request that is not CONNECT, of which :authority may be missing.
constexpr std::array<std::string_view, 4> kPseudo = {":method", ":scheme", ":path", ":authority"};
constexpr unsigned kRequired = 0b0111;
// Fields that may occur once: what they say must not depend on which one a reader takes.
constexpr std::array<std::string_view, 6> kSingle = {
    "authorization", "content-length", "content-type", "grpc-encoding", "grpc-timeout", "host"};
// Fields about one connection of HTTP/1.1 (RFC 9113, 8.2.2).
constexpr std::array<std::string_view, 5> kOfConnection = {
    "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"};

const std::uint8_t* Bytes(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

}  // namespace

bool HeaderRules::Add(std::string_view name, std::string_view value) noexcept {
  // Neither permits control characters, and names are in lower case.
  const bool valid = nghttp2_check_header_name(Bytes(name), name.size()) != 0 &&
                     nghttp2_check_header_value(Bytes(value), value.size()) != 0 &&
                     (name.front() == ':' ? AddPseudo(name, value) : AddRegular(name, value));
  malformed_ = malformed_ || !valid;
  return valid;
}

bool HeaderRules::End() const noexcept {
  return !malformed_ && (kind_ == HeaderKind::kTrailers || (seen_ & kRequired) == kRequired);
}

bool HeaderRules::AddPseudo(std::string_view name, std::string_view value) noexcept {
  if (kind_ == HeaderKind::kTrailers || regular_began_) return false;
  const auto* const found = std::find(kPseudo.begin(), kPseudo.end(), name);
  if (found == kPseudo.end() || !TakeOnce(static_cast<unsigned>(found - kPseudo.begin()))) {
    return false;
  }
  if (name == ":authority") return nghttp2_check_authority(Bytes(value), value.size()) != 0;
  return !value.empty();
}

bool HeaderRules::AddRegular(std::string_view name, std::string_view value) noexcept {
  regular_began_ = true;
  if (std::find(kOfConnection.begin(), kOfConnection.end(), name) != kOfConnection.end()) {
    return false;
  }
  if (name == "te") return value == "trailers";
  const auto* const found = std::find(kSingle.begin(), kSingle.end(), name);
  if (found == kSingle.end()) return true;
  const auto bit = kPseudo.size() + static_cast<std::size_t>(found - kSingle.begin());
  if (!TakeOnce(static_cast<unsigned>(bit))) return false;
  if (name != "content-length") return true;
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
  if (error != std::errc() || end != value.data() + value.size()) return false;
  content_length_ = length;
  return true;
}

bool HeaderRules::TakeOnce(unsigned bit) noexcept {
  const bool is_first = (seen_ & (1U << bit)) == 0;
  seen_ |= 1U << bit;
  return is_first;
}

}  // namespace calibd::server
