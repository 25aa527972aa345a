#ifndef CALIBD_SERVER_KINDS_NUMBERS_NUMBER_KIND_H_
#define CALIBD_SERVER_KINDS_NUMBERS_NUMBER_KIND_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast_discrepancy.h"
#include "calibd/core/forecast_evidence.h"
#include "calibd/store/v1/store.pb.h"
#include "server/kinds/numbers/coverage_measure.h"
#include "server/model/monitoring.h"
#include "server/watch/dependence_state.h"
#include "server/watch/monitor.h"
#include "server/watch/row_screen.h"

namespace calibd::server {

// The evidence of forecasts at one moment.
struct ForecastWatchDetails final : WatchDetails {
  std::shared_ptr<const ForecastCells> cells;
  ForecastEvidenceReading reading;
  // The discrepancy of the model's watch, unless no kernel could be chosen.
  struct Discrepancy {
    DiscrepancyKernel kernel;
    std::optional<double> unbiased;
    std::optional<DiscrepancyInterval> interval;
    RunningMoments blocks;
  };
  std::optional<Discrepancy> discrepancy;
  // The decisions of the model's watch, if a decision is declared.
  struct Decision {
    ThresholdDecision declared;
    DecisionReading reading;
  };
  std::optional<Decision> decision;

  void Describe(const WatchSnapshot& watch, double significance_level,
                v1::Watch& out) const override;
  void DescribeVerdict(const ModelDeclaration& declaration, const WatchSnapshot& watch,
                       v1::Verdict& out) const override;
  void DescribeGroup(const WatchSnapshot& watch, v1::GroupWatch& out) const override;
};

// Forecasts with their outcomes and their description by the cells of the model.
struct DescribedForecasts {
  NumberForecastBatch values;
  std::span<const ForecastRow> described;
  // Receives the completed blocks of the discrepancy too.
  RunningMoments* blocks = nullptr;

  [[nodiscard]] std::size_t size() const noexcept { return described.size(); }
  [[nodiscard]] DescribedForecasts rows(std::size_t first, std::size_t count) const noexcept {
    const std::size_t width = described.empty() ? 0 : values.forecasts.size() / described.size();
    return {.values = {.forecasts = values.forecasts.subspan(first * width, count * width),
                       .outcomes = values.outcomes.empty() ? values.outcomes
                                                           : values.outcomes.subspan(first, count)},
            .described = described.subspan(first, count),
            .blocks = blocks};
  }
};

// The evidence of a stream of forecasts since an observation of the model.
class ForecastWatch {
 public:
  ForecastWatch(std::shared_ptr<const ForecastCells> cells, const EvidenceMarks& marks,
                std::int64_t first_observation)
      : evidence_(std::move(cells), marks), first_observation_(first_observation) {}

  void Add(const DescribedForecasts& ahead, std::size_t rows) noexcept {
    evidence_.Add(ahead.rows(0, rows).described);
  }
  void AddEvidence(const DescribedForecasts& ahead, std::size_t rows,
                   const ParallelLoop& /*parallel*/) noexcept {
    Add(ahead, rows);
  }
  void RestartDrift(const EvidenceMarks& marks) noexcept {
    evidence_.RestartDrift(marks.log_shiryaev_roberts);
  }
  [[nodiscard]] EvidenceReading Read() const;
  [[nodiscard]] EvidenceMarks maxima() const noexcept { return evidence_.maxima(); }
  [[nodiscard]] ForecastEvidenceReading ReadForecasts() const { return evidence_.Read(); }
  [[nodiscard]] std::int64_t first_observation() const noexcept { return first_observation_; }
  [[nodiscard]] std::int64_t count() const noexcept { return evidence_.count(); }

  void Save(store::v1::WatchState& out) const;
  // Errors: InvalidArgument; this object must not be used then.
  [[nodiscard]] absl::Status Restore(const store::v1::WatchState& stored);

 private:
  ForecastEvidence evidence_;
  std::int64_t first_observation_;
};

// Forecasts of a number, for Monitor. The evidence begins when the strata are chosen from the
// warm-up; the coverage is measured from the first observation on.
class NumberKind {
 public:
  using Batch = DescribedForecasts;
  using Watch = ForecastWatch;
  using Measure = CoverageMeasure;
  struct Stop {};
  static constexpr std::int64_t kConsiderPeriod = std::numeric_limits<std::int64_t>::max();

  struct Gathered {
    Gathered(const Batch& /*batch*/, std::size_t rows) { described.reserve(rows); }
    void Add(const Batch& batch, std::size_t row) { described.push_back(batch.described[row]); }
    [[nodiscard]] Batch view() const noexcept { return {.values = {}, .described = described}; }

    std::vector<ForecastRow> described;
  };

