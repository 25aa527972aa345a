#include "server/kinds/numbers/number_state.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "calibd/core/decision_calibration.h"
#include "calibd/core/status_macros.h"
#include "server/kinds/numbers/number_kind.h"
#include "server/rows/prediction_id.h"

namespace calibd::server {
namespace {

// For each so many rows, one more thread helps to count a batch. Waking it up and waiting for it
// takes some tens of microseconds.
constexpr std::size_t kHelperRows = 512;

class NumberState final : public KindState {
 public:
  explicit NumberState(std::shared_ptr<const ModelDeclaration> declaration)
      : declaration_(std::move(declaration)) {
    // Equal in all replicas of the model.
    const std::uint64_t seed = HashId(declaration_->name.ToString()).low;
    cells_ = *ForecastCells::Create(declaration_->numbers()->forecast, {}, seed, kDefaultTolerance);
    if (declaration_->monitoring.disabled) return;
    monitor_.emplace(declaration_->monitoring,
                     NumberKind(cells_, seed, declaration_->monitoring.tolerance,
                                declaration_->numbers()->decision, declaration_->window));
  }

  AnyMonitor* monitor() noexcept override { return monitor_.has_value() ? &*monitor_ : nullptr; }
  // Without a monitor, no strata are chosen.
  bool warming_up() const noexcept override {
    return monitor_.has_value() && !monitor_->has_watch();
  }

  Added AddWarmup(const RowView& rows, std::int64_t observations, HistoryBucket& bucket) override {
    const std::vector<ForecastRow> described = Describe(rows, observations);
    AddToHistory(rows, described, bucket);
    return monitor_->AddWarmup({.values = rows.numbers(), .described = described},
                               rows.extras.groups, observations);
  }
  void EndWarmup(const RowView& warmup, HistoryBucket& bucket) override {
    monitor_->kind().Choose(warmup.values);
    const std::vector<ForecastRow> described = Describe(warmup, 0);
    monitor_->Begin({.values = warmup.numbers(), .described = described, .blocks = &bucket.pairs});
  }
  std::unique_ptr<KindAdding> BeginAdd(const RowView& rows, std::int64_t observations,
                                       std::span<const RowEnd> row_ends, const RunParts& /*run*/,
                                       HistoryBucket& bucket) override {
    return std::make_unique<Adding>(*this, rows, observations, row_ends, bucket);
  }
  std::size_t Helpers(std::size_t rows) const noexcept override {
    return monitor_.has_value() ? rows / kHelperRows : 0;
  }
  void Compare(const RowValues& /*values*/) noexcept override {}
  // The labels of all forecasts are counted together.
  std::size_t PredictedClass(const RowView& /*row*/) const noexcept override { return 0; }

  void Fill(KindSnapshot& out) override {
    out.forecast_cells = cells_;
    if (monitor_.has_value()) out.monitor = monitor_->Snapshot();
  }
  bool Fits(const HistoryBucket& bucket) const noexcept override {
    const std::size_t cells = bucket.forecasts.cells.size();
    return (cells == 0 || cells == cells_->cell_count()) && bucket.labels.labels.empty();
  }
  void Save(store::v1::ModelState& out) const override {
    if (monitor_.has_value()) monitor_->Save(*out.mutable_monitor());
  }
  absl::Status Restore(const store::v1::ModelState& stored) override {
    if (!monitor_.has_value()) return absl::OkStatus();
    CALIBD_RETURN_IF_ERROR(monitor_->kind().Restore(stored.monitor()));
    CALIBD_RETURN_IF_ERROR(monitor_->Restore(stored.monitor()));
    const bool warming = stored.observations() < static_cast<std::int64_t>(declaration_->warmup);
    return monitor_->has_watch() != warming
               ? absl::OkStatus()
               : absl::InvalidArgumentError("has strata that do not match its observations");
  }
  void Refill(const RowView& rows, const RowView& kept) override {
    if (!monitor_.has_value()) return;
    monitor_->kind().Screen({.values = kept.numbers(), .described = {}});
    if (warming_up()) monitor_->KeepWarmup(rows.extras.groups, rows.size());
  }

 private:
  class Adding final : public KindAdding {
   public:
    Adding(NumberState& state, const RowView& rows, std::int64_t observations,
           std::span<const RowEnd> row_ends, HistoryBucket& bucket)
        : state_(state),
          rows_(rows),
          described_(state.Describe(rows, observations)),
          bucket_(bucket) {
      if (!state_.monitor_.has_value()) return;
      monitored_.emplace(InPlace{[&] {
        return state_.monitor_->BeginAdd(
            {.values = rows_.numbers(), .described = described_, .blocks = &bucket_.pairs},
            rows.extras.groups, observations, row_ends);
      }});
    }

    std::size_t parts() const noexcept override { return NumberMonitor::Adding::kParts; }
    void Run(std::size_t part) override {
      if (part == NumberMonitor::Adding::kError) state_.AddToHistory(rows_, described_, bucket_);
      if (monitored_.has_value()) {
        monitored_->Run(static_cast<NumberMonitor::Adding::Part>(part), nullptr);
      }
    }
    Added End() override {
      if (!monitored_.has_value()) return std::nullopt;
      return std::move(*monitored_).End();
    }

   private:
    NumberState& state_;
    RowView rows_;
    std::vector<ForecastRow> described_;
    HistoryBucket& bucket_;
    std::optional<NumberMonitor::Adding> monitored_;
  };

  [[nodiscard]] const ForecastCells& cells() const noexcept {
    return monitor_.has_value() ? *monitor_->kind().cells() : *cells_;
  }
  // observations: of the model, before the rows.
  [[nodiscard]] std::vector<ForecastRow> Describe(const RowView& rows,
                                                  std::int64_t observations) const {
    std::vector<ForecastRow> described(rows.size());
    cells().Describe(rows.numbers(), observations + 1, described);
    return described;
  }
  void AddToHistory(const RowView& rows, std::span<const ForecastRow> described,
                    HistoryBucket& bucket) const {
    bucket.forecasts.Add(described, cells().cell_count());
    if (const auto& decision = declaration_->numbers()->decision) {
      AddDecisions(WithKind(cells().kind(), rows.numbers()), *decision, bucket.decisions);
    }
  }

  std::shared_ptr<const ModelDeclaration> declaration_;
  // Without strata.
  std::shared_ptr<const ForecastCells> cells_;
  std::optional<NumberMonitor> monitor_;
};

}  // namespace

std::unique_ptr<KindState> MakeNumberState(std::shared_ptr<const ModelDeclaration> declaration) {
  return std::make_unique<NumberState>(std::move(declaration));
}

}  // namespace calibd::server
