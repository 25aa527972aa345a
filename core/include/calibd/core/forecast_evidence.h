#ifndef CALIBD_CORE_FORECAST_EVIDENCE_H_
#define CALIBD_CORE_FORECAST_EVIDENCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/evidence.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/forecast_counts.h"
#include "calibd/core/forecast_experts.h"

namespace calibd {

// A snapshot of a ForecastEvidence.
struct ForecastEvidenceReading {
  std::int64_t count = 0;
  MixedForecastEvidence evidence;
  // See EvidenceReading. For combined parts it covers this reading only.
  RunningMaximum maximum;
  Drift drift;
  // The count of observations at which each mark was first reached, 0 if it was not. Saved.
  std::int64_t evidence_reached_at = 0;
  std::int64_t drift_reached_at = 0;
  ForecastCounts counts;
};

// What a state has once an outcome was tied; all of it without the pending observations.
struct TiedForecastState {
  // Counts as ForecastCounts::strata, in which a tied outcome adds a share to each cell that it
  // fits, in proportion to their probabilities.
  std::vector<double> cells;
  // By stratum kind, stratum and location-scale expert: what the bets on tied outcomes add to the
  // logarithm of its process within the stratum, beside these counts.
  std::vector<double> log_bets;
  // Names the experts on levels. Save gives kLevelBets.
  std::vector<double> level_bets;
  // ln W and ln(1 + R) of the experts on levels, in the order of ForecastCells::level_wins.
  std::vector<double> log_levels;
  std::vector<double> log_level_shiryaev_roberts;

  friend bool operator==(const TiedForecastState&, const TiedForecastState&) = default;
};

// The state of a ForecastEvidence.
struct ForecastEvidenceState {
  // All observations, with the pending ones.
  ForecastCounts counts;
  RunningMaximum maximum;
  RunningMaximum shiryaev_roberts_maximum;
  std::int64_t evidence_reached_at = 0;
  std::int64_t drift_reached_at = 0;
  // The ids and the weights that name the experts of the following, in their order. Save gives
  // kLocationScaleIds, kHistogramWeights and kStratumHistogramWeights.
  std::vector<std::int32_t> location_scale_ids;
  std::vector<double> histogram_weights;
  std::vector<double> stratum_histogram_weights;
  // Added to the logarithm of the mixture, so that the e-value is continuous when the experts
  // change.
  double log_offset = 0;
  // The natural logarithm of the e-value with this offset, without the pending observations.
  double log_e_value = 0;
  // The following is without the pending observations. ln W of the histograms; log(1 + R) of all
  // experts: first the location-scale experts, then the histograms in the order of their families,
  // then the mixtures within the strata of each kind.
  std::vector<double> log_histograms;
  std::vector<double> log_shiryaev_roberts;
  // Counts as ForecastCounts::strata, in which an observation has the weight (1 - 1 / kMemory)^t
  // after t others.
  std::vector<double> recent;
  // The newest observations, fewer than 64: 1024 ties + 16 cell + 4 stratum by scale + stratum by
  // location.
  std::vector<std::int32_t> pending;
  std::optional<TiedForecastState> ties;

  friend bool operator==(const ForecastEvidenceState&, const ForecastEvidenceState&) = default;
};

// Anytime-valid evidence against "the forecasts of a number are calibrated", the detectors of
// drift, and the sums for scores and coverage, of one stream of forecasts with outcomes.
//
// Null hypothesis: given its forecast and the past, the cell of each outcome has the probabilities
// pi of ForecastCells; for samples, given the draws and the outcome without their order; for
// quantiles with tied outcomes, as ForecastCells says. Outcomes that are drawn from their forecasts
// fulfil it. Then, as with EvidenceProcess, P(E_t >= 1/alpha at
// any time t) <= alpha for any sequence of forecasts and any stopping time, and R has the run
// length of Drift. It fails when outcomes depend on each other given the past, such as those of a
// forecast of the next 7 days that is made every day; when the order or the absence of outcomes
// depends on their values; or when an outcome is added twice.
//
// The detectors of drift bet from the recent past, which forgets: the location-scale experts are
// constants, the histograms use the recent counts before each observation, and the mixtures within
// strata weight the 69 experts by e^{sum_c O_c ln e(c)} with the recent counts O; within blocks of
// up to 64 observations these weights do not forget.
//
// Not thread-safe.
class ForecastEvidence {
 public:
  // marks: see EvidenceProcess::Create.
  explicit ForecastEvidence(std::shared_ptr<const ForecastCells> cells,
                            const EvidenceMarks& marks = {});
  ForecastEvidence(const ForecastEvidence& other);
  ForecastEvidence& operator=(const ForecastEvidence& other);
  ForecastEvidence(ForecastEvidence&& other) noexcept;
  ForecastEvidence& operator=(ForecastEvidence&& other) noexcept;
  ~ForecastEvidence();

  // rows: from ForecastCells::Describe of these cells. On one CPU, the bits of the result do not
  // depend on how a sequence is split into calls. Allocates no memory. Cost: O(experts) a row.
  void Add(std::span<const ForecastRow> rows) noexcept;
  // Describes and adds a valid batch.
  void Add(const NumberForecastBatch& batch, std::int64_t first_observation) noexcept;

  // Without ties its evidence is that of EvidenceOf up to rounding errors. Cost: O(experts)
  // logarithms and a copy of the counts.
  [[nodiscard]] ForecastEvidenceReading Read() const;
  // The two running maxima of Read, which are known without a reading and may differ in their last
  // digits.
  [[nodiscard]] EvidenceMarks maxima() const noexcept;
  // The natural logarithm of its e-value. Cheaper than Read.
  [[nodiscard]] double LogEValue() const noexcept;
  [[nodiscard]] std::int64_t count() const noexcept;
  [[nodiscard]] const ForecastCounts& counts() const noexcept;
  [[nodiscard]] const std::shared_ptr<const ForecastCells>& cells() const noexcept {
    return cells_;
  }
  // Resets the drift statistics to R = 0; see EvidenceProcess::RestartDrift.
  void RestartDrift(double log_threshold) noexcept;

  using State = ForecastEvidenceState;
  [[nodiscard]] State Save() const;
  // Restores a state that was saved by an object with equal cells. Later rows then give the same
  // bits on the same kind of CPU. Errors: InvalidArgument when the state is invalid for these
  // cells; this object is then unchanged.
  [[nodiscard]] absl::Status Restore(const State& state);

  // Upper bound of the bytes that an object holds, without its cells. quantiles: whether these are
  // of quantile forecasts.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t cell_count, bool quantiles) noexcept;

 private:
  friend absl::StatusOr<ForecastEvidenceReading> CombineDisjoint(
      std::span<const ForecastEvidence* const> parts);

  // Adds ln W of the experts on cells, and of those on levels, to sums.
  void AddLogs(std::span<double> cells, std::span<double> levels) const noexcept;

  struct Processes;

  std::shared_ptr<const ForecastCells> cells_;
  EvidenceMarks marks_;
  std::unique_ptr<Processes> processes_;
};

// Merge law: the parts of one stream share no observation, such as one part for each replica. The
// evidence, scores and coverage are those of the merged counts; with ties the e-process of each
// expert is the product of those of the parts. The detectors' statistics are averaged, see
// CombineDisjoint of evidence.h. parts: with equal cells. Errors: InvalidArgument
// when parts is empty, or they have different numbers of cells.
[[nodiscard]] absl::StatusOr<ForecastEvidenceReading> CombineDisjoint(
    std::span<const ForecastEvidence* const> parts);

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_EVIDENCE_H_
