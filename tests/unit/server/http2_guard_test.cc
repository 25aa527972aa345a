#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unit/server/http2_guard_fixture.h"

namespace calibd::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(Http2GuardTest, PassesBytesUnchangedExceptForTheFramesOfHeaderBlocks) {
  Connection connection(*this);
  const std::string from_client =
      InitialWindow(1 << 20) + Headers(1, Request()) + Data(1, Message(100)) +
      Data(1, "\3" + Message(10) + "pad", NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_END_STREAM) +
      Frame(NGHTTP2_PING, 0, 0, "12345678") + WindowUpdate(0, 1000) + Reset(1);
  const std::string from_server = InitialWindow(1 << 20) + Headers(1, Literal(":status", "200")) +
                                  Data(1, Message(50)) + WindowUpdate(1, 10) +
                                  Headers(1, Literal("grpc-status", "0"), NGHTTP2_FLAG_END_STREAM);
  connection.Client(from_client);
  connection.Server(from_server);
  EXPECT_EQ(connection.to_server, from_client);
  EXPECT_EQ(connection.to_client, from_server);
  EXPECT_FALSE(connection.guard.closed());
  EXPECT_EQ(connection.guard.open_calls(), 0);
  EXPECT_EQ(memory_.reserved(), 0);
  // A block passes when it is complete, without padding and priority.
  connection.Clear();
  connection.Client(Frame(NGHTTP2_HEADERS,
                          NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY | NGHTTP2_FLAG_END_STREAM, 3,
                          "\2" + std::string(5, '\0') + Request().substr(0, 20) + "pp"));
  EXPECT_EQ(connection.to_server, "");
  connection.Client(Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 3, Request().substr(20)));
  EXPECT_EQ(connection.to_server, Headers(3, Request(), NGHTTP2_FLAG_END_STREAM));
}

TEST_F(Http2GuardTest, OutputDoesNotDependOnFragmentation) {
  // Calls that end for two reasons, one of them inside a frame of the server.
  const std::string from_client =
      std::string(kPreface) + Frame(NGHTTP2_SETTINGS, 0, 0) + Headers(1, Request()) +
      Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY, 3,
            "\2" + std::string(5, '\0') + Request().substr(0, 20) + "pp") +
      Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 3, Request().substr(20)) +
      Data(3, "\4" + Message(3) + Prefix(0) + "padd", NGHTTP2_FLAG_PADDED) +
      Data(1, std::string("\0\xff", 2)) + Data(1, "") + Data(1, "\xff\xff\xff more") +
      Data(3, Message(7), NGHTTP2_FLAG_END_STREAM) + Data(1, "and more") +
      Frame(NGHTTP2_PING, 0, 0, "12345678") + Frame(200, 0, 9, "unknown");
  const std::string from_server = Headers(3, Literal(":status", "200")) + Data(3, Message(5)) +
                                  Data(1, Message(9)) + Reset(1) +
                                  Headers(3, Literal("x", "y"), NGHTTP2_FLAG_END_STREAM);
  const auto run = [&](std::size_t client_cut, std::size_t server_cut, std::size_t step) {
    Http2Guard guard(
        shared_, peer_, [] { return false; }, now_);
    Http2Guard::Output output;
    std::string to_client;
    std::string to_server;
    const auto feed = [&](std::string_view bytes, std::size_t cut, bool client) {
      while (!bytes.empty()) {
        const std::size_t size = std::min(cut > 0 ? cut : step, bytes.size());
        cut = 0;
        // The guard must not keep references to the bytes of an earlier call.
        const auto copy = std::make_unique<std::string>(bytes.substr(0, size));
        client ? guard.FromClient(*copy, now_, output) : guard.FromServer(*copy, now_, output);
        for (const std::string_view piece : output.to_client.pieces()) to_client += piece;
        for (const std::string_view piece : output.to_server.pieces()) to_server += piece;
        output.Clear();
        bytes.remove_prefix(size);
      }
    };
    feed(from_client, client_cut, true);
    feed(from_server, server_cut, false);
    EXPECT_FALSE(guard.closed());
    return std::pair(to_client, to_server);
  };
  const auto whole = run(0, 0, 1 << 20);
  EXPECT_EQ(FramesOf(whole.first, NGHTTP2_HEADERS).size(), 3);
  EXPECT_EQ(FramesOf(whole.first, NGHTTP2_DATA).size(), 1) << "data of an ended call";
  EXPECT_EQ(FramesOf(whole.second.substr(kPreface.size()), NGHTTP2_RST_STREAM).size(), 1);
  EXPECT_EQ(run(0, 0, 1), whole);
  for (std::size_t i = 1; i < from_client.size(); ++i) {
    ASSERT_EQ(run(i, 0, 1 << 20), whole) << i;
  }
  for (std::size_t i = 1; i < from_server.size(); ++i) {
    ASSERT_EQ(run(0, i, 1 << 20), whole) << i;
  }
}

