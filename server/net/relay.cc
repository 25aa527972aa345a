#include "server/net/relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <future>
#include <thread>
#include <utility>

#include "server/base/listen_address.h"
#include "server/net/relay_connection.h"

namespace calibd::server {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

// The relay mostly copies bytes, and more threads do not make that faster.
constexpr unsigned int kMaxThreads = 2;
// Each peer address may use one part in this many of the memory for messages.
constexpr std::size_t kPeerShare = 2;

// A connected pair of non-blocking Unix sockets; -1 if there are no descriptors left.
std::array<int, 2> MakePair() {
  std::array<int, 2> pair{-1, -1};
  static_cast<void>(
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()));
  return pair;
}

}  // namespace

Relay::Relay(const Settings& settings, ByteBudget& memory, RelayStatistics& statistics,
             TlsServer* tls, std::function<void(int)> connect)
    : shared_{.limits = settings.limits, .memory = memory, .statistics = statistics},
      context_(new RelayContext{.shared = shared_,
                                .tls = tls,
                                .connect_server =
                                    [this](const std::string& peer, const std::string& address) {
                                      return ConnectServer(peer, address);
                                    }}),
      peers_(std::max(memory.limit() / kPeerShare, 2 * settings.limits.max_message_bytes),
             // An address that may have all connections is that of a proxy.
             settings.slots.per_address < settings.slots.total),
      slots_(settings.slots),
      connect_(std::move(connect)) {
  const unsigned int threads = std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads);
  for (unsigned int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<RelayWorker>());
}

Relay::~Relay() = default;

void Relay::Add(tcp::socket socket, const std::string& address) {
  std::shared_ptr<PeerLimits> limits = peers_.Find(address);
  if (limits->refused(std::chrono::steady_clock::now(), shared_.statistics.ending_calls().many())) {
    shared_.statistics.CountClosed(CloseReason::kAddressRefused, address);
    return;
  }
  RelayWorker& worker = *workers_[accepted_++ % workers_.size()];
  error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  socket.set_option(tcp::no_delay(true), error);
  const tcp protocol = peer.protocol();
  const int fd = socket.release(error);
  if (error) return;  // The peer has disconnected.
  RelayConnection::Socket client(worker.context(), protocol, fd);
  client.non_blocking(true, error);
  std::unique_ptr<TlsSession> tls;
  if (context_->tls != nullptr) {
    tls = context_->tls->Begin(TlsProtocol::kGrpc, address);
    if (tls == nullptr) return;
  }
  const auto connection =
      std::make_shared<RelayConnection>(worker, *context_, std::move(limits), std::move(client),
                                        accepted_, FormatAddress(peer), std::move(tls));
  const auto evict = [&worker, weak = std::weak_ptr(connection)] {
    boost::asio::post(worker.context(), [weak] {
      if (const std::shared_ptr<RelayConnection> evicted = weak.lock()) evicted->Evict();
    });
  };
  std::unique_ptr<ConnectionSlots::Slot> slot = slots_.Admit(address, evict);
  if (slot == nullptr) {
    shared_.statistics.CountClosed(CloseReason::kTooManyConnections, address);
    return;
  }
  // Done here, so that no more connections are accepted than gRPC can take. With TLS, the handshake
  // comes first.
  if (context_->tls == nullptr && !connection->Connect()) return;
  boost::asio::post(worker.context(), [connection, slot = std::move(slot)]() mutable {
    connection->Start(std::move(slot));
  });
}

int Relay::ConnectServer(const std::string& peer, const std::string& address) {
  const std::array<int, 2> pair = MakePair();
  if (pair[0] < 0) {
    shared_.statistics.CountClosed(CloseReason::kTooManyConnections, address);
    return -1;
  }
  static_cast<void>(BindPeerName(pair[0], peer));
  const std::lock_guard lock(mutex_);
  if (draining_) {
    // gRPC would keep a socket that it gets during its shutdown.
    close(pair[0]);
    close(pair[1]);
    return -1;
  }
  connect_(pair[1]);
  return pair[0];
}

void Relay::BeginDrain() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  for (const std::unique_ptr<RelayWorker>& worker : workers_) {
    boost::asio::post(worker->context(), [raw = worker.get()] { raw->BeginDrain(); });
  }
}

void Relay::AwaitDelivery(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::vector<std::future<void>> deliveries;
  for (const std::unique_ptr<RelayWorker>& worker : workers_) {
    std::promise<void> delivered;
    deliveries.push_back(delivered.get_future());
    boost::asio::post(worker->context(),
                      [raw = worker.get(), delivered = std::move(delivered)]() mutable {
                        raw->NotifyDelivered(std::move(delivered));
                      });
  }
  for (const std::future<void>& delivery : deliveries) delivery.wait_until(deadline);
}

}  // namespace calibd::server
