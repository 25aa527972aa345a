#ifndef CALIBD_SERVER_HTTP_PAGE_H_
#define CALIBD_SERVER_HTTP_PAGE_H_

#include <span>
#include <string_view>

#include "server/http/http_message.h"

namespace calibd::server {

// A file of the page for people, which the build embeds; see page/README.md.
struct PageFile {
  // "/" or a name such as "/page.js".
  std::string_view path;
  const char* type = "";
  std::string_view content;
  // The content, compressed by gzip.
  std::string_view compressed;
  // Identifies the content, without quotation marks.
  std::string_view hash;
};
[[nodiscard]] std::span<const PageFile> PageFiles();

// Answers GET and HEAD of a file of the page: compressed if the client accepts that, and 304
// without a body if the client has the file. The path is that of one of PageFiles. Browsers then
// let the page load only its own script and style, connect only to this server, and be shown in no
// frame.
[[nodiscard]] HttpResponse AnswerPage(const HttpRequest& request);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_PAGE_H_
