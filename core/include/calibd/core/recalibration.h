#ifndef CALIBD_CORE_RECALIBRATION_H_
#define CALIBD_CORE_RECALIBRATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/dated_change.h"
#include "calibd/core/error_interval.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/reliability.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Maps that replace the probabilities of a model by better calibrated ones. Temperature and
// vector scaling first smooth a row g of m classes to (g_k + s / m) / (1 + s), s =
// kRecalibrationSmoothing, so that a probability of 0 has a logarithm.
inline constexpr double kRecalibrationSmoothing = 1e-5;

// Leaves the rows as they are.
struct IdentityMap {
  friend bool operator==(const IdentityMap&, const IdentityMap&) = default;
};

// q_k proportional to g_k^(1 / temperature). Keeps the order of the classes. Source: Guo, Pleiss,
// Sun & Weinberger, ICML 2017, Sec. 4.2.
struct TemperatureMap {
  // In [1 / kMaxTemperature, kMaxTemperature].
  double temperature = 1;

  friend bool operator==(const TemperatureMap&, const TemperatureMap&) = default;
};
inline constexpr double kMaxTemperature = 20;

// q_k proportional to g_k^scales[k] exp(offsets[k]): vector scaling (Guo et al., Sec. 4.2). For two
// classes it is beta calibration: Kull, Silva Filho & Flach, AISTATS 2017, eq. 5, with a =
// scales[1], b = scales[0] and c = offsets[1] - offsets[0].
struct VectorMap {
  // m values each, scales >= 0, all finite.
  std::vector<double> scales;
  std::vector<double> offsets;

  friend bool operator==(const VectorMap&, const VectorMap&) = default;
};

// q_k proportional to the curve of class k at g_k, a nondecreasing step function. Source: Zadrozny
// & Elkan, KDD 2002.
struct IsotonicMap {
  // The value at g is the last one whose start is at most g, or the first one.
  struct Curve {
    // Ascending, at least one.
    std::vector<double> starts;
    // One value for each of them, nondecreasing, in (0, 1).
    std::vector<double> values;

    friend bool operator==(const Curve&, const Curve&) = default;
  };
  // m curves, of the stated probabilities before smoothing.
  std::vector<Curve> curves;

  friend bool operator==(const IsotonicMap&, const IsotonicMap&) = default;
};

using RecalibrationMap = std::variant<IdentityMap, TemperatureMap, VectorMap, IsotonicMap>;
// The indices in RecalibrationMap, from the simplest kind.
enum class RecalibrationKind { kNone, kTemperature, kVector, kIsotonic };
inline constexpr std::size_t kRecalibrationKinds = 4;

// Errors: InvalidArgument if the parameters are not those of a map for this many classes.
[[nodiscard]] absl::Status CheckRecalibrationMap(const RecalibrationMap& map,
                                                 std::size_t class_count);

// Replaces each row in place by a row that sums to 1 up to rounding.
// map: valid for class_count. rows: whole rows, each on the simplex. Cost: O(m) a row, isotonic
// O(m log n).
void ApplyRecalibration(const RecalibrationMap& map, std::size_t class_count,
                        std::span<double> rows);

// Fits a map of this kind by its log loss. Vector scaling is penalised by (sum of (scale - 1 /
// temperature)^2 + sum of offset^2) / 2n, which shrinks it to temperature scaling. The frequencies
// of isotonic regression are kept in [1 / (n + 2), (n + 1) / (n + 2)]. Returns the identity if the
// fitted map does not lower the log loss of the batch, with smoothed rows.
// batch: valid. Errors: FailedPrecondition without observations; Cancelled. Cost: O(n m) for each
// of at most kMaxFitPasses passes; isotonic O(m n log n).
inline constexpr std::size_t kMaxFitPasses = 200;
[[nodiscard]] absl::StatusOr<RecalibrationMap> FitRecalibration(const PredictionBatch& batch,
                                                                RecalibrationKind kind,
                                                                const RunControl& control = {});

// Which observations choose a map, and which measure what it gains.
enum class RecalibrationSplit {
  // The older half and the newer half.
  kHalves,
  // Those with even and those with odd indices: for the observations since a change, of which the
  // map needs the newest ones too.
  kAlternating,
};

