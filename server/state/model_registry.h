#ifndef CALIBD_SERVER_STATE_MODEL_REGISTRY_H_
#define CALIBD_SERVER_STATE_MODEL_REGISTRY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/state/declaration_size.h"
#include "server/state/disk_use.h"
#include "server/state/model.h"

namespace calibd::server {

// All models by name. Thread-safe; no call takes longer than a lookup.
//
// Before FinishRestoring, models are missing or incomplete, so only the recovery gets them.
// Functions that return Unavailable (STARTING) until then, or while another process may have the
// store, say so below.
class ModelRegistry {
 public:
  struct Limits {
    std::size_t max_models = 0;
    // Maximum number of bytes that the declarations of all models may reserve, including a new one.
    std::size_t state_memory_bytes = 0;
    // The same for the disk, including kSharedDiskBytes.
    std::size_t disk_bytes = std::numeric_limits<std::size_t>::max();
    ProducerLimits producers{};
  };

  // Whether what this process knows about the models may be told; otherwise what calls end with.
  // Called on any thread.
  using CheckOwned = std::function<absl::Status()>;

  // writers: the threads of the models' strands; must outlive the models. check_owned: may be
  // empty.
  ModelRegistry(const Limits& limits, ThreadPool& writers, CheckOwned check_owned = {});

  // Returns the existing model if its original or its present declaration is equal. may_create:
  // whether the model may be new. found: called with the model and whether it is new, before any
  // other call can find it. Errors: Unavailable; AlreadyExists naming the differences; NotFound if
  // the model would be new and may not be; ResourceExhausted.
  using Found = std::function<void(const std::shared_ptr<Model>& model, bool created)>;
  [[nodiscard]] absl::Status Create(ModelDeclaration declaration, bool may_create,
                                    const Found& found);
  // Adds a model of the store, before FinishRestoring. Ids must ascend. Limits do not apply.
  std::shared_ptr<Model> Restore(std::int64_t id, ModelDeclaration declaration,
                                 ModelSnapshot::Time create_time);
  // Reserves more for the model if this declaration may need more than any before. Limits do not
  // apply before FinishRestoring. Call it on the storage thread or during the recovery. Errors:
  // ResourceExhausted.
  [[nodiscard]] absl::Status Reserve(Model& model, const ModelDeclaration& updated);
  // Makes new ids start at next_id, above all ids issued so far.
  void ReserveIds(std::int64_t next_id);
  void FinishRestoring();
  // Unavailable before FinishRestoring, and while check_owned returns an error.
  [[nodiscard]] absl::Status CheckRestored() const;
  // Errors: Unavailable; NotFound.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Model>> Find(const ModelName& name) const;
  // Its memory and disk stay reserved until Model::ReleaseReservation or its destruction.
  void Remove(const Model& model);
  // Returns up to `limit` models whose names come after `after`, ascending. Errors: Unavailable.
  [[nodiscard]] absl::StatusOr<std::vector<std::shared_ptr<Model>>> List(const std::string& after,
                                                                         std::size_t limit) const;

  [[nodiscard]] const Limits& limits() const noexcept { return limits_; }
  [[nodiscard]] std::size_t reserved_bytes() const noexcept { return reserved_->memory; }
  // The most disk space that the store may occupy, including kSharedDiskBytes.
  [[nodiscard]] std::size_t reserved_disk_bytes() const noexcept { return reserved_->disk; }

 private:
  // Memory that a model may need, with what it remembers about its producers.
  [[nodiscard]] std::size_t MemoryOf(const ModelDeclaration& declaration) const noexcept {
    return StateMemory(declaration) + limits_.producers.MaxMemory();
  }
  // Whether there is room for a model of which these bytes are reserved already. Requires mutex_ to
  // be held.
  [[nodiscard]] absl::Status CheckRoom(const ModelDeclaration& declaration,
                                       std::size_t reserved_memory = 0,
                                       std::size_t reserved_disk = 0) const;

  // Requires mutex_ to be held.
  std::shared_ptr<Model> Add(std::int64_t id, ModelDeclaration declaration,
                             ModelSnapshot::Time create_time);

  // Requires mutex_ to be held.
  [[nodiscard]] absl::Status Check() const;

  const Limits limits_;
  ThreadPool& writers_;
  const CheckOwned check_owned_;
  // Shared with the models, which may outlive the registry.
  const std::shared_ptr<ReservedBytes> reserved_;
  mutable std::mutex mutex_;
  bool restored_ = false;                                 // guarded by mutex_
  std::int64_t next_id_ = 1;                              // guarded by mutex_
  std::map<std::string, std::shared_ptr<Model>> models_;  // guarded by mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_MODEL_REGISTRY_H_
