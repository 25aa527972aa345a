#ifndef CALIBD_SERVER_INGEST_MODEL_CHANGES_H_
#define CALIBD_SERVER_INGEST_MODEL_CHANGES_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/v1/model_service.pb.h"
#include "server/state/model_registry.h"
#include "server/store/commit_queue.h"

namespace calibd::server {

// How models come and go, in the registry and on disk. registry and commits must live longer
// than what is under way. May throw bad_alloc, and then nothing has changed.

// The declaration with its defaults and create_time, as the API shows it and the store has it.
[[nodiscard]] v1::Model Describe(const Model& model);

// done: on the storage thread, when the model is on disk, also if it was there before.
// created: whether it is new. Its errors: those of the store; Aborted when the model of this
// name was being deleted, or could not be stored.
// Errors: those of ModelRegistry::Create; done is not called then.
using CreateDone =
    std::function<void(const absl::StatusOr<std::shared_ptr<Model>>& model, bool created)>;
[[nodiscard]] absl::Status CreateModel(ModelRegistry& registry, CommitQueue& commits,
                                       ModelDeclaration declaration, CreateDone done);

// done: on the storage thread, when the model is deleted on disk and in the registry, its batches
// are dropped from the log, and its reservation is released. Its errors: those of the store;
// NotFound when another call has deleted it.
void DeleteModel(ModelRegistry& registry, CommitQueue& commits, const std::shared_ptr<Model>& model,
                 std::function<void(const absl::Status&)> done);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_MODEL_CHANGES_H_
