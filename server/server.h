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
  // Told on any thread.
  struct Events {
    // Once, when the models are back and calls are served. Bound addresses, "127.0.0.1:8460".
    std::function<void(const std::string& grpc_address, const std::string& http_address)>
        on_serving;
    // What cannot go on: the models did not come back (the errors of Recover), or the store
    // failed and nothing more can be acknowledged. The process is to drain and end then.
    std::function<void(const absl::Status&)> on_failure;
  };

  // Opens the store, binds both addresses, and begins to bring back the models: until they are
  // there, health says NOT_SERVING and calls are answered with Unavailable (STARTING).
  // Errors: Unavailable or InvalidArgument naming the address; those of Store::Open; nothing
  // runs then.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Server>> Start(const Options& options,
                                                                     Events events);
  ~Server();

  // Says NOT_SERVING, gives up on models that are not back yet, refuses new streams, settles
  // and acknowledges the batches that were accepted, ends every call, stores what is in no snapshot
  // as far as there is time for it, and stops all threads. Clients get until `deadline` to take
  // their answers.
  void Drain(std::chrono::steady_clock::time_point deadline);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_SERVER_H_
