// TLS of calibctl and of the C++ SDK against real servers: who is served, and what the errors say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibd/client/client.h"
#include "calibd/client/monitor.h"
#include "calibd/client/token.h"
#include "integration/client/run_calibctl.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::Monitor;
using client::TlsOptions;
using ::testing::HasSubstr;
using ::testing::Not;

class TlsClientTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    ChildProcess issuer({"/usr/bin/python3", "-B", CALIBD_CERTIFICATES, folder_->path()},
                        folder_->path() / "issuer.log");
    ASSERT_EQ(issuer.WaitForExit(), 0) << issuer.Output();
    tls_server_ = ServerProcess::Start({"--tls-certificate", File("server.pem"), "--tls-key",
                                        File("server.key"), "--tls-client-ca", File("ca.pem")});
    plain_server_ = ServerProcess::Start();
  }
  static void TearDownTestSuite() {
    tls_server_.reset();
    plain_server_.reset();
    folder_.reset();
  }
  void SetUp() override {
    ASSERT_NE(tls_server_, nullptr);
    ASSERT_NE(plain_server_, nullptr);
  }

  static std::string File(const std::string& name) { return folder_->path() / name; }
  static TlsOptions ClientFiles() {
    return {.ca = File("ca.pem"), .certificate = File("client.pem"), .key = File("client.key")};
  }

  // The error of the SDK and of calibctl, which must be the same.
  static std::string ErrorOf(const std::string& address, const TlsOptions& tls,
                             const std::string& token_file = "") {
    client::ClientOptions options{.tls = tls};
    if (!token_file.empty()) options.token = client::TokenOfFile(token_file);
    const absl::Status status = Client::Connect(address, options).status();
    std::vector<std::string> arguments = {"model", "list", "--server", address};
    for (const auto& [flag, value] : {std::pair{"--tls-ca", tls.ca},
                                      {"--tls-certificate", tls.certificate},
                                      {"--tls-key", tls.key},
                                      {"--tls-server-name", tls.server_name},
                                      {"--token-file", token_file}}) {
      if (!value.empty()) arguments.insert(arguments.end(), {flag, value});
    }
    CalibctlRun run(arguments);
    EXPECT_EQ(run.exit_code(), 1);
    EXPECT_THAT(run.error(), StartsWith("calibctl: ")) << "gRPC logs nothing before";
    EXPECT_THAT(Unwrapped(run.error()), HasSubstr(std::string(status.message())));
    return std::string(status.message());
  }

  static std::unique_ptr<TemporaryFolder> folder_;
  static std::unique_ptr<ServerProcess> tls_server_;
  static std::unique_ptr<ServerProcess> plain_server_;
};

std::unique_ptr<TemporaryFolder> TlsClientTest::folder_;
std::unique_ptr<ServerProcess> TlsClientTest::tls_server_;
std::unique_ptr<ServerProcess> TlsClientTest::plain_server_;

TEST_F(TlsClientTest, CallsStreamsAndMonitorsUseTls) {
  const auto client = Client::Connect(tls_server_->grpc_address(), {.tls = ClientFiles()});
  ASSERT_TRUE(client.ok()) << client.status();
  v1::Model model;
  model.set_name(client::ModelName("digits"));
  model.mutable_classes()->set_count(2);
  ASSERT_TRUE((*client)->CreateModel(model).ok());
  const std::vector<double> row = {0.25, 0.75};
  {
    const auto stream = (*client)->OpenStream(model.name(), {});
    ASSERT_TRUE(stream.ok()) << stream.status();
    const std::vector<std::int32_t> labels = {1};
    EXPECT_TRUE((*stream)->Send(client::PredictionKind::kProbabilities, row, labels).ok());
    const auto counts = (*stream)->Finish();
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(counts->accepted_rows, 1);
  }
  const auto monitor =
      Monitor::Create(model.name(), {.address = tls_server_->grpc_address(), .tls = ClientFiles()});
  ASSERT_TRUE(monitor.ok()) << monitor.status();
  EXPECT_TRUE((*monitor)->Observe({.values = row, .label = 1}));
  EXPECT_TRUE((*monitor)->Flush(std::chrono::minutes(1)).ok());
  EXPECT_EQ((*monitor)->Close().accepted_rows, 1);

  CalibctlRun run({"model", "list", "--server", tls_server_->grpc_address(), "--tls-ca",
                   File("ca.pem"), "--tls-certificate", File("client.pem"), "--tls-key",
                   File("client.key")});
  EXPECT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_THAT(run.output(), HasSubstr("digits"));
}

