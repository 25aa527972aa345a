#ifndef CALIBD_SERVER_HTTP_HTTP_MESSAGE_H_
#define CALIBD_SERVER_HTTP_HTTP_MESSAGE_H_

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>
#include <vector>

namespace calibd::server {

// The messages of the HTTP endpoint. The body of a request is read after its header was checked.
using HttpParser = boost::beast::http::request_parser<boost::beast::http::empty_body>;
using HttpRequest = boost::beast::http::request<boost::beast::http::empty_body>;
using HttpResponse = boost::beast::http::response<boost::beast::http::string_body>;

// The client of a connection.
struct HttpPeer {
  // With its port.
  std::string address{};
  // The connection is encrypted.
  bool tls = false;
  // The alternative names of the verified client certificate; see Policy::FindCertificate.
  std::vector<std::string> certificate_names{};
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_HTTP_MESSAGE_H_
