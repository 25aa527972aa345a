#include "server/ingest/verification.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "calibd/store/v1/store.pb.h"
#include "server/base/errors.h"
#include "server/model/model_declaration.h"
#include "server/rows/row_codec.h"
#include "server/state/check_declaration.h"
#include "server/state/history.h"
#include "server/state/strand_state.h"

namespace calibd::server {
namespace {

constexpr int kMostProblems = 100;

class Verifier final : public StoreContents {
 public:
  void AddModel(std::int64_t id, std::string_view declaration) override {
    result_.set_models(result_.models() + 1);
    v1::Model declared;
    if (!declared.ParseFromArray(declaration.data(), static_cast<int>(declaration.size()))) {
      Report("the declaration of model ", id, " cannot be parsed");
      return;
    }
    absl::StatusOr<ModelDeclaration> checked =
        CheckStoredDeclaration(declared, std::numeric_limits<std::size_t>::max());
    if (!checked.ok()) {
      Report("the declaration of model ", id,
             " is invalid: ", std::string(checked.status().message()));
      return;
    }
    models_.emplace(
        id, CheckedModel{.name = checked->name.ToString(), .declaration = *std::move(checked)});
  }

  void AddMaturity(std::int64_t model_id, std::int64_t matured_log_id) override {
    if (CheckedModel* const model = FindModel(model_id, "the maturity")) {
      model->matured_log_id = matured_log_id;
    }
  }

  // Restores the snapshot to a temporary state to check that it is readable.
  void AddSnapshot(const StoredSnapshot& snapshot) override {
    CheckedModel* const model = FindModel(snapshot.model_id, "a snapshot");
    if (model == nullptr) return;
    result_.set_snapshots(result_.snapshots() + 1);
    model->snapshot_log_id = snapshot.log_id;
    store::v1::ModelState state;
    if (!state.ParseFromArray(snapshot.data.data(), static_cast<int>(snapshot.data.size()))) {
      Report("the snapshot of ", model->name, " cannot be read");
      return;
    }
    model->snapshot_observations = state.observations();
    const absl::Status restored =
        StrandState(std::make_shared<const ModelDeclaration>(model->declaration)).Restore(state);
    if (!restored.ok()) Report(std::string(restored.message()));
  }

  void AddCursor(const StoredCursor& stored) override {
    CheckedModel* const model = FindModel(stored.model_id, "a cursor");
    const std::optional<CursorKey> key = ParseCursorKey(stored.producer_id);
    ProducerCursors::Cursor cursor;
    if (model != nullptr && (!key.has_value() || !DecodeContents(stored.contents, cursor))) {
      Report(model->name, ": the cursor of producer ", Quoted(stored.producer_id),
             " cannot be parsed");
    } else if (model != nullptr && key->kind != CursorKey::Kind::kRequest) {
      result_.set_producers(result_.producers() + 1);
      model->producers[key->hash].cursor = stored.last_sequence;
    }
  }

  void AddHistory(const HistorySeries& series, std::int64_t start_s,
                  std::string_view data) override {
    // A missing model is reported once for each series.
    if (std::exchange(series_, series) != series) FindModel(series.model_id, "a history");
    if (!DecodeHistoryBucket(data).ok()) {
      Report("model ", series.model_id, ": the bucket of the history that starts at ", start_s,
             " s cannot be parsed");
    }
  }

  void AddBatch(const StoredBatch& batch) override {
    result_.set_batches(result_.batches() + 1);
    // Batches of deleted models are removed later, or at the next start.
    const auto model = models_.find(batch.model_id);
    if (model != models_.end()) CheckBatch(batch.log_id, batch.data, model->second);
  }

  void AddProblem(std::int64_t model_id, std::string_view problem) override {
    const auto model = models_.find(model_id);
    Report(model == models_.end() ? "" : model->second.name + ": ", std::string(problem));
  }

  // Call it once, after everything was added.
  v1::Verification Finish() {
    CheckModels();
    return std::move(result_);
  }

 private:
  struct Producer {
    // Empty if no batch follows the snapshot.
    std::string name;
    std::int64_t cursor = 0;
    // Number of the producer's newest batch in the log after the snapshot.
    std::int64_t last_sequence = 0;
  };
  struct CheckedModel {
    std::string name;
    ModelDeclaration declaration;
    std::int64_t snapshot_log_id = 0;
    std::int64_t snapshot_observations = 0;
    std::int64_t matured_log_id = 0;
    // Number of observations in the log: all, and those after the snapshot.
    std::int64_t observations = 0;
    std::int64_t new_observations = 0;
    // By the hashes of their ids.
    absl::flat_hash_map<PredictionId, Producer> producers{};
  };

