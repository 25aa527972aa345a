#include "server/net/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/base/listen_address.h"
#include "support/tcp_proxy.h"
#include "support/wait_for.h"

namespace calibd::server {
namespace {

using boost::asio::ip::tcp;
using ::calibd::testing::ConnectTo;
using ::calibd::testing::WaitFor;

class ListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto acceptor = Listen(context_, *ParseListenAddress("127.0.0.1:0"));
    ASSERT_TRUE(acceptor.ok());
    address_ = FormatAddress(acceptor->local_endpoint());
    Listener::Start(*std::move(acceptor), [this](tcp::socket socket, const std::string& peer) {
      EXPECT_EQ(peer, "127.0.0.1");
      sockets_.push_back(std::move(socket));
      ++accepted_;
      if (throws_) throw std::runtime_error("on purpose");
    });
    thread_ = std::thread([this] { context_.run(); });
  }
  void TearDown() override {
    context_.stop();
    thread_.join();
    for (const int fd : clients_) close(fd);
  }
  void Connect() {
    const int fd = ConnectTo(address_);
    ASSERT_GE(fd, 0);
    clients_.push_back(fd);
  }
  bool Accepted(int count) {
    return WaitFor([this, count] { return accepted_ == count; });
  }

  boost::asio::io_context context_{1};
  std::string address_;
  std::vector<tcp::socket> sockets_;
  std::atomic<int> accepted_ = 0;
  std::atomic<bool> throws_ = false;
  std::vector<int> clients_;
  std::thread thread_;
};

TEST_F(ListenerTest, ContinuesAfterAnException) {
  throws_ = true;
  Connect();
  EXPECT_TRUE(Accepted(1));
  throws_ = false;
  Connect();
  EXPECT_TRUE(Accepted(2));
}

TEST_F(ListenerTest, ContinuesAfterTheProcessHadNoDescriptors) {
  // The warning shows that the listener has failed to accept.
  const auto log = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(1);
  const auto logger_before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // The client already has a descriptor; none is left for the accepted connection.
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(client, 0);
  clients_.push_back(client);
  const int lowest_free = dup(client);
  ASSERT_GE(lowest_free, 0);
  close(lowest_free);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest_free);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const tcp::endpoint endpoint = *ParseListenAddress(address_);
  const int connected = connect(client, endpoint.data(), static_cast<socklen_t>(endpoint.size()));
  const bool failed = WaitFor([&] { return !log->last_raw(1).empty(); });
  const int accepted_without = accepted_;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  spdlog::set_default_logger(logger_before);
  EXPECT_EQ(connected, 0);
  EXPECT_TRUE(failed) << "no warning of the failed accept";
  EXPECT_EQ(accepted_without, 0);
  EXPECT_TRUE(Accepted(1));
}

TEST(PeerAddressTest, CountsIpv6ByNetwork) {
  const auto peer = [](const char* text) {
    return PeerAddress(boost::asio::ip::make_address(text));
  };
  EXPECT_EQ(peer("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(peer("::ffff:192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(peer("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(peer("2001:db8:1:2::9"), "2001:db8:1:2::/64");
  EXPECT_NE(peer("2001:db8:1:3::9"), "2001:db8:1:2::/64");
}

}  // namespace
}  // namespace calibd::server
