#ifndef CALIBD_SERVER_NET_HEADER_RULES_H_
#define CALIBD_SERVER_NET_HEADER_RULES_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace calibd::server {

// Which of the two header blocks of a request a block is.
enum class HeaderKind { kRequest, kTrailers };

// Checks the fields of one header block of a request as HTTP/2 demands (RFC 9113, 8.2 and 8.3).
// gRPC 1.51 serves malformed blocks: it takes one of two values of a field that may occur once, and
// prints fields that it cannot read as they are. Two readers of one block must agree on what it
// says.
class HeaderRules {
 public:
  explicit HeaderRules(HeaderKind kind) noexcept : kind_(kind) {}

  // The next field of the block. Returns false if the block is malformed.
  [[nodiscard]] bool Add(std::string_view name, std::string_view value) noexcept;
  // Returns false if the block lacks a field, or is malformed.
  [[nodiscard]] bool End() const noexcept;

  // The value of content-length; unset without it.
  [[nodiscard]] std::optional<std::uint64_t> content_length() const noexcept {
    return content_length_;
  }

 private:
  [[nodiscard]] bool AddPseudo(std::string_view name, std::string_view value) noexcept;
  [[nodiscard]] bool AddRegular(std::string_view name, std::string_view value) noexcept;
  // Returns false for the second call with the same bit.
  [[nodiscard]] bool TakeOnce(unsigned bit) noexcept;

  HeaderKind kind_;
  bool regular_began_ = false;
  bool malformed_ = false;
  // A bit for each field that was seen and may occur once.
  unsigned seen_ = 0;
  std::optional<std::uint64_t> content_length_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_HEADER_RULES_H_
