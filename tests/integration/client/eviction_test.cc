// Clients that call continuously while the server evicts their connections.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "calibd/client/client.h"
#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/server_process.h"
#include "support/tcp_proxy.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

// Makes one call after another on its own thread.
class Caller {
 public:
  // call: returns the error, empty if it succeeded.
  explicit Caller(std::function<std::string()> call)
      : call_(std::move(call)), thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested() && error_.empty()) {
            error_ = call_();
            failed_ = !error_.empty();
            ++ended_;
          }
        }) {}

  [[nodiscard]] int ended() const { return ended_; }
  [[nodiscard]] bool failed() const { return failed_; }
  // Stops the calls. Returns the first error.
  std::string Stop() {
    thread_.request_stop();
    thread_.join();
    return error_;
  }

 private:
  std::function<std::string()> call_;
  std::string error_;
  std::atomic<int> ended_ = 0;
  std::atomic<bool> failed_ = false;
  std::jthread thread_;
};

class EvictionTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kCallers = 3;

  void SetUp() override {
    server_ = ServerProcess::Start({"--max-connections-per-address", std::to_string(kCallers)});
    ASSERT_NE(server_, nullptr);
  }

  // Opens one connection too many, for which the server evicts an idle one, and closes it. On
  // return the server has closed it too.
  void Evict() {
    const int fd = ConnectTo(server_->grpc_address());
    ASSERT_GE(fd, 0);
    ASSERT_EQ(shutdown(fd, SHUT_WR), 0);
    ReadToEnd(fd);
    close(fd);
  }

  // Each caller makes a complete call. Returns whether all calls succeed.
  bool AllMakeACall() {
    std::vector<int> before;
    for (const auto& caller : callers_) before.push_back(caller->ended());
    for (std::size_t i = 0; i < callers_.size(); ++i) {
      const Caller& caller = *callers_[i];
      const auto ended = [&] { return caller.ended() >= before[i] + 2; };
      if (!WaitFor([&] { return ended() || caller.failed(); }) || !ended()) return false;
    }
    return true;
  }

  int Evicted() {
    const std::string body = HttpGet(server_->http_address(), "/metrics").body;
    const std::string series = "calibd_connections_closed_total{reason=\"evicted\"} ";
    const std::size_t found = body.find(series);
    return found == std::string::npos ? 0 : std::stoi(body.substr(found + series.size()));
  }

  // A refused call is repeated once, so each caller must have succeeded before the next eviction.
  void ExpectNoErrors(int rounds) {
    for (int i = 0; i < rounds && AllMakeACall(); ++i) Evict();
    for (const auto& caller : callers_) {
      EXPECT_EQ(caller->Stop(), "");
    }
    // In many rounds of a busy machine, no connection was idle.
    EXPECT_GE(Evicted(), 1);
  }

  std::unique_ptr<ServerProcess> server_;
  std::vector<std::unique_ptr<Caller>> callers_;
};

TEST_F(EvictionTest, CostsAPlainChannelNoError) {
  for (std::size_t i = 0; i < kCallers; ++i) {
    const auto client = std::make_shared<ServiceClient>(server_->grpc_address());
    callers_.push_back(std::make_unique<Caller>([client] {
      CallContext context;
      v1::ListModelsResponse response;
      return client->models->ListModels(&context, {}, &response).error_message();
    }));
  }
  ExpectNoErrors(200);
}

TEST_F(EvictionTest, CostsTheSdkNoError) {
  for (std::size_t i = 0; i < kCallers; ++i) {
    auto connected = client::Client::Connect(server_->grpc_address());
    ASSERT_TRUE(connected.ok()) << connected.status();
    callers_.push_back(
        std::make_unique<Caller>([client = std::shared_ptr<client::Client>(*std::move(connected))] {
          return std::string(client->ListModels().status().message());
        }));
  }
  ExpectNoErrors(20);
}

}  // namespace
}  // namespace calibd::testing
