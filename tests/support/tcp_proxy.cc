#include "support/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace calibd::testing {
namespace {

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

std::uint16_t PortOf(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

int ConnectToPort(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

bool SendAll(int fd, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

int ConnectTo(const std::string& address) { return ConnectToPort(PortOf(address)); }

TcpProxy::TcpProxy(const std::string& server, std::vector<std::int64_t> cuts)
    : server_port_(PortOf(server)), planned_cuts_(std::move(cuts)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  wake_ = eventfd(0, EFD_CLOEXEC);
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener_, 16) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::abort();
  }
  address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  stopping_ = true;
  const std::uint64_t one = 1;
  if (write(wake_, &one, sizeof(one)) != sizeof(one)) std::abort();
  thread_.join();
  close(listener_);
  close(wake_);
}

void TcpProxy::SwitchTo(const std::string& server) { server_port_ = PortOf(server); }

void TcpProxy::Run() {
  for (std::size_t connections = 0; !stopping_;) {
    std::array<pollfd, 2> waits{pollfd{listener_, POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
    poll(waits.data(), waits.size(), -1);
    if ((waits[0].revents & POLLIN) == 0) continue;
    const int client = accept(listener_, nullptr, nullptr);
    if (connections < planned_cuts_.size()) cut_after_ = planned_cuts_[connections];
    ++connections;
    const int server = ConnectToPort(server_port_);
    if (server >= 0) {
      Forward(client, server);
      close(server);
    }
    close(client);
  }
}

void TcpProxy::Forward(int client, int server) {
  forwarded_ = 0;
  std::array<char, 16384> buffer{};
  while (!stopping_) {
    std::array<pollfd, 3> waits{pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0},
                                pollfd{wake_, POLLIN, 0}};
    poll(waits.data(), waits.size(), -1);
    if (frozen_) {
      poll(&waits[2], 1, -1);
      continue;
    }
    if ((waits[0].revents & (POLLIN | POLLHUP)) != 0) {
      const ssize_t count = recv(client, buffer.data(), buffer.size(), 0);
      if (count <= 0) return;
      const std::int64_t cut_after = cut_after_;
      std::int64_t sendable = count;
      if (cut_after >= 0) sendable = std::clamp<std::int64_t>(cut_after - forwarded_, 0, count);
      if (!SendAll(server, buffer.data(), static_cast<std::size_t>(sendable))) return;
      forwarded_ += sendable;
      if (sendable < count) {
        cut_after_ = -1;
        ++cuts_;
        return;
      }
    }
    if ((waits[1].revents & (POLLIN | POLLHUP)) != 0) {
      const ssize_t count = recv(server, buffer.data(), buffer.size(), 0);
      if (count <= 0 || !SendAll(client, buffer.data(), static_cast<std::size_t>(count))) return;
    }
  }
}

}  // namespace calibd::testing