TEST_F(Http2GuardTest, RefusesAMessageByItsDeclaredLength) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Headers(3, Request()) + Headers(5, Request()));
  connection.Client(Data(3, Prefix(kMaxMessage)));
  EXPECT_EQ(connection.to_client, "");
  connection.Clear();
  connection.Client(Data(1, Prefix(kMaxMessage + 1)));
  EXPECT_EQ(connection.to_server, Data(1, Prefix(kMaxMessage + 1)) + Reset(1));
  const std::vector<ParsedFrame> frames = Parse(connection.to_client);
  ASSERT_EQ(frames.size(), 2);
  const Ended ended = ParseEnd(frames[0]);
  EXPECT_EQ(ended.fields.at(":status"), "200");
  EXPECT_EQ(ended.fields.at("content-type"), "application/grpc");
  EXPECT_EQ(ended.fields.at("grpc-status"), "8");
  EXPECT_THAT(ended.fields.at("grpc-message"),
              HasSubstr("1048577 bytes, expected at most 1048576"));
  EXPECT_EQ(ended.reason, "MESSAGE_TOO_LARGE");
  EXPECT_EQ(connection.to_client.substr(connection.to_client.size() - 13),
            Reset(1, NGHTTP2_NO_ERROR));
  EXPECT_EQ(CallsEnded(CallEnd::kMessageTooLarge), 1);
  EXPECT_EQ(connection.guard.open_calls(), 2);
  // A length of 4 GB in two parts, after a complete message and after response headers.
  connection.Server(Headers(5, Literal(":status", "200")));
  connection.Clear();
  for (const char c : Message(2) + std::string(1, '\0') + "\xff\xff\xff\xff") {
    connection.Client(Data(5, std::string(1, c)));
  }
  ASSERT_THAT(FramesOf(connection.to_client, NGHTTP2_HEADERS), ::testing::SizeIs(1));
  EXPECT_EQ(ParseEnd(Parse(connection.to_client)[0]).fields.count(":status"), 0);
  EXPECT_FALSE(connection.guard.closed());
}

TEST_F(Http2GuardTest, AnEndedCallNeitherSplitsHeadersNorReachesTheClientAgain) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Headers(3, Request()));
  const std::string block = Literal(":status", "200");
  connection.Server(Frame(NGHTTP2_HEADERS, 0, 1, block.substr(0, 4)));
  connection.Clear();
  connection.Client(Data(1, Prefix(0xffffffff)));
  EXPECT_EQ(connection.to_client, "");
  const std::string rest =
      Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, block.substr(4));
  connection.Server(rest);
  EXPECT_TRUE(connection.to_client.starts_with(rest));
  ASSERT_EQ(Parse(connection.to_client).size(), 3);
  EXPECT_EQ(ParseEnd(Parse(connection.to_client)[1]).reason, "MESSAGE_TOO_LARGE");
  connection.Clear();
  // Frames that gRPC still sends do not pass, and gRPC gets the window of its data back.
  const std::string headers = Headers(1, Literal("x", "y"), NGHTTP2_FLAG_END_STREAM);
  connection.Server(Data(1, Message(20)) + Reset(1) + WindowUpdate(1, 5) + headers);
  EXPECT_EQ(connection.to_client, "");
  EXPECT_EQ(connection.to_server, WindowUpdate(0, 25));
}

TEST_F(Http2GuardTest, TheClientCanReadHeadersAfterOnesThatWereLeftOut) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Headers(3, Request()) + Headers(5, Request()));
  connection.Client(Data(1, Prefix(0xffffffff)));
  connection.Clear();
  // The first block adds a field to the compression, to which the second one refers.
  std::string indexed = Literal("x", "y");
  indexed[0] = '\x40';
  connection.Server(Headers(1, indexed, NGHTTP2_FLAG_END_STREAM));
  EXPECT_EQ(connection.to_client, "");
  const std::string block = "\xbe" + Literal("z", std::string(20000, 'v'));
  connection.Server(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 3, block.substr(0, 5)) +
                    Frame(NGHTTP2_CONTINUATION, 0, 3, block.substr(5, 16000)) +
                    Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 3, block.substr(16005)));
  const std::vector<ParsedFrame> frames = Parse(connection.to_client);
  ASSERT_EQ(frames.size(), 2);
  EXPECT_EQ(frames[0].header.type, NGHTTP2_HEADERS);
  EXPECT_EQ(frames[0].header.flags, NGHTTP2_FLAG_END_STREAM);
  EXPECT_EQ(frames[1].header.type, NGHTTP2_CONTINUATION);
  EXPECT_EQ(frames[1].header.flags, NGHTTP2_FLAG_END_HEADERS);
  const auto fields = DecodeFields(frames[0].payload + frames[1].payload);
  EXPECT_EQ(fields.at("x"), "y");
  EXPECT_EQ(fields.at("z"), std::string(20000, 'v'));
  // A block that is not valid cannot be replaced.
  connection.Server(Headers(5, "\xff\xff\xff\xff\xff\xff"));
  EXPECT_TRUE(connection.guard.closed());
}

