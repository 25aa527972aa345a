// The HTTP endpoint with misbehaving peers.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "support/http_get.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const int fd : sockets_) close(fd);
  }

  void Start(const std::vector<std::string>& arguments = {}) {
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
  }

  std::string Metrics() const { return HttpGet(server_->http_address(), "/metrics").body; }

  // Connects from this address of the loopback network and sends the text. Connections stay open.
  // small_buffers: the system buffers only 150 kB of unread responses instead of megabytes, because
  // it sizes the buffer of the sender by the segment size.
  int SendFrom(const char* source, const std::string& text, bool small_buffers = false) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockets_.push_back(fd);
    if (small_buffers) {
      constexpr int kReceiveBuffer = 4096;
      constexpr int kSegment = 536;
      EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof(kReceiveBuffer)), 0);
      EXPECT_EQ(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &kSegment, sizeof(kSegment)), 0);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, source, &address.sin_addr);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const std::string& server = server_->http_address();
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    address.sin_port =
        htons(static_cast<in_port_t>(std::stoi(server.substr(server.find(':') + 1))));
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    return fd;
  }

  // Returns whether the server keeps this connection, on which it has sent nothing.
  static bool IsOpen(int fd) {
    char byte = 0;
    return recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
  }

  // Formats an address as in /proc/net/tcp.
  static std::string ProcAddress(const sockaddr_in& address) {
    std::array<char, 14> text{};
    std::snprintf(text.data(), text.size(), "%08X:%04X", address.sin_addr.s_addr,
                  ntohs(address.sin_port));
    return text.data();
  }

  // Returns the number of bytes that the server has sent to this socket and the system could not
  // deliver yet. The port alone is not enough: connections of other addresses and to other servers
  // may have the same port.
  static std::string UndeliveredBytes(int fd) {
    sockaddr_in client{};
    sockaddr_in server{};
    socklen_t size = sizeof(client);
    getsockname(fd, reinterpret_cast<sockaddr*>(&client), &size);
    getpeername(fd, reinterpret_cast<sockaddr*>(&server), &size);
    std::ifstream connections("/proc/net/tcp");
    std::string number, local, remote, state, queues;
    while (connections >> number >> local >> remote >> state >> queues) {
      if (local == ProcAddress(server) && remote == ProcAddress(client)) {
        return queues.substr(0, queues.find(':'));
      }
      connections.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    return "";
  }

  // Waits until the server seems unable to send more responses to this socket.
  static bool AnswersStopComing(int fd) {
    std::string before;
    int same = 0;
    return WaitFor([&] {
      const std::string now = UndeliveredBytes(fd);
      same = now == before && now != "00000000" && !now.empty() ? same + 1 : 0;
      before = now;
      return same >= 5;
    });
  }

  std::string Exchange(const std::string& request) const {
    return HttpExchange(server_->http_address(), request);
  }

  std::string Get(const std::string& host) const {
    return Exchange("GET /metrics HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
  }

  std::unique_ptr<ServerProcess> server_;
  std::vector<int> sockets_;
};

TEST_F(HttpTest, HalfSentRequestsDoNotKeepHealthChecksOut) {
  Start();
  // On a slow machine the half-sent requests may time out first, and would then prove nothing.
  EXPECT_TRUE(WaitFor([&] {
    int newest = -1;
    // Twice the allowed number, from three addresses, including that of the health check.
    for (int i = 0; i < 44; ++i) {
      for (const char* source : {"127.0.0.1", "127.0.0.3", "127.0.0.2"}) {
        newest = SendFrom(source, "GET /healthz HTTP/1.1\r\nHost: ");
      }
    }
    EXPECT_EQ(HttpGet(server_->http_address(), "/healthz").status, 200);
    EXPECT_EQ(HttpGet(server_->http_address(), "/readyz").status, 200);
    EXPECT_EQ(HttpGet(server_->http_address(), "/metrics").status, 200);
    return IsOpen(newest);
  }));
}

TEST_F(HttpTest, AnAddressAtItsLimitLosesItsOwnConnections) {
  Start({"--max-http-connections", "4"});
  const int other = SendFrom("127.0.0.9", "GET /healthz HTTP/1.1\r\nHost: ");
  for (int i = 0; i < 20; ++i) SendFrom("127.0.0.2", "GET /healthz HTTP/1.1\r\nHost: ");
  ASSERT_EQ(HttpGet(server_->http_address(), "/healthz").status, 200);
  const std::string rest = "localhost\r\nConnection: close\r\n\r\n";
  ASSERT_EQ(send(other, rest.data(), rest.size(), MSG_NOSIGNAL), static_cast<ssize_t>(rest.size()));
  EXPECT_THAT(ReadToEnd(other), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(HttpTest, HealthChecksWorkDespiteAPeerThatDoesNotRead) {
  // One connection per address.
  Start({"--max-http-connections", "2"});
  std::string requests;
  for (int i = 0; i < 500; ++i) requests += "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const auto is_refused = [this] {
    return HttpGet(server_->http_address(), "/metrics").status == 503;
  };
  // A connection whose responses are not read is busy once the sockets are full. Before that it may
  // be idle when another one arrives, which evicts it; and it times out after some seconds. It
  // therefore kept its place the whole time only if others are refused before and after the checks.
  EXPECT_TRUE(WaitFor(
      [&] {
        const int busy = SendFrom("127.0.0.1", requests, /*small_buffers=*/true);
        if (!AnswersStopComing(busy) || !is_refused()) return false;
        EXPECT_EQ(HttpGet(server_->http_address(), "/healthz").status, 200);
        EXPECT_EQ(HttpGet(server_->http_address(), "/readyz").status, 200);
        return is_refused();
      },
      std::chrono::seconds(100)));
}

TEST_F(HttpTest, MalformedRequestsGet400) {
  Start();
  for (const char* request :
       {"nonsense\r\n\r\n", "GET /healthz HTTP/3.0\r\n\r\n", "GET /healthz HTTP/1.1\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nno colon\r\n\r\n", "\x16\x03\x01\r\n\r\n"}) {
    const std::string answer = Exchange(request);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 Bad Request\r\n")) << request;
    EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
  }
}

TEST_F(HttpTest, RequestsWithABodyAreRefusedBeforeTheBodyArrives) {
  Start();
  for (const std::string body : {"Transfer-Encoding: chunked", "Content-Length: 2"}) {
    EXPECT_THAT(Exchange("GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + body + "\r\n\r\n"),
                StartsWith("HTTP/1.1 413 Payload Too Large\r\n"))
        << body;
  }
}

TEST_F(HttpTest, RequestsAreCountedByRouteAndStatus) {
  Start();
  const std::string host = " HTTP/1.1\r\nHost: localhost\r\n";
  const std::string post = host + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
  for (const char* target : {"/v1/models/a", "/v1/models/b/versions/2", "/v1/nothing", "/%ff"}) {
    EXPECT_EQ(HttpGet(server_->http_address(), target).status, 404) << target;
  }
  EXPECT_EQ(HttpGet(server_->http_address(), "/v1/models/c?x=1").status, 400);
  EXPECT_THAT(Exchange("POST /v1/models/d:observe" + post), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Exchange("POST /v1/models/d:observe" + host + "\r\n"), StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(Exchange("BREW /v1/models" + post), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Exchange("BREW /metrics" + host + "\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Exchange("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  // The client disconnects before the body is complete.
  close(SendFrom("127.0.0.1", "POST /v1/models" + host +
                                  "Content-Type: application/json\r\nContent-Length: 3\r\n\r\n{"));
  sockets_.pop_back();
  for (const char* line :
       {"total{method=\"GET\",route=\"/v1/models/{model}\",code=\"404\"} 2",
        "total{method=\"GET\",route=\"/v1/models/{model}\",code=\"400\"} 1",
        "total{method=\"GET\",route=\"other\",code=\"404\"} 2",
        "total{method=\"POST\",route=\"/v1/models/{model}:observe\",code=\"400\"} 1",
        "total{method=\"POST\",route=\"/v1/models/{model}:observe\",code=\"415\"} 1",
        "total{method=\"POST\",route=\"/v1/models\",code=\"499\"} 1",
        "total{method=\"other\",route=\"other\",code=\"405\"} 1",
        "total{method=\"other\",route=\"other\",code=\"400\"} 1",
        "total{method=\"other\",route=\"/metrics\",code=\"405\"} 1"}) {
    const std::string series = "\ncalibd_http_requests_" + std::string(line) + "\n";
    EXPECT_TRUE(WaitFor([&] { return Metrics().find(series) != std::string::npos; }))
        << line << Metrics();
  }
  EXPECT_THAT(Metrics(), HasSubstr("calibd_http_request_seconds_count{method=\"GET\","
                                   "route=\"/v1/models/{model}\"} 3\n"));
}

TEST_F(HttpTest, InventedRequestsDoNotGrowTheScrape) {
  Start();
  const auto ask = [this](int i) {
    const std::string name = std::string(1000, 'x') + std::to_string(i);
    for (const std::string& target : {"/" + name, "/v1/" + name, "/v1/models/" + name + ":observe",
                                      "/v1/models/" + name + "/" + name}) {
      for (const std::string& method : {std::string("GET"), std::string("POST"), name}) {
        Exchange(method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
      }
    }
  };
  ask(0);
  // The first scrape is counted in the second one.
  Metrics();
  const std::size_t before = Metrics().size();
  for (int i = 1; i < 100; ++i) ask(i);
  // Counters have more digits.
  EXPECT_LT(Metrics().size(), before + 500);
}

TEST_F(HttpTest, OtherHostsAreRefusedUnlessTheyAreConfigured) {
  Start({"--http-hosts", "calibd.example,metrics.example"});
  EXPECT_THAT(Get("attacker.example"), StartsWith("HTTP/1.1 403 Forbidden\r\n"));
  EXPECT_THAT(Get("attacker.example"), HasSubstr("calibd --http-hosts"));
  for (const std::string host : {"metrics.example:80", "localhost", "[::1]:1", "192.0.2.1"}) {
    EXPECT_THAT(Get(host), StartsWith("HTTP/1.1 200 OK\r\n")) << host;
  }
}

}  // namespace
}  // namespace calibd::testing
