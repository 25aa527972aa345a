#include "server/http/http_hosts.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

// Maximum length of a host name in DNS.
constexpr std::size_t kMaxNameLength = 253;

bool IsHostName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
         });
}

bool IsIpAddress(std::string_view host) {
  boost::system::error_code error;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    boost::asio::ip::make_address_v6(std::string(host.substr(1, host.size() - 2)), error);
  } else {
    boost::asio::ip::make_address_v4(std::string(host), error);
  }
  return !error;
}

// Removes ":port". The port does not matter.
std::string_view WithoutPort(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const bool has_port =
      colon != std::string_view::npos &&
      std::all_of(host.begin() + static_cast<std::ptrdiff_t>(colon) + 1, host.end(),
                  [](unsigned char c) { return absl::ascii_isdigit(c); });
  return has_port ? host.substr(0, colon) : host;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseHttpHosts(std::string_view list) {
  std::vector<std::string> names;
  if (list.empty()) return names;
  for (absl::string_view part : absl::StrSplit(absl::string_view(list.data(), list.size()), ',')) {
    part = absl::StripAsciiWhitespace(part);
    if (!IsHostName(part)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted({part.data(), part.size()}),
                       " is not a host name, expected names without a port, separated by commas"));
    }
    names.push_back(absl::AsciiStrToLower(part));
  }
  return names;
}

bool IsAllowedHost(std::string_view host, const std::vector<std::string>& names) {
  const std::string_view without_port = WithoutPort(host);
  if (IsIpAddress(without_port)) return true;
  const std::string name =
      absl::AsciiStrToLower(absl::string_view(without_port.data(), without_port.size()));
  return name == "localhost" || std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace calibd::server
