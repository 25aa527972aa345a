#ifndef CALIBD_SERVER_NET_RELAY_H_
#define CALIBD_SERVER_NET_RELAY_H_

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/net/byte_budget.h"
#include "server/net/connection_slots.h"
#include "server/net/http2_guard.h"
#include "server/net/peer_limits.h"
#include "server/net/relay_statistics.h"
#include "server/net/tls_server.h"

namespace calibd::server {

class RelayWorker;
struct RelayContext;

// Relays the accepted TCP connections to gRPC's server, each through a pair of Unix sockets, and
// inspects them with an Http2Guard. TLS ends here: gRPC learns of a connection after its handshake.
// gRPC reads whole messages and header blocks before it checks their size, so the relay limits what
// a client may send. One or two threads of its own serve all connections.
class Relay {
 public:
  struct Settings {
    Http2Guard::Limits limits;
    ConnectionSlots::Limits slots;
  };

  // connect: gives a connected, non-blocking socket to the server, which must close it. Called
  // until BeginDrain: on the thread that calls Add, and with TLS on threads of the relay. tls: null
  // without encryption. memory, statistics and tls must outlive the relay.
  Relay(const Settings& settings, ByteBudget& memory, RelayStatistics& statistics, TlsServer* tls,
        std::function<void(int)> connect);
  // Closes all connections at once.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Takes over an accepted connection. address: the address by which connections are counted. Call
  // it on one thread only.
  void Add(boost::asio::ip::tcp::socket socket, const std::string& address);

  // Begins the shutdown of the server: connections are closed as soon as they have no calls. Any
  // thread.
  void BeginDrain();
  // After the server has closed all its sockets: waits until the clients have been sent its last
  // bytes, but not longer than this.
  void AwaitDelivery(std::chrono::milliseconds timeout);

 private:
  // See RelayContext.
  [[nodiscard]] int ConnectServer(const std::string& peer, const std::string& address);

  Http2Guard::Shared shared_;
  const std::unique_ptr<RelayContext> context_;
  PeerTable peers_;
  ConnectionSlots slots_;
  const std::function<void(int)> connect_;
  std::mutex mutex_;
  bool draining_ = false;  // guarded by mutex_
  std::uint64_t accepted_ = 0;
  std::vector<std::unique_ptr<RelayWorker>> workers_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_RELAY_H_