TEST_F(Http2GuardTest, BoundsHeaderBlocks) {
  const auto close_reason = [this](const std::vector<std::string>& frames) -> std::string {
    RelayStatistics statistics;
    Http2Guard::Shared shared{
        .limits = shared_.limits, .memory = memory_, .statistics = statistics};
    Connection connection(*this, nullptr, &shared);
    for (const std::string& frame : frames) connection.Client(frame);
    if (!connection.guard.closed()) return "";
    EXPECT_EQ(FramesOf(connection.to_client, NGHTTP2_GOAWAY).size(), 1);
    std::string reasons;
    for (std::size_t i = 0; i < RelayStatistics::kCloseReasons.size(); ++i) {
      if (statistics.closed(i) > 0) reasons += RelayStatistics::kCloseReasons[i];
    }
    return reasons;
  };
  // A name of one byte, its value, and 32.
  const auto field = [](std::size_t size) { return Literal("x", std::string(size - 33, 'v')); };
  const auto continuation = [](std::string_view block, int flags = 0) {
    return Frame(NGHTTP2_CONTINUATION, flags, 1, block);
  };
  // The decoded size of a request: four fields.
  constexpr std::size_t kRequest = 43 + 43 + 69 + 60;
  const auto with_fields = [&](std::size_t size) {
    return Headers(1, Request() + field(8192 - kRequest) + field(size));
  };
  EXPECT_EQ(close_reason({with_fields(8192)}), "");
  EXPECT_EQ(close_reason({with_fields(8193)}), "header_block_too_large");
  EXPECT_EQ(close_reason({Frame(NGHTTP2_HEADERS, 0, 1, field(8192)), continuation(field(8192)),
                          continuation(field(40))}),
            "header_block_too_large");
  EXPECT_EQ(close_reason({Frame(NGHTTP2_HEADERS, 0, 1, std::string((16 << 10) + 1, 'x'))}),
            "frame_too_large");
  // An entry of the dynamic table, and one byte for each further use.
  std::string entry = Literal("x", std::string(4000, 'v'));
  entry[0] = '\x40';
  EXPECT_EQ(close_reason({Headers(1, Request() + entry + std::string(3, '\xbe'))}), "");
  EXPECT_EQ(close_reason({Headers(1, Request() + entry + std::string(4, '\xbe'))}),
            "header_block_too_large");
  // Encoded bytes that decode to nothing: size updates of the table.
  EXPECT_EQ(close_reason({Frame(NGHTTP2_HEADERS, 0, 1, std::string(16 << 10, '\x20')),
                          continuation("\x20")}),
            "header_block_too_large");
  std::vector<std::string> empty{Frame(NGHTTP2_HEADERS, 0, 1, Request())};
  for (int i = 0; i < Http2Guard::kMaxEmptyContinuations; ++i) empty.push_back(continuation(""));
  EXPECT_EQ(close_reason(empty), "");
  empty.push_back(continuation(""));
  EXPECT_EQ(close_reason(empty), "header_block_too_large");
  EXPECT_EQ(close_reason({Headers(1, "\xff\xff\xff\xff\xff\xff")}), "protocol_error");
  EXPECT_EQ(close_reason({Frame(NGHTTP2_HEADERS, 0, 1, Request()), Data(1, "x")}),
            "protocol_error");
  EXPECT_EQ(close_reason({continuation(Request())}), "protocol_error");
  EXPECT_EQ(close_reason({Headers(1, "\x09x", NGHTTP2_FLAG_PADDED)}), "protocol_error");
  EXPECT_EQ(close_reason({Headers(1, Request()), Data(1, "\x02x", NGHTTP2_FLAG_PADDED)}),
            "protocol_error");
}

TEST_F(Http2GuardTest, AWrongPrefaceClosesSilently) {
  Http2Guard guard(
      shared_, peer_, [] { return false; }, now_);
  Http2Guard::Output output;
  guard.FromClient("PRI * HT", now_, output);
  EXPECT_FALSE(guard.closed());
  guard.FromClient("XP/2.0\r\n", now_, output);
  EXPECT_TRUE(guard.closed());
  EXPECT_THAT(output.to_client.pieces(), IsEmpty());
}