  template <typename... Parts>
  void Report(const Parts&... parts) {
    if (result_.problems_size() < kMostProblems) result_.add_problems(absl::StrCat(parts...));
  }

  // Returns null and reports a problem if there is no such model. what: the data that belongs to
  // the model.
  CheckedModel* FindModel(std::int64_t id, const char* what) {
    const auto model = models_.find(id);
    if (model == models_.end()) {
      Report(what, " belongs to model ", id, ", which does not exist or is damaged");
      return nullptr;
    }
    return &model->second;
  }

  void CheckBatch(std::int64_t log_id, std::string_view data, CheckedModel& model) {
    const absl::StatusOr<LogRow> row = DecodeRow(data, model.declaration.row_shape());
    if (!row.ok()) {
      Report(model.name, ": batch ", log_id, " of the log cannot be read");
      return;
    }
    if (row->needs_tracker() && model.declaration.max_pending == 0) {
      Report(model.name, ": batch ", log_id,
             " of the log needs a label_grace, which the model does not have");
    }
    const auto* const matured = row->As<MaturedRow>();
    if (matured != nullptr && log_id <= model.snapshot_log_id &&
        matured->through_log_id > model.matured_log_id) {
      Report(model.name, ": predictions up to ", matured->through_log_id, " have matured by batch ",
             log_id, ", but the store says up to ", model.matured_log_id);
    }
    const auto rows = static_cast<std::int64_t>(row->counted_rows());
    result_.set_observations(result_.observations() + rows);
    model.observations += rows;
    model.new_observations += log_id > model.snapshot_log_id ? rows : 0;
    // Before the snapshot, the log may hold rows of producers that were forgotten since.
    if (log_id > model.snapshot_log_id && row->position.has_value() && !row->position->request &&
        row->batch_hash().has_value()) {
      CheckPosition(*row->position, log_id, model);
    }
  }

  void CheckPosition(const ProducerPosition& position, std::int64_t log_id, CheckedModel& model) {
    Producer& producer = model.producers[HashId(position.producer_id)];
    if (position.sequence <= producer.last_sequence) {
      Report(model.name, ": batch ", log_id, " of the log is number ", position.sequence,
             " of producer ", Quoted(position.producer_id), ", but follows number ",
             producer.last_sequence);
    }
    // From the snapshot on, the log holds every batch of a producer.
    const std::int64_t known = producer.name.empty() ? producer.cursor : producer.last_sequence;
    if (position.sequence > known + 1) {
      Report(model.name, ": number ", known + 1, " of producer ", Quoted(position.producer_id),
             " is missing from the log after the snapshot of the model");
    }
    producer.last_sequence = position.sequence;
    producer.name = position.producer_id;
  }

  void CheckModels() {
    for (const auto& [id, model] : models_) {
      for (const auto& [hash, producer] : model.producers) {
        if (!producer.name.empty() && producer.last_sequence < producer.cursor) {
          Report(model.name, ": the log ends with number ", producer.last_sequence, " of producer ",
                 Quoted(producer.name), ", but its cursor says ", producer.cursor);
        }
      }
      const std::int64_t all = model.snapshot_observations + model.new_observations;
      const std::int64_t needed =
          std::min(all, static_cast<std::int64_t>(model.declaration.window));
      if (model.observations < needed) {
        Report(model.name, ": the log holds ", model.observations, " of ", all,
               " observations, expected at least the window of ", needed);
      }
    }
  }

  v1::Verification result_;
  std::map<std::int64_t, CheckedModel> models_;
  // The series of the newest bucket.
  HistorySeries series_;
};

}  // namespace

absl::StatusOr<v1::Verification> VerifyStore(CommitQueue& commits, const OnProgress& progress) {
  CALIBD_ASSIGN_OR_RETURN(const std::shared_ptr<StoreView> view, commits.OpenView());
  Verifier verifier;
  CALIBD_RETURN_IF_ERROR(view->Verify(verifier, progress));
  return verifier.Finish();
}

}  // namespace calibd::server
