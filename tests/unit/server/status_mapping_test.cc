#include "server/base/status_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/api/guard.h"
#include "server/base/errors.h"
#include "server/rpc/grpc_status.h"

namespace calibd::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename Detail>
bool Unpack(const rpc::Status& status, const std::string& name, Detail& detail) {
  for (const auto& any : status.details()) {
    if (any.type_url() == "type.googleapis.com/google.rpc." + name) {
      return detail.ParseFromString(any.value());
    }
  }
  return false;
}

rpc::Status Wire(const absl::Status& status) {
  const grpc::Status mapped = ToGrpcStatus(status);
  EXPECT_EQ(static_cast<int>(mapped.error_code()), static_cast<int>(status.code()));
  rpc::Status wire;
  EXPECT_TRUE(wire.ParseFromString(mapped.error_details()));
  EXPECT_EQ(wire.message(), mapped.error_message());
  return wire;
}

TEST(StatusMappingTest, EveryCodeHasAnErrorInfo) {
  for (int code = 1; code <= 16; ++code) {
    const rpc::Status wire =
        Wire(absl::Status(static_cast<absl::StatusCode>(code), "what happened"));
    EXPECT_EQ(wire.code(), code);
    EXPECT_EQ(wire.message(), "what happened");
    rpc::ErrorInfo info;
    ASSERT_TRUE(Unpack(wire, "ErrorInfo", info));
    EXPECT_FALSE(info.reason().empty());
    EXPECT_EQ(info.domain(), "calibd");
  }
}

TEST(StatusMappingTest, ErrorsOfTheStoreReachClientsWithoutPathsAndStatements) {
  for (const char* reason : {"DISK_FULL", "STORE_FAILED", "STORE_DAMAGED"}) {
    const rpc::Status wire = Wire(MakeError(absl::StatusCode::kUnavailable, reason,
                                            "the store cannot INSERT INTO log, /srv/data/log-1"));
    EXPECT_THAT(wire.message(),
                AllOf(HasSubstr("server"), Not(HasSubstr("/srv")), Not(HasSubstr("INSERT"))));
    rpc::ErrorInfo info;
    ASSERT_TRUE(Unpack(wire, "ErrorInfo", info));
    EXPECT_EQ(info.reason(), reason);
  }
}

// Earlier batches of a stream were applied.
TEST(StatusMappingTest, AFullDiskRefusesOneBatchOrChange) {
  EXPECT_EQ(Wire(MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL", "full")).message(),
            "the server's disk is full; this batch or change was not applied; try again when the "
            "disk has room");
}

TEST(StatusMappingTest, AnErrorOfTheStoreMayHaveAMessageForClients) {
  const rpc::Status wire = Wire(WithClientMessage(
      MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL", "the store cannot write /srv/x"),
      "the model was not deleted"));
  EXPECT_EQ(wire.message(), "the model was not deleted");
  ASSERT_EQ(wire.details_size(), 1);
  rpc::ErrorInfo info;
  ASSERT_TRUE(Unpack(wire, "ErrorInfo", info));
  EXPECT_EQ(info.reason(), "DISK_FULL");
}

TEST(StatusMappingTest, OkHasNoDetails) { EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok()); }

TEST(StatusMappingTest, FieldsRetryAndResourceAreDetails) {
  rpc::BadRequest bad_request;
  ASSERT_TRUE(Unpack(Wire(InvalidFieldError("rows[17].probabilities", "sums to 1.31")),
                     "BadRequest", bad_request));
  ASSERT_EQ(bad_request.field_violations_size(), 1);
  EXPECT_EQ(bad_request.field_violations(0).field(), "rows[17].probabilities");

  rpc::RetryInfo retry;
  ASSERT_TRUE(Unpack(Wire(WithRetryDelay(DrainingError(), std::chrono::milliseconds(1500))),
                     "RetryInfo", retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 500000000);

  rpc::ResourceInfo resource;
  ASSERT_TRUE(Unpack(Wire(ModelNotFoundError("models/x")), "ResourceInfo", resource));
  EXPECT_EQ(resource.resource_name(), "models/x");
}

TEST(StatusMappingTest, MessageAndDetailsStayBelowFourKibibytes) {
  const std::string long_text(100000, 'x');
  std::vector<Violation> violations(5, {.field = long_text, .description = long_text});
  const grpc::Status mapped = ToGrpcStatus(InvalidFieldsError("REASON", violations));
  EXPECT_LT(mapped.error_message().size() + mapped.error_details().size(), 4096U);
  rpc::Status wire;
  ASSERT_TRUE(wire.ParseFromString(mapped.error_details()));
  rpc::ErrorInfo info;
  ASSERT_TRUE(Unpack(wire, "ErrorInfo", info));
  EXPECT_EQ(info.reason(), "REASON");
}

TEST(StatusMappingTest, MessagesAreTruncatedBetweenCharacters) {
  std::string text = "x";
  for (int i = 0; i < 1000; ++i) text += "\u00e9";
  const rpc::Status wire = ToRpcStatus(absl::InternalError(text));
  EXPECT_LT(wire.message().size(), 800U);
  EXPECT_FALSE(wire.SerializeAsString().empty());
  EXPECT_EQ(wire.message().substr(wire.message().size() - 5), "\u00e9...");
}

TEST(StatusMappingTest, ExceptionsBecomeErrorsWithoutTheirText) {
  const auto thrown = [](auto exception) {
    return Guarded("GetModel", Stage::kAnswer, [&] { throw exception; });
  };
  EXPECT_EQ(thrown(std::bad_alloc()).code(), absl::StatusCode::kResourceExhausted);
  const absl::Status internal = thrown(std::runtime_error("/secret/path"));
  EXPECT_EQ(internal.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(internal.message(), "internal error");
  EXPECT_EQ(thrown(1).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Guarded("GetModel", Stage::kAnswer, [] { return absl::AbortedError("x"); }),
            absl::AbortedError("x"));
}

TEST(QuotedTest, EscapesAndTruncates) {
  EXPECT_EQ(Quoted("a\r\n\x1b\"\xff"), R"("a\r\n\x1b\"\xff")");
  EXPECT_EQ(Quoted("abcdef", 3), "\"abc\"...");
}

}  // namespace
}  // namespace calibd::server
