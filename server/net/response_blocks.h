#ifndef CALIBD_SERVER_NET_RESPONSE_BLOCKS_H_
#define CALIBD_SERVER_NET_RESPONSE_BLOCKS_H_

#include <nghttp2/nghttp2.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/net/http2_frame.h"

namespace calibd::server {

// Decodes the header blocks of the server on one connection, so that some can be left out. A block
// refers to fields of blocks before it. After one was left out, the client could not read later
// blocks, so each of them is replaced by one that refers to no other. Not thread-safe.
class ResponseBlocks {
 public:
  ResponseBlocks();

  // Begins a block. keep: whether the client gets it.
  void Begin(bool keep);
  // True if the client gets the frames of the block unchanged.
  [[nodiscard]] bool passes() const noexcept { return keep_ && !replaces_; }
  // fragment: the next bytes of the block.
  void Read(std::string_view fragment);
  // Ends the block. Returns the block that replaces it, if one does.
  [[nodiscard]] std::optional<std::string> End();
  // True after a block that is not valid. Nothing can be left out or replaced any more.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  void Decode(std::string_view bytes, bool end);

  std::unique_ptr<nghttp2_hd_inflater, decltype(&nghttp2_hd_inflate_del)> inflater_;
  std::vector<HeaderField> fields_;
  bool keep_ = true;
  bool replaces_ = false;
  bool broken_ = false;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_RESPONSE_BLOCKS_H_
