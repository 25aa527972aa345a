#include "server/net/response_blocks.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace calibd::server {
namespace {

std::string ToText(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

nghttp2_hd_inflater* NewResponseInflater() {
  nghttp2_hd_inflater* inflater = nullptr;
  if (nghttp2_hd_inflate_new(&inflater) != 0) throw std::bad_alloc();
  return inflater;
}

}  // namespace

ResponseBlocks::ResponseBlocks() : inflater_(NewResponseInflater(), &nghttp2_hd_inflate_del) {}

void ResponseBlocks::Begin(bool keep) {
  // The client can read this block only if it has got all blocks before it.
  replaces_ = replaces_ || !keep_;
  keep_ = keep || broken_;
  fields_.clear();
}

void ResponseBlocks::Read(std::string_view fragment) { Decode(fragment, false); }

std::optional<std::string> ResponseBlocks::End() {
  Decode("", true);
  if (broken_ || passes() || !keep_) return std::nullopt;
  return EncodeHeaderFields(std::exchange(fields_, {}));
}

void ResponseBlocks::Decode(std::string_view bytes, bool end) {
  const auto* next = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::size_t left = bytes.size();
  while (!broken_) {
    nghttp2_nv field;
    int flags = 0;
    const auto used =
        nghttp2_hd_inflate_hd2(inflater_.get(), &field, &flags, next, left, end ? 1 : 0);
    if (used < 0) {
      broken_ = true;
      return;
    }
    next += used;
    left -= static_cast<std::size_t>(used);
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
      if (keep_ && replaces_) {
        fields_.push_back({ToText(field.name, field.namelen), ToText(field.value, field.valuelen)});
      }
    } else if (left == 0) {
      break;
    }
  }
  if (end && !broken_) nghttp2_hd_inflate_end_headers(inflater_.get());
}

}  // namespace calibd::server
