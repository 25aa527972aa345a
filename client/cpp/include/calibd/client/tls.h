#ifndef CALIBD_CLIENT_TLS_H_
#define CALIBD_CLIENT_TLS_H_

#include <string>

namespace calibd::client {

// The files of TLS, in PEM. They are read when a connection is made: a Client uses the same ones
// for its calls as long as it lives, while new streams and a Monitor read them again.
struct TlsOptions {
  // The CAs of which one has issued the certificate of the server. Empty: no encryption, for
  // loopback and trusted networks.
  std::string ca{};
  // The certificate of this client and its key, for a server that asks for them. Give both or none.
  std::string certificate{};
  std::string key{};
  // A name in the certificate of the server; empty: the host of the address. Set it if the address
  // is that of a tunnel or a proxy.
  std::string server_name{};
};

// What the environment variables CALIBD_CLIENT_TLS_CA, CALIBD_CLIENT_TLS_CERTIFICATE,
// CALIBD_CLIENT_TLS_KEY and CALIBD_CLIENT_TLS_SERVER_NAME say.
[[nodiscard]] TlsOptions TlsOfEnvironment();

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_TLS_H_
