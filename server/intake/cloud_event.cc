#include "server/intake/cloud_event.h"

#include "absl/strings/ascii.h"

namespace calibd::server {

std::string MediaType(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const std::string lower = absl::AsciiStrToLower({type.data(), type.size()});
  return std::string(absl::StripAsciiWhitespace(lower));
}

}  // namespace calibd::server
