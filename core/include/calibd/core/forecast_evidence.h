#ifndef CALIBD_CORE_FORECAST_EVIDENCE_H_
#define CALIBD_CORE_FORECAST_EVIDENCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/evidence.h"
#include "calibd/core/forecast_cells.h"

namespace calibd {

// Sums over the observations of a stream of forecasts. Those of parts that share no observation
// add; the difference of two snapshots is that of the observations between them.
struct ForecastCounts {
  // Observations by stratum kind, stratum and cell: kStratumKinds x kForecastStrata x K.
  std::vector<std::int64_t> strata;
  // Sums of the scores of ForecastRow, and of t within kMostResidual and of its
  // square.
  double crps = 0;
  double log_score = 0;
  double t = 0;
  double t_square = 0;

  ForecastCounts() = default;
  explicit ForecastCounts(std::size_t cell_count)
      : strata(kStratumKinds * kForecastStrata * cell_count) {}

  void Add(const ForecastRow& row) noexcept;
  // other: of as many cells.
  void Merge(const ForecastCounts& other) noexcept;
  // Leaves the sums over the later observations. earlier: of the first ones.
  void Subtract(const ForecastCounts& earlier) noexcept;

  [[nodiscard]] std::size_t cell_count() const noexcept {
    return strata.size() / (kStratumKinds * kForecastStrata);
  }
  // The K counts of a stratum, and those of all strata together.
  [[nodiscard]] std::span<const std::int64_t> Of(StratumKind kind, std::size_t stratum) const;
  [[nodiscard]] std::vector<std::int64_t> Cells() const;
  [[nodiscard]] std::int64_t count() const noexcept;
  // True if the counts are those of one sequence of observations with finite sums.
  [[nodiscard]] bool IsValid() const noexcept;

  friend bool operator==(const ForecastCounts&, const ForecastCounts&) = default;
};

// The families of experts, each with the prior 1/4, which its experts share equally.
enum class ForecastFamily : std::uint8_t {
  // The outcome is Normal with another mean and standard deviation: 69 experts.
  kLocationScale,
  // Each cell as often as in the past: (O_c + kappa p_c) / ((n + kappa) p_c), kappa 4, 24, 100.
  kHistogram,
  // Within the strata of one kind: two such histograms, kappa 24 and 100, and the product over
  // strata of the mean of the 69 location-scale processes of each stratum.
  kByScale,
  kByLocation,
};
inline constexpr std::size_t kForecastFamilyCount = 4;
inline constexpr std::array kHistogramWeights = {4., 24., 100.};
inline constexpr std::array kStratumHistogramWeights = {24., 100.};

// The mixture of the experts' e-processes, with prior 1/4 for each family.
struct MixedForecastEvidence {
  double log10_e_value = 0;
  // By ForecastFamily: the family's own mixture, and its share of the whole, with sum 1.
  std::array<double, kForecastFamilyCount> family_log10_e_value{};
  std::array<double, kForecastFamilyCount> family_share{};
};
// The evidence is a function of the counts alone: with n observations, O_c in cell c,
//   log W_histogram = lgamma(kappa) - lgamma(n + kappa)
//                     + sum_c [lgamma(O_c + kappa p_c) - lgamma(kappa p_c) - O_c ln p_c],
//   log W_location_scale = sum_c O_c ln e(c),
// each minus n log1p(tolerance). So it does not depend on the order of the observations, and that
// of several parts is that of their merged counts. Only maxima, drift and times depend on the
// order. counts: of cells.cell_count() cells. Cost: O(K experts), some 15 microseconds for 24
// cells.
[[nodiscard]] MixedForecastEvidence EvidenceOf(const ForecastCells& cells,
                                               const ForecastCounts& counts);

// The evidence that names a direction: an e-value of 100.
inline constexpr double kNamedLogEvidence = 4.6;

// Which way forecasts are off: the Normal distribution with the largest likelihood of the cells.
// shift > 0: outcomes are larger than forecast. scale > 1: the forecasts are too narrow; always 1
// for two cells, which do not tell it. Below kNamedLogEvidence the direction is unknown: shift 0
// and scale 1.
struct ForecastDirection {
  LocationScale best;
  // Of the location-scale expert with the largest e-value among the 69, or 0.
  double share = 0;
  // ln of the mean of the 69 e-processes.
  double log_e_value = 0;
};
// counts: of K cells, such as ForecastCounts::Cells or Of.
[[nodiscard]] ForecastDirection DirectionOf(const ForecastCells& cells,
                                            std::span<const std::int64_t> counts);

// A cell whose count differs from its expectation.
struct CellDeviation {
  std::size_t cell = 0;
  // The cell is (lower, upper] of the PIT.
  double lower = 0;
  double upper = 1;
  std::int64_t count = 0;
  double expected = 0;
  // (count - expected) / sqrt(n pi (1 - pi)); 0 without observations.
  double z = 0;
  // See StandsOut in running_reliability.h, with K places: for one look at a chosen n. False below
  // kLeastStandOut observations.
  bool stands_out = false;
};
// All cells in order.
[[nodiscard]] std::vector<CellDeviation> CellDeviations(const ForecastCells& cells,
                                                        std::span<const std::int64_t> counts);

// A snapshot of a ForecastEvidence.
struct ForecastEvidenceReading {
  std::int64_t count = 0;
  MixedForecastEvidence evidence;
  // As in EvidenceReading. For combined parts it covers this reading only.
  RunningMaximum maximum;
  Drift drift;
  // The count of observations at which each mark was first reached, 0 if it was not. Saved.
  std::int64_t evidence_reached_at = 0;
  std::int64_t drift_reached_at = 0;
  ForecastCounts counts;
};

// The state of a ForecastEvidence.
struct ForecastEvidenceState {
  // All observations, with the pending ones.
  ForecastCounts counts;
  RunningMaximum maximum;
  RunningMaximum shiryaev_roberts_maximum;
  std::int64_t evidence_reached_at = 0;
  std::int64_t drift_reached_at = 0;
  // The following is without the pending observations. ln W of the 7 histograms; log(1 + R) of
  // all kForecastExpertCount experts: first the location-scale experts, then the histograms in the
  // order of their families, then the mixtures within the strata of each kind.
  std::vector<double> log_histograms;
  std::vector<double> log_shiryaev_roberts;
  // Counts as ForecastCounts::strata, in which an observation has the weight (1 - 1 / kMemory)^t
  // after t others.
  std::vector<double> recent;
  // The newest observations, fewer than 64: 16 cell + 4 stratum by scale + stratum by location.
  std::vector<std::int32_t> pending;