TEST_F(Http2GuardTest, RefusesCallsBeyondTheLimitWithAReason) {
  Connection connection(*this);
  std::uint32_t id = 1;
  for (std::size_t i = 0; i < 32; ++i, id += 2) connection.Client(Headers(id, Request()));
  EXPECT_EQ(connection.to_client, "");
  connection.Clear();
  connection.Client(Headers(id, Request()));
  EXPECT_EQ(connection.to_server, Headers(id, Request()) + Reset(id));
  const Ended ended = ParseEnd(Parse(connection.to_client).at(0));
  EXPECT_EQ(ended.fields.at("grpc-status"), "8");
  EXPECT_EQ(ended.reason, "TOO_MANY_CALLS");
  EXPECT_TRUE(ended.retry);
  EXPECT_EQ(CallsEnded(CallEnd::kTooManyCalls), 1);
  EXPECT_EQ(connection.guard.open_calls(), 32U);
  // The end of a call makes room for another one.
  connection.Clear();
  connection.Client(Reset(1) + Headers(id + 2, Request()));
  EXPECT_EQ(connection.to_client, "");
  EXPECT_EQ(connection.guard.open_calls(), 32U);
}

TEST_F(Http2GuardTest, CountsRefusedCallsAsResets) {
  Connection connection(*this);
  std::uint32_t id = 1;
  for (int i = 0; i < 32 + PeerLimits::kResetBurst; ++i, id += 2) {
    connection.Client(Headers(id, Request()));
  }
  EXPECT_FALSE(connection.guard.closed());
  connection.Client(Headers(id, Request()));
  EXPECT_EQ(Closed(CloseReason::kTooManyResets), 1);
}

TEST_F(Http2GuardTest, BoundsOpenHealthChecks) {
  Connection connection(*this);
  const std::string check = Request("/grpc.health.v1.Health/Check");
  std::uint32_t id = 1;
  for (std::size_t i = 0; i < 32 + Http2Guard::kExtraCalls; ++i, id += 2) {
    connection.Client(Headers(id, check));
  }
  EXPECT_EQ(connection.to_client, "");
  EXPECT_FALSE(connection.guard.closed());
  connection.Client(Headers(id, check));
  EXPECT_TRUE(connection.guard.closed());
  EXPECT_EQ(Closed(CloseReason::kTooManyCalls), 1);
}

TEST_F(Http2GuardTest, BoundsResets) {
  std::uint32_t id = 1;
  const auto cancel = [&id](Connection& connection, int calls) {
    for (int i = 0; i < calls && !connection.guard.closed(); ++i, id += 2) {
      connection.Client(Headers(id, Request()) + Reset(id));
    }
  };
  {
    // 500 per second are always allowed, also after a burst.
    Connection connection(*this);
    cancel(connection, 2000);
    now_ += seconds(2);
    for (int i = 0; i < 100; ++i) {
      cancel(connection, 50);
      now_ += milliseconds(100);
    }
    EXPECT_FALSE(connection.guard.closed());
  }
  {
    Connection connection(*this);
    cancel(connection, 2000);
    EXPECT_FALSE(connection.guard.closed());
    cancel(connection, 1);
    EXPECT_TRUE(connection.guard.closed());
    EXPECT_EQ(Closed(CloseReason::kTooManyResets), 1);
    const ParsedFrame goaway = FramesOf(connection.to_client, NGHTTP2_GOAWAY).at(0);
    EXPECT_EQ(ReadUint32(goaway.payload), id - 2);
    EXPECT_EQ(ReadUint32(std::string_view(goaway.payload).substr(4)), NGHTTP2_ENHANCE_YOUR_CALM);
    connection.Clear();
    connection.Client(Headers(id, Request()));
    EXPECT_EQ(connection.to_server, "");
  }
  {
    // Resets by the server count, unless they only mean that it does not need the rest of a
    // request.
    Connection connection(*this);
    for (int i = 0; i < 3000; ++i) connection.Server(Reset(1, NGHTTP2_NO_ERROR));
    EXPECT_FALSE(connection.guard.closed());
    for (int i = 0; i < 2001; ++i) connection.Server(Reset(1, NGHTTP2_REFUSED_STREAM));
    EXPECT_TRUE(connection.guard.closed());
  }
  // The connections of one address share the limit, and those that come later too.
  const auto peer = std::make_shared<PeerLimits>("127.0.0.2", kMemory);
  std::vector<std::unique_ptr<Connection>> connections;
  for (int i = 0; i < 4; ++i) {
    connections.push_back(std::make_unique<Connection>(*this, peer));
    cancel(*connections.back(), 500);
    EXPECT_FALSE(connections.back()->guard.closed());
  }
  connections.push_back(std::make_unique<Connection>(*this, peer));
  cancel(*connections.back(), 1);
  EXPECT_TRUE(connections.back()->guard.closed());
  EXPECT_TRUE(peer->refused(now_));
  // The next cancelled call of another one closes that too.
  EXPECT_FALSE(connections.front()->guard.closed());
  cancel(*connections.front(), 1);
  EXPECT_TRUE(connections.front()->guard.closed());
}

TEST_F(Http2GuardTest, CallsThatAreOpenAtTheEndOfTheirConnectionCountAsResets) {
  const auto peer = std::make_shared<PeerLimits>("127.0.0.2", kMemory);
  for (int i = 0; i < 100; ++i) {
    Connection connection(*this, peer);
    for (std::uint32_t id = 1; id < 40; id += 2) connection.Client(Headers(id, Request()));
    EXPECT_FALSE(peer->refused(now_));
  }
  {
    Connection connection(*this, peer);
    connection.Client(Headers(1, Request()));
  }
  EXPECT_TRUE(peer->refused(now_));
}

