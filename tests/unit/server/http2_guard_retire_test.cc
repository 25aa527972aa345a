// A connection that makes room for another one, and calls that begin after a GOAWAY.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unit/server/http2_guard_fixture.h"

namespace calibd::server {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Http2GuardRetireTest : public Http2GuardTest {
 protected:
  void Retire(Connection& connection) {
    connection.guard.Retire(now_, connection.output);
    connection.Take();
  }
  // Returns the last calls that the GOAWAY frames to the client name. All of them must have
  // NO_ERROR.
  static std::vector<std::uint32_t> LastCalls(const Connection& connection) {
    std::vector<std::uint32_t> calls;
    for (const ParsedFrame& frame : FramesOf(connection.to_client, NGHTTP2_GOAWAY)) {
      calls.push_back(ReadUint32(frame.payload));
      EXPECT_EQ(ReadUint32(std::string_view(frame.payload).substr(4)), NGHTTP2_NO_ERROR);
    }
    return calls;
  }
};

const std::string kAnswer = Headers(1, Literal("grpc-status", "0"), NGHTTP2_FLAG_END_STREAM);

TEST_F(Http2GuardRetireTest, AnIdleConnectionIsClosedWithAGoAway) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Reset(1));
  Retire(connection);
  EXPECT_TRUE(connection.guard.closed());
  EXPECT_THAT(LastCalls(connection), ElementsAre(1));
  EXPECT_EQ(Closed(CloseReason::kEvicted), 1);
  // HTTP/2 has not begun.
  Http2Guard silent(
      shared_, peer_, [] { return false; }, now_);
  Http2Guard::Output output;
  silent.Retire(now_, output);
  EXPECT_TRUE(silent.closed());
  EXPECT_THAT(output.to_client.pieces(), IsEmpty());
}

TEST_F(Http2GuardRetireTest, OpenCallsAreServedToTheirEnd) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Data(1, Message(1)));
  connection.Clear();
  Retire(connection);
  EXPECT_THAT(LastCalls(connection), ElementsAre(1));
  connection.Pass(seconds(600));
  const std::string rest = Data(1, Message(10), NGHTTP2_FLAG_END_STREAM) + WindowUpdate(1, 5);
  connection.Client(rest);
  EXPECT_EQ(connection.to_server, rest);
  EXPECT_FALSE(connection.guard.closed());
  connection.Clear();
  connection.Server(kAnswer);
  EXPECT_TRUE(connection.to_client.starts_with(kAnswer));
  EXPECT_TRUE(connection.guard.closed());
  EXPECT_EQ(Closed(CloseReason::kEvicted), 1);
}

TEST_F(Http2GuardRetireTest, NothingOfALaterCallReachesTheServer) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Data(1, Message(1)));
  connection.Server(WindowUpdate(1, 6));
  Retire(connection);
  connection.Clear();
  const std::string block = Request();
  connection.Client(Frame(NGHTTP2_HEADERS, 0, 3, block.substr(0, 20)) +
                    Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 3, block.substr(20)) +
                    WindowUpdate(3, 7) + Data(3, Message(10)) +
                    Data(3, "\2" + Message(1) + "pp", NGHTTP2_FLAG_PADDED) +
                    Data(3, "", NGHTTP2_FLAG_END_STREAM) + Headers(5, block) + Reset(5));
  EXPECT_EQ(connection.to_server, "");
  // The client gets back the flow-control window that its data used up.
  EXPECT_EQ(connection.to_client, WindowUpdate(0, 15) + WindowUpdate(0, 9));
  EXPECT_EQ(connection.guard.open_calls(), 1);
  EXPECT_EQ(memory_.reserved(), 0);
  // Frames of the connection and those of the served call pass.
  const std::string others =
      Frame(NGHTTP2_PING, 0, 0, "12345678") + WindowUpdate(0, 24) + Data(1, Message(2));
  connection.Client(others);
  EXPECT_EQ(connection.to_server, others);
}

TEST_F(Http2GuardRetireTest, RefusedCallsCountAsControlFrames) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Data(1, Message(1)));
  Retire(connection);
  now_ += seconds(2);
  std::uint32_t id = 3;
  for (int i = 0; i < 10000; ++i, id += 2) connection.Client(Headers(id, Request()));
  EXPECT_FALSE(connection.guard.closed());
  connection.Client(Headers(id, Request()));
  EXPECT_TRUE(connection.guard.closed());
  EXPECT_EQ(Closed(CloseReason::kTooManyControlFrames), 1);
}

TEST_F(Http2GuardRetireTest, TheEndOfARequestReachesTheServerWithoutItsTrailers) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Data(1, Message(3)));
  Retire(connection);
  connection.Clear();
  connection.Client(Headers(3, Request()));
  // gRPC could not decode a table entry that the refused call added.
  connection.Client(Headers(1, Literal("x", "y"), NGHTTP2_FLAG_END_STREAM));
  EXPECT_EQ(connection.to_server, Data(1, "", NGHTTP2_FLAG_END_STREAM));
  connection.Server(kAnswer);
  EXPECT_TRUE(connection.guard.closed());
}

