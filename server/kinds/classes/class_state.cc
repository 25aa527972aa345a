#include "server/kinds/classes/class_state.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/core/comparison.h"
#include "calibd/core/lens_kernel.h"
#include "calibd/core/running_lens.h"
#include "calibd/core/status_macros.h"
#include "server/kinds/classes/class_kind.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

// For each so many classes of its rows, one more thread helps to count a batch. Waking it up and
// waiting for it takes some tens of microseconds.
constexpr std::size_t kHelperWork = 4096;
// For each so many classes, one more thread helps with the evidence of a chunk of rows, which the
// threads compute in two steps.
constexpr std::size_t kChunkHelperClasses = 256;
// Some work for each row does not depend on the number of its classes, and takes as long as that
// for this many.
constexpr std::size_t kRowWork = 24;

// A lens, or the reason why it has no bandwidth.
struct LensState {
  Lens lens = Lens::Canonical();
  std::optional<RunningKernel> kernel;
  std::optional<RunningLens> running;
  std::string bandwidth_error;
};

LensState CreateLens(const ModelDeclaration& declaration, const Lens& lens,
                     const PredictionBatch& warmup) {
  LensState state;
  state.lens = lens;
  const auto fail = [&state](const absl::Status& status) {
    state.bandwidth_error =
        absl::StrCat(status.message(),
                     ": create the model with a fixed bandwidth, or with a warm-up whose "
                     "predictions differ more");
    return std::move(state);
  };
  const KernelSpec spec = KernelOfLens(lens, declaration.classes()->kernel);
  absl::StatusOr<LensBatch> seen = LensBatch{};
  std::span<const double> predictions;
  if (spec.matrix == nullptr && spec.rule.bandwidth.needs_predictions()) {
    seen = ApplyLens(warmup, lens);
    if (!seen.ok()) return fail(seen.status());
    predictions = seen->parts.front().probabilities;
  }
  const std::size_t class_count = declaration.class_count();
  const absl::StatusOr<RunningKernel> kernel =
      MakeKernel(spec, predictions, lens.reduced_class_count(class_count));
  if (!kernel.ok()) return fail(kernel.status());
  absl::StatusOr<RunningLens> running =
      RunningLens::Create(lens, class_count, *kernel, declaration.classes()->block_sizes);
  if (!running.ok()) return fail(running.status());
  state.kernel = *kernel;
  state.running = *std::move(running);
  return state;
}

RunningLens::State FromProto(const store::v1::LensState& stored) {
  RunningLens::State state;
  for (const store::v1::BlockState& block : stored.blocks()) {
    state.blocks.push_back(
        {.moments = GetMoments(block.moments()),
         .pending_probabilities = {block.pending_probabilities().begin(),
                                   block.pending_probabilities().end()},
         .pending_labels = {block.pending_labels().begin(), block.pending_labels().end()}});
  }
  state.null_squares = GetMoments(stored.null_squares());
  state.previous_probabilities.assign(stored.previous_probabilities().begin(),
                                      stored.previous_probabilities().end());
  return state;
}

absl::StatusOr<LensState> RestoreLens(const ModelDeclaration& declaration, const Lens& lens,
                                      const store::v1::LensState& stored) {
  LensState state;
  state.lens = lens;
  state.bandwidth_error = stored.bandwidth_error();
  if (!state.bandwidth_error.empty()) return state;
  KernelSpec spec = KernelOfLens(lens, declaration.classes()->kernel);
  if (spec.matrix == nullptr) {
    spec.rule.bandwidth = {
        .kind = BandwidthRule::Kind::kFixed, .fixed = stored.bandwidth(), .alpha = {}};
  }
  const std::size_t class_count = declaration.class_count();
  const absl::StatusOr<RunningKernel> kernel =
      MakeKernel(spec, {}, lens.reduced_class_count(class_count));
  if (!kernel.ok()) return kernel.status();
  absl::StatusOr<RunningLens> running =
      RunningLens::Create(lens, class_count, *kernel, declaration.classes()->block_sizes);
  absl::Status status = running.status();
  if (status.ok()) status = running->Restore(FromProto(stored));
  if (!status.ok()) return status;
  state.kernel = *kernel;
  state.running = *std::move(running);
  return state;
}

