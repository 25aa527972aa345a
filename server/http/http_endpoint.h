#ifndef CALIBD_SERVER_HTTP_HTTP_ENDPOINT_H_
#define CALIBD_SERVER_HTTP_HTTP_ENDPOINT_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "server/api/api.h"
#include "server/executor/fair_shares.h"
#include "server/executor/thread_pool.h"
#include "server/http/http_answer.h"
#include "server/net/call_memory.h"
#include "server/net/connection_slots.h"
#include "server/net/listener.h"
#include "server/net/tls_server.h"

namespace calibd::server {

// The API that the endpoint serves below /v1/. Must outlive the endpoint.
struct HttpApi {
  Api& api;
  CallMemory& memory;
  // Largest accepted body.
  std::size_t max_body_bytes = 0;
  // Maximum number of streams of events that are open at a time. Callers share them (FairShares).
  std::size_t max_event_streams = 0;
  // Number of threads that parse small bodies, at least 1, and the bytes that they may take
  // together.
  std::size_t parsing_threads = 1;
  std::size_t parsing_bytes = 0;
};

// Answers HTTP requests (AnswerRequest, JsonRoutes) on a thread of its own. Some threads parse
// small bodies at the same time. Another one parses large bodies, whose parsing takes much memory,
// one at a time, and one serves calls without a body. The addresses take turns on each. Headers of
// up to 8 KiB must arrive within 5 seconds, and bodies within 30. The memory of a body is reserved
// before it is read. A connection is idle, and may be evicted for another one, unless it has sent a
// complete request and not yet taken the response.
class HttpEndpoint {
 public:
  // max_connections: at most half of them from one address (ConnectionSlots). handlers: called on
  // the endpoint's thread. tls: null without encryption; must outlive the endpoint. Errors:
  // InvalidArgument or Unavailable naming the address.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(
      const std::string& listen, std::size_t max_connections, HttpHandlers handlers,
      const HttpApi& api, TlsServer* tls = nullptr);
  // Closes every connection and joins the thread.
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  // Refuses further calls of the API, and waits until the others are answered, at most until the
  // deadline. Everything else is still served. Call it once the API ends its long calls.
  void Drain(std::chrono::steady_clock::time_point deadline);

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  class Session;

  // The calls of one address, which wait to be parsed.
  struct Queues {
    Queues(ThreadPool& bodies, ThreadPool& others) : large_bodies(bodies), without_body(others) {}
    // The share of the threads for small bodies, in bytes that were parsed.
    ThreadPool::Queue::Flow small_bodies = 0;
    Strand large_bodies;
    Strand without_body;
  };

  HttpEndpoint(std::size_t max_connections, HttpHandlers handlers, const HttpApi& api,
               TlsServer* tls);
  void OnConnection(boost::asio::ip::tcp::socket socket, const std::string& peer);
  // peer: the address by which connections are counted.
  [[nodiscard]] std::shared_ptr<Queues> QueuesOf(const std::string& peer);
  void Run();
  // Counts a call until ReleaseCall. Errors: Unavailable during the drain.
  [[nodiscard]] absl::Status AdmitCall();
  void ReleaseCall() noexcept;

  const HttpHandlers handlers_;
  const HttpApi api_;
  TlsServer* const tls_;
  // Only the endpoint's thread uses it.
  FairShares event_streams_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool draining_ = false;  // guarded by mutex_
  std::size_t calls_ = 0;  // guarded by mutex_: calls that are not answered yet
  // The queues of the addresses with connections. Only the endpoint's thread uses them.
  std::unordered_map<std::string, std::weak_ptr<Queues>> queues_;
  // Destroying the context destroys the sessions, which refer to the members above.
  ConnectionSlots slots_;
  boost::asio::io_context context_{1};
  std::string address_;
  std::thread thread_;
  ThreadPool small_bodies_;
  ThreadPool large_bodies_{"calibd-json-big", 1};
  ThreadPool without_body_{"calibd-json-get", 1};
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_HTTP_ENDPOINT_H_
