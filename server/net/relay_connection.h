#ifndef CALIBD_SERVER_NET_RELAY_CONNECTION_H_
#define CALIBD_SERVER_NET_RELAY_CONNECTION_H_

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "server/net/byte_list.h"
#include "server/net/connection_slots.h"
#include "server/net/http2_guard.h"
#include "server/net/tls_server.h"
#include "server/net/tls_session.h"

namespace calibd::server {

class RelayConnection;

// What the connections of a relay share.
struct RelayContext {
  Http2Guard::Shared& shared;
  // Null without encryption.
  TlsServer* tls = nullptr;
  // Connects a new pair of sockets to the server. Returns the relay's end, or -1 if there are no
  // descriptors left, or if the server stops. peer: the name of the connection. address: that of
  // its client. Any thread.
  std::function<int(const std::string& peer, const std::string& address)> connect_server;
};

// One thread of the relay and its connections. Except where noted, its functions run on that
// thread.
class RelayWorker {
 public:
  // Starts the thread.
  RelayWorker();
  // Closes the connections and joins the thread. Call it on another thread.
  ~RelayWorker();
  RelayWorker(const RelayWorker&) = delete;
  RelayWorker& operator=(const RelayWorker&) = delete;

  [[nodiscard]] boost::asio::io_context& context() noexcept { return context_; }

  void BeginDrain();
  // Once the server has closed all its sockets: fulfils the promise as soon as every client has
  // been sent the last bytes.
  void NotifyDelivered(std::promise<void> delivered);

 private:
  friend class RelayConnection;
  // With 64 KiB, large messages take 1.5 times the CPU time.
  static constexpr std::size_t kBufferBytes = 128 << 10;
  static constexpr std::size_t kMaxClosing = 128;

  void Run();
  void WaitForTick();
  void ForEachConnection(void (RelayConnection::*step)());
  // Call it when a connection has been sent its last bytes, or is gone.
  void CheckDelivered();

  boost::asio::io_context context_{1};
  boost::asio::steady_timer tick_{context_};
  // Input and output of one step of a connection; unused between steps.
  std::array<char, kBufferBytes> buffer_{};
  // Decrypted input, and encrypted output, of one step; unused without TLS.
  std::vector<char> plain_;
  std::string sealed_;
  Http2Guard::Output output_;
  std::unordered_set<std::shared_ptr<RelayConnection>> connections_;
  // Number of connections that wait for their client to close.
  std::size_t closing_ = 0;
  bool draining_ = false;
  std::optional<std::promise<void>> delivered_;
  std::thread thread_;
};

// One connection. It keeps only bytes that one side has sent and the other has not taken, and reads
// nothing more for a side while such bytes exist. Except where noted, its functions run on the
// worker's thread.
class RelayConnection : public std::enable_shared_from_this<RelayConnection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // client: must be connected. number: unique among the connections of this process. address: of
  // the client. tls: null without encryption. relay must outlive this object. Any thread.
  RelayConnection(RelayWorker& worker, const RelayContext& relay, std::shared_ptr<PeerLimits> peer,
                  Socket client, std::uint64_t number, std::string address,
                  std::unique_ptr<TlsSession> tls);
  ~RelayConnection();
  RelayConnection(const RelayConnection&) = delete;
  RelayConnection& operator=(const RelayConnection&) = delete;

  // Connects to the server; returns false if that fails. Call it once: without TLS before Start, on
  // any thread. With TLS, the connection calls it itself after the handshake.
  [[nodiscard]] bool Connect();
  void Start(std::unique_ptr<ConnectionSlots::Slot> slot);
  // Makes room for another connection, without an error for a client that follows HTTP/2. Before
  // Start, it takes effect at Start.
  void Evict();
  void BeginDrain();
  void Tick();
  // True once the client has been sent the last bytes.
  [[nodiscard]] bool delivered() const noexcept { return said_end_; }

 private:
  using Time = Http2Guard::Time;
  enum class State {
    kConnecting,
    // The server has no socket yet.
    kHandshake,
    kRelaying,
    // The server's socket is closed; the client still receives the last bytes.
    kClosing,
    kClosed,
  };
  struct Side {
    explicit Side(Socket the_socket) : socket(std::move(the_socket)) {}

    Socket socket;
    // Bytes for this side that its socket has not accepted.
    std::string pending;
    bool waits_to_read = false;
    bool waits_to_write = false;
  };

  void BeginRelaying();
  void ReadClient();
  void ReadServer();
  // Returns the bytes of the client: `received` itself, or what it decrypts to, which the worker
  // keeps for this step. Begins to relay after the handshake, and to close after a failure.
  [[nodiscard]] std::string_view Decrypt(std::string_view received);
  void SendToClient(const ByteList& bytes);
  // Sends what TLS itself has to say.
  void SendSealed();
  // Sends the worker's output and waits for the next event.
  void Deliver();
  void SendOutput();
  void Wait();
  template <typename Step>
  void WaitFor(Side& side, Socket::wait_type event, bool& waits, const Step& step);
  void WaitToRead(Side& side, void (RelayConnection::*read)());
  void WaitToWrite(Side& side);
  // Runs a step; an exception closes the connection.
  template <typename Step>
  void RunStep(Step step);

  void Send(Side& side, const ByteList& bytes);
  // Returns the number of bytes that are written or dropped.
  std::size_t Write(Side& side, std::span<const std::string_view> pieces);
  void SendPending(Side& side);
  void BeginClosing();
  void Discard();
  void Destroy();
  // While the client does not read, gRPC keeps more bytes than the relay sees. Returns false if
  // there is no memory for them.
  [[nodiscard]] bool ReserveUnread();

  RelayWorker& worker_;
  const RelayContext& relay_;
  const std::uint64_t number_;
  const std::string address_;
  std::unique_ptr<ConnectionSlots::Slot> slot_;
  Side client_;
  Side server_;
  const std::unique_ptr<TlsSession> tls_;
  // Unset without a certificate of the client.
  std::optional<KnownIdentity> identity_;
  Http2Guard guard_;
  State state_ = State::kConnecting;
  bool evicted_ = false;
  bool idle_ = true;
  bool said_end_ = false;
  // True while memory is reserved for what the server keeps while the client does not read.
  bool reserved_ = false;
  Time began_;
  Time client_took_;
  Time closing_since_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_RELAY_CONNECTION_H_
