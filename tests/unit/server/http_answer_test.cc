#include "server/http/http_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "server/http/http_hosts.h"
#include "server/http/login.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kMaxBodyBytes = 1000;

// Returns the endpoint's response to these bytes, or nothing if it closes the connection.
std::optional<HttpResponse> Answer(const std::string& bytes, bool restricted = false) {
  HttpParser parser;
  LimitRequest(parser, kMaxBodyBytes);
  boost::beast::error_code error;
  parser.eager(true);
  parser.put(boost::asio::buffer(bytes), error);
  if (error == boost::beast::http::error::need_more || (!error && !parser.is_done())) {
    error = {};
    parser.put_eof(error);
  }
  if (error) {
    const absl::Status status = ReadError(error);
    const auto target = parser.get().target();
    if (absl::IsCancelled(status)) return std::nullopt;
    return AnswerError(status, {target.data(), target.size()});
  }
  const Health health(
      "data", [] { return CommitQueue::Refusal::kNothing; }, [] { return absl::OkStatus(); });
  HttpStatistics requests;
  AuditLog audit;
  AccessControl access(audit);
  return AnswerRequest(parser.get(),
                       {.metrics = [] { return std::string("metric 1\n"); },
                        .health = health,
                        .requests = requests,
                        .access = access,
                        .hosts = {"calibd.example"}},
                       {.address = "127.0.0.1:50000"}, restricted);
}

int Status(const std::string& bytes, bool restricted = false) {
  const std::optional<HttpResponse> answer = Answer(bytes, restricted);
  return answer.has_value() ? static_cast<int>(answer->result_int()) : 0;
}

std::string Get(const std::string& path, const std::string& host) {
  return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
}

