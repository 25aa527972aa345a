#include "server/ingest/model_changes.h"

#include <google/protobuf/util/time_util.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/failpoint.h"
#include "server/ingest/model_writes.h"
#include "server/rows/row_codec.h"
#include "server/state/update_declaration.h"

namespace calibd::server {

namespace {

class CreateWrite final : public Operation {
 public:
  // created: true if the model is new. Otherwise this operation waits for the call that creates it.
  CreateWrite(ModelRegistry& registry, std::shared_ptr<Model> model, bool created, CreateDone done)
      : registry_(registry), model_(std::move(model)), created_(created), done_(std::move(done)) {}

  [[nodiscard]] Target target() const noexcept override { return Target::kCatalog; }
  [[nodiscard]] const Model* model() const noexcept override { return model_.get(); }
  [[nodiscard]] absl::Status Write(Store& store) override {
    gone_ = !created_ && model_->deleted();
    return created_ ? store.InsertModel(model_->id(), Describe(*model_, model_->original()))
                    : absl::OkStatus();
  }
  void Undo() override {
    if (created_) model_->MarkDeleted(true);
  }
  void Finish(Store& /*store*/, const absl::Status& committed) override {
    if (gone_) {
      done_(ModelError(absl::StatusCode::kAborted, "MODEL_GONE",
                       model_->declaration()->name.ToString(),
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

// Appends an UpdatedRow.
class UpdateWrite final : public ModelWrite {
 public:
  UpdateWrite(ModelRegistry& registry, CommitQueue& commits, const LogClock& clock,
              std::shared_ptr<Model> model, const ModelLimits& limits, DeclarationUpdate update,
              UpdateDone done)
      : ModelWrite(std::move(model), commits, clock),
        registry_(registry),
        limits_(limits),
        update_(std::move(update)),
        done_(std::move(done)) {}

  [[nodiscard]] absl::Status Write(Store& store) override {
    status_ = Append(store);
    return absl::OkStatus();
  }
  void Undo() override {
    if (log_id_ != 0) model_->storage_state().SetDeclaration(before_);
  }
  void Finish(Store& /*store*/, const absl::Status& committed) override {
    if (committed.ok()) return;
    status_ = committed;
    log_id_ = 0;
  }
  void Apply() override {
    if (log_id_ == 0) return;
    model_->strand_state().Apply(row_, log_id_, time_);
    *response_.mutable_update() = model_->strand_state().updates().back();
  }
  void Answer() override {
    if (!status_.ok()) {
      done_(status_);
      return;
    }
    *response_.mutable_model() = Describe(*model_, *after_);
    done_(std::move(response_));
  }

 private:
  [[nodiscard]] absl::Status Append(Store& store) {
    if (model_->deleted()) return ModelNotFoundError(model_->original().name.ToString());
    StorageState& state = model_->storage_state();
    before_ = state.declaration;
    CALIBD_ASSIGN_OR_RETURN(
        ModelDeclaration updated,
        UpdateDeclaration(*before_, update_, limits_.memory_bytes, limits_.disk_bytes));
    after_ = std::make_shared<const ModelDeclaration>(std::move(updated));
    if (*after_ == *before_) return absl::OkStatus();
    // Stays reserved until the next start even if the update fails or is reverted: predictions that
    // were accepted meanwhile may still be pending.
    CALIBD_RETURN_IF_ERROR(registry_.Reserve(*model_, *after_));
    row_.kind = UpdatedRow{.update = UpdateTo(*after_, std::move(update_.mask))};
    row_.elapsed = clock_.elapsed();
    time_ = std::chrono::microseconds(clock_.wall_us());
    std::string encoded = EncodeRow(row_);
    AppendElapsed(row_.elapsed, encoded);
    log_id_ = store.AppendBatch(model_->id(), time_.count(), std::move(encoded));
    Failpoint("update");
    state.SetDeclaration(after_);
    return absl::OkStatus();
  }

  ModelRegistry& registry_;
  const ModelLimits limits_;
  DeclarationUpdate update_;
  const UpdateDone done_;
  absl::Status status_;
  v1::UpdateModelResponse response_;
  std::shared_ptr<const ModelDeclaration> before_;
  std::shared_ptr<const ModelDeclaration> after_;
  LogRow row_;
  std::chrono::microseconds time_{};
  // Log id of the row; 0 if the row was not appended.
  std::int64_t log_id_ = 0;
};

class DeleteWrite final : public Operation {
 public:
  DeleteWrite(ModelRegistry& registry, CommitQueue& commits, std::shared_ptr<Model> model,
              std::function<void(const absl::Status&)> done)
      : registry_(registry), commits_(commits), model_(std::move(model)), done_(std::move(done)) {}

  [[nodiscard]] Target target() const noexcept override { return Target::kCatalog; }
  [[nodiscard]] const Model* model() const noexcept override { return model_.get(); }
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
    done_(committed.ok() ? ModelNotFoundError(model_->declaration()->name.ToString()) : committed);
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

v1::Model Describe(const Model& model) { return Describe(model, *model.declaration()); }

v1::Model Describe(const Model& model, const ModelDeclaration& declaration) {
  v1::Model proto = ToProto(declaration);
  *proto.mutable_create_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      std::chrono::nanoseconds(model.create_time().time_since_epoch()).count());
  return proto;
}

absl::Status CreateModel(ModelRegistry& registry, CommitQueue& commits,
                         ModelDeclaration declaration, bool may_create, CreateDone done) {
  // Runs after the model is on disk, also if another call has just created it.
  const auto post = [&](const std::shared_ptr<Model>& model, bool created) {
    commits.Post(std::make_shared<CreateWrite>(registry, model, created, done));
  };
  return registry.Create(std::move(declaration), may_create, post);
}

void UpdateModel(ModelRegistry& registry, CommitQueue& commits, const LogClock& clock,
                 const std::shared_ptr<Model>& model, const ModelLimits& limits,
                 DeclarationUpdate update, UpdateDone done) {
  commits.Post(std::make_shared<UpdateWrite>(registry, commits, clock, model, limits,
                                             std::move(update), std::move(done)));
}

void DeleteModel(ModelRegistry& registry, CommitQueue& commits, const std::shared_ptr<Model>& model,
                 std::function<void(const absl::Status&)> done) {
  commits.Post(std::make_shared<DeleteWrite>(registry, commits, model, std::move(done)));
}

}  // namespace calibd::server