void ToProto(const RunningComparison::Score& score, store::v1::Comparison::Score& out) {
  PutMoments(score.model, *out.mutable_model());
  PutMoments(score.baseline, *out.mutable_baseline());
  PutMoments(score.difference, *out.mutable_difference());
}

RunningComparison::Score FromProto(const store::v1::Comparison::Score& stored) {
  return {.model = GetMoments(stored.model()),
          .baseline = GetMoments(stored.baseline()),
          .difference = GetMoments(stored.difference())};
}

void ToProto(const RunningComparison& comparison, store::v1::Comparison& out) {
  ToProto(comparison.log_loss, *out.mutable_log_loss());
  ToProto(comparison.brier, *out.mutable_brier());
  PutSums(comparison.model_top_label, *out.mutable_model_top_label());
  PutSums(comparison.baseline_top_label, *out.mutable_baseline_top_label());
}

// Returns nothing unless all parts have as many observations as the model.
std::optional<RunningComparison> FromProto(const store::v1::Comparison& stored,
                                           std::int64_t observations) {
  RunningComparison comparison{.log_loss = FromProto(stored.log_loss()),
                               .brier = FromProto(stored.brier()),
                               .model_top_label = {},
                               .baseline_top_label = {}};
  bool valid = GetSums(stored.model_top_label(), comparison.model_top_label) &&
               GetSums(stored.baseline_top_label(), comparison.baseline_top_label) &&
               comparison.model_top_label.Total().count == observations &&
               comparison.baseline_top_label.Total().count == observations;
  for (const RunningComparison::Score& score : {comparison.log_loss, comparison.brier}) {
    for (const RunningMoments& moments : {score.model, score.baseline, score.difference}) {
      valid = valid && moments.count == observations && moments.m2 >= 0;
    }
  }
  return valid ? std::optional(comparison) : std::nullopt;
}

class ClassState final : public KindState {
 public:
  explicit ClassState(std::shared_ptr<const ModelDeclaration> declaration)
      : declaration_(std::move(declaration)) {
    if (declaration_->has_baseline()) comparison_.emplace();
    if (!declaration_->monitoring.disabled) {
      monitor_.emplace(declaration_->monitoring,
                       ClassKind(declaration_->class_count(), declaration_->window));
    }
    if (declaration_->warmup == 0) {
      HistoryBucket none;
      EndLenses({}, none);
      return;
    }
    for (const Lens& lens : declaration_->lenses()) {
      const KernelSpec spec = KernelOfLens(lens, declaration_->classes()->kernel);
      if (spec.matrix != nullptr || !spec.rule.bandwidth.needs_predictions()) {
        early_lenses_.push_back(CreateLens(*declaration_, lens, {}));
      }
    }
  }

  AnyMonitor* monitor() noexcept override { return monitor_.has_value() ? &*monitor_ : nullptr; }
  bool warming_up() const noexcept override { return lenses_.empty(); }

  Added AddWarmup(const RowView& rows, std::int64_t observations, HistoryBucket& bucket) override {
    const PredictionBatch batch = rows.classes();
    AddToHistory(batch, bucket);
    CountEarly(batch);
    if (!monitor_.has_value()) return std::nullopt;
    return monitor_->AddWarmup(batch, rows.extras.groups, observations);
  }
  void EndWarmup(const RowView& warmup, HistoryBucket& bucket) override {
    EndLenses(warmup.classes(), bucket);
  }
  // Chooses the kernels, and begins to count with them.
  void EndLenses(const PredictionBatch& batch, HistoryBucket& bucket) {
    early_lenses_.clear();
    lenses_.reserve(declaration_->lenses().size());
    for (const Lens& lens : declaration_->lenses()) {
      lenses_.push_back(CreateLens(*declaration_, lens, batch));
    }
    if (batch.size() > 0) {
      for (LensState& lens : lenses_) Count(lens, batch, bucket);
    }
    if (!monitor_.has_value()) return;
    if (lenses_.front().kernel.has_value()) monitor_->kind().SetKernel(*lenses_.front().kernel);
    monitor_->Begin(batch);
  }
  std::unique_ptr<KindAdding> BeginAdd(const RowView& rows, std::int64_t observations,
                                       std::span<const RowEnd> row_ends, const RunParts& run,
                                       HistoryBucket& bucket) override {
    return std::make_unique<Adding>(*this, rows, observations, row_ends, run, bucket);
  }
  std::size_t Helpers(std::size_t rows) const noexcept override {
    // Without the monitor, the rows take so little time that sharing them gains nothing.
    return monitor_.has_value() ? rows * (declaration_->class_count() + kRowWork) / kHelperWork : 0;
  }
  void Compare(const RowValues& values) noexcept override {
    // A row whose predictions all matured without a label has no probabilities.
    if (!comparison_.has_value() || values.baseline_values.empty()) return;
    comparison_->Add(values.view(), values.baseline());
  }
  std::size_t PredictedClass(const RowView& row) const noexcept override {
    return calibd::PredictedClass(row.values);
  }