  // cells: of the model's forecasts, with this seed; their strata and tolerance are not used.
  // decision: unset for quantiles. window: the length of the model's window.
  NumberKind(std::shared_ptr<const ForecastCells> cells, std::uint64_t seed, double tolerance,
             std::optional<ThresholdDecision> decision, std::size_t window)
      : cells_(std::move(cells)),
        screen_(std::make_unique<RowScreen>(window)),
        seed_(seed),
        tolerance_(tolerance),
        decision_(decision) {}

  // The cells by which the next rows are described.
  [[nodiscard]] const std::shared_ptr<const ForecastCells>& cells() const noexcept {
    return cells_;
  }
  // Chooses the strata, and the kernel of the discrepancy, from the forecasts of the warm-up.
  void Choose(std::span<const double> forecasts);

  [[nodiscard]] std::unique_ptr<Watch> NewWatch(std::int64_t first_observation,
                                                const Monitoring& /*monitoring*/,
                                                const EvidenceMarks& marks) const {
    return chosen_ ? std::make_unique<Watch>(cells_, marks, first_observation) : nullptr;
  }
  // Adds observations to the discrepancy and to the decisions.
  void AddStatistics(const Watch& watch, const Batch& batch);
  [[nodiscard]] static Stop StopAt(const Watch& /*watch*/, bool /*ends_row*/) noexcept {
    return {};
  }
  [[nodiscard]] static std::int64_t Count(const Watch& watch, const Stop& /*stop*/) noexcept {
    return watch.count();
  }
  void Describe(const Watch& watch, const Stop& stop, const EvidenceReading& reading,
                const Monitoring& monitoring, Alarm& alarm) const;

  [[nodiscard]] static const Measure::Row& RowOf(const Batch& batch, std::size_t row) noexcept {
    return batch.described[row];
  }
  [[nodiscard]] Measure NewMeasure(const Monitoring& monitoring) const {
    return Measure(Measure::Of::kModel, cells_, monitoring.significance_level);
  }
  [[nodiscard]] Measure NewGroupMeasure(const Monitoring& monitoring) const {
    // One more than max_groups, for the overflow group.
    return Measure(Measure::Of::kGroup, cells_,
                   monitoring.significance_level / static_cast<double>(monitoring.max_groups + 1));
  }

  // Call it for all received rows, and after a start for the rows of the window.
  void Screen(const Batch& batch) noexcept { screen_->Add(cells_->kind(), batch.values); }
  [[nodiscard]] const RowScreen::Counts& screened() const noexcept { return screen_->counts(); }

  [[nodiscard]] WatchSnapshot SnapshotOf(const Watch& watch, bool is_model,
                                         const Monitoring& monitoring) const;
  void Updated(const Monitoring& monitoring);
  void Restarted();
  // The observation of the evidence at which serial dependence was found, from 1; 0 before.
  [[nodiscard]] std::int64_t dependence_found_at() const noexcept {
    return dependence_.reached_at();
  }

  void Save(store::v1::MonitorState& out) const;
  // Restores what Choose chose. Errors: InvalidArgument.
  [[nodiscard]] absl::Status Restore(const store::v1::MonitorState& stored);
  template <typename Group>
  [[nodiscard]] static absl::Status RestoreWatch(const store::v1::WatchState& stored,
                                                 std::span<const Group> /*groups*/,
                                                 const Monitoring& /*monitoring*/, Watch& watch) {
    return watch.Restore(stored);
  }
  [[nodiscard]] absl::Status RestoreSums(const store::v1::MonitorState& stored, const Watch& watch);

  // Maximum number of bytes of the watches of a model with these settings.
  [[nodiscard]] static std::size_t MaxMemory(const Monitoring& monitoring,
                                             const NumberForecastKind& kind) noexcept;

 private:
  // Begins the discrepancy, which stays unset without a kernel.
  void BeginDiscrepancy();
  // Sets the cells with these strata and the declared tolerance.
  void SetCells(const ForecastStrata& strata);

  std::shared_ptr<const ForecastCells> cells_;
  std::unique_ptr<RowScreen> screen_;
  std::uint64_t seed_;
  double tolerance_;
  std::optional<ThresholdDecision> decision_;
  // True once the strata are chosen.
  bool chosen_ = false;
  // Chosen from the warm-up; unset before, and if it cannot be chosen.
  std::optional<DiscrepancyKernel> kernel_;
  // Since the watch began; unset without a kernel.
  std::optional<ForecastDiscrepancy> discrepancy_;
  // Of the observations of the model's watch.
  SerialDependence dependence_;
  // The decisions since the watch began.
  DecisionTotals decisions_;
};

using NumberMonitor = Monitor<NumberKind>;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_NUMBERS_NUMBER_KIND_H_
