#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "integration/server/service_client.h"
#include "support/server_process.h"
#include "support/tcp_proxy.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class HostileClientTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(const std::vector<std::string>& arguments) {
    client_.reset();
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  bool Serves() {
    return RunCalibd({"healthcheck", "--listen", server_->grpc_address()}).exit_code == 0;
  }

  // Highest resident memory so far, in kB.
  long PeakMemory() const {
    std::ifstream file("/proc/" + std::to_string(server_->process().pid()) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("VmHWM:", 0) == 0) return std::stol(line.substr(6));
    }
    return 0;
  }

  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

// Reads until the peer closes. Returns nothing if it does not close in a time far beyond what a
// busy machine needs.
std::optional<std::string> ReadUntilClosed(int fd) {
  const timeval timeout{.tv_sec = 60, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  std::string text;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t count = recv(fd, buffer.data(), buffer.size(), 0);
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return text;
    if (count < 0) return std::nullopt;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

std::string Http(const std::string& address, const std::string& request) {
  const int fd = ConnectTo(address);
  EXPECT_GE(fd, 0);
  send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  const std::optional<std::string> answer = ReadUntilClosed(fd);
  close(fd);
  EXPECT_TRUE(answer.has_value()) << "the server keeps the connection open";
  return answer.value_or("");
}

TEST_F(HostileClientTest, MessagesAreAcceptedUpToTheLimit) {
  client_->CreateFixed("models/m", 1000);
  // Bytes of a request of n observations are 8 per value, some per row.
  const PredictionSet set = Draw(131, 1000);
  v1::ObserveRequest request;
  request.set_model("models/m");
  *request.mutable_observations() = ToProto(set.view().rows(0, 131));
  constexpr std::size_t kLimit = 1 << 20;
  ASSERT_LT(request.ByteSizeLong(), kLimit);
  // Fills the request exactly up to the limit with class names that the model does not have.
  request.mutable_observations()->add_class_names("");
  while (request.ByteSizeLong() < kLimit) {
    request.mutable_observations()->mutable_class_names(0)->append(
        std::max<std::size_t>(1, (kLimit - request.ByteSizeLong()) / 2), 'x');
  }
  ASSERT_EQ(request.ByteSizeLong(), kLimit);
  EXPECT_EQ(client_->Observe(request).error_code(), grpc::INVALID_ARGUMENT);
  request.mutable_observations()->mutable_class_names(0)->append("x");
  EXPECT_EQ(client_->Observe(request).error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Serves());
}

TEST_F(HostileClientTest, CompressedMessagesAreRefusedWithoutExpandingThem) {
  client_->CreateFixed("models/m", 10);
  const long before = PeakMemory();
  CallContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::ObserveRequest request;
  request.set_model("models/m");
  // Zeros compress to a thousandth of their size.
  request.mutable_observations()->mutable_probabilities()->mutable_values()->Resize(16 << 20, 0);
  v1::ObserveResponse response;
  EXPECT_EQ(client_->ingest->Observe(&context, request, &response).error_code(),
            grpc::UNIMPLEMENTED);
  // The expanded message would have 128 MiB.
  EXPECT_LT(PeakMemory() - before, 32 * 1024);
}

TEST_F(HostileClientTest, SilentConnectionsAreClosed) {
  const int fd = ConnectTo(server_->grpc_address());
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(ReadUntilClosed(fd).has_value());
  close(fd);
}

TEST_F(HostileClientTest, TooManyConnectionsDoNotWedgeTheListener) {
  Start({"--max-connections", "8", "--max-http-connections", "4"});
  std::vector<int> connections;
  for (int i = 0; i < 300; ++i) {
    connections.push_back(ConnectTo(server_->grpc_address()));
    connections.push_back(ConnectTo(server_->http_address()));
  }
  for (const int fd : connections) close(fd);
  EXPECT_TRUE(WaitFor([this] { return Serves(); }));
  EXPECT_TRUE(WaitFor([this] {
    return Http(server_->http_address(), "GET /healthz HTTP/1.0\r\n\r\n").find("200 OK") !=
           std::string::npos;
  }));
}

TEST_F(HostileClientTest, BrokenMessageDoesNotLookLikeAFinishedStream) {
  client_->CreateFixed("models/m", 10);
  ObservationCall call(*client_);
  ASSERT_EQ(call.Open("models/m", "p"), 1);
  ASSERT_TRUE(call.SendBatch(1, Draw(10).view()));
  ASSERT_TRUE(call.ReadAck(1));
  // A string that is not UTF-8 cannot be parsed.
  Request request;
  request.mutable_open()->set_model("\xff");
  call.Send(request);
  EXPECT_EQ(call.Await().error_code(), grpc::ABORTED);
  EXPECT_EQ(client_->GetCalibration("models/m").observations(), 10);
}

TEST_F(HostileClientTest, LargeMetadataIsRefused) {
  CallContext context;
  context.AddMetadata("x-large", std::string(9 << 10, 'x'));
  v1::ListModelsRequest request;
  v1::ListModelsResponse response;
  EXPECT_EQ(client_->models->ListModels(&context, request, &response).error_code(),
            grpc::RESOURCE_EXHAUSTED);
}

TEST_F(HostileClientTest, HttpAcceptsOnlySmallAndFastGetRequests) {
  const std::string& address = server_->http_address();
  const std::string end = "\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
  EXPECT_THAT(Http(address, "GET /healthz HTTP/1.1" + end), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(Http(address, "GET /healthz HTTP/1.1" + end),
              HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_THAT(Http(address, "GET /readyz HTTP/1.1" + end), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(Http(address, "GET /etc/passwd HTTP/1.1" + end), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Http(address, "DELETE /metrics HTTP/1.1" + end), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Http(address, "POST /metrics HTTP/1.1\r\nContent-Length: 5" + end + "hello"),
              StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Http(address, "POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked" + end +
                                "5\r\nhello\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Http(address, "GET /metrics HTTP/1.1\r\nX: " + std::string(9000, 'x') + end),
              StartsWith("HTTP/1.1 431"));
  const std::string head = Http(address, "HEAD /healthz HTTP/1.1" + end);
  EXPECT_THAT(head, HasSubstr("Content-Length: 3"));
  EXPECT_THAT(head, ::testing::EndsWith("\r\n\r\n"));
  // A connection with an endless header is closed.
  EXPECT_EQ(Http(address, "GET /metrics HTTP/1.1\r\nX: "), "");
}

}  // namespace
}  // namespace calibd::testing
