#include "server/base/status_mapping.h"

#include <spdlog/spdlog.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "server/base/error_log.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr std::size_t kMaxMessageLength = 768;
constexpr std::size_t kMaxDetailsLength = 2048;

// The text that clients get for an error of the store. The original message names files and
// statements and goes to the server's log.
struct StoreError {
  std::string_view reason;
  std::string_view message;
};
constexpr std::array<StoreError, 3> kStoreErrors{{
    {.reason = "DISK_FULL",
     .message =
         "the server's disk is full; this batch or change was not applied; try again when the "
         "disk has room"},
    {.reason = "STORE_FAILED",
     .message = "the server can no longer use its store, see its log; send unacknowledged batches "
                "again after it has restarted"},
    {.reason = "STORE_DAMAGED", .message = "the server's store is damaged, see its log"},
}};

// While the disk is full, every batch fails.
constexpr std::chrono::seconds kLogInterval{10};

void LogStoreError(absl::string_view message) {
  static ErrorLog log("failed calls", kLogInterval);
  log.Log(absl::StrCat("a call failed: ", message));
}

// The message that clients may see.
std::string PublicMessage(const absl::Status& status) {
  const std::optional<rpc::ErrorInfo> info = GetErrorInfo(status);
  for (const StoreError& error : kStoreErrors) {
    if (info.has_value() && info->reason() == error.reason) {
      LogStoreError(status.message());
      const absl::optional<absl::Cord> message = status.GetPayload(kClientMessageUrl);
      return message.has_value() ? std::string(*message) : std::string(error.message);
    }
  }
  return std::string(status.message());
}

// Cuts between UTF-8 characters: a truncated one would make the message unparsable.
std::string CutUtf8(std::string_view text, std::size_t max_length) {
  if (text.size() <= max_length) return std::string(text);
  std::size_t length = max_length;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) --length;
  return std::string(text.substr(0, length)) + "...";
}

}  // namespace

rpc::Status ToRpcStatus(const absl::Status& status) {
  rpc::Status result;
  result.set_code(static_cast<int>(status.code()));
  result.set_message(CutUtf8(PublicMessage(status), kMaxMessageLength));
  if (status.ok()) return result;
  const absl::Status complete = GetErrorInfo(status).has_value()
                                    ? status
                                    : WithReason(status, absl::StatusCodeToString(status.code()));
  std::size_t length = 0;
  const auto add = [&result, &length](absl::string_view url, const absl::Cord& payload) {
    length += url.size() + payload.size();
    if (length <= kMaxDetailsLength) {
      google::protobuf::Any* detail = result.add_details();
      detail->set_type_url(std::string(url));
      detail->set_value(std::string(payload));
    }
  };
  // Added first: payloads are unordered, and the reason must not be cut.
  add(kErrorInfoUrl, *complete.GetPayload(kErrorInfoUrl));
  complete.ForEachPayload([&add](absl::string_view url, const absl::Cord& payload) {
    if (url != kErrorInfoUrl && url != kClientMessageUrl) add(url, payload);
  });
  return result;
}

absl::Status FromRpcStatus(const rpc::Status& status) {
  absl::Status result(static_cast<absl::StatusCode>(status.code()), status.message());
  for (const auto& detail : status.details()) {
    result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return result;
}

absl::Status CurrentExceptionStatus(std::string_view part, std::string_view stage) noexcept {
  absl::StatusCode code = absl::StatusCode::kInternal;
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      code = absl::StatusCode::kResourceExhausted;
      spdlog::error("{}.{}: out of memory", part, stage);
      return MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY", "out of memory");
    } catch (const std::exception& error) {
      spdlog::error("{}.{}: unexpected exception: {}", part, stage, error.what());
    } catch (...) {
      spdlog::error("{}.{}: unexpected exception", part, stage);
    }
    return MakeError(code, "INTERNAL", "internal error");
  } catch (...) {
    // There is no memory for the text either.
    return {code, ""};
  }
}

}  // namespace calibd::server
