// Calls that have ended for the relay and not for gRPC, and what they mean for an address that has
// cancelled too many.
#include "server/net/ending_calls.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "unit/server/http2_guard_fixture.h"

namespace calibd::server {
namespace {

using EndingCallsTest = Http2GuardTest;

TEST(EndingCallsCountTest, CountsUpAndDownAndForgetsNoMoreThanThereAre) {
  EndingCalls calls;
  calls.Left(EndingCalls::kMany - 1);
  EXPECT_FALSE(calls.many());
  calls.Left();
  EXPECT_TRUE(calls.many());
  calls.Ended();
  EXPECT_FALSE(calls.many());
  calls.Forget(5 * EndingCalls::kMany);
  calls.Left(EndingCalls::kMany - 1);
  EXPECT_FALSE(calls.many());
  calls.Left();
  EXPECT_TRUE(calls.many());
  calls.Forget(1);
  EXPECT_FALSE(calls.many());
}

// gRPC may have ended a call before its client has the end.
TEST(EndingCallsCountTest, AnEndMayComeFirst) {
  EndingCalls calls;
  for (int i = 0; i < 10; ++i) calls.Ended();
  calls.Forget(100);
  calls.Left(EndingCalls::kMany + 9);
  EXPECT_FALSE(calls.many());
  calls.Left();
  EXPECT_TRUE(calls.many());
}

TEST_F(EndingCallsTest, EachCallIsCountedOnceHoweverItEnds) {
  EndingCalls& calls = statistics_.ending_calls();
  // As many ends as there will be calls, less one.
  calls.Left(EndingCalls::kMany - 5);
  {
    Connection connection(*this);
    connection.Client(Headers(1, Request()) + Reset(1));
    // A call that was served.
    connection.Client(Headers(3, Request()) + Data(3, "", NGHTTP2_FLAG_END_STREAM));
    connection.Server(Headers(3, Literal("grpc-status", "0"), NGHTTP2_FLAG_END_STREAM));
    // One that the relay ends, and one that gRPC resets.
    connection.Client(Headers(5, Request()) + Data(5, Prefix(kMaxMessage + 1)));
    connection.Client(Headers(7, Request()));
    connection.Server(Reset(7, NGHTTP2_REFUSED_STREAM));
    connection.Client(Headers(9, Request()));
    EXPECT_FALSE(calls.many());
    EXPECT_EQ(connection.guard.open_calls(), 1);
  }
  // The end of the connection ends its open call.
  EXPECT_TRUE(calls.many());
  calls.Ended();
  EXPECT_FALSE(calls.many());
}

// Otherwise the bursts of an address after each refusal would add up on a busy machine.
TEST_F(EndingCallsTest, AnAddressStaysRefusedUntilGrpcHasEndedItsCalls) {
  const auto peer = std::make_shared<PeerLimits>("127.0.0.2", kMemory);
  EndingCalls& calls = statistics_.ending_calls();
  Connection other(*this, peer);
  {
    Connection connection(*this, peer);
    std::uint32_t id = 1;
    for (; !connection.guard.closed(); id += 2) {
      connection.Client(Headers(id, Request()) + Reset(id));
    }
  }
  now_ += std::chrono::seconds(2);
  EXPECT_TRUE(peer->refused(now_, calls.many()));
  for (int i = 0; i < PeerLimits::kResetBurst; ++i) calls.Ended();
  EXPECT_FALSE(peer->refused(now_, calls.many()));
  // Connections that were open go on, until a cancelled call of theirs adds to many.
  other.Client(Headers(1, Request()) + Reset(1));
  EXPECT_FALSE(other.guard.closed());
  calls.Left(EndingCalls::kMany);
  other.Client(Headers(3, Request()) + Reset(3));
  EXPECT_TRUE(other.guard.closed());
  // Other addresses are not concerned.
  Connection innocent(*this);
  innocent.Client(Headers(1, Request()) + Reset(1));
  EXPECT_FALSE(innocent.guard.closed());
  EXPECT_FALSE(peer_->refused(now_, calls.many()));
}

}  // namespace
}  // namespace calibd::server
