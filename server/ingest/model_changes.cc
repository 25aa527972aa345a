#include "server/ingest/model_changes.h"

#include <google/protobuf/util/time_util.h>

#include <chrono>
#include <utility>

#include "server/errors.h"

namespace calibd::server {

v1::Model Describe(const Model& model) {
  v1::Model proto = ToProto(model.declaration());
  *proto.mutable_create_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      std::chrono::nanoseconds(model.create_time().time_since_epoch()).count());
  return proto;
}

absl::Status CreateModel(ModelRegistry& registry, CommitQueue& commits,
                         ModelDeclaration declaration, CreateDone done) {
  // After the model is on disk, also when another call has just made it.
  const auto post = [&](const std::shared_ptr<Model>& model, bool created) {
    CommitQueue::Operation operation;
    auto gone = std::make_shared<bool>(false);
    if (created) {
      operation.write = [model](Store& store) {
        return store.InsertModel(model->id(), Describe(*model));
      };
      operation.undo = [model] { model->MarkDeleted(true); };
    } else {
      operation.write = [model, gone](Store& /*store*/) {
        *gone = model->deleted();
        return absl::OkStatus();
      };
    }
    operation.done = [&registry, model, created, gone, done](const absl::Status& committed) {
      if (*gone) {
        done(ModelError(absl::StatusCode::kAborted, "MODEL_GONE",
                        model->declaration().name.ToString(),
                        "the model of this name was being deleted, or could not be stored: "
                        "create it again"),
             false);
      } else if (!committed.ok()) {
        if (created) {
          registry.Remove(*model);
        }
        done(committed, false);
      } else {
        done(model, created);
      }
    };
    commits.Post(std::move(operation));
  };
  return registry.Create(std::move(declaration), post);
}

void DeleteModel(ModelRegistry& registry, CommitQueue& commits, const std::shared_ptr<Model>& model,
                 std::function<void(const absl::Status&)> done) {
  // Whether it is this call that deletes it.
  auto deletes = std::make_shared<bool>(false);
  const auto finish = [&registry, &commits, model] {
    registry.Remove(*model);
    // After the batches that were on their way.
    model->strand().Post([&commits, model] {
      commits.Post({.append = nullptr,
                    .write = nullptr,
                    .undo = nullptr,
                    .done = nullptr,
                    .release = [model, batches = model->retention().TakeAll()](Store& store) {
                      store.DropBatches(batches);
                      if (model->tracker() != nullptr) {
                        store.DropBatches(model->tracker()->TakeAll());
                      }
                    }});
    });
  };
  commits.Post(
      {.append = nullptr,
       .write = [model, deletes](Store& store) -> absl::Status {
         if (model->deleted()) {
           return absl::OkStatus();
         }
         *deletes = true;
         model->MarkDeleted(true);
         return store.DeleteModel(model->id());
       },
       .undo =
           [model, deletes] {
             if (*deletes) {
               model->MarkDeleted(false);
             }
           },
       .done =
           [model, deletes, finish, done = std::move(done)](const absl::Status& committed) {
             if (committed.ok() && *deletes) {
               finish();
             }
             done(!committed.ok() ? committed
                  : *deletes      ? absl::OkStatus()
                                  : ModelNotFoundError(model->declaration().name.ToString()));
           }});
}

}  // namespace calibd::server