// A server that allows more calls on a connection than a burst of resets.
TEST_F(Http2GuardTest, TheEndOfOneConnectionIsNoExcess) {
  shared_.limits.max_concurrent_streams = 3000;
  const auto peer = std::make_shared<PeerLimits>("127.0.0.2", kMemory);
  {
    Connection connection(*this, peer);
    for (std::uint32_t id = 1; id < 5000; id += 2) connection.Client(Headers(id, Request()));
    EXPECT_EQ(connection.guard.open_calls(), 2500);
  }
  EXPECT_FALSE(peer->refused(now_));
  {
    Connection connection(*this, peer);
    connection.Client(Headers(1, Request()));
  }
  EXPECT_TRUE(peer->refused(now_));
}

TEST_F(Http2GuardTest, CallsThatTheServerHasEndedAreNoResets) {
  const auto peer = std::make_shared<PeerLimits>("127.0.0.2", kMemory);
  for (int i = 0; i < 200; ++i) {
    Connection connection(*this, peer);
    for (std::uint32_t id = 1; id < 40; id += 2) {
      connection.Client(Headers(id, Request()));
      connection.Server(Headers(id, Literal("grpc-status", "0"), NGHTTP2_FLAG_END_STREAM));
    }
  }
  EXPECT_FALSE(peer->refused(now_));
}

TEST_F(Http2GuardTest, RefusedCallsOfARestrictedConnectionCountAsResets) {
  Connection connection(*this);
  connection.restricted = true;
  std::uint32_t id = 1;
  for (int i = 0; i < PeerLimits::kResetBurst; ++i, id += 2) {
    connection.Client(Headers(id, Request()));
  }
  EXPECT_FALSE(connection.guard.closed());
  connection.Client(Headers(id, Request()));
  EXPECT_EQ(Closed(CloseReason::kTooManyResets), 1);
}

TEST_F(Http2GuardTest, BoundsControlFrames) {
  for (const std::string& frame :
       {Frame(NGHTTP2_PING, 0, 0, "12345678"), Frame(NGHTTP2_SETTINGS, 0, 0),
        Frame(NGHTTP2_PRIORITY, 0, 1, "12345"), Frame(77, 0, 1), Data(1, ""),
        Headers(1, Literal("x", "y"))}) {
    Connection connection(*this);
    connection.Client(Headers(1, Request()));
    now_ += seconds(2);
    for (int i = 0; i < 10000; ++i) connection.Client(frame);
    EXPECT_FALSE(connection.guard.closed());
    connection.Client(frame);
    EXPECT_TRUE(connection.guard.closed());
  }
  EXPECT_EQ(Closed(CloseReason::kTooManyControlFrames), 6);
}

TEST_F(Http2GuardTest, ReservesMessagesUntilTheServerHasReadThem) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Data(1, Prefix(1000)));
  const std::size_t declared = memory_.reserved();
  EXPECT_GE(declared, 1000);
  EXPECT_LT(declared, 1500);
  connection.Client(Data(1, std::string(1000, 'm')));
  EXPECT_GE(memory_.reserved(), declared);
  connection.Server(WindowUpdate(3, 1) + WindowUpdate(0, 1));
  EXPECT_GE(memory_.reserved(), declared);
  connection.Server(WindowUpdate(1, 1));
  EXPECT_EQ(memory_.reserved(), 0);
  // An incomplete message stays reserved; the complete one before it does not.
  connection.Client(Data(1, Message(5000) + Prefix(300)));
  connection.Server(Data(1, Message(1)));
  EXPECT_GE(memory_.reserved(), 300);
  EXPECT_LT(memory_.reserved(), 600);
  connection.Client(Reset(1));
  EXPECT_EQ(memory_.reserved(), 0);
  {
    Connection gone(*this);
    gone.Client(Headers(1, Request()) + Data(1, Prefix(1000)));
    EXPECT_GE(memory_.reserved(), 1000);
  }
  EXPECT_EQ(memory_.reserved(), 0);
  EXPECT_EQ(peer_->messages().reserved(), 0);
}

