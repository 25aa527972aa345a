#ifndef CALIBD_SERVER_HTTP_LOGIN_H_
#define CALIBD_SERVER_HTTP_LOGIN_H_

#include <boost/beast/http/fields.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "server/access/access_control.h"
#include "server/http/http_message.h"

namespace calibd::server {

// The login of the page: a form sends a token, and a cookie keeps the id of a session in the
// browser. The cookie is hidden from scripts, and SameSite=Strict keeps browsers from sending it
// with requests of other sites. A second cookie without a secret tells the page that it can log
// out.

// Largest body of a login.
inline constexpr std::size_t kMaxLoginBytes = 4096;

// The form, in place of the page.
[[nodiscard]] HttpResponse AnswerLogin();

// True for a POST of the form, or of the button that logs out.
[[nodiscard]] bool IsLogin(const HttpRequest& request);

// Answers such a POST: begins a session, sets the cookies and leads to the page, or shows the form
// again with an error. An empty token logs out. The former session of the browser ends.
[[nodiscard]] HttpResponse LogIn(const boost::beast::http::fields& header, std::string_view body,
                                 AccessControl& access, const HttpPeer& peer);

// The id of a session in the cookie of a request; empty if there is none. tls: the connection is
// encrypted. Only the cookie that such a connection sets counts: others may come from another
// server of this host, or from the network.
[[nodiscard]] std::string SessionOf(const boost::beast::http::fields& header, bool tls);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_LOGIN_H_
