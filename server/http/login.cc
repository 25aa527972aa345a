#include "server/http/login.h"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>
#include <chrono>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace calibd::server {
namespace {

namespace http = boost::beast::http;

constexpr std::string_view kLoginPath = "/login";
constexpr absl::string_view kField = "token=";
// Browsers take a cookie with the prefix __Host- only over TLS, and only from this host.
constexpr std::string_view kSecureCookie = "__Host-calibd";
constexpr std::string_view kPlainCookie = "calibd";
// Scripts of the page may read it.
constexpr absl::string_view kMarkCookie = "calibd-session=1";
// The token may expire before.
constexpr std::chrono::seconds kSessionTime = PageSessions::kDuration;

// The form has no script and no style of its own, so that its policy allows nothing else.
constexpr char kForm[] =
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width\"><title>calibd: log in</title></head>"
    "<body><h1>calibd</h1>%s<form method=\"post\" action=\"/login\">"
    "<label>Token <input type=\"password\" name=\"token\" autocomplete=\"current-password\" "
    "required autofocus></label> <button>Log in</button></form>"
    "<p>A token allows you to see the models that it may read. <code>calibctl token create</code> "
    "makes one.</p></body></html>\n";
constexpr char kFormPolicy[] =
    "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

HttpResponse MakeLoginResponse(http::status status) {
  HttpResponse response(status, 11);
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  return response;
}

HttpResponse Form(http::status status, std::string_view fault) {
  std::string text = kForm;
  text.replace(text.find("%s"), 2, fault);
  HttpResponse response = MakeLoginResponse(status);
  response.set(http::field::content_type, "text/html; charset=utf-8");
  response.body() = std::move(text);
  response.set("Content-Security-Policy", kFormPolicy);
  // With no-referrer, browsers would send "Origin: null" with the form.
  response.set("Referrer-Policy", "same-origin");
  return response;
}

// The name of the cookie of a connection.
std::string_view CookieOf(bool tls) { return tls ? kSecureCookie : kPlainCookie; }

// session: empty to end it.
HttpResponse SetSession(const std::string& session, bool tls) {
  HttpResponse response = MakeLoginResponse(http::status::see_other);
  response.set(http::field::location, "/");
  const std::string_view name = CookieOf(tls);
  const std::string attributes =
      absl::StrCat("; Path=/; Max-Age=", session.empty() ? 0 : kSessionTime.count(),
                   "; SameSite=Strict", tls ? "; Secure" : "");
  response.set(http::field::set_cookie, absl::StrCat(absl::string_view(name.data(), name.size()),
                                                     "=", session, attributes, "; HttpOnly"));
  response.insert(http::field::set_cookie, absl::StrCat(kMarkCookie, attributes));
  return response;
}

}  // namespace

HttpResponse AnswerLogin() { return Form(http::status::unauthorized, ""); }

bool IsLogin(const HttpRequest& request) {
  const boost::beast::string_view target = request.target();
  return request.method() == http::verb::post &&
         std::string_view(target.data(), target.size()) == kLoginPath;
}

HttpResponse LogIn(const http::fields& header, std::string_view body, AccessControl& access,
                   const HttpPeer& peer) {
  const absl::string_view text(body.data(), body.size());
  const absl::string_view token = absl::StartsWith(text, kField)
                                      ? absl::StripAsciiWhitespace(text.substr(kField.size()))
                                      : text;
  const std::string former = SessionOf(header, peer.tls);
  if (token.empty()) {
    access.EndSession(former);
    return SetSession("", peer.tls);
  }
  const std::string authorization = absl::StrCat("Bearer ", token);
  const absl::StatusOr<Identity> caller = access.Identify(
      {.authorization = authorization, .address = peer.address, .method = std::string(kLoginPath)});
  if (!caller.ok()) {
    return Form(http::status::unauthorized,
                "<p role=\"alert\">The server does not know this token, or it has expired.</p>");
  }
  access.EndSession(former);
  return SetSession(access.BeginSession(*caller), peer.tls);
}

std::string SessionOf(const http::fields& header, bool tls) {
  const boost::beast::string_view cookies = header[http::field::cookie];
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(cookies.data(), cookies.size()), ';')) {
    const std::pair<absl::string_view, absl::string_view> cookie =
        absl::StrSplit(absl::StripAsciiWhitespace(part), absl::MaxSplits('=', 1));
    const std::string_view name(cookie.first.data(), cookie.first.size());
    if (name == CookieOf(tls)) return std::string(cookie.second);
  }
  return "";
}

}  // namespace calibd::server