TEST_F(Http2GuardTest, SharesTheMemoryAmongConnectionsAndPeers) {
  // Opens calls with half-sent messages of 1 MiB until one is refused.
  const auto fill = [](Connection& connection) {
    int calls = 0;
    for (std::uint32_t id = 1; CallsRefused(connection) == 0 && calls < 100; id += 2, ++calls) {
      connection.Client(Headers(id, Request()) + Data(id, Prefix(kMaxMessage)));
    }
    return calls - 1;
  };
  std::vector<std::unique_ptr<Connection>> connections;
  // The limit of a connection is an eighth of 64 MiB minus the overhead of frames; that of an
  // address is half.
  int of_address = 0;
  for (int i = 0; i < 5; ++i) {
    connections.push_back(std::make_unique<Connection>(*this));
    const int calls = fill(*connections.back());
    EXPECT_LE(calls, 7);
    of_address += calls;
  }
  EXPECT_EQ(of_address, 31);
  const ParsedFrame refusal = FramesOf(connections[0]->to_client, NGHTTP2_HEADERS).at(0);
  const Ended ended = ParseEnd(refusal);
  EXPECT_EQ(ended.fields.at("grpc-status"), "8");
  EXPECT_EQ(ended.reason, "CALL_MEMORY_EXHAUSTED");
  EXPECT_TRUE(ended.retry);
  // Other addresses use up the budget.
  int calls = of_address;
  for (const char* address : {"127.0.0.2", "127.0.0.3"}) {
    const auto peer = std::make_shared<PeerLimits>(address, kMemory / 2);
    for (int i = 0; i < 5; ++i) {
      connections.push_back(std::make_unique<Connection>(*this, peer));
      calls += fill(*connections.back());
    }
  }
  EXPECT_EQ(calls, 63);
  EXPECT_LE(memory_.reserved(), kMemory);
  connections.clear();
  EXPECT_EQ(memory_.reserved(), 0);
}

TEST_F(Http2GuardTest, ManySmallFramesCountMoreThanTheirBytes) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Data(1, Prefix(kMaxMessage)));
  int frames = 0;
  for (; CallsRefused(connection) == 0 && frames < (1 << 20); ++frames) {
    connection.Client(Data(1, "x"));
  }
  EXPECT_LT(frames, 100000);
}

TEST_F(Http2GuardTest, EndsACallWhoseClientReadsNothing) {
  Connection connection(*this);
  connection.Client(InitialWindow(100) + Headers(1, Request(), NGHTTP2_FLAG_END_STREAM) +
                    Headers(3, Request(), NGHTTP2_FLAG_END_STREAM) +
                    Headers(5, Request(), NGHTTP2_FLAG_END_STREAM));
  connection.Server(Headers(1, Literal(":status", "200")) + Data(1, std::string(100, 'd')));
  connection.Server(Headers(3, Literal(":status", "200")) + Data(3, std::string(99, 'd')));
  connection.Server(Headers(5, Literal(":status", "200")) + Data(5, std::string(100, 'd')));
  connection.Clear();
  connection.Pass(seconds(50));
  // A slow reader: gRPC immediately uses the window that the client allows.
  connection.Client(WindowUpdate(5, 10));
  connection.Server(Data(5, "0123456789"));
  connection.Clear();
  connection.Pass(seconds(9));
  EXPECT_EQ(connection.to_client, "");
  connection.Pass(seconds(1));
  const std::vector<ParsedFrame> ended = FramesOf(connection.to_client, NGHTTP2_HEADERS);
  ASSERT_EQ(ended.size(), 1);
  EXPECT_EQ(ended[0].header.stream_id, 1);
  EXPECT_EQ(ParseEnd(ended[0]).fields.at("grpc-status"), "4");
  EXPECT_EQ(connection.to_server, Reset(1));
  connection.Pass(seconds(45));
  EXPECT_EQ(connection.guard.open_calls(), 2);
  connection.Pass(seconds(10));
  EXPECT_EQ(connection.guard.open_calls(), 1);
  // No bytes are waiting for the last call.
  connection.Pass(seconds(600));
  EXPECT_EQ(connection.guard.open_calls(), 1);
  EXPECT_EQ(CallsEnded(CallEnd::kClientReadsNothing), 2);
}

TEST_F(Http2GuardTest, AnExhaustedConnectionWindowStallsAllItsCalls) {
  Connection connection(*this);
  connection.Client(InitialWindow(1 << 20) + Headers(1, Request(), NGHTTP2_FLAG_END_STREAM) +
                    Headers(3, Request(), NGHTTP2_FLAG_END_STREAM));
  connection.Server(Headers(1, Literal(":status", "200")));
  for (int i = 0; i < 15; ++i) connection.Server(Data(1, std::string(4369, 'd')));
  connection.Pass(seconds(59));
  EXPECT_EQ(connection.guard.open_calls(), 2);
  connection.Client(WindowUpdate(0, 1));
  connection.Pass(seconds(59));
  connection.Server(Data(1, "d"));
  connection.Pass(seconds(59));
  EXPECT_EQ(connection.guard.open_calls(), 2);
  connection.Pass(seconds(1));
  EXPECT_EQ(connection.guard.open_calls(), 0);
}