TEST_F(TlsClientTest, ANameOfTheCertificateStandsForTheHost) {
  TlsOptions tls = ClientFiles();
  tls.server_name = "localhost";
  EXPECT_TRUE(Client::Connect(tls_server_->grpc_address(), {.tls = tls}).ok());
  tls.server_name = "other.example";
  EXPECT_THAT(ErrorOf(tls_server_->grpc_address(), tls),
              HasSubstr(": its certificate is not for this host: use a host name"));
}

TEST_F(TlsClientTest, ErrorsNameTheCauseAndTheRemedy) {
  const std::string& address = tls_server_->grpc_address();
  TlsOptions tls = ClientFiles();
  tls.ca = File("foreign.pem");
  EXPECT_THAT(ErrorOf(address, tls), HasSubstr(": its certificate is not accepted: no CA of " +
                                               tls.ca + " has issued it, or it has expired"));
  EXPECT_THAT(ErrorOf(address, {.ca = File("ca.pem")}),
              HasSubstr("it wants a certificate of the client (calibctl --tls-certificate"));
  tls = {.ca = File("ca.pem"), .certificate = File("stranger.pem"), .key = File("stranger.key")};
  EXPECT_THAT(ErrorOf(address, tls),
              HasSubstr("it does not accept the certificate " + tls.certificate));
}

TEST_F(TlsClientTest, ErrorsSayWhenOnlyOneSideUsesTls) {
  EXPECT_THAT(ErrorOf(tls_server_->grpc_address(), {}),
              HasSubstr("if it uses TLS, name the file of its CA (calibctl --tls-ca"));
  EXPECT_THAT(ErrorOf(plain_server_->grpc_address(), ClientFiles()),
              HasSubstr("it seems not to use TLS: leave out the CA"));
}

TEST_F(TlsClientTest, UnusableFilesAreNamed) {
  TlsOptions tls = ClientFiles();
  tls.key.clear();
  EXPECT_THAT(ErrorOf(tls_server_->grpc_address(), tls), HasSubstr("the key of TLS is missing"));
  tls.key = File("ca.pem");
  EXPECT_THAT(ErrorOf(tls_server_->grpc_address(), tls),
              HasSubstr("the key " + tls.key + " has no line PRIVATE KEY, expected a file in PEM"));
  EXPECT_THAT(ErrorOf(tls_server_->grpc_address(), {.ca = "/no/file"}),
              HasSubstr("the CA file /no/file cannot be read: No such file or directory"));
  EXPECT_THAT(ErrorOf(tls_server_->grpc_address(), {.certificate = File("client.pem")}),
              HasSubstr("the CA file of TLS is missing"));
}

TEST_F(TlsClientTest, ATokenIsSentInPlainTextToLoopbackOnly) {
  const std::string secret = "calibd_secret";
  const auto token = [&] { return secret; };
  for (const char* const address :
       {"calibd.example.com:8460", "127.0.0.1.example.com:8460", "192.0.2.1:8460",
        "[2001:db8::1]:1", "dns:///calibd.example.com:8460", "ipv4:127.0.0.1:1,192.0.2.1:1",
        "ipv6:[::1]:1,[::2]:1"}) {
    const absl::Status status = Client::Connect(address, {.token = token}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << address << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the token is not sent to "));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(secret)));
    EXPECT_EQ(Monitor::Create("models/m", {.address = address, .token = token}).status(), status);
    // With TLS it may be sent anywhere.
    EXPECT_TRUE(
        Monitor::Create("models/m", {.address = address, .tls = ClientFiles(), .token = token})
            .ok());
  }
  for (const char* const address : {"127.0.0.1:1", "127.8.9.10:1", "localhost:1", "[::1]:1",
                                    "unix:/nowhere", "dns:///localhost:1", "ipv6:[::1]:1"}) {
    EXPECT_TRUE(Monitor::Create("models/m", {.address = address, .token = token}).ok()) << address;
  }
  EXPECT_THAT(ErrorOf("192.0.2.1:8460", {}, File("ca.pem")),
              HasSubstr("the token is not sent to 192.0.2.1:8460 without TLS"));
  EXPECT_TRUE(Client::Connect(plain_server_->grpc_address(), {.token = token}).ok());
}

}  // namespace
}  // namespace calibd::testing
