#ifndef CALIBD_SERVER_STATE_MODEL_REGISTRY_H_
#define CALIBD_SERVER_STATE_MODEL_REGISTRY_H_

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/state/model.h"

namespace calibd::server {

// All models by name. Thread-safe; no call takes longer than a look-up.
class ModelRegistry {
 public:
  struct Limits {
    std::size_t max_models = 0;
    // What the declarations of all models together may reserve, in bytes.
    std::size_t state_memory_bytes = 0;
    std::size_t max_producers_per_model = 0;
  };

  // writers: what the models' strands run on; must live longer than they do.
  ModelRegistry(const Limits& limits, ThreadPool& writers);

  // Returns the existing model when its declaration is equal.
  // Errors: AlreadyExists naming what differs; ResourceExhausted.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Model>> Create(ModelDeclaration declaration);
  // Errors: NotFound.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Model>> Find(const ModelName& name) const;
  // Marks the model as deleted and returns it. Its memory counts as reserved
  // until its last user lets it go. Errors: NotFound.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Model>> Delete(const ModelName& name);
  // Up to limit models whose names come after `after`, ascending.
  [[nodiscard]] std::vector<std::shared_ptr<Model>> List(const std::string& after,
                                                         std::size_t limit) const;

  [[nodiscard]] std::size_t reserved_bytes() const noexcept { return *reserved_bytes_; }

 private:
  const Limits limits_;
  ThreadPool& writers_;
  // Shared with the models, which may outlive the registry.
  const std::shared_ptr<std::atomic<std::size_t>> reserved_bytes_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Model>> models_;  // guarded by mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_MODEL_REGISTRY_H_