TEST_F(Http2GuardTest, EndsAMessageThatStaysIncomplete) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Headers(3, Request()) + Headers(5, Request()) +
                    Headers(7, Request()));
  connection.Client(Data(1, Prefix(10)) + Data(3, std::string(1, '\0')) + Data(5, Message(10)));
  // The server makes the client of this call wait.
  connection.Client(Data(7, Prefix(kMaxMessage)));
  for (int i = 0; i < 4; ++i) connection.Client(Data(7, std::string(16000, 'm')));
  connection.Client(Data(7, std::string(65535 - 5 - 64000, 'm')));
  connection.Server(WindowUpdate(0, 1 << 20));
  connection.Pass(seconds(30));
  connection.Client(Data(1, "x"));
  connection.Pass(seconds(59));
  EXPECT_EQ(connection.guard.open_calls(), 3);
  connection.Pass(seconds(1));
  EXPECT_EQ(connection.guard.open_calls(), 2);
  connection.Pass(seconds(600));
  EXPECT_EQ(connection.guard.open_calls(), 2);
  EXPECT_EQ(CallsEnded(CallEnd::kMessageIncomplete), 2);
  connection.Server(WindowUpdate(7, 100));
  connection.Pass(seconds(60));
  EXPECT_EQ(CallsEnded(CallEnd::kMessageIncomplete), 3);
}

TEST_F(Http2GuardTest, EndsACallWithoutAMessageSoon) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Headers(3, Request()) + Data(3, Message(0)) +
                    Headers(5, Request()) + Data(5, std::string(1, '\0')) +
                    Headers(7, Request(), NGHTTP2_FLAG_END_STREAM));
  connection.Pass(seconds(10));
  // Without a message, only the time since the beginning of the call counts.
  connection.Client(Data(1, ""));
  connection.Pass(seconds(4));
  EXPECT_EQ(connection.guard.open_calls(), 4);
  connection.Clear();
  connection.Pass(seconds(1));
  EXPECT_EQ(connection.guard.open_calls(), 3);
  const ParsedFrame end = FramesOf(connection.to_client, NGHTTP2_HEADERS).at(0);
  EXPECT_EQ(end.header.stream_id, 1);
  EXPECT_EQ(ParseEnd(end).fields.at("grpc-status"), "4");
  EXPECT_EQ(ParseEnd(end).reason, "CLIENT_STALLED");
  EXPECT_EQ(connection.to_server, Reset(1));
  EXPECT_EQ(CallsEnded(CallEnd::kNoMessage), 1);
  // A client that must wait for the window of the connection is not at fault.
  Connection waiting(*this);
  waiting.Client(Headers(1, Request()) + Data(1, Prefix(kMaxMessage)));
  for (int i = 0; i < 15; ++i) waiting.Client(Data(1, std::string(4368, 'm')));
  waiting.Client(Data(1, std::string(65535 - 5 - 15 * 4368, 'm')) + Headers(3, Request()));
  waiting.Pass(seconds(100));
  EXPECT_EQ(waiting.guard.open_calls(), 2);
  waiting.Server(WindowUpdate(0, 1 << 20));
  waiting.Pass(seconds(15));
  EXPECT_EQ(waiting.guard.open_calls(), 1);
}

TEST_F(Http2GuardTest, IsIdleUntilACallHasSentAWholeMessage) {
  Connection connection(*this);
  EXPECT_TRUE(connection.guard.idle());
  connection.Client(Frame(NGHTTP2_HEADERS, 0, 1, Request().substr(0, 20)));
  EXPECT_TRUE(connection.guard.idle());
  connection.Client(Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, Request().substr(20)));
  connection.Client(Data(1, Message(10).substr(0, 14)));
  EXPECT_TRUE(connection.guard.idle());
  connection.Client(Data(1, "m"));
  EXPECT_FALSE(connection.guard.idle());
  connection.Client(Headers(3, Request(), NGHTTP2_FLAG_END_STREAM) + Reset(1));
  EXPECT_FALSE(connection.guard.idle());
  connection.Server(Headers(3, Literal("grpc-status", "0"), NGHTTP2_FLAG_END_STREAM));
  EXPECT_TRUE(connection.guard.idle());
}

TEST_F(Http2GuardTest, ClosesAConnectionThatNeverMakesACall) {
  Connection silent(*this);
  silent.Pass(seconds(14));
  EXPECT_FALSE(silent.guard.closed());
  silent.Pass(seconds(1));
  EXPECT_TRUE(silent.guard.closed());
  const ParsedFrame goaway = FramesOf(silent.to_client, NGHTTP2_GOAWAY).at(0);
  EXPECT_EQ(ReadUint32(std::string_view(goaway.payload).substr(4)), NGHTTP2_NO_ERROR);
  Connection idle(*this);
  idle.Client(Headers(1, Request()) + Reset(1));
  idle.Pass(seconds(3600));
  EXPECT_FALSE(idle.guard.closed());
}

