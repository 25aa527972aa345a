#include "server/net/header_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unit/server/http2_guard_fixture.h"

namespace calibd::server {
namespace {

using HeaderFields = std::vector<std::pair<std::string_view, std::string_view>>;

const HeaderFields kValid = {{":method", "POST"},
                             {":scheme", "http"},
                             {":path", "/calibd.v1.ModelService/GetModel"},
                             {":authority", "localhost:50051"},
                             {"te", "trailers"},
                             {"content-type", "application/grpc"},
                             {"x-id", "a"},
                             {"x-id", "b"}};

bool IsValid(const HeaderFields& fields, HeaderKind kind = HeaderKind::kRequest) {
  HeaderRules rules(kind);
  for (const auto& [name, value] : fields) {
    if (!rules.Add(name, value)) {
      EXPECT_FALSE(rules.End()) << "a malformed field is not forgotten";
      return false;
    }
  }
  return rules.End();
}

// The valid request with a field more in front of the one at a place, or at the end.
HeaderFields With(std::string_view name, std::string_view value,
                  std::size_t place = kValid.size()) {
  HeaderFields fields = kValid;
  fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(place), {name, value});
  return fields;
}

TEST(HeaderRulesTest, AcceptWhatClientsSend) {
  EXPECT_TRUE(IsValid(kValid));
  EXPECT_TRUE(IsValid(With("authorization", "Bearer x")));
  EXPECT_TRUE(IsValid(With("x-binary-bin", "AAEC")));
  EXPECT_TRUE(IsValid(With("user-agent", "grpc-c++/1.51.1 \xc3\xa9")));
  EXPECT_TRUE(IsValid(With("empty", "")));
  EXPECT_TRUE(IsValid({{"x-trailer", "1"}}, HeaderKind::kTrailers));
  EXPECT_TRUE(IsValid({}, HeaderKind::kTrailers));
}

// RFC 9113, 8.2 and 8.3, as h2spec groups them in 8.1.2.
TEST(HeaderRulesTest, RefuseEachMalformedField) {
  const HeaderFields wrong = {{"X-Upper", "1"},
                              {"", "1"},
                              {"with space", "1"},
                              {"line\nbreak", "1"},
                              {"value", "a\nb"},
                              {"value", "a\rb"},
                              {"value", std::string_view("a\0b", 3)},
                              {"value", "a\x7f"},
                              {":status", "200"},
                              {":unknown", "1"},
                              {":", "1"},
                              {"connection", "close"},
                              {"keep-alive", "1"},
                              {"proxy-connection", "1"},
                              {"transfer-encoding", "chunked"},
                              {"upgrade", "h2c"},
                              {"te", "gzip"},
                              {"te", "trailers, gzip"},
                              {"content-length", "x"},
                              {"content-length", "-1"},
                              {"content-length", ""},
                              {"content-length", "18446744073709551616"}};
  for (const auto& [name, value] : wrong) EXPECT_FALSE(IsValid(With(name, value))) << name;
}

TEST(HeaderRulesTest, PseudoFieldsAreOnceInFrontAndComplete) {
  for (std::size_t i = 0; i < 3; ++i) {
    HeaderFields missing = kValid;
    missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(IsValid(missing)) << kValid[i].first;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& [name, value] = kValid[i];
    EXPECT_FALSE(IsValid(With(name, value, 4))) << name << " twice";
    HeaderFields late = kValid;
    late.erase(late.begin() + static_cast<std::ptrdiff_t>(i));
    late.emplace_back(name, value);
    EXPECT_FALSE(IsValid(late)) << name << " after other fields";
    EXPECT_FALSE(IsValid({{name, value}}, HeaderKind::kTrailers)) << name << " in trailers";
  }
  HeaderFields empty = kValid;
  empty[2].second = "";
  EXPECT_FALSE(IsValid(empty));
}

TEST(HeaderRulesTest, FieldsThatDecideAreOnce) {
  for (const std::string_view name : {"authorization", "content-length", "content-type",
                                      "grpc-encoding", "grpc-timeout", "host"}) {
    HeaderFields fields = With(name, "1");
    fields.emplace_back(name, "1");
    EXPECT_FALSE(IsValid(fields)) << name;
  }
}

class MalformedRequestTest : public Http2GuardTest {
 protected:
  // Whether the connection is closed, and gRPC saw nothing of the block or of the end of the body.
  bool IsClosed(const std::string& frames) {
    Connection connection(*this);
    connection.Client(frames);
    if (connection.guard.closed()) {
      const auto goodbyes = FramesOf(connection.to_client, NGHTTP2_GOAWAY);
      EXPECT_EQ(goodbyes.size(), 1);
    }
    to_server_ = connection.to_server;
    return connection.guard.closed();
  }
  std::string to_server_;
};

TEST_F(MalformedRequestTest, NeverReachesGrpc) {
  const std::string malformed = Request() + Literal("connection", "close");
  EXPECT_TRUE(IsClosed(Headers(1, malformed, NGHTTP2_FLAG_END_STREAM)));
  EXPECT_EQ(to_server_, "");
  EXPECT_TRUE(
      IsClosed(Frame(NGHTTP2_HEADERS, 0, 1, malformed.substr(0, 9)) +
               Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, malformed.substr(9))));
  EXPECT_EQ(to_server_, "");
  const std::string begin = Headers(1, Request()) + Data(1, Message(1));
  EXPECT_TRUE(IsClosed(begin + Headers(1, Request(), NGHTTP2_FLAG_END_STREAM)));
  EXPECT_EQ(to_server_, begin) << "a second request is no trailers";
  EXPECT_FALSE(IsClosed(begin + Headers(1, Literal("x", "y"), NGHTTP2_FLAG_END_STREAM)));
}

TEST_F(MalformedRequestTest, ABodyHasTheStatedLength) {
  const auto request = [](std::string_view length) {
    return Headers(1, Request() + Literal("content-length", length));
  };
  const std::string body = Message(5);
  EXPECT_FALSE(IsClosed(request("10") + Data(1, body, NGHTTP2_FLAG_END_STREAM)));
  EXPECT_FALSE(IsClosed(request("10") + Data(1, body) + Data(1, "", NGHTTP2_FLAG_END_STREAM)));
  EXPECT_FALSE(IsClosed(request("10") + Data(1, body) +
                        Headers(1, Literal("x", "y"), NGHTTP2_FLAG_END_STREAM)));
  for (const std::string_view length : {"9", "11", "0"}) {
    EXPECT_TRUE(IsClosed(request(length) + Data(1, body, NGHTTP2_FLAG_END_STREAM))) << length;
    EXPECT_EQ(to_server_, request(length));
  }
  EXPECT_TRUE(IsClosed(request("11") + Data(1, body) +
                       Headers(1, Literal("x", "y"), NGHTTP2_FLAG_END_STREAM)));
  EXPECT_TRUE(
      IsClosed(Headers(1, Request() + Literal("content-length", "1"), NGHTTP2_FLAG_END_STREAM)));
}

}  // namespace
}  // namespace calibd::server
