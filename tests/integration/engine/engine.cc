#include "integration/engine/engine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <utility>

#ifdef CALIBD_TEST_POSTGRES
#include "integration/engine/postgres_folder.h"
#endif
#include "server/ingest/model_changes.h"
#include "server/state/check_declaration.h"
#include "server/store/local/local_store.h"
#include "support/test_operation.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using server::CommitQueue;
using server::Model;
using server::Store;

constexpr std::size_t kModelMemory = std::size_t{256} << 20;

void AbortUnless(const absl::Status& status) {
  if (!status.ok()) {
    std::cerr << status << "\n";
    std::abort();
  }
}

std::unique_ptr<Store> OpenOrAbort(const std::string& folder, std::uint64_t segment_bytes) {
#ifdef CALIBD_TEST_POSTGRES
  auto store = OpenPostgresFolder(folder, segment_bytes);
#else
  auto store = server::LocalStore::Open(folder, segment_bytes);
#endif
  AbortUnless(store.status());
  return *std::move(store);
}

// A status without a message is one word and can be shared by threads like an integer.
absl::Status Bare(const absl::Status& status) { return absl::Status(status.code(), ""); }

}  // namespace

Blocker::Blocker(CommitQueue& commits) {
  const auto begun = std::make_shared<Signal>();
  PostToCatalog(commits, {.write = [begun, release = release_](Store& /*store*/) {
                  begun->Set();
                  release->Wait();
                  return absl::OkStatus();
                }});
  begun->Wait();
}

void FailTransaction(CommitQueue& commits, const std::function<void()>& post) {
  const Blocker blocker(commits);
  post();
  // The blocker itself is one operation.
  EXPECT_TRUE(WaitFor([&] { return commits.statistics().queued == 2; }));
  PostToCatalog(commits,
                {.write = [](Store& /*store*/) { return absl::ResourceExhaustedError(""); }});
}

Engine::Engine(const std::filesystem::path& folder, const Options& options)
    : Engine(OpenOrAbort(folder.string(), options.segment_bytes), options) {}

Engine::Engine(std::unique_ptr<Store> store, const Options& options)
    : writers_("calibd-writer", 2),
      registry_({.max_models = 1000,
                 .state_memory_bytes = std::size_t{4} << 30,
                 .producers = options.producers},
                writers_),
      clock_(options.clock),
      store_(*store),
      commits_(std::move(store),
               [failed = failed_](const absl::Status& status) {
                 std::cerr << "the store failed: " << status << "\n";
                 *failed = true;
               }),
      ingestor_(commits_, clock_, options.queue_bytes) {
  AbortUnless(Recover(store_, registry_, kModelMemory, recovery_, options.clock));
  clock_.Begin(recovery_.elapsed);
  registry_.FinishRestoring();
  if (options.matures) {
    due_work_ = std::make_unique<server::DueWork>(registry_, ingestor_, commits_);
  }
}

Engine::~Engine() {
  if (due_work_ != nullptr) due_work_->Stop();
  commits_.Flush();
  writers_.Stop();
  commits_.Stop();
}

absl::Status Engine::CreateModel(const v1::Model& proto) {
  absl::StatusOr<server::ModelDeclaration> declaration =
      server::CheckDeclaration(proto, kModelMemory);
  if (!declaration.ok()) return declaration.status();
  absl::Status answer;
  Signal answered;
  const absl::Status status = server::CreateModel(
      registry_, commits_, *std::move(declaration), true,
      [&](const absl::StatusOr<std::shared_ptr<Model>>& model, bool /*created*/) {
        answer = Bare(model.status());
        answered.Set();
      });
  if (!status.ok()) return status;
  answered.Wait();
  return answer;
}

absl::Status Engine::DeleteModel(const std::string& name) {
  const std::shared_ptr<Model> model = Find(name);
  if (model == nullptr) return absl::Status(absl::StatusCode::kNotFound, "");
  absl::Status answer;
  Signal answered;
  server::DeleteModel(registry_, commits_, model, [&](const absl::Status& deleted) {
    answer = Bare(deleted);
    answered.Set();
  });
  answered.Wait();
  return answer;
}

std::shared_ptr<Model> Engine::Find(const std::string& name) const {
  const absl::StatusOr<server::ModelName> parsed = server::ParseModelName("name", name);
  const absl::StatusOr<std::shared_ptr<Model>> model =
      parsed.ok() ? registry_.Find(*parsed) : parsed.status();
  return model.ok() ? *model : nullptr;
}