  void Fill(KindSnapshot& out) override {
    const auto copy = [](const std::vector<LensState>& lenses, std::vector<LensSnapshot>& to) {
      for (const LensState& lens : lenses) {
        to.push_back({.lens = lens.lens,
                      .kernel = lens.kernel,
                      .bandwidth_error = lens.bandwidth_error,
                      .blocks = {}});
        if (lens.running.has_value()) to.back().blocks = lens.running->Blocks();
      }
    };
    copy(lenses_, out.lenses);
    copy(early_lenses_, out.early_lenses);
    out.comparison = comparison_;
    if (monitor_.has_value()) out.monitor = monitor_->Snapshot();
  }
  bool Fits(const HistoryBucket& bucket) const noexcept override {
    return bucket.forecasts.cells.empty();
  }
  void Save(store::v1::ModelState& out) const override {
    if (comparison_.has_value()) ToProto(*comparison_, *out.mutable_comparison());
    if (monitor_.has_value()) monitor_->Save(*out.mutable_monitor());
    for (const LensState& lens : lenses_) {
      store::v1::LensState& to = *out.add_lenses();
      to.set_bandwidth_error(lens.bandwidth_error);
      if (!lens.running.has_value()) continue;
      if (const auto* const kernel = std::get_if<Kernel>(&*lens.kernel)) {
        to.set_bandwidth(kernel->bandwidth());
      }
      const RunningLens::State running = lens.running->Save();
      for (const RunningBlockSkce::State& block : running.blocks) {
        store::v1::BlockState& stored = *to.add_blocks();
        PutMoments(block.moments, *stored.mutable_moments());
        stored.mutable_pending_probabilities()->Add(block.pending_probabilities.begin(),
                                                    block.pending_probabilities.end());
        stored.mutable_pending_labels()->Add(block.pending_labels.begin(),
                                             block.pending_labels.end());
      }
      PutMoments(running.null_squares, *to.mutable_null_squares());
      to.mutable_previous_probabilities()->Add(running.previous_probabilities.begin(),
                                               running.previous_probabilities.end());
    }
  }
  absl::Status Restore(const store::v1::ModelState& stored) override;
  void Refill(const RowView& rows, const RowView& kept) override {
    if (warming_up()) CountEarly(rows.classes());
    if (!monitor_.has_value()) return;
    monitor_->kind().Screen(kept.classes());
    if (warming_up()) monitor_->KeepWarmup(rows.extras.groups, rows.size());
  }

 private:
  // No part uses what another one changes, except that the evidence waits for the statistics. They
  // come first, so that their thread does not wait.
  class Adding final : public KindAdding {
   public:
    Adding(ClassState& state, const RowView& rows, std::int64_t observations,
           std::span<const RowEnd> row_ends, const RunParts& run, HistoryBucket& bucket)
        : state_(state), batch_(rows.classes()), bucket_(bucket) {
      if (!state_.monitor_.has_value()) return;
      // Monitor::BeginAdd returns an object that cannot be moved.
      monitored_.emplace(InPlace{[&] {
        return state_.monitor_->BeginAdd(batch_, rows.extras.groups, observations, row_ends);
      }});
      const std::size_t helpers = state_.declaration_->class_count() / kChunkHelperClasses;
      if (helpers == 0) return;
      loop_ = [&run, helpers](std::size_t count, const std::function<void(std::size_t)>& part) {
        run(count, helpers, part);
      };
    }