  friend bool operator==(const ForecastEvidenceState&, const ForecastEvidenceState&) = default;
};

inline constexpr std::size_t kForecastHistogramCount =
    kHistogramWeights.size() + kStratumKinds * kStratumHistogramWeights.size();
inline constexpr std::size_t kForecastExpertCount =
    kLocationScaleCount + kForecastHistogramCount + kStratumKinds;

// Anytime-valid evidence against "the forecasts of a number are calibrated", the detectors of
// drift, and the sums for scores and coverage, of one stream of forecasts with outcomes.
//
// Null hypothesis: given its forecast and the past, the cell of each outcome has the probabilities
// pi of ForecastCells; for samples, given the draws and the outcome without their order. Outcomes
// that are drawn from their forecasts fulfil it. As for EvidenceProcess, P(E_t >= 1/alpha at any
// time t) <= alpha for any sequence of forecasts and any stopping time, and R has the run length
// of Drift. It fails when outcomes depend on each other given the past, such as those of a
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
  // marks: as for EvidenceProcess::Create.
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

  // Its evidence is that of EvidenceOf up to rounding errors, at the cost of O(experts) logarithms
  // and a copy of the counts.
  [[nodiscard]] ForecastEvidenceReading Read() const;
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

  // Upper bound of the bytes that an object holds, without its cells.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t cell_count) noexcept;

 private:
  struct Processes;

  std::shared_ptr<const ForecastCells> cells_;
  EvidenceMarks marks_;
  std::unique_ptr<Processes> processes_;
};

// Merge law: the parts of one stream share no observation, such as one part for each replica. The
// evidence, scores and coverage are those of the merged counts; the detectors' statistics are
// averaged, see CombineDisjoint of evidence.h. parts: with equal cells. Errors: InvalidArgument
// when parts is empty, or they have different numbers of cells.
[[nodiscard]] absl::StatusOr<ForecastEvidenceReading> CombineDisjoint(
    std::span<const ForecastEvidence* const> parts);

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_EVIDENCE_H_
