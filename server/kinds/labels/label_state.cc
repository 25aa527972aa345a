#include "server/kinds/labels/label_state.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "server/kinds/labels/label_kind.h"

namespace calibd::server {
namespace {

// For each so many truths, one more thread helps to count a batch. Waking it up and waiting for it
// takes some tens of microseconds.
constexpr std::size_t kHelperTruths = 4096;

class LabelState final : public KindState {
 public:
  explicit LabelState(const std::shared_ptr<const ModelDeclaration>& declaration)
      : label_count_(declaration->labels()->names.size()) {
    if (declaration->monitoring.disabled) return;
    monitor_.emplace(declaration->monitoring,
                     LabelKind(label_count_, declaration->monitoring.tolerance));
    // There is no warm-up.
    monitor_->Begin({.probabilities = {}, .truths = {}, .label_count = label_count_});
  }

  AnyMonitor* monitor() noexcept override { return monitor_.has_value() ? &*monitor_ : nullptr; }
  bool warming_up() const noexcept override { return false; }

  Added AddWarmup(const RowView& /*rows*/, std::int64_t /*observations*/,
                  HistoryBucket& /*bucket*/) override {
    return std::nullopt;
  }
  void EndWarmup(const RowView& /*warmup*/, HistoryBucket& /*bucket*/) override {}
  std::unique_ptr<KindAdding> BeginAdd(const RowView& rows, std::int64_t observations,
                                       std::span<const RowEnd> row_ends, const RunParts& /*run*/,
                                       HistoryBucket& bucket) override {
    return std::make_unique<Adding>(*this, rows, observations, row_ends, bucket);
  }
  std::size_t Helpers(std::size_t rows) const noexcept override {
    return monitor_.has_value() ? rows * label_count_ / kHelperTruths : 0;
  }
  void Compare(const RowValues& /*values*/) noexcept override {}
  // The truths of all predictions are counted together.
  std::size_t PredictedClass(const RowView& /*row*/) const noexcept override { return 0; }

  void Fill(KindSnapshot& out) override {
    if (monitor_.has_value()) out.monitor = monitor_->Snapshot();
  }
  bool Fits(const HistoryBucket& bucket) const noexcept override {
    const std::size_t labels = bucket.labels.labels.size();
    return (labels == 0 || labels == label_count_) && bucket.forecasts.cells.empty();
  }
  void Save(store::v1::ModelState& out) const override {
    if (monitor_.has_value()) monitor_->Save(*out.mutable_monitor());
  }
  absl::Status Restore(const store::v1::ModelState& stored) override {
    return monitor_.has_value() ? monitor_->Restore(stored.monitor()) : absl::OkStatus();
  }
  void Refill(const RowView& /*rows*/, const RowView& kept) override {
    if (monitor_.has_value()) monitor_->kind().Screen(kept.values);
  }

 private:
  class Adding final : public KindAdding {
   public:
    Adding(LabelState& state, const RowView& rows, std::int64_t observations,
           std::span<const RowEnd> row_ends, HistoryBucket& bucket)
        : truths_(rows.truths.labels.begin(), rows.truths.labels.end()),
          batch_{
              .probabilities = rows.values, .truths = truths_, .label_count = state.label_count_},
          bucket_(bucket) {
      if (!state.monitor_.has_value()) return;
      monitored_.emplace(InPlace{
          [&] { return state.monitor_->BeginAdd(batch_, GroupValues(), observations, row_ends); }});
    }

    std::size_t parts() const noexcept override { return LabelMonitor::Adding::kParts; }
    void Run(std::size_t part) override {
      if (part == LabelMonitor::Adding::kStatistics) bucket_.labels.Add(batch_);
      if (monitored_.has_value()) {
        monitored_->Run(static_cast<LabelMonitor::Adding::Part>(part), nullptr);
      }
    }
    Added End() override {
      if (!monitored_.has_value()) return std::nullopt;
      return std::move(*monitored_).End();
    }

   private:
    // The truths of the rows in one byte each.
    std::vector<std::int8_t> truths_;
    MultilabelBatch batch_;
    HistoryBucket& bucket_;
    std::optional<LabelMonitor::Adding> monitored_;
  };

  std::size_t label_count_;
  std::optional<LabelMonitor> monitor_;
};

}  // namespace

std::unique_ptr<KindState> MakeLabelState(
    const std::shared_ptr<const ModelDeclaration>& declaration) {
  return std::make_unique<LabelState>(declaration);
}

}  // namespace calibd::server
