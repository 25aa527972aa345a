#ifndef CALIBD_SERVER_NET_HEADER_BLOCK_H_
#define CALIBD_SERVER_NET_HEADER_BLOCK_H_

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "server/net/header_rules.h"

namespace calibd::server {

// Decodes the header blocks of a client on one connection (HPACK), limits their size, and checks
// their fields. The blocks must be complete and in order, because each block changes the state of
// the compression.
class HeaderBlock {
 public:
  // kInvalid: the bytes are no HPACK. kMalformed: see HeaderRules.
  enum class Result { kOk, kTooLarge, kInvalid, kMalformed };

  // Maximum size of a block, both encoded and decoded. The decoded size counts 32 bytes more for
  // each field than its name and value (RFC 9113, 6.5.2).
  static constexpr std::size_t kMaxBytes = 16 << 10;

  // Throws std::bad_alloc.
  HeaderBlock();

  // Begins a block. kind: unset if its fields are not checked.
  void Begin(std::optional<HeaderKind> kind);
  // fragment: the next bytes of the current block. Decoding may continue only after kOk.
  [[nodiscard]] Result Read(std::string_view fragment);
  // Ends the block.
  [[nodiscard]] Result End();

  // True if the :path of the newest complete block is a method of gRPC's health service.
  [[nodiscard]] bool health_check() const noexcept { return health_check_; }
  // The content-length of the newest block whose fields are checked; unset without it.
  [[nodiscard]] std::optional<std::uint64_t> content_length() const noexcept {
    return rules_.has_value() ? rules_->content_length() : std::nullopt;
  }

 private:
  Result Decode(std::string_view bytes, bool end);

  std::unique_ptr<nghttp2_hd_inflater, decltype(&nghttp2_hd_inflate_del)> inflater_;
  // Encoded and decoded size of the current block in bytes.
  std::size_t encoded_ = 0;
  std::size_t decoded_ = 0;
  std::optional<HeaderRules> rules_;
  bool health_check_ = false;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_HEADER_BLOCK_H_
