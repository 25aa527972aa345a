#ifndef CALIBD_SERVER_SERVER_H_
#define CALIBD_SERVER_SERVER_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/options.h"

namespace calibd::server {

// calibd as it serves: all parts, started and joined. main() and nobody else
// makes one.
class Server {
 public:
  // Binds both addresses and serves.
  // Errors: Unavailable or InvalidArgument naming the address; nothing runs then.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Server>> Start(const Options& options);
  ~Server();

  // Bound addresses, "127.0.0.1:8460".
  [[nodiscard]] const std::string& grpc_address() const noexcept;
  [[nodiscard]] const std::string& http_address() const noexcept;

  // Says NOT_SERVING, refuses new streams, settles and acknowledges the batches
  // that were accepted, ends every call and stops all threads. Clients get until
  // `deadline` to take their answers.
  void Drain(std::chrono::steady_clock::time_point deadline);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_SERVER_H_
