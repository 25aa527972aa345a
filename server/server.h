#ifndef CALIBD_SERVER_SERVER_H_
#define CALIBD_SERVER_SERVER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/options.h"

namespace calibd::server {

// calibd as it serves: all parts, started and joined. main() and nobody else
// makes one.
class Server {
 public:
  // Opens the store, brings back its models, binds both addresses and serves.
  // on_failure: told once when the store has failed and nothing more can be acknowledged,
  // on any thread; the process is to drain and end then.
  // Errors: Unavailable or InvalidArgument naming the address; those of Store::Open and
  // Recover; nothing runs then.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Server>> Start(
      const Options& options, std::function<void(const absl::Status&)> on_failure);
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