TEST(HttpAnswerTest, ServesItsPaths) {
  EXPECT_EQ(Status(Get("/healthz", "localhost")), 200);
  EXPECT_EQ(Status(Get("/metrics?x=1", "localhost")), 200);
  EXPECT_EQ(Answer(Get("/metrics", "localhost"))->body(), "metric 1\n");
  EXPECT_EQ(Status(Get("/readyz", "localhost")), 503);
  EXPECT_EQ(Answer(Get("/readyz", "localhost"))->body(),
            "not ready: starting, calibd is recovering the models\n");
  EXPECT_EQ(Status(Get("/", "localhost")), 200);
  EXPECT_EQ(Status(Get("/page", "localhost")), 404);
  EXPECT_EQ(Status("DELETE /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405);
}

TEST(HttpAnswerTest, AllOriginsOfAWriteCount) {
  namespace http = boost::beast::http;
  HttpRequest request(http::verb::delete_, "/v1/models/m", 11);
  request.set(http::field::host, "localhost");
  request.insert(http::field::origin, "http://localhost");
  EXPECT_TRUE(CheckWrite(request, false, false).ok());
  request.insert(http::field::origin, "http://page.example");
  EXPECT_EQ(CheckWrite(request, false, false).code(), absl::StatusCode::kPermissionDenied);
}

// Without TLS, a proxy may have ended it.
TEST(HttpAnswerTest, OverTlsAPageOfHttpIsOfAnotherOrigin) {
  namespace http = boost::beast::http;
  HttpRequest request(http::verb::delete_, "/v1/models/m", 11);
  request.set(http::field::host, "localhost");
  request.set(http::field::origin, "https://localhost");
  EXPECT_TRUE(CheckWrite(request, true, false).ok());
  EXPECT_TRUE(CheckWrite(request, false, false).ok());
  request.set(http::field::origin, "http://localhost");
  EXPECT_EQ(CheckWrite(request, true, false).code(), absl::StatusCode::kPermissionDenied);
}

TEST(HttpAnswerTest, ASessionHasTheCookieOfItsConnection) {
  namespace http = boost::beast::http;
  HttpRequest request(http::verb::get, "/", 11);
  request.set(http::field::cookie, "calibd=plain; other=x; __Host-calibd=secure");
  EXPECT_EQ(SessionOf(request, true), "secure");
  EXPECT_EQ(SessionOf(request, false), "plain");
  request.set(http::field::cookie, "calibd=plain");
  EXPECT_EQ(SessionOf(request, true), "");
}

TEST(HttpAnswerTest, IsReadyWhileItServesAndItsStoreAcceptsWrites) {
  auto refusal = CommitQueue::Refusal::kNothing;
  absl::Status owned = absl::UnavailableError("this calibd stands by");
  Health health(
      "data", [&] { return refusal; }, [&] { return owned; });
  EXPECT_EQ(health.Unready(), "this calibd stands by");
  owned = absl::OkStatus();
  EXPECT_EQ(health.Unready(), "starting, calibd is recovering the models");
  ASSERT_TRUE(health.StartServing());
  EXPECT_EQ(health.Unready(), "");
  owned = absl::UnavailableError("another one may have the store");
  EXPECT_EQ(health.Unready(), "another one may have the store");
  owned = absl::OkStatus();
  refusal = CommitQueue::Refusal::kCatalog;
  EXPECT_THAT(health.Unready(), HasSubstr("models cannot be created"));
  refusal = CommitQueue::Refusal::kLog;
  EXPECT_EQ(health.Unready(), "the disk is full: batches are refused");
  refusal = CommitQueue::Refusal::kEverything;
  EXPECT_THAT(health.Unready(), HasSubstr("the store failed"));
  refusal = CommitQueue::Refusal::kNothing;
  health.ReportDamage(absl::DataLossError("a bit"));
  EXPECT_THAT(health.Unready(), HasSubstr("the store is damaged"));
  health.StartDraining();
  EXPECT_EQ(health.Unready(), "draining");
  // If a recovery ends after the drain has begun, no calls are served.
  EXPECT_FALSE(health.StartServing());
}

TEST(HttpAnswerTest, AChangeOfTheRefusedWritesIsLoggedOnce) {
  auto refusal = CommitQueue::Refusal::kLog;
  Health health(
      "data", [&] { return refusal; }, [] { return absl::OkStatus(); });
  const std::chrono::steady_clock::time_point begin{std::chrono::hours(1)};
  EXPECT_EQ(health.RefusalChange(begin), "");
  ASSERT_TRUE(health.StartServing());
  EXPECT_EQ(health.RefusalChange(begin), "not ready: the disk is full: batches are refused");
  EXPECT_EQ(health.RefusalChange(begin + Health::kLogInterval), "");
  refusal = CommitQueue::Refusal::kNothing;
  const auto later = begin + 2 * Health::kLogInterval;
  EXPECT_EQ(health.RefusalChange(later), "the disk has room again: all writes are accepted");
  // A disk that becomes full again at once.
  refusal = CommitQueue::Refusal::kLog;
  EXPECT_EQ(health.RefusalChange(later), "");
  EXPECT_EQ(health.RefusalChange(later + Health::kLogInterval),
            "not ready: the disk is full: batches are refused");
}

TEST(HttpAnswerTest, ARestrictedConnectionIsServedHealthChecksOnly) {
  EXPECT_EQ(Status(Get("/healthz", "localhost"), true), 200);
  EXPECT_EQ(Answer(Get("/readyz?verbose", "localhost"), true)->body(),
            "not ready: starting, calibd is recovering the models\n");
  const std::optional<HttpResponse> answer = Answer(Get("/metrics", "localhost"), true);
  EXPECT_EQ(answer->result_int(), 503U);
  EXPECT_THAT(answer->body(), HasSubstr("--max-http-connections"));
}

TEST(HttpAnswerTest, OnlyKnownHostsAreServed) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8461", "192.0.2.1:1", "[::1]:8461", "[2001:db8::1]", "localhost",
        "LocalHost:8461", "calibd.example", "Calibd.Example:9"}) {
    EXPECT_EQ(Status(Get("/metrics", host)), 200) << host;
  }
  for (const char* host :
       {"attacker.example", "127.0.0.1.attacker.example", "localhost.attacker.example",
        "calibd.example.attacker.example", "calibd.example:80@attacker.example", "[::1", "[]",
        "::1", "1", "2130706433", "127.1", "localhost:8461x", ""}) {
    const std::optional<HttpResponse> answer = Answer(Get("/metrics", host));
    ASSERT_TRUE(answer.has_value()) << host;
    EXPECT_EQ(answer->result_int(), 403U) << host;
    EXPECT_THAT(answer->body(), HasSubstr("calibd --http-hosts"));
    EXPECT_EQ(Status(Get("/healthz", host), true), 403) << host;
  }
}

