#ifndef CALIBD_SERVER_INGEST_MODEL_CHANGES_H_
#define CALIBD_SERVER_INGEST_MODEL_CHANGES_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/v1/model_service.pb.h"
#include "server/ingest/commit_queue.h"
#include "server/ingest/log_clock.h"
#include "server/model/declaration_update.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// Creation, update and deletion of models in the registry and on disk. registry, commits and clock
// must outlive the running operations. May throw bad_alloc, after which nothing has changed.

// The declaration with its defaults and the create_time of the model, as the API returns it.
[[nodiscard]] v1::Model Describe(const Model& model, const ModelDeclaration& declaration);
// The present declaration.
[[nodiscard]] v1::Model Describe(const Model& model);

// may_create: whether the model may be new. done: called on the storage thread when the model is on
// disk, also if it already was. created: whether the model is new. Errors of done: those of the
// store; Aborted if the model of this name was being deleted, or could not be stored. Errors: those
// of ModelRegistry::Create; done is not called then.
using CreateDone =
    std::function<void(const absl::StatusOr<std::shared_ptr<Model>>& model, bool created)>;
[[nodiscard]] absl::Status CreateModel(ModelRegistry& registry, CommitQueue& commits,
                                       ModelDeclaration declaration, bool may_create,
                                       CreateDone done);

// The limits of one model, see UpdateDeclaration.
struct ModelLimits {
  std::size_t memory_bytes = 0;
  std::size_t disk_bytes = 0;
};
// update: with a checked mask. done: called on the strand when the update is on disk, applied and
// visible, with the declaration of the model at this place in the log; an update without changes is
// not written. Errors of done: those of UpdateDeclaration and ModelRegistry::Reserve; NotFound if
// the model was deleted; those of the store.
using UpdateDone = std::function<void(const absl::StatusOr<v1::UpdateModelResponse>& response)>;
void UpdateModel(ModelRegistry& registry, CommitQueue& commits, const LogClock& clock,
                 const std::shared_ptr<Model>& model, const ModelLimits& limits,
                 DeclarationUpdate update, UpdateDone done);

// done: called on the storage thread when the model is deleted on disk and in the registry, its
// rows are dropped from the log, and its reservation is released. Errors of done: those of the
// store; NotFound if another call has deleted it.
void DeleteModel(ModelRegistry& registry, CommitQueue& commits, const std::shared_ptr<Model>& model,
                 std::function<void(const absl::Status&)> done);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_MODEL_CHANGES_H_
