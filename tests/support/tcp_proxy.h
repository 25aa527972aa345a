#ifndef CALIBD_TESTS_SUPPORT_TCP_PROXY_H_
#define CALIBD_TESTS_SUPPORT_TCP_PROXY_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace calibd::testing {

// Forwards TCP connections, one after another, to a server on loopback. Can cut a connection after
// a number of bytes from the client.
class TcpProxy {
 public:
  // server: "127.0.0.1:PORT". cuts: connection k is cut as by CutAfter(cuts[k]).
  explicit TcpProxy(const std::string& server, std::vector<std::int64_t> cuts = {});
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  // "127.0.0.1:PORT".
  [[nodiscard]] const std::string& address() const { return address_; }

  // Cuts the current connection, or the next one, once this many of its bytes were forwarded to the
  // server. Later bytes are lost. Happens once.
  void CutAfter(std::int64_t bytes) { cut_after_ = bytes; }
  [[nodiscard]] int cuts() const { return cuts_; }
  // Number of bytes of the current connection that were forwarded to the server.
  [[nodiscard]] std::int64_t forwarded() const { return forwarded_; }

  // The server of later connections.
  void SwitchTo(const std::string& server);
  // From now on nothing is forwarded, but connections stay open.
  void Freeze() { frozen_ = true; }

 private:
  void Run();
  void Forward(int client, int server);

  std::string address_;
  std::atomic<std::uint16_t> server_port_ = 0;
  int listener_ = -1;
  int wake_ = -1;
  const std::vector<std::int64_t> planned_cuts_;
  std::atomic<bool> frozen_ = false;
  // -1: no cut.
  std::atomic<std::int64_t> cut_after_ = -1;
  std::atomic<int> cuts_ = 0;
  std::atomic<std::int64_t> forwarded_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// Returns a socket connected to "127.0.0.1:PORT", or -1.
int ConnectTo(const std::string& address);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_TCP_PROXY_H_