server::Settlement Engine::Submit(const std::shared_ptr<Model>& model,
                                  std::optional<server::ProducerPosition> position,
                                  server::LogRow batch) {
  server::Settlement settlement;
  Signal settled;
  ingestor_.OpenAndSubmit(model, std::move(position), std::move(batch),
                          [&](server::Settlement became) {
                            settlement = std::move(became);
                            settled.Set();
                          });
  settled.Wait();
  return settlement;
}

bool Engine::Mature(const std::shared_ptr<Model>& model) {
  bool ok = false;
  Signal done;
  ingestor_.Mature(model, [&](bool written) {
    ok = written;
    done.Set();
  });
  done.Wait();
  return ok;
}

Engine::State Engine::StateOf(const std::shared_ptr<Model>& model,
                              const std::vector<std::string>& producers) {
  State state;
  Signal done;
  // Goes through the storage thread and then the strand, in a later transaction than everything
  // before. Posted in `done`, because the transaction may fail.
  PostToCatalog(commits_, {.finish = [&](const absl::Status& /*status*/) {
                  if (const auto& tracker = model->storage_state().tracker; tracker.has_value()) {
                    state.pending = tracker->pending();
                    state.next_due = tracker->next_due();
                  }
                  for (const std::string& producer : producers) {
                    const auto cursor = model->storage_state().cursors.Get(producer);
                    if (cursor.has_value()) state.last_sequences[producer] = cursor->last_sequence;
                  }
                  model->strand().Post([&] {
                    state.saved = model->strand_state().Save().SerializeAsString();
                    const auto snapshot = model->snapshot();
                    state.window = snapshot->window.size();
                    if (snapshot->label_arrivals.has_value()) {
                      for (const auto& one : *snapshot->label_arrivals->classes) {
                        state.pending_by_class.push_back(one.pending);
                      }
                    }
                    done.Set();
                  });
                }});
  done.Wait();
  return state;
}

v1::Model Declare(const std::string& name, int class_count, std::chrono::milliseconds grace) {
  v1::Model model;
  model.set_name(name);
  model.mutable_classes()->set_count(class_count);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  if (grace.count() > 0) {
    model.mutable_label_grace()->set_seconds(grace.count() / 1000);
    model.mutable_label_grace()->set_nanos(static_cast<std::int32_t>(grace.count() % 1000) *
                                           1000000);
  }
  return model;
}

server::LogRow MakeBatch(const Model& model, std::size_t n, std::uint64_t seed,
                         const std::vector<std::string>& ids) {
  const std::size_t m = model.declaration()->classes()->count;
  v1::Observations observations;
  auto& values = *observations.mutable_probabilities()->mutable_values();
  values.Reserve(static_cast<int>(n * m));
  std::uint64_t random = seed * 2 + 1;
  for (std::size_t i = 0; i < n; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const std::size_t top = (random >> 33) % m;
    const double most = 0.5 + static_cast<double>((random >> 40) % 1000) / 2500;
    for (std::size_t j = 0; j < m; ++j) {
      values.Add(j == top ? most : (1 - most) / static_cast<double>(m - 1));
    }
    if (ids.empty()) observations.add_labels(static_cast<std::int32_t>((random >> 50) % m));
  }
  observations.mutable_prediction_ids()->Assign(ids.begin(), ids.end());
  return Decode(observations, *model.declaration());
}

server::LogRow MakeInvalidBatch(const Model& model) {
  v1::Observations observations;
  observations.mutable_probabilities()->add_values(2);
  observations.add_labels(0);
  return Decode(observations, *model.declaration());
}

server::LogRow MakeLabels(const Model& model, const std::vector<std::string>& ids,
                          std::int32_t label) {
  v1::Labels labels;
  for (const std::string& id : ids) {
    labels.add_prediction_ids(id);
    labels.add_labels(label);
  }
  return Decode(labels, *model.declaration());
}

std::vector<std::string> MakeIds(const std::string& prefix, std::size_t n) {
  std::vector<std::string> ids;
  ids.reserve(n);
  for (std::size_t i = 0; i < n; ++i) ids.push_back(prefix + std::to_string(i));
  return ids;
}

}  // namespace calibd::testing
