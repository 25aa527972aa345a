#include "server/net/header_block.h"

#include <cstdint>
#include <new>

namespace calibd::server {
namespace {

constexpr std::size_t kFieldOverhead = 32;
constexpr std::string_view kHealthService = "/grpc.health.v1.Health/";

std::string_view View(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// gRPC's server never changes the table size from the default, which is also nghttp2's.
nghttp2_hd_inflater* NewInflater() {
  nghttp2_hd_inflater* inflater = nullptr;
  if (nghttp2_hd_inflate_new(&inflater) != 0) throw std::bad_alloc();
  return inflater;
}

}  // namespace

HeaderBlock::HeaderBlock() : inflater_(NewInflater(), &nghttp2_hd_inflate_del) {}

void HeaderBlock::Begin(std::optional<HeaderKind> kind) {
  encoded_ = 0;
  decoded_ = 0;
  health_check_ = false;
  rules_.reset();
  if (kind.has_value()) rules_.emplace(*kind);
}

HeaderBlock::Result HeaderBlock::Read(std::string_view fragment) {
  encoded_ += fragment.size();
  return encoded_ > kMaxBytes ? Result::kTooLarge : Decode(fragment, false);
}

HeaderBlock::Result HeaderBlock::End() {
  const Result result = Decode("", true);
  if (result != Result::kOk || !rules_.has_value()) return result;
  return rules_->End() ? Result::kOk : Result::kMalformed;
}

HeaderBlock::Result HeaderBlock::Decode(std::string_view bytes, bool end) {
  const auto* next = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::size_t left = bytes.size();
  while (true) {
    nghttp2_nv field;
    int flags = 0;
    const auto used =
        nghttp2_hd_inflate_hd2(inflater_.get(), &field, &flags, next, left, end ? 1 : 0);
    if (used < 0) return Result::kInvalid;
    next += used;
    left -= static_cast<std::size_t>(used);
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
      decoded_ += field.namelen + field.valuelen + kFieldOverhead;
      if (decoded_ > kMaxBytes) return Result::kTooLarge;
      const std::string_view name = View(field.name, field.namelen);
      const std::string_view value = View(field.value, field.valuelen);
      if (rules_.has_value() && !rules_->Add(name, value)) return Result::kMalformed;
      if (name == ":path") health_check_ = value.starts_with(kHealthService);
    } else if (left == 0) {
      break;
    }
  }
  if (end) nghttp2_hd_inflate_end_headers(inflater_.get());
  return Result::kOk;
}

}  // namespace calibd::server
