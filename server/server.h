#ifndef CALIBD_SERVER_SERVER_H_
#define CALIBD_SERVER_SERVER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/options.h"

namespace calibd::server {

// All parts of a running calibd, started and joined. Only main() creates
// one.
class Server {
 public:
  // Called on any thread.
  struct Events {
    // Called once, when calls are served. The bound addresses, such as "127.0.0.1:8460".
    std::function<void(const std::string& grpc_address, const std::string& http_address)>
        on_serving;
    // Called when the server cannot continue: the recovery failed (the errors of Recover), or the
    // store failed and nothing more can be acknowledged. The process must then drain and end.
    std::function<void(const absl::Status&)> on_failure;
  };

  // Opens the store, binds both addresses, and starts the recovery of the models: until it is done,
  // health is NOT_SERVING and calls are answered with Unavailable (STARTING).
  // Errors: Unavailable or InvalidArgument naming the address; those of Store::Open. Nothing
  // runs after an error.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Server>> Start(const Options& options,
                                                                     Events events);
  ~Server();

  // Sets health to NOT_SERVING, stops a recovery, refuses new streams, settles and acknowledges
  // accepted batches, ends every call, stores snapshots as far as there is time, and stops all
  // threads. Clients have until `deadline` to take their responses.
  void Drain(std::chrono::steady_clock::time_point deadline);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_SERVER_H_