TEST_F(Http2GuardTest, ARestrictedConnectionServesHealthChecksOnly) {
  Connection connection(*this);
  connection.restricted = true;
  connection.Client(Headers(1, Request("/grpc.health.v1.Health/Check")) + Data(1, Message(0)));
  EXPECT_EQ(connection.to_client, "");
  EXPECT_EQ(connection.guard.open_calls(), 1);
  connection.Clear();
  connection.Client(Headers(3, Request()));
  EXPECT_EQ(connection.to_server, Headers(3, Request()) + Reset(3));
  const Ended ended = ParseEnd(Parse(connection.to_client).at(0));
  EXPECT_EQ(ended.fields.at("grpc-status"), "8");
  EXPECT_EQ(ended.reason, "TOO_MANY_CONNECTIONS");
  EXPECT_TRUE(ended.retry);
  connection.restricted = false;
  connection.Client(Headers(5, Request()));
  EXPECT_EQ(connection.guard.open_calls(), 2);
}

TEST_F(Http2GuardTest, DrainsWhenTheLastCallHasEnded) {
  Connection connection(*this);
  connection.Client(Headers(1, Request(), NGHTTP2_FLAG_END_STREAM));
  connection.guard.BeginDrain(now_, connection.output);
  connection.Server(GoAway(0x7fffffff));
  connection.Server(GoAway(1));
  EXPECT_FALSE(connection.guard.closed());
  // The server would ignore calls that begin after its GOAWAY.
  connection.Clear();
  connection.Client(Headers(3, Request()));
  EXPECT_EQ(connection.to_server, "");
  EXPECT_EQ(connection.guard.open_calls(), 1);
  connection.Server(Headers(1, Literal("grpc-status", "0"), NGHTTP2_FLAG_END_STREAM));
  EXPECT_TRUE(connection.guard.closed());
  // A client that ignores gRPC's first GOAWAY.
  Connection idle(*this);
  idle.Client(Headers(1, Request()) + Reset(1));
  idle.guard.BeginDrain(now_, idle.output);
  idle.Server(GoAway(0x7fffffff));
  EXPECT_FALSE(idle.guard.closed());
  idle.Pass(seconds(1));
  EXPECT_TRUE(idle.guard.closed());
  EXPECT_EQ(Closed(CloseReason::kDrained), 2);
}

TEST_F(Http2GuardTest, ADrainEndsCallsWithoutAWholeMessage) {
  Connection connection(*this);
  connection.Client(Headers(1, Request()) + Headers(3, Request()) + Data(3, Message(10)) +
                    Headers(5, Request()) + Data(5, Prefix(10)) +
                    Frame(NGHTTP2_HEADERS, 0, 7, Request().substr(0, 20)));
  connection.Clear();
  connection.guard.BeginDrain(now_, connection.output);
  connection.Take();
  EXPECT_EQ(connection.guard.open_calls(), 1);
  const std::vector<ParsedFrame> ended = FramesOf(connection.to_client, NGHTTP2_HEADERS);
  ASSERT_EQ(ended.size(), 3);
  EXPECT_EQ(ended[0].header.stream_id, 1);
  EXPECT_EQ(ended[1].header.stream_id, 5);
  EXPECT_EQ(ended[2].header.stream_id, 7);
  EXPECT_EQ(ParseEnd(ended[1]).fields.at("grpc-status"), "14");
  EXPECT_EQ(ParseEnd(ended[1]).reason, "DRAINING");
  EXPECT_TRUE(ParseEnd(ended[1]).retry);
  // A call that begins later ends a moment later.
  connection.Client(Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 7, Request().substr(20)) +
                    Headers(9, Request()));
  EXPECT_EQ(connection.guard.open_calls(), 2);
  connection.Pass(seconds(1));
  EXPECT_EQ(connection.guard.open_calls(), 1);
  EXPECT_EQ(CallsEnded(CallEnd::kDrained), 4);
}

TEST_F(Http2GuardTest, SurvivesMutatedConversations) {
  std::mt19937 random(20261122);
  const std::string conversation =
      InitialWindow(1 << 20) + Headers(1, Request()) + Data(1, Message(100)) +
      Data(1, "\3" + Message(10) + "pad", NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_END_STREAM) +
      Frame(NGHTTP2_HEADERS, 0, 3, Request().substr(0, 20)) +
      Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 3, Request().substr(20)) +
      Data(3, Prefix(1 << 19)) + WindowUpdate(0, 1000) + Reset(1);
  for (int round = 0; round < 3000; ++round) {
    Connection connection(*this);
    std::string bytes = conversation + conversation;
    const auto changes = random() % 6;
    for (std::uint32_t i = 0; i < changes; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    for (std::string_view left = bytes; !left.empty();) {
      const std::size_t size = std::min<std::size_t>(1 + random() % 100, left.size());
      (random() % 4 == 0) ? connection.Server(left.substr(0, size))
                          : connection.Client(left.substr(0, size));
      left.remove_prefix(size);
      if (random() % 8 == 0) connection.Pass(seconds(random() % 70));
    }
  }
  EXPECT_EQ(memory_.reserved(), 0);
  EXPECT_EQ(peer_->messages().reserved(), 0);
}

}  // namespace
}  // namespace calibd::server