// Why no map is offered for a batch: what has to be done first.
enum class MapObstacle {
  kNone,
  // All probabilities are exactly 0 or 1, as those of predicted classes are.
  kCertainRows,
  // The predicted class is right less often than by chance, in less than 1 of m rows, as with two
  // columns in the wrong order. Independent rows of a model that is right more often are said to be
  // so with a probability of at most .001.
  kWorseThanChance,
  // Rows are not independent, so that a map for older rows says nothing about newer ones. See
  // SerialDependence.
  kDependentRows,
};
// batch: valid, in its order. Cost: O(n m).
[[nodiscard]] MapObstacle FindMapObstacle(const PredictionBatch& batch);

// A map, and what it gains on observations that were not used to choose it.
struct RecalibrationAdvice {
  // Of all observations. With any obstacle, the map is the identity.
  MapObstacle obstacle = MapObstacle::kNone;
  RecalibrationMap map;
  RecalibrationSplit split = RecalibrationSplit::kHalves;
  // The observations that chose the kind by cross-validation in kRecalibrationFolds contiguous
  // folds and its parameters, and those that measured the benefit.
  std::size_t fit_observations = 0;
  std::size_t test_observations = 0;
  // Mean log loss of each kind over the folds, in nats.
  std::array<double, kRecalibrationKinds> cross_validated_log_loss{};
  // Over the observations that measured the benefit, without and with the map, in nats, with
  // smoothed rows: each term is at most log(m (1 + 1e5)).
  double log_loss_before = 0;
  double log_loss_after = 0;
  // log_loss_before - log_loss_after, and its 95 % interval: the normal one of paired differences.
  // It assumes independent observations, and is approximate.
  double improvement = 0;
  double improvement_lower = 0;
  double improvement_upper = 0;
  // The binned error of the same observations, without and with the map. Each interval holds with
  // 95 %, because the map was fixed before. The one with the map is for one look, and speaks of
  // observations to come only if nothing changed within these observations and nothing changes
  // later.
  ErrorIntervals error_before;
  ErrorIntervals error_after;
  // The reliability of the top label of the same observations (CORP), without and with the map.
  std::vector<ReliabilityBlock> reliability_before;
  std::vector<ReliabilityBlock> reliability_after;

  // The improvement is not a matter of chance.
  [[nodiscard]] bool helps() const noexcept { return improvement_lower > 0; }
};
inline constexpr std::size_t kRecalibrationFolds = 5;
// The normal interval needs a sample of some size.
inline constexpr std::size_t kMinRecalibrationObservations = 100;

// batch: valid, the oldest observation first. older: the number of its first observations that the
// map does not use, because a change came after them. They are only searched for dependence,
// because sorted rows look like a change. Errors: FailedPrecondition with fewer than
// kMinRecalibrationObservations that the map may use; Cancelled.
[[nodiscard]] absl::StatusOr<RecalibrationAdvice> AdviseRecalibration(
    const PredictionBatch& batch, RecalibrationSplit split, const RunControl& control = {},
    std::size_t older = 0);

// Observations before a change say nothing about a map for the present ones, and mixed ones make
// its error seem too small. So a map is chosen and measured on the observations after row
// change.from, the lower end of the range of the newest change. error_after then held the error of
// fresh observations in each of 200 simulated streams with a sudden change. With all observations
// of a stream, 2000 of 14000 after the change, its upper end was too small in each.
inline constexpr std::int64_t kMinObservationsSinceChange = 1000;

// The change with the latest lower end, of several events; unset if none can be dated.
// events: the deviations of the same observations from each event. first_observation: the number of
// the first of them. Errors: FailedPrecondition if fewer than kMinObservationsSinceChange follow
// the lower end, with their number.
[[nodiscard]] absl::StatusOr<std::optional<EventChange>> FindChangeBeforeMap(
    std::span<const DeviationBlocks> events, std::int64_t first_observation);

// The deviations of a batch in its order: of the top label, and for two classes also of the
// probability of class 1. batch: valid. Cost: O(n m).
[[nodiscard]] std::vector<DeviationBlocks> DeviationsOf(const PredictionBatch& batch);

// Upper bounds for AdviseRecalibration of n observations of m classes.
[[nodiscard]] double RecalibrationMemory(std::size_t n, std::size_t class_count);
[[nodiscard]] double RecalibrationOperations(std::size_t n, std::size_t class_count);

}  // namespace calibd

#endif  // CALIBD_CORE_RECALIBRATION_H_