TEST(HttpAnswerTest, Http11NeedsOneHost) {
  EXPECT_EQ(Status("GET /healthz HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(Status("GET /healthz HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(Status("GET /healthz HTTP/1.0\r\nHost: attacker.example\r\n\r\n"), 403);
  EXPECT_EQ(Status("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n"),
            400);
}

TEST(HttpAnswerTest, MalformedRequestsGet400) {
  for (const char* bytes :
       {"\r\n\r\n\r\n", "GET\r\n\r\n", "GET /healthz\r\n\r\n", "GET /healthz HTTP/2.0\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost\r\n\r\n", "GET /healthz HTTP/1.1\r\nHo st: a\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        "G\x01T / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello \r\n"}) {
    EXPECT_EQ(Status(bytes), 400) << bytes;
  }
}

TEST(HttpAnswerTest, LimitsHaveTheirOwnResponses) {
  EXPECT_EQ(Status("GET / HTTP/1.1\r\nX: " + std::string(kMaxHttpHeaderBytes, 'x') + "\r\n\r\n"),
            431);
  EXPECT_EQ(Status("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"),
            413);
}

TEST(HttpAnswerTest, AnErrorIsJsonForPathsOfTheApiAndWithoutAPath) {
  for (const char* bytes : {"nonsense\r\n\r\n", "GET /v1/models HTTP/1.1\r\nno colon\r\n\r\n",
                            "GET /v1/openapi.json HTTP/1.1\r\nno colon\r\n\r\n"}) {
    const std::optional<HttpResponse> answer = Answer(bytes);
    EXPECT_EQ((*answer)[boost::beast::http::field::content_type], "application/json");
    EXPECT_THAT(answer->body(), HasSubstr(R"({"error":{"code":400,"status":"INVALID_ARGUMENT")"));
    EXPECT_THAT(answer->body(), HasSubstr(R"("reason":"MALFORMED_REQUEST")"));
  }
  EXPECT_EQ(Answer("GET /metrics HTTP/1.1\r\nno colon\r\n\r\n")->body(), "malformed request\n");
  EXPECT_EQ(Answer(Get("/v1", "localhost"))->body(), "not found\n");
}

TEST(HttpAnswerTest, ADisconnectOrATimeoutGetsNoResponse) {
  EXPECT_EQ(Status("GET /metr"), 0);
  for (const boost::beast::error_code error :
       {make_error_code(boost::beast::http::error::end_of_stream),
        make_error_code(boost::beast::error::timeout),
        make_error_code(boost::system::errc::connection_reset)}) {
    EXPECT_TRUE(absl::IsCancelled(ReadError(error))) << error;
  }
}

TEST(HttpAnswerTest, HeadHasTheLengthOfTheBody) {
  HttpResponse response = *Answer(Get("/metrics", "localhost"));
  FinishResponse(response, true, true);
  EXPECT_EQ(response.body(), "");
  EXPECT_EQ(response[boost::beast::http::field::content_length], "9");
}

std::string GetPage(const std::string& headers) {
  return "GET /page.js?x=1 HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}

TEST(HttpAnswerTest, CompressesThePageForClientsThatAcceptIt) {
  const std::string plain = Answer(GetPage(""))->body();
  for (const char* accepted : {"gzip", "br, GZIP;q=0.5", "deflate,gzip ; q=1"}) {
    const HttpResponse answer =
        *Answer(GetPage(std::string("Accept-Encoding: ") + accepted + "\r\n"));
    EXPECT_EQ(answer["Content-Encoding"], "gzip") << accepted;
    EXPECT_LT(answer.body().size(), plain.size());
  }
  for (const char* accepted : {"br", "gzip;q=0", "gzip;q=0.000", "gzip;q=x", "x-gzip"}) {
    const HttpResponse answer =
        *Answer(GetPage(std::string("Accept-Encoding: ") + accepted + "\r\n"));
    EXPECT_EQ(answer["Content-Encoding"], "") << accepted;
    EXPECT_EQ(answer.body(), plain);
  }
}

TEST(HttpAnswerTest, DoesNotSendAPageThatTheClientHas) {
  const std::string tag(Answer(GetPage(""))->at("ETag"));
  for (const std::string& known : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
    HttpResponse answer = *Answer(GetPage("If-None-Match: " + known + "\r\n"));
    FinishResponse(answer, true, false);
    EXPECT_EQ(answer.result_int(), 304) << known;
    EXPECT_EQ(answer.body(), "");
    EXPECT_EQ(answer.count("Content-Length"), 0U);
    EXPECT_EQ(answer["ETag"], tag);
  }
  EXPECT_EQ(Status(GetPage("If-None-Match: \"other\"\r\n")), 200);
  // The compressed file is another one.
  EXPECT_EQ(Status(GetPage("Accept-Encoding: gzip\r\nIf-None-Match: " + tag + "\r\n")), 200);
}

TEST(HttpHostsTest, ListsNamesInLowerCase) {
  EXPECT_THAT(*ParseHttpHosts(""), IsEmpty());
  EXPECT_THAT(*ParseHttpHosts("Calibd.monitoring.svc, node_1"),
              ElementsAre("calibd.monitoring.svc", "node_1"));
  for (const char* list : {"a,", ",", "a b", "a:1", "http://a", "*"}) {
    EXPECT_FALSE(ParseHttpHosts(list).ok()) << list;
  }
}

}  // namespace
}  // namespace calibd::server
