#include "server/http/page.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/status.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace calibd::server {
namespace {

namespace http = boost::beast::http;

constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

absl::string_view FieldOf(const HttpRequest& request, http::field field) {
  const boost::beast::string_view value = request[field];
  return {value.data(), value.size()};
}

// A weight that is no number refuses the coding too.
bool HasWeight(const std::vector<std::string>& parts) {
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string part = absl::AsciiStrToLower(absl::StripAsciiWhitespace(parts[i]));
    double weight = 0;
    if (absl::StartsWith(part, "q=") &&
        !(absl::SimpleAtod(part.substr(2), &weight) && weight > 0)) {
      return false;
    }
  }
  return true;
}

// RFC 9110, 12.5.3.
bool AcceptsGzip(absl::string_view accepted) {
  for (const absl::string_view coding : absl::StrSplit(accepted, ',')) {
    const std::vector<std::string> parts = absl::StrSplit(coding, ';');
    const std::string name = absl::AsciiStrToLower(absl::StripAsciiWhitespace(parts.front()));
    if (name == "gzip") return HasWeight(parts);
  }
  return false;
}

// RFC 9110, 13.1.2. tag: with its quotation marks.
bool HasTag(absl::string_view known, const std::string& tag) {
  for (absl::string_view one : absl::StrSplit(known, ',')) {
    one = absl::StripAsciiWhitespace(one);
    if (absl::StartsWith(one, "W/")) one.remove_prefix(2);
    if (one == tag || one == "*") return true;
  }
  return false;
}

}  // namespace

HttpResponse AnswerPage(const HttpRequest& request) {
  const boost::beast::string_view target = request.target();
  const boost::beast::string_view path = target.substr(0, target.find('?'));
  const auto files = PageFiles();
  const auto file = std::find_if(files.begin(), files.end(), [&](const PageFile& one) {
    return one.path == std::string_view(path.data(), path.size());
  });
  const bool compressed = AcceptsGzip(FieldOf(request, http::field::accept_encoding));
  const std::string tag = absl::StrCat(
      "\"", absl::string_view(file->hash.data(), file->hash.size()), compressed ? "-gzip\"" : "\"");
  const bool known = HasTag(FieldOf(request, http::field::if_none_match), tag);
  HttpResponse response(known ? http::status::not_modified : http::status::ok, 11);
  response.set(http::field::etag, tag);
  // Browsers keep the file, and ask each time whether it is still the same.
  response.set(http::field::cache_control, "no-cache");
  response.set(http::field::vary, "Accept-Encoding");
  response.set("Content-Security-Policy", kPolicy);
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Referrer-Policy", "no-referrer");
  if (known) return response;
  response.set(http::field::content_type, file->type);
  if (compressed) response.set(http::field::content_encoding, "gzip");
  response.body() = std::string(compressed ? file->compressed : file->content);
  return response;
}

}  // namespace calibd::server
