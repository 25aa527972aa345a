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
#include "server/base/xxh3.h"
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

// The bets of a reference draw numbers by this seed. It must be fixed before the rows, and the same
// when they are replayed. It is no secret: whoever sends the labels can cause any alarm anyway.
std::uint64_t ReferenceSeed(const ModelDeclaration& declaration) {
  const std::string name = declaration.name.ToString();
  return XXH3_64bits(name.data(), name.size());
}

void BlockFields(StateFields& fields, RunningBlockSkce::State& block) {
  using Stored = store::v1::BlockState;
  fields(Stored::kMomentsFieldNumber, block.moments, MomentsFields);
  fields(Stored::kPendingProbabilitiesFieldNumber, block.pending_probabilities);
  fields(Stored::kPendingLabelsFieldNumber, block.pending_labels);
}

struct StoredLens {
  double bandwidth = 0;
  std::string bandwidth_error;
  RunningLens::State running;
};

void LensFields(StateFields& fields, StoredLens& lens) {
  using Stored = store::v1::LensState;
  fields(Stored::kBandwidthFieldNumber, lens.bandwidth);
  fields(Stored::kBandwidthErrorFieldNumber, lens.bandwidth_error);
  fields.Each(Stored::kBlocksFieldNumber, lens.running.blocks, BlockFields);
  fields.If(lens.bandwidth_error.empty(), Stored::kNullSquaresFieldNumber,
            lens.running.null_squares, MomentsFields);
  fields(Stored::kPreviousProbabilitiesFieldNumber, lens.running.previous_probabilities);
}

StoredLens ToStored(const LensState& lens) {
  StoredLens stored;
  stored.bandwidth_error = lens.bandwidth_error;
  if (!lens.running.has_value()) return stored;
  stored.running = lens.running->Save();
  const auto* const kernel = std::get_if<Kernel>(&*lens.kernel);
  if (kernel != nullptr) stored.bandwidth = kernel->bandwidth();
  return stored;
}

absl::StatusOr<LensState> RestoreLens(const ModelDeclaration& declaration, const Lens& lens,
                                      StoredLens stored) {
  LensState state;
  state.lens = lens;
  state.bandwidth_error = std::move(stored.bandwidth_error);
  if (!state.bandwidth_error.empty()) return state;
  KernelSpec spec = KernelOfLens(lens, declaration.classes()->kernel);
  if (spec.matrix == nullptr) {
    spec.rule.bandwidth = {
        .kind = BandwidthRule::Kind::kFixed, .fixed = stored.bandwidth, .alpha = {}};
  }
  const std::size_t class_count = declaration.class_count();
  const absl::StatusOr<RunningKernel> kernel =
      MakeKernel(spec, {}, lens.reduced_class_count(class_count));
  if (!kernel.ok()) return kernel.status();
  absl::StatusOr<RunningLens> running =
      RunningLens::Create(lens, class_count, *kernel, declaration.classes()->block_sizes);
  absl::Status status = running.status();
  if (status.ok()) status = running->Restore(std::move(stored.running));
  if (!status.ok()) return status;
  state.kernel = *kernel;
  state.running = *std::move(running);
  return state;
}

void ScoreFields(StateFields& fields, RunningComparison::Score& score) {
  using Stored = store::v1::Comparison::Score;
  fields(Stored::kModelFieldNumber, score.model, MomentsFields);
  fields(Stored::kBaselineFieldNumber, score.baseline, MomentsFields);
  fields(Stored::kDifferenceFieldNumber, score.difference, MomentsFields);
}

void ComparisonFields(StateFields& fields, RunningComparison& comparison) {
  using Stored = store::v1::Comparison;
  fields(Stored::kLogLossFieldNumber, comparison.log_loss, ScoreFields);
  fields(Stored::kBrierFieldNumber, comparison.brier, ScoreFields);
  fields(Stored::kModelTopLabelFieldNumber, comparison.model_top_label, SumsFields);
  fields(Stored::kBaselineTopLabelFieldNumber, comparison.baseline_top_label, SumsFields);
}

bool HasCount(const RunningComparison& comparison, std::int64_t count) {
  const auto score_has = [count](const RunningComparison::Score& score) {
    return score.model.count == count && score.baseline.count == count &&
           score.difference.count == count;
  };
  return score_has(comparison.log_loss) && score_has(comparison.brier) &&
         comparison.model_top_label.Total().count == count &&
         comparison.baseline_top_label.Total().count == count;
}

struct StoredClasses {
  std::vector<StoredLens> lenses;
  std::optional<RunningComparison> comparison;
};

void ClassesFields(StateFields& fields, StoredClasses& state) {
  using Stored = store::v1::ModelState;
  fields.Each(Stored::kLensesFieldNumber, state.lenses, LensFields);
  fields(Stored::kComparisonFieldNumber, state.comparison, ComparisonFields);
}

class ClassState final : public KindState {
 public:
  explicit ClassState(std::shared_ptr<const ModelDeclaration> declaration)
      : declaration_(std::move(declaration)) {
    if (declaration_->has_baseline()) comparison_.emplace();
    if (!declaration_->monitoring.disabled) {
      monitor_.emplace(declaration_->monitoring,
                       ClassKind(declaration_->class_count(), declaration_->window,
                                 ReferenceSeed(*declaration_)));
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
    return bucket.forecasts.cells.empty() && bucket.labels.labels.empty();
  }
  void Save(store::v1::ModelState& out) const override {
    StoredClasses stored{.lenses = {}, .comparison = comparison_};
    for (const LensState& lens : lenses_) stored.lenses.push_back(ToStored(lens));
    SaveFields(std::move(stored), out, ClassesFields);
    if (monitor_.has_value()) monitor_->Save(*out.mutable_monitor());
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
  StoredClasses classes;
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored, classes, ClassesFields));
  if (classes.lenses.size() != lenses) {
    return absl::InvalidArgumentError(absl::StrCat("has ", classes.lenses.size(), " lenses after ",
                                                   stored.observations(), " observations"));
  }
  std::vector<LensState> restored;
  for (std::size_t i = 0; i < lenses; ++i) {
    CALIBD_ASSIGN_OR_RETURN(
        restored.emplace_back(),
        RestoreLens(*declaration_, declaration_->lenses()[i], std::move(classes.lenses[i])));
  }
  if (comparison_.has_value()) {
    comparison_ = classes.comparison.value_or(RunningComparison());
    if (!HasCount(*comparison_, stored.observations())) {
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
