#include "server/net/relay_connection.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <exception>
#include <span>
#include <string_view>
#include <utility>

#include "server/net/peer_name.h"

namespace calibd::server {
namespace {

using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTick{1};
// Time for the client to take the last bytes and to close the connection.
constexpr std::chrono::seconds kClosingTimeout{1};
// Maximum number of bytes that gRPC may keep for a connection whose client does not read.
constexpr std::size_t kUnreadBytes = 1 << 20;

bool WouldBlock(const error_code& error) {
  return error == boost::asio::error::would_block || error == boost::asio::error::try_again;
}

std::size_t SizeOf(std::span<const std::string_view> pieces) {
  std::size_t size = 0;
  for (const std::string_view piece : pieces) size += piece.size();
  return size;
}

// Writes as much as the socket takes. Returns the number of bytes.
std::size_t WriteSome(RelayConnection::Socket& socket, std::span<const std::string_view> pieces,
                      error_code& error) {
  // The system accepts at most about this many pieces in one call.
  constexpr std::size_t kMaxPieces = 64;
  std::size_t written = 0;
  while (!pieces.empty()) {
    const auto batch = pieces.first(std::min(kMaxPieces, pieces.size()));
    std::array<boost::asio::const_buffer, kMaxPieces> buffers;
    std::transform(batch.begin(), batch.end(), buffers.begin(), [](std::string_view piece) {
      return boost::asio::const_buffer(piece.data(), piece.size());
    });
    const std::size_t taken = socket.write_some(buffers, error);
    written += taken;
    if (error || taken < SizeOf(batch)) break;
    pieces = pieces.subspan(batch.size());
  }
  return written;
}

}  // namespace

RelayWorker::RelayWorker() {
  WaitForTick();
  thread_ = std::thread([this] { Run(); });
}

RelayWorker::~RelayWorker() {
  context_.stop();
  thread_.join();
  connections_.clear();
}

void RelayWorker::Run() {
  pthread_setname_np(pthread_self(), "calibd-relay");
  while (!context_.stopped()) {
    try {
      context_.run();
    } catch (const std::exception& failure) {
      // For example bad_alloc. The next tick or event retries the interrupted work.
      spdlog::error("the relay failed: {}", failure.what());
    }
  }
}

void RelayWorker::WaitForTick() {
  tick_.expires_after(kTick);
  tick_.async_wait([this](const error_code& error) {
    if (error) return;
    // This is first, so that the ticks continue whatever happens in this one.
    WaitForTick();
    ForEachConnection(&RelayConnection::Tick);
  });
}

void RelayWorker::ForEachConnection(void (RelayConnection::*step)()) {
  // A copy, because closed connections leave the set.
  for (const auto& connection : std::unordered_set(connections_)) (*connection.*step)();
}

void RelayWorker::BeginDrain() {
  draining_ = true;
  ForEachConnection(&RelayConnection::BeginDrain);
}

void RelayWorker::NotifyDelivered(std::promise<void> delivered) {
  delivered_ = std::move(delivered);
  CheckDelivered();
}

void RelayWorker::CheckDelivered() {
  const auto is_delivered = [](const auto& connection) { return connection->delivered(); };
  if (delivered_.has_value() &&
      std::all_of(connections_.begin(), connections_.end(), is_delivered)) {
    delivered_->set_value();
    delivered_.reset();
  }
}

RelayConnection::RelayConnection(RelayWorker& worker, const RelayContext& relay,
                                 std::shared_ptr<PeerLimits> peer, Socket client,
                                 std::uint64_t number, std::string address,
                                 std::unique_ptr<TlsSession> tls)
    : worker_(worker),
      relay_(relay),
      number_(number),
      address_(std::move(address)),
      client_(std::move(client)),
      server_(Socket(worker.context())),
      tls_(std::move(tls)),
      guard_(
          relay.shared, std::move(peer), [this] { return slot_->restricted(); }, Clock::now()),
      began_(Clock::now()),
      client_took_(began_) {}

RelayConnection::~RelayConnection() {
  if (reserved_) relay_.shared.memory.Release(kUnreadBytes);
}

void RelayConnection::Start(std::unique_ptr<ConnectionSlots::Slot> slot) {
  slot_ = std::move(slot);
  RunStep([this] {
    worker_.connections_.insert(shared_from_this());
    if (tls_ == nullptr) {
      BeginRelaying();
      Deliver();
    } else if (worker_.draining_ || evicted_) {
      Destroy();
    } else {
      state_ = State::kHandshake;
      Wait();
    }
  });
}

bool RelayConnection::Connect() {
  if (tls_ != nullptr && tls_->identity() != nullptr) identity_.emplace(number_, tls_->identity());
  const int fd = relay_.connect_server(MakePeerName(number_, address_), address_);
  if (fd < 0) return false;
  error_code ignored;
  server_.socket.assign(boost::asio::generic::stream_protocol(AF_UNIX, 0), fd, ignored);
  server_.socket.non_blocking(true, ignored);
  return true;
}

void RelayConnection::BeginRelaying() {
  state_ = State::kRelaying;
  if (worker_.draining_) guard_.BeginDrain(Clock::now(), worker_.output_);
  if (evicted_) guard_.Retire(Clock::now(), worker_.output_);
}

void RelayConnection::Evict() {
  RunStep([this] {
    evicted_ = true;
    if (state_ == State::kRelaying) {
      guard_.Retire(Clock::now(), worker_.output_);
      Deliver();
    } else if (state_ == State::kHandshake) {
      Destroy();
    }
  });
}

void RelayConnection::BeginDrain() {
  RunStep([this] {
    if (state_ == State::kRelaying) {
      guard_.BeginDrain(Clock::now(), worker_.output_);
      Deliver();
    } else if (state_ == State::kHandshake) {
      Destroy();
    }
  });
}

void RelayConnection::Tick() {
  RunStep([this] {
    const Time now = Clock::now();
    if (state_ == State::kClosing) {
      if (now - closing_since_ >= kClosingTimeout) Destroy();
      return;
    }
    if (state_ == State::kHandshake) {
      if (now - began_ >= TlsServer::kHandshakeTimeout) {
        relay_.tls->CountFailure(TlsFailure::kTooSlow, "the handshake took too long", address_);
        Destroy();
      }
      return;
    }
    if (tls_ != nullptr && tls_->identity() != nullptr &&
        std::chrono::system_clock::now() >= tls_->identity()->not_after) {
      guard_.Close(CloseReason::kCertificateExpired, worker_.output_);
    }
    if (client_.pending.empty()) {
      client_took_ = now;
    } else if (now - client_took_ >= Http2Guard::kStallTimeout) {
      guard_.Close(CloseReason::kClientReadsNothing, worker_.output_);
    }
    guard_.Tick(now, worker_.output_);
    Deliver();
  });
}

template <typename Step>
void RelayConnection::RunStep(Step step) {
  if (state_ == State::kClosed) return;
  try {
    step();
  } catch (const std::exception& error) {
    spdlog::error("a connection was closed after an error: {}", error.what());
    worker_.output_.Clear();
    worker_.sealed_.clear();
    Destroy();
  }
}

void RelayConnection::ReadClient() {
  if (state_ == State::kClosing) {
    Discard();
    return;
  }
  // A wait may end although reading must pause again.
  const bool reads = state_ == State::kRelaying || state_ == State::kHandshake;
  if (!reads || !client_.pending.empty() || !server_.pending.empty()) return;
  error_code error;
  const std::size_t count = client_.socket.read_some(boost::asio::buffer(worker_.buffer_), error);
  if (WouldBlock(error)) {
    Wait();
    return;
  }
  if (error) {
    Destroy();
    return;
  }
  const std::string_view bytes = Decrypt({worker_.buffer_.data(), count});
  if (state_ == State::kRelaying && !bytes.empty()) {
    guard_.FromClient(bytes, Clock::now(), worker_.output_);
  }
  Deliver();
  const bool ended = tls_ != nullptr && tls_->state() == TlsSession::State::kEnded;
  if (ended && state_ != State::kClosed) Destroy();
}

std::string_view RelayConnection::Decrypt(std::string_view received) {
  if (tls_ == nullptr) return received;
  worker_.plain_.resize(RelayWorker::kBufferBytes + TlsSession::kMaxKeptBytes);
  const std::size_t count = tls_->Receive(received, worker_.plain_, worker_.sealed_);
  const bool failed = tls_->state() == TlsSession::State::kFailed;
  // A client that learns of the failure finds it in the metrics.
  if (failed) relay_.tls->CountFailure(tls_->failure(), tls_->explanation(), address_);
  // Before anything else is sent, because it belongs to the handshake or to earlier records.
  SendSealed();
  if (state_ == State::kClosed) return {};
  if (failed) {
    BeginClosing();
    return {};
  }
  if (state_ == State::kHandshake && tls_->state() == TlsSession::State::kOpen) {
    if (!Connect()) {
      Destroy();
      return {};
    }
    BeginRelaying();
  }
  return {worker_.plain_.data(), count};
}

void RelayConnection::ReadServer() {
  if (state_ != State::kRelaying || !client_.pending.empty()) return;
  error_code error;
  const std::size_t count = server_.socket.read_some(boost::asio::buffer(worker_.buffer_), error);
  if (WouldBlock(error)) {
    Wait();
    return;
  }
  if (error) {
    BeginClosing();
    Wait();
    return;
  }
  guard_.FromServer({worker_.buffer_.data(), count}, Clock::now(), worker_.output_);
  Deliver();
}

void RelayConnection::Deliver() {
  SendOutput();
  if (!ReserveUnread()) {
    guard_.Close(CloseReason::kMemoryExhausted, worker_.output_);
    SendOutput();
  }
  if (state_ == State::kClosed) return;
  if (state_ == State::kRelaying) {
    if (guard_.closed()) {
      BeginClosing();
    } else if (const bool idle = guard_.idle(); idle != idle_) {
      idle_ = idle;
      slot_->SetIdle(idle);
    }
  }
  Wait();
}

void RelayConnection::SendOutput() {
  Send(server_, worker_.output_.to_server);
  SendToClient(worker_.output_.to_client);
  worker_.output_.Clear();
}

void RelayConnection::SendToClient(const ByteList& bytes) {
  if (tls_ == nullptr) {
    Send(client_, bytes);
  } else if (!bytes.pieces().empty()) {
    tls_->Send(bytes.pieces(), worker_.sealed_);
    SendSealed();
  }
}

void RelayConnection::SendSealed() {
  ByteList bytes;
  bytes.AppendView(worker_.sealed_);
  Send(client_, bytes);
  worker_.sealed_.clear();
}

void RelayConnection::Send(Side& side, const ByteList& bytes) {
  if (bytes.pieces().empty() || !side.socket.is_open()) return;
  std::size_t written = 0;
  if (side.pending.empty()) written = Write(side, bytes.pieces());
  for (std::string_view piece : bytes.pieces()) {
    const std::size_t skipped = std::min(written, piece.size());
    written -= skipped;
    side.pending.append(piece.substr(skipped));
  }
}

void RelayConnection::SendPending(Side& side) {
  const std::array<std::string_view, 1> pieces{side.pending};
  side.pending.erase(0, Write(side, pieces));
  Deliver();
}

std::size_t RelayConnection::Write(Side& side, std::span<const std::string_view> pieces) {
  error_code error;
  const std::size_t written = WriteSome(side.socket, pieces, error);
  if (&side == &client_ && written > 0) client_took_ = Clock::now();
  if (error && !WouldBlock(error)) {
    // A client that has disconnected needs nothing more. If the server has closed its socket, its
    // last bytes must still be read, but it gets no more.
    if (&side == &client_) Destroy();
    return SizeOf(pieces);
  }
  return written;
}

bool RelayConnection::ReserveUnread() {
  const bool unread = !client_.pending.empty() && state_ != State::kClosed;
  if (unread == reserved_) return true;
  if (!unread) {
    relay_.shared.memory.Release(kUnreadBytes);
    reserved_ = false;
    return true;
  }
  reserved_ = relay_.shared.memory.TryReserve(kUnreadBytes);
  return reserved_;
}

void RelayConnection::Wait() {
  if (state_ == State::kClosed) return;
  if (!client_.pending.empty()) WaitToWrite(client_);
  switch (state_) {
    case State::kRelaying:
      if (!server_.pending.empty()) WaitToWrite(server_);
      if (client_.pending.empty()) WaitToRead(server_, &RelayConnection::ReadServer);
      [[fallthrough]];
    case State::kHandshake:
      if (client_.pending.empty() && server_.pending.empty()) {
        WaitToRead(client_, &RelayConnection::ReadClient);
      }
      break;
    case State::kClosing:
      if (client_.pending.empty()) {
        if (!said_end_) {
          said_end_ = true;
          error_code ignored;
          client_.socket.shutdown(Socket::shutdown_send, ignored);
          worker_.CheckDelivered();
        }
        // The client's bytes are read until it closes as well. Otherwise the system would reset the
        // connection, and the client might not receive the last bytes.
        WaitToRead(client_, &RelayConnection::ReadClient);
      }
      break;
    case State::kConnecting:
    case State::kClosed:
      break;
  }
}

template <typename Step>
void RelayConnection::WaitFor(Side& side, Socket::wait_type event, bool& waits, const Step& step) {
  if (waits) return;
  waits = true;
  side.socket.async_wait(event, [self = shared_from_this(), &waits, step](const error_code& error) {
    waits = false;
    if (!error) self->RunStep(step);
  });
}

void RelayConnection::WaitToRead(Side& side, void (RelayConnection::*read)()) {
  WaitFor(side, Socket::wait_read, side.waits_to_read, [this, read] { (this->*read)(); });
}

void RelayConnection::WaitToWrite(Side& side) {
  WaitFor(side, Socket::wait_write, side.waits_to_write, [this, &side] { SendPending(side); });
}

void RelayConnection::BeginClosing() {
  state_ = State::kClosing;
  ++worker_.closing_;
  closing_since_ = Clock::now();
  error_code ignored;
  server_.socket.close(ignored);
  server_.pending.clear();
  // The client may close slowly, so the slot is given to another connection now.
  slot_.reset();
  if (tls_ != nullptr) {
    tls_->End(worker_.sealed_);
    SendSealed();
    if (state_ == State::kClosed) return;
  }
  if (worker_.closing_ > RelayWorker::kMaxClosing) Destroy();
}

void RelayConnection::Discard() {
  error_code error;
  client_.socket.read_some(boost::asio::buffer(worker_.buffer_), error);
  if (error && !WouldBlock(error)) {
    Destroy();
    return;
  }
  Wait();
}

void RelayConnection::Destroy() {
  if (state_ == State::kClosing) --worker_.closing_;
  state_ = State::kClosed;
  error_code ignored;
  client_.socket.close(ignored);
  server_.socket.close(ignored);
  slot_.reset();
  RelayWorker& worker = worker_;
  // May destroy this object.
  worker.connections_.erase(shared_from_this());
  worker.CheckDelivered();
}

}  // namespace calibd::server
