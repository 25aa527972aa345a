#include "status_conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backoff.h"

namespace calibd::client {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

template <typename Detail>
void Pack(const Detail& detail, const char* name, rpc::Status& status) {
  auto& any = *status.add_details();
  any.set_type_url(std::string("type.googleapis.com/google.rpc.") + name);
  detail.SerializeToString(any.mutable_value());
}

TEST(FromGrpcStatusTest, AppendsTheInvalidFields) {
  rpc::Status wire;
  wire.set_code(3);
  wire.set_message("invalid observations");
  rpc::BadRequest bad_request;
  auto& violation = *bad_request.add_field_violations();
  violation.set_field("rows[17].probabilities");
  violation.set_description("sums to 1.31, expected 1 +- 0.001");
  Pack(bad_request, "BadRequest", wire);
  const absl::Status status = FromGrpcStatus(
      {grpc::StatusCode::INVALID_ARGUMENT, wire.message(), wire.SerializeAsString()});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()),
            "invalid observations; rows[17].probabilities: sums to 1.31, expected 1 +- 0.001");
  ASSERT_EQ(FieldViolations(status).size(), 1u);
}

TEST(FromGrpcStatusTest, SurvivesInvalidDetails) {
  const absl::Status status =
      FromGrpcStatus({grpc::StatusCode::NOT_FOUND, "no such model", "\xff\xff garbage"});
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(std::string(status.message()), "no such model");
  EXPECT_TRUE(FieldViolations(status).empty());
}

// A terminal would obey them, and a log would have false lines.
TEST(FromGrpcStatusTest, EscapesControlCharactersOfTheServer) {
  rpc::Status wire;
  wire.set_code(3);
  wire.set_message("no\x1b[31m such\nmodel\u202e");
  rpc::BadRequest bad_request;
  auto& violation = *bad_request.add_field_violations();
  violation.set_field("rows[1].\x1b");
  violation.set_description("is\r wrong");
  Pack(bad_request, "BadRequest", wire);
  const absl::Status status = FromGrpcStatus(
      {grpc::StatusCode::INVALID_ARGUMENT, wire.message(), wire.SerializeAsString()});
  EXPECT_EQ(std::string(status.message()),
            "no\\u001b[31m such\\nmodel\\u202e; rows[1].\\u001b: is\\r wrong");
  ASSERT_EQ(FieldViolations(status).size(), 1U);
  EXPECT_EQ(FieldViolations(status)[0].description, "is\\r wrong");
  EXPECT_EQ(
      FromGrpcStatus({grpc::StatusCode::NOT_FOUND, std::string(20'000, 'x')}).message().size(),
      10'000U);
}

TEST(FromGrpcStatusTest, KeepsUnimplemented) {
  const absl::Status status =
      FromGrpcStatus({grpc::StatusCode::UNIMPLEMENTED, "Compression algorithm 'gzip' is disabled"});
  EXPECT_TRUE(absl::IsUnimplemented(status));
  EXPECT_FALSE(IsRetryable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("gzip"));
}

TEST(IsRetryableTest, NeedsUnavailableOrADelay) {
  EXPECT_TRUE(IsRetryable(absl::UnavailableError("")));
  EXPECT_FALSE(IsRetryable(absl::OkStatus()));
  EXPECT_FALSE(IsRetryable(absl::InternalError("")));
  EXPECT_FALSE(IsRetryable(absl::DeadlineExceededError("")));
  EXPECT_FALSE(IsRetryable(absl::ResourceExhaustedError("too large")));
  rpc::Status wire;
  wire.set_code(8);
  rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(2);
  info.mutable_retry_delay()->set_nanos(500'000'000);
  Pack(info, "RetryInfo", wire);
  const absl::Status status = FromRpcStatus(wire);
  EXPECT_TRUE(IsRetryable(status));
  EXPECT_EQ(RetryDelay(status), milliseconds(2500));
}

TEST(IsCutOffTest, IsTrueOnlyForErrorsOfTheTransport) {
  EXPECT_TRUE(IsCutOff(absl::UnknownError("Stream removed")));
  EXPECT_TRUE(IsCutOff(absl::InternalError("Received RST_STREAM with error code 2")));
  EXPECT_TRUE(IsCutOff(absl::CancelledError("")));
  EXPECT_FALSE(IsCutOff(absl::OkStatus()));
  EXPECT_FALSE(IsCutOff(absl::DataLossError("")));
  rpc::Status wire;
  wire.set_code(13);
  rpc::ErrorInfo info;
  info.set_reason("INTERNAL");
  Pack(info, "ErrorInfo", wire);
  EXPECT_FALSE(IsCutOff(FromRpcStatus(wire)));
}

TEST(RetryDelayTest, IsBoundedForAnyServer) {
  rpc::Status wire;
  wire.set_code(8);
  rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(std::numeric_limits<std::int64_t>::max());
  info.mutable_retry_delay()->set_nanos(-5);
  Pack(info, "RetryInfo", wire);
  EXPECT_EQ(RetryDelay(FromRpcStatus(wire)), milliseconds(3600 * 1000));
}

TEST(BackoffTest, GrowsToABoundAndRestartsAfterProgress) {
  Backoff backoff(1);
  milliseconds ceiling(100);
  for (int i = 0; i < 10; ++i) {
    const milliseconds delay = backoff.Next();
    EXPECT_GE(delay, ceiling / 2);
    EXPECT_LE(delay, ceiling);
    ceiling = std::min(2 * ceiling, milliseconds(5000));
  }
  EXPECT_GE(backoff.Next(milliseconds(60000)), milliseconds(60000));
  backoff.Reset();
  EXPECT_LE(backoff.Next(), milliseconds(100));
}

}  // namespace
}  // namespace calibd::client
