#ifndef CALIBD_SERVER_SERVER_H_
#define CALIBD_SERVER_SERVER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/process/options.h"

namespace calibd::server {

// Starts and joins all parts of calibd. Only main() creates one.
class Server {
 public:
  // Called on any thread.
  struct Events {
    // Called once, when the server starts to serve calls. The addresses are the bound ones, such as
    // "127.0.0.1:8460".
    std::function<void(const std::string& grpc_address, const std::string& http_address)>
        on_serving;
    // Called when the server cannot continue: the recovery failed (with the errors of Recover), or
    // the store failed and nothing can be acknowledged any more. The process must then drain and
    // exit.
    std::function<void(const absl::Status&)> on_failure;
  };

  // Opens the store, binds both addresses, and starts the recovery of the models. Until it is done,
  // health is NOT_SERVING and calls end with Unavailable (STARTING). Errors: Unavailable or
  // InvalidArgument naming the address; those of LocalStore::Open or PostgresStore::Open. After an
  // error nothing runs.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Server>> Start(const Options& options,
                                                                     Events events);
  ~Server();

  // Sets health to NOT_SERVING, stops a recovery, refuses new streams, settles and acknowledges
  // accepted batches, ends every call, persists snapshots as far as time allows, and stops all
  // threads. Clients have until `deadline` to take their responses.
  void Drain(std::chrono::steady_clock::time_point deadline);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_SERVER_H_
