#ifndef CALIBD_SERVER_NET_LISTENER_H_
#define CALIBD_SERVER_NET_LISTENER_H_

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace calibd::server {

// Accepts connections until the acceptor's io_context is destroyed. If the process has no free file
// descriptors, connections wait in the system's queue until there are some. Everything runs on the
// thread that runs the io_context.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  // peer: the address by which connections are counted, see PeerAddress. The socket belongs to the
  // acceptor's io_context.
  using OnConnection =
      std::function<void(boost::asio::ip::tcp::socket socket, const std::string& peer)>;

  // acceptor: must be listening.
  static void Start(boost::asio::ip::tcp::acceptor acceptor, OnConnection on_connection);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  Listener(boost::asio::ip::tcp::acceptor acceptor, OnConnection on_connection);

  void Accept();
  void HandOver(boost::asio::ip::tcp::socket socket);
  void RetryAfter(const boost::system::error_code& error);

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  OnConnection on_connection_;
  std::chrono::steady_clock::time_point next_warning_;
};

// The address by which connections are counted: for IPv4 the address, for IPv6 the /64 network,
// because a host usually has all addresses of one.
[[nodiscard]] std::string PeerAddress(const boost::asio::ip::address& address);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_LISTENER_H_