TEST_F(Http2GuardRetireTest, TheClientMayRepeatTheNewestCallsWithoutAWholeMessage) {
  Connection connection(*this);
  const std::string block = Request();
  connection.Client(Headers(1, block) + Data(1, Message(3)) + Headers(3, block) +
                    Headers(5, block) + Data(5, Prefix(100) + "half") +
                    Frame(NGHTTP2_HEADERS, 0, 7, block.substr(0, 20)));
  connection.Clear();
  Retire(connection);
  EXPECT_THAT(LastCalls(connection), ElementsAre(1));
  EXPECT_THAT(FramesOf(connection.to_client, NGHTTP2_HEADERS), IsEmpty());
  EXPECT_EQ(connection.guard.open_calls(), 1);
  // The server has seen two of them, and nothing of the third.
  const std::string data = Data(1, Message(3), NGHTTP2_FLAG_END_STREAM);
  connection.Client(Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 7, block.substr(20)) +
                    Data(5, "more") + Data(7, Message(3)) + data);
  EXPECT_EQ(connection.to_server, Reset(3) + Reset(5) + data);
}

TEST_F(Http2GuardRetireTest, ACallWithHalfOfItsTrailersEndsForTheServer) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Data(1, Message(3)) + Headers(3, Request()) +
                    Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 3, ""));
  connection.Clear();
  Retire(connection);
  EXPECT_THAT(LastCalls(connection), ElementsAre(1));
  // Nothing can be inserted into a header block.
  EXPECT_EQ(connection.to_server, "");
  connection.Client(Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 3, ""));
  EXPECT_EQ(connection.to_server, Headers(3, "", NGHTTP2_FLAG_END_STREAM) + Reset(3));
}

TEST_F(Http2GuardRetireTest, OlderCallsWithoutAWholeMessageEndWithAnError) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Headers(3, Request()) + Reset(3));
  connection.Clear();
  Retire(connection);
  const Ended ended = ParseEnd(FramesOf(connection.to_client, NGHTTP2_HEADERS).at(0));
  EXPECT_EQ(ended.reason, "TOO_MANY_CONNECTIONS");
  EXPECT_TRUE(ended.retry);
  EXPECT_EQ(connection.to_server, Reset(1));
  EXPECT_THAT(LastCalls(connection), ElementsAre(3));
  EXPECT_TRUE(connection.guard.closed());
}

TEST_F(Http2GuardRetireTest, TheGoAwayWaitsForTheServersFrame) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Headers(3, Request()) + Data(3, Message(1)));
  const std::string data = Data(1, std::string(100, 'd'));
  connection.Server(data.substr(0, 50));
  connection.Client(Reset(1));
  connection.Clear();
  Retire(connection);
  EXPECT_EQ(connection.to_client, "");
  connection.Server(data.substr(50));
  EXPECT_TRUE(connection.to_client.starts_with(data.substr(50)));
  connection.to_client.erase(0, 50 + 9);
  EXPECT_THAT(LastCalls(connection), ElementsAre(3));
  EXPECT_FALSE(connection.guard.closed());
  // A client without calls must learn that its next call is not served.
  Connection idle(*this);
  idle.Client(Headers(1, Request()));
  idle.Server(data.substr(0, 50));
  idle.Client(Reset(1));
  idle.Clear();
  Retire(idle);
  EXPECT_FALSE(idle.guard.closed());
  idle.Client(Headers(3, Request()));
  idle.Server(data.substr(50));
  EXPECT_TRUE(idle.guard.closed());
  idle.to_client.erase(0, 50 + 9);
  EXPECT_THAT(LastCalls(idle), ElementsAre(1));
}

TEST_F(Http2GuardRetireTest, TheLastServedCallInGoAwaysNeverIncreases) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Headers(3, Request()) + Data(3, Message(1)));
  Retire(connection);
  connection.Server(GoAway(0x7fffffff) + GoAway(3));
  EXPECT_THAT(LastCalls(connection), ElementsAre(3));
  Connection drained(*this);
  drained.Client(Headers(1, Request()) + Data(1, Message(1)) + Headers(3, Request()));
  drained.Server(GoAway(0x7fffffff) + GoAway(1));
  // gRPC ignores the call that its GOAWAY excludes.
  EXPECT_EQ(drained.guard.open_calls(), 1);
  Retire(drained);
  EXPECT_THAT(LastCalls(drained), ElementsAre(0x7fffffff, 1, 1));
  drained.Server(kAnswer);
  drained.Client(Data(1, "", NGHTTP2_FLAG_END_STREAM));
  EXPECT_TRUE(drained.guard.closed());
  EXPECT_THAT(LastCalls(drained), ElementsAre(0x7fffffff, 1, 1, 1));
}

TEST_F(Http2GuardRetireTest, HealthChecksOfARestrictedConnectionGetASecond) {
  Connection connection(*this);
  connection.restricted = true;
  connection.Client(Headers(1, Request("/grpc.health.v1.Health/Watch")) + Data(1, Message(0)));
  connection.Clear();
  Retire(connection);
  EXPECT_THAT(LastCalls(connection), ElementsAre(1));
  EXPECT_FALSE(connection.guard.closed());
  connection.Pass(seconds(1));
  EXPECT_TRUE(connection.guard.closed());
  EXPECT_EQ(Closed(CloseReason::kEvicted), 1);
}

}  // namespace
}  // namespace calibd::server
