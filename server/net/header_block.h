#ifndef CALIBD_SERVER_NET_HEADER_BLOCK_H_
#define CALIBD_SERVER_NET_HEADER_BLOCK_H_

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <memory>
#include <string_view>

namespace calibd::server {

// Decodes the header blocks of one connection (HPACK) to limit their size. The blocks must be
// complete and in order, because each block changes the state of the compression.
class HeaderBlock {
 public:
  enum class Result { kOk, kTooLarge, kInvalid };

  // Maximum size of a block, both encoded and decoded. The decoded size counts 32 bytes more for
  // each field than its name and value (RFC 9113, 6.5.2).
  static constexpr std::size_t kMaxBytes = 16 << 10;

  // Throws std::bad_alloc.
  HeaderBlock();

  // fragment: the next bytes of the current block. Decoding may continue only after kOk.
  [[nodiscard]] Result Read(std::string_view fragment);
  // Ends the block: the next fragment begins a new one.
  [[nodiscard]] Result End();

  // True if the :path of the newest complete block is a method of gRPC's health service.
  [[nodiscard]] bool health_check() const noexcept { return health_check_; }

 private:
  Result Decode(std::string_view bytes, bool end);

  std::unique_ptr<nghttp2_hd_inflater, decltype(&nghttp2_hd_inflate_del)> inflater_;
  // Encoded and decoded size of the current block in bytes.
  std::size_t encoded_ = 0;
  std::size_t decoded_ = 0;
  bool health_path_ = false;

  bool health_check_ = false;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_HEADER_BLOCK_H_
