#include "server/ingest/model_changes.h"

#include <google/protobuf/util/time_util.h>

#include <chrono>
#include <utility>

#include "server/errors.h"

namespace calibd::server {

namespace {

class CreateWrite final : public Operation {
 public:
  // created: true if the model is new. Otherwise this operation waits for the call that creates it.
  CreateWrite(ModelRegistry& registry, std::shared_ptr<Model> model, bool created, CreateDone done)
      : registry_(registry), model_(std::move(model)), created_(created), done_(std::move(done)) {}

  [[nodiscard]] Target target() const noexcept override { return Target::kCatalog; }
  [[nodiscard]] absl::Status Write(Store& store) override {
    gone_ = !created_ && model_->deleted();
    return created_ ? store.InsertModel(model_->id(), Describe(*model_)) : absl::OkStatus();
  }
  void Undo() override {
    if (created_) model_->MarkDeleted(true);
  }
  void Finish(Store& /*store*/, const absl::Status& committed) override {
    if (gone_) {
      done_(ModelError(absl::StatusCode::kAborted, "MODEL_GONE",
                       model_->declaration().name.ToString(),
                       "the model of this name was being deleted, or could not be stored: "
                       "create it again"),
            false);
    } else if (!committed.ok()) {
      if (created_) registry_.Remove(*model_);
      done_(committed, false);
    } else {
      done_(model_, created_);
    }
  }

 private:
  ModelRegistry& registry_;
  const std::shared_ptr<Model> model_;
  const bool created_;
  const CreateDone done_;
  bool gone_ = false;
};

class DeleteWrite final : public Operation {
 public:
  DeleteWrite(ModelRegistry& registry, CommitQueue& commits, std::shared_ptr<Model> model,
              std::function<void(const absl::Status&)> done)
      : registry_(registry), commits_(commits), model_(std::move(model)), done_(std::move(done)) {}

  [[nodiscard]] Target target() const noexcept override { return Target::kCatalog; }
  [[nodiscard]] absl::Status Write(Store& store) override {
    if (model_->deleted()) return absl::OkStatus();
    deletes_ = true;
    model_->MarkDeleted(true);
    return store.DeleteModel(model_->id());
  }
  void Undo() override {
    if (deletes_) model_->MarkDeleted(false);
  }
  void Finish(Store& /*store*/, const absl::Status& committed) override {
    if (committed.ok() && deletes_) {
      registry_.Remove(*model_);
      DropLog();
      return;
    }
    done_(committed.ok() ? ModelNotFoundError(model_->declaration().name.ToString()) : committed);
  }

 private:
  // Drops the rows of the model from the log after the strand has applied the committed ones.
  // Answers only then, so that the space of this model is available for the next creation.
  void DropLog() {
    model_->strand().Post([&commits = commits_, model = model_, done = done_] {
      commits.Call([model, done, batches = model->strand_state().retention().TakeAll()](
                       Store& store, const absl::Status&) {
        store.DropBatches(batches);
        if (model->storage_state().tracker.has_value()) {
          store.DropBatches(model->storage_state().tracker->TakeAll());
        }
        model->ReleaseReservation();
        done(absl::OkStatus());
      });
    });
  }

  ModelRegistry& registry_;
  CommitQueue& commits_;
  const std::shared_ptr<Model> model_;
  const std::function<void(const absl::Status&)> done_;
  // True if it is this call that deletes the model.
  bool deletes_ = false;
};

}  // namespace

v1::Model Describe(const Model& model) {
  v1::Model proto = ToProto(model.declaration());
  *proto.mutable_create_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      std::chrono::nanoseconds(model.create_time().time_since_epoch()).count());
  return proto;
}

absl::Status CreateModel(ModelRegistry& registry, CommitQueue& commits,
                         ModelDeclaration declaration, CreateDone done) {
  // Runs after the model is on disk, also if another call has just created it.
  const auto post = [&](const std::shared_ptr<Model>& model, bool created) {
    commits.Post(std::make_shared<CreateWrite>(registry, model, created, done));
  };
  return registry.Create(std::move(declaration), post);
}

void DeleteModel(ModelRegistry& registry, CommitQueue& commits, const std::shared_ptr<Model>& model,
                 std::function<void(const absl::Status&)> done) {
  commits.Post(std::make_shared<DeleteWrite>(registry, commits, model, std::move(done)));
}

}  // namespace calibd::server
