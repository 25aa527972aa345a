#include "server/store/postgres/connection_string.h"

#include <libpq-fe.h>

#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/errors.h"

namespace calibd::server {

absl::Status CheckConnectionString(const std::string& text) {
  const bool is_string = absl::StrContains(text, '=') || absl::StartsWith(text, "postgresql://") ||
                         absl::StartsWith(text, "postgres://");
  if (text.empty()) return absl::OkStatus();
  if (!is_string) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text),
                     " is no connection string; write service=NAME, host=... "
                     "dbname=..., or postgresql://HOST/DATABASE"));
  }
  char* error = nullptr;
  PQconninfoOption* const options = PQconninfoParse(text.c_str(), &error);
  if (options == nullptr) {
    absl::Status status = absl::InvalidArgumentError(absl::StrCat(
        "the connection string cannot be read: ",
        std::string(absl::StripAsciiWhitespace(error == nullptr ? "no memory" : error))));
    PQfreemem(error);
    return status;
  }
  bool has_password = false;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (std::string_view(option->keyword) == "password" && option->val != nullptr) {
      has_password = true;
    }
  }
  PQconninfoFree(options);
  return has_password ? absl::InvalidArgumentError(
                            "the connection string has a password, which other programs can see; "
                            "put it into the password file ~/.pgpass or a service file")
                      : absl::OkStatus();
}

}  // namespace calibd::server