    std::size_t parts() const noexcept override { return kLenses + state_.lenses_.size(); }
    void Run(std::size_t part) override {
      if (part >= kLenses) return state_.Count(state_.lenses_[part - kLenses], batch_, bucket_);
      if (part == ClassMonitor::Adding::kError) AddToHistory(batch_, bucket_);
      if (monitored_.has_value()) {
        monitored_->Run(static_cast<ClassMonitor::Adding::Part>(part), loop_);
      }
    }
    Added End() override {
      if (!monitored_.has_value()) return std::nullopt;
      return std::move(*monitored_).End();
    }

   private:
    static constexpr std::size_t kLenses = ClassMonitor::Adding::kParts;
    ClassState& state_;
    PredictionBatch batch_;
    HistoryBucket& bucket_;
    std::optional<ClassMonitor::Adding> monitored_;
    ParallelLoop loop_;
  };

  static void AddToHistory(const PredictionBatch& batch, HistoryBucket& bucket) noexcept {
    bucket.reliability.Add(batch);
    if (batch.class_count == 2) bucket.class_1.AddClass(batch, 1);
  }
  // Counts observations in a lens.
  void Count(LensState& lens, const PredictionBatch& batch, HistoryBucket& bucket) {
    if (!lens.running.has_value()) return;
    const bool canonical = &lens == &lenses_.front();
    // A copy, because another thread may write to the same cache line.
    RunningMoments pairs = bucket.pairs;
    lens.running->Add(batch, canonical ? &pairs : nullptr);
    if (canonical) bucket.pairs = pairs;
  }
  // Counts observations in the lenses that answer during the warm-up.
  void CountEarly(const PredictionBatch& batch) {
    for (LensState& lens : early_lenses_) {
      if (lens.running.has_value()) lens.running->Add(batch, nullptr);
    }
  }

  std::shared_ptr<const ModelDeclaration> declaration_;
  std::optional<RunningComparison> comparison_;
  std::vector<LensState> lenses_;
  // During the warm-up, the lenses whose bandwidth does not depend on it. They are not stored: the
  // window holds all observations that they have counted.
  std::vector<LensState> early_lenses_;
  std::optional<ClassMonitor> monitor_;
};

absl::Status ClassState::Restore(const store::v1::ModelState& stored) {
  const bool warming = stored.observations() < static_cast<std::int64_t>(declaration_->warmup);
  const std::size_t lenses = warming ? 0 : declaration_->lenses().size();
  if (static_cast<std::size_t>(stored.lenses_size()) != lenses) {
    return absl::InvalidArgumentError(absl::StrCat("has ", stored.lenses_size(), " lenses after ",
                                                   stored.observations(), " observations"));
  }
  std::vector<LensState> restored;
  for (std::size_t i = 0; i < lenses; ++i) {
    CALIBD_ASSIGN_OR_RETURN(
        restored.emplace_back(),
        RestoreLens(*declaration_, declaration_->lenses()[i], stored.lenses(static_cast<int>(i))));
  }
  if (comparison_.has_value()) {
    comparison_ = FromProto(stored.comparison(), stored.observations());
    if (!comparison_.has_value()) {
      return absl::InvalidArgumentError("has a comparison that does not match its observations");
    }
  }
  lenses_ = std::move(restored);
  if (!warming) early_lenses_.clear();
  if (!monitor_.has_value()) return absl::OkStatus();
  if (!lenses_.empty() && lenses_.front().kernel.has_value()) {
    monitor_->kind().SetKernel(*lenses_.front().kernel);
  }
  return monitor_->Restore(stored.monitor());
}

}  // namespace

std::unique_ptr<KindState> MakeClassState(std::shared_ptr<const ModelDeclaration> declaration) {
  return std::make_unique<ClassState>(std::move(declaration));
}

}  // namespace calibd::server
