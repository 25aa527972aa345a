#include "calibd/core/recalibration.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/isotonic.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/core/moments.h"
#include "calibd/core/running_reliability.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "evaluation/dependent_rows.h"

namespace calibd {
namespace {

// The normal quantile of a two-sided 95 % interval.
constexpr double kTwoSidedQuantile = 1.959963984540054;
// A fit ends when a pass lowers the objective by less, in nats.
constexpr double kFitTolerance = 1e-12;
constexpr std::size_t kRowsBetweenChecks = 256;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

double Smooth(double g, std::size_t class_count) {
  return (g + kRecalibrationSmoothing / static_cast<double>(class_count)) /
         (1 + kRecalibrationSmoothing);
}

double Evaluate(const IsotonicMap::Curve& curve, double g) {
  const auto next = std::ranges::upper_bound(curve.starts, g);
  const auto index = next == curve.starts.begin() ? 0 : next - curve.starts.begin() - 1;
  return curve.values[static_cast<std::size_t>(index)];
}

void Normalise(std::span<double> row) {
  double sum = 0;
  for (const double value : row) sum += value;
  for (double& value : row) value /= sum;
}

double SmoothedLogLoss(const PredictionBatch& batch, std::size_t row) {
  return -std::log(
      Smooth(batch.row(row)[static_cast<std::size_t>(batch.labels[row])], batch.class_count));
}

// Log losses of the rows of a batch under a map.
std::vector<double> LogLosses(const PredictionBatch& batch, const RecalibrationMap& map) {
  std::vector<double> mapped(batch.class_count);
  std::vector<double> losses(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    std::ranges::copy(batch.row(i), mapped.begin());
    ApplyRecalibration(map, batch.class_count, mapped);
    losses[i] = SmoothedLogLoss({mapped, batch.labels.subspan(i, 1), batch.class_count}, 0);
  }
  return losses;
}

double Mean(std::span<const double> values) { return MomentsOf(values).mean; }

// The logarithms of the smoothed rows, with their labels.
PredictionSet LogRows(const PredictionBatch& batch) {
  PredictionSet set{.probabilities = {batch.probabilities.begin(), batch.probabilities.end()},
                    .labels = {batch.labels.begin(), batch.labels.end()},
                    .class_count = batch.class_count};
  for (double& g : set.probabilities) g = std::log(Smooth(g, batch.class_count));
  return set;
}

// Calls body(i) for the rows of a pass.
template <typename Body>
absl::Status ForEachRow(std::size_t n, const RunControl& control, const Body& body) {
  for (std::size_t i = 0; i < n; ++i) {
    if (i % kRowsBetweenChecks == 0) CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    body(i);
  }
  return absl::OkStatus();
}

// The inverse temperature that minimises the log loss, which is convex in it: Newton's method,
// with bisection where it leaves the interval that contains the minimum.
absl::StatusOr<double> FitInverseTemperature(const PredictionBatch& logs,
                                             const RunControl& control) {
  double low = 1 / kMaxTemperature;
  double high = kMaxTemperature;
  double inverse = 1;
  std::vector<double> q(logs.class_count);
  for (std::size_t pass = 0; pass < kMaxFitPasses; ++pass) {
    double slope = 0;
    double curvature = 0;
    CALIBD_RETURN_IF_ERROR(ForEachRow(logs.size(), control, [&](std::size_t i) {
      const std::span<const double> row = logs.row(i);
      for (std::size_t k = 0; k < q.size(); ++k) q[k] = inverse * row[k];
      Softmax(q);
      double mean = 0;
      for (std::size_t k = 0; k < q.size(); ++k) mean += q[k] * row[k];
      for (std::size_t k = 0; k < q.size(); ++k) {
        curvature += q[k] * (row[k] - mean) * (row[k] - mean);
      }
      slope += mean - row[static_cast<std::size_t>(logs.labels[i])];
    }));
    (slope > 0 ? high : low) = inverse;
    double next = inverse - slope / curvature;
    // False also for NaN, the quotient of two zeros.
    if (!(next > low && next < high)) next = (low + high) / 2;
    if (slope == 0 || std::abs(next - inverse) <= 1e-12 * inverse) break;
    inverse = next;
  }
  return inverse;
}

// The penalised log loss of vector scaling, its gradient, and a curvature for each class.
struct VectorPass {
  struct Block {
    double scale_slope = 0;
    double offset_slope = 0;
    // Upper bounds of the second derivatives: with q the mapped row, diag(q) - q q' is at most
    // 2 diag(q (1 - q)), because its rows are diagonally dominant.
    double scale_scale = 0;
    double scale_offset = 0;
    double offset_offset = 0;
  };
  double objective = 0;
  std::vector<Block> blocks;
};

absl::StatusOr<VectorPass> PassOver(const PredictionBatch& logs, const VectorMap& map,
                                    double centre, const RunControl& control) {
  const auto n = static_cast<double>(logs.size());
  VectorPass pass;
  pass.blocks.resize(logs.class_count);
  std::vector<double> q(logs.class_count);
  CALIBD_RETURN_IF_ERROR(ForEachRow(logs.size(), control, [&](std::size_t i) {
    const std::span<const double> row = logs.row(i);
    const auto label = static_cast<std::size_t>(logs.labels[i]);
    for (std::size_t k = 0; k < q.size(); ++k) q[k] = map.scales[k] * row[k] + map.offsets[k];
    const double label_score = q[label];
    pass.objective += (Softmax(q) - label_score) / n;
    for (std::size_t k = 0; k < q.size(); ++k) {
      VectorPass::Block& block = pass.blocks[k];
      const double slope = (q[k] - (k == label ? 1 : 0)) / n;
      const double curvature = 2 * q[k] * (1 - q[k]) / n;
      block.scale_slope += slope * row[k];
      block.offset_slope += slope;
      block.scale_scale += curvature * row[k] * row[k];
      block.scale_offset += curvature * row[k];
      block.offset_offset += curvature;
    }
  }));
  for (std::size_t k = 0; k < q.size(); ++k) {
    VectorPass::Block& block = pass.blocks[k];
    const double distance = map.scales[k] - centre;
    pass.objective += (distance * distance + map.offsets[k] * map.offsets[k]) / (2 * n);
    block.scale_slope += distance / n;
    block.offset_slope += map.offsets[k] / n;
    block.scale_scale += 1 / n;
    block.offset_offset += 1 / n;
  }
  return pass;
}

// Descends from temperature scaling; each step is halved until the objective becomes lower.
absl::StatusOr<VectorMap> FitVector(const PredictionBatch& logs, const RunControl& control) {
  CALIBD_ASSIGN_OR_RETURN(const double centre, FitInverseTemperature(logs, control));
  VectorMap map{.scales = std::vector<double>(logs.class_count, centre),
                .offsets = std::vector<double>(logs.class_count)};
  CALIBD_ASSIGN_OR_RETURN(VectorPass here, PassOver(logs, map, centre, control));
  // Twice the step that the curvature bound guarantees: the bound is rarely tight.
  double step = 2;
  for (std::size_t passes = 0; passes < kMaxFitPasses && step > 1e-6; ++passes) {
    VectorMap next = map;
    for (std::size_t k = 0; k < logs.class_count; ++k) {
      const VectorPass::Block& b = here.blocks[k];
      const double determinant = b.scale_scale * b.offset_offset - b.scale_offset * b.scale_offset;
      next.scales[k] -=
          step * (b.offset_offset * b.scale_slope - b.scale_offset * b.offset_slope) / determinant;
      next.offsets[k] -=
          step * (b.scale_scale * b.offset_slope - b.scale_offset * b.scale_slope) / determinant;
      next.scales[k] = std::max(next.scales[k], 0.0);
    }
    CALIBD_ASSIGN_OR_RETURN(VectorPass there, PassOver(logs, next, centre, control));
    // False also for NaN.
    if (!(there.objective < here.objective)) {
      step /= 2;
      continue;
    }
    const double decrease = here.objective - there.objective;
    map = std::move(next);
    here = std::move(there);
    if (decrease < kFitTolerance) break;
  }
  return map;
}

absl::StatusOr<IsotonicMap> FitIsotonicMap(const PredictionBatch& batch,
                                           const RunControl& control) {
  const double least = 1 / (static_cast<double>(batch.size()) + 2);
  IsotonicMap map;
  for (std::size_t k = 0; k < batch.class_count; ++k) {
    CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    CALIBD_ASSIGN_OR_RETURN(const BinaryPredictions predictions, ClassPredictions(batch, k));
    const SortedPredictions sorted(predictions);
    std::vector<IsotonicBlock> blocks;
    FitIsotonic(sorted.counts, sorted.successes, blocks);
    IsotonicMap::Curve& curve = map.curves.emplace_back();
    for (const IsotonicBlock& block : blocks) {
      curve.starts.push_back(sorted.probabilities[block.begin]);
      curve.values.push_back(std::clamp(block.mean(), least, 1 - least));
    }
  }
  return map;
}

absl::StatusOr<RecalibrationMap> FitKind(const PredictionBatch& batch, RecalibrationKind kind,
                                         const RunControl& control) {
  if (kind == RecalibrationKind::kNone) return IdentityMap{};
  if (kind == RecalibrationKind::kIsotonic) return FitIsotonicMap(batch, control);
  const PredictionSet logs = LogRows(batch);
  if (kind == RecalibrationKind::kVector) return FitVector(logs.view(), control);
  CALIBD_ASSIGN_OR_RETURN(const double inverse, FitInverseTemperature(logs.view(), control));
  return TemperatureMap{1 / inverse};
}

// The rows of a batch without those of [first, first + count).
PredictionSet Without(const PredictionBatch& batch, std::size_t first, std::size_t count) {
  PredictionSet set{.probabilities = {}, .labels = {}, .class_count = batch.class_count};
  for (const PredictionBatch& part :
       {batch.rows(0, first), batch.rows(first + count, batch.size() - first - count)}) {
    set.probabilities.insert(set.probabilities.end(), part.probabilities.begin(),
                             part.probabilities.end());
    set.labels.insert(set.labels.end(), part.labels.begin(), part.labels.end());
  }
  return set;
}

// The mean log loss of each kind over the folds.
absl::StatusOr<std::array<double, kRecalibrationKinds>> CrossValidate(const PredictionBatch& batch,
                                                                      const RunControl& control) {
  constexpr std::size_t kTasks = kRecalibrationKinds * kRecalibrationFolds;
  std::array<double, kTasks> sums{};
  absl::Status failure;
  std::mutex mutex;
  std::size_t done = 0;
  RunLoop(control.parallel_for, kTasks, [&](std::size_t task) {
    const std::size_t fold = task % kRecalibrationFolds;
    const auto kind = static_cast<RecalibrationKind>(task / kRecalibrationFolds);
    const std::size_t first = batch.size() * fold / kRecalibrationFolds;
    const std::size_t count = batch.size() * (fold + 1) / kRecalibrationFolds - first;
    const absl::StatusOr<RecalibrationMap> map =
        FitRecalibration(Without(batch, first, count).view(), kind, control.WithoutProgress());
    if (map.ok()) {
      const std::vector<double> losses = LogLosses(batch.rows(first, count), *map);
      sums[task] = Mean(losses) * static_cast<double>(count);
    }
    const std::scoped_lock lock(mutex);
    failure.Update(map.status());
    ++done;
    // The rest is for the final fit.
    if (control.progress) control.progress(0.9 * static_cast<double>(done) / kTasks);
  });
  CALIBD_RETURN_IF_ERROR(failure);
  std::array<double, kRecalibrationKinds> means{};
  for (std::size_t task = 0; task < kTasks; ++task) {
    means[task / kRecalibrationFolds] += sums[task] / static_cast<double>(batch.size());
  }
  return means;
}

ErrorIntervals ErrorsOf(const PredictionBatch& batch, const ErrorLevels& levels) {
  RunningReliability top_label;
  top_label.Add(batch);
  ReliabilitySums class_1;
  if (batch.class_count == 2) class_1.AddClass(batch, 1);
  return EventIntervals(top_label, class_1, levels).value_or(ErrorIntervals{});
}

// The blocks of the top label, without a band.
absl::StatusOr<std::vector<ReliabilityBlock>> ReliabilityOf(const PredictionBatch& batch) {
  CALIBD_ASSIGN_OR_RETURN(
      CorpReliability corp,
      EstimateCorpReliability(TopLabelPredictions(batch), {.level = 0.9, .replicates = 0}));
  return std::move(corp.blocks);
}

// tested: observations that had no influence on advice.map.
absl::Status MeasureBenefit(const PredictionBatch& tested, RecalibrationAdvice& advice) {
  const std::vector<double> before = LogLosses(tested, IdentityMap{});
  std::vector<double> gains = LogLosses(tested, advice.map);
  advice.log_loss_before = Mean(before);
  advice.log_loss_after = Mean(gains);
  for (std::size_t i = 0; i < gains.size(); ++i) gains[i] = before[i] - gains[i];
  const RunningMoments improvement = MomentsOf(gains);
  advice.improvement = improvement.mean;
  const double radius = kTwoSidedQuantile * StandardError(improvement);
  advice.improvement_lower = advice.improvement - radius;
  advice.improvement_upper = advice.improvement + radius;
  // A one-look interval would be wider for the probabilities that a map repairs: its rate is chosen
  // for calibrated ones.
  advice.error_before = ErrorsOf(tested, kSingleErrorLevels);
  advice.error_after = advice.error_before;
  CALIBD_ASSIGN_OR_RETURN(advice.reliability_before, ReliabilityOf(tested));
  advice.reliability_after = advice.reliability_before;
  if (std::holds_alternative<IdentityMap>(advice.map)) return absl::OkStatus();
  std::vector<double> mapped(tested.probabilities.begin(), tested.probabilities.end());
  ApplyRecalibration(advice.map, tested.class_count, mapped);
  const PredictionBatch repaired{mapped, tested.labels, tested.class_count};
  advice.error_after = ErrorsOf(repaired, kOneLookErrorLevels);
  CALIBD_ASSIGN_OR_RETURN(advice.reliability_after, ReliabilityOf(repaired));
  return absl::OkStatus();
}

// Every second observation, from index `first`.
PredictionSet EverySecond(const PredictionBatch& batch, std::size_t first) {
  PredictionSet set{.probabilities = {}, .labels = {}, .class_count = batch.class_count};
  for (std::size_t i = first; i < batch.size(); i += 2) {
    const std::span<const double> row = batch.row(i);
    set.probabilities.insert(set.probabilities.end(), row.begin(), row.end());
    set.labels.push_back(batch.labels[i]);
  }
  return set;
}

bool AllFinite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

bool IsValid(const VectorMap& map, std::size_t class_count) {
  return map.scales.size() == class_count && map.offsets.size() == class_count &&
         AllFinite(map.scales) && AllFinite(map.offsets) &&
         std::ranges::all_of(map.scales, [](double scale) { return scale >= 0; });
}

bool IsValid(const IsotonicMap::Curve& curve) {
  return !curve.starts.empty() && curve.values.size() == curve.starts.size() &&
         AllFinite(curve.starts) && AllFinite(curve.values) &&
         std::ranges::is_sorted(curve.starts) && std::ranges::is_sorted(curve.values) &&
         curve.values.front() > 0 && curve.values.back() < 1;
}

}  // namespace

absl::Status CheckRecalibrationMap(const RecalibrationMap& map, std::size_t class_count) {
  const auto check = [](bool valid, const auto&... fault) {
    return valid ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat(fault...));
  };
  return std::visit(
      Overloaded{
          [](const IdentityMap&) { return absl::OkStatus(); },
          [&](const TemperatureMap& scaling) {
            const double temperature = scaling.temperature;
            return check(temperature >= 1 / kMaxTemperature && temperature <= kMaxTemperature,
                         "temperature is ", temperature, ", expected ", 1 / kMaxTemperature, "..",
                         kMaxTemperature);
          },
          [&](const VectorMap& scaling) {
            return check(IsValid(scaling, class_count), "scales has ", scaling.scales.size(),
                         " values and offsets has ", scaling.offsets.size(), ", expected ",
                         class_count, " finite values each, scales >= 0");
          },
          [&](const IsotonicMap& isotonic) {
            const bool valid = isotonic.curves.size() == class_count &&
                               std::ranges::all_of(isotonic.curves, [](const auto& curve) {
                                 return IsValid(curve);
                               });
            return check(valid, "curves has ", isotonic.curves.size(), " curves, expected ",
                         class_count,
                         " with ascending starts and as many nondecreasing values in (0, 1)");
          }},
      map);
}

void ApplyRecalibration(const RecalibrationMap& map, std::size_t class_count,
                        std::span<double> rows) {
  if (std::holds_alternative<IdentityMap>(map)) return;
  for (; !rows.empty(); rows = rows.subspan(class_count)) {
    const std::span<double> row = rows.first(class_count);
    std::visit(Overloaded{[](const IdentityMap&) {},
                          [&](const TemperatureMap& scaling) {
                            for (double& g : row) {
                              g = std::log(Smooth(g, class_count)) / scaling.temperature;
                            }
                            Softmax(row);
                          },
                          [&](const VectorMap& scaling) {
                            for (std::size_t k = 0; k < class_count; ++k) {
                              row[k] = scaling.scales[k] * std::log(Smooth(row[k], class_count)) +
                                       scaling.offsets[k];
                            }
                            Softmax(row);
                          },
                          [&](const IsotonicMap& isotonic) {
                            for (std::size_t k = 0; k < class_count; ++k) {
                              row[k] = Evaluate(isotonic.curves[k], row[k]);
                            }
                            Normalise(row);
                          }},
               map);
  }
}

absl::StatusOr<RecalibrationMap> FitRecalibration(const PredictionBatch& batch,
                                                  RecalibrationKind kind,
                                                  const RunControl& control) {
  if (batch.size() < 1) {
    return absl::FailedPreconditionError("recalibration has 0 observations, needs at least 1");
  }
  CALIBD_ASSIGN_OR_RETURN(RecalibrationMap map, FitKind(batch, kind, control));
  const bool better = Mean(LogLosses(batch, map)) < Mean(LogLosses(batch, IdentityMap{}));
  return better ? std::move(map) : IdentityMap{};
}

MapObstacle FindMapObstacle(const PredictionBatch& batch) {
  const auto is_certain = [](double g) { return g == 0 || g == 1; };
  if (std::ranges::all_of(batch.probabilities, is_certain)) return MapObstacle::kCertainRows;
  std::size_t right = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch.labels[i] == static_cast<std::int32_t>(PredictedClass(batch.row(i)))) ++right;
  }
  // Hoeffding's inequality.
  constexpr double kLevel = 0.001;
  const auto n = static_cast<double>(batch.size());
  const double most = static_cast<double>(right) / n + std::sqrt(-std::log(kLevel) / (2 * n));
  if (most < 1 / static_cast<double>(batch.class_count)) return MapObstacle::kWorseThanChance;
  return DependenceFoundAt(batch) > 0 ? MapObstacle::kDependentRows : MapObstacle::kNone;
}

absl::StatusOr<RecalibrationAdvice> AdviseRecalibration(const PredictionBatch& batch,
                                                        RecalibrationSplit split,
                                                        const RunControl& control,
                                                        std::size_t older) {
  const PredictionBatch rows = batch.rows(older, batch.size() - older);
  if (rows.size() < kMinRecalibrationObservations) {
    return absl::FailedPreconditionError(
        absl::StrCat("not enough observations for a recalibration: ", rows.size(), ", at least ",
                     kMinRecalibrationObservations, " are needed"));
  }
  PredictionSet even;
  PredictionSet odd;
  PredictionBatch fitted = rows.rows(0, rows.size() / 2);
  PredictionBatch tested = rows.rows(fitted.size(), rows.size() - fitted.size());
  if (split == RecalibrationSplit::kAlternating) {
    even = EverySecond(rows, 0);
    odd = EverySecond(rows, 1);
    fitted = even.view();
    tested = odd.view();
  }
  RecalibrationAdvice advice;
  advice.split = split;
  advice.fit_observations = fitted.size();
  advice.test_observations = tested.size();
  CALIBD_ASSIGN_OR_RETURN(advice.cross_validated_log_loss, CrossValidate(fitted, control));
  // The first of equally good kinds is the simplest one.
  const auto& losses = advice.cross_validated_log_loss;
  advice.obstacle = FindMapObstacle(rows);
  if (advice.obstacle == MapObstacle::kNone && older > 0 && DependenceFoundAt(batch) > 0) {
    advice.obstacle = MapObstacle::kDependentRows;
  }
  const auto kind =
      advice.obstacle == MapObstacle::kNone
          ? static_cast<RecalibrationKind>(std::ranges::min_element(losses) - losses.begin())
          : RecalibrationKind::kNone;
  CALIBD_ASSIGN_OR_RETURN(advice.map, FitRecalibration(fitted, kind, control));
  CALIBD_RETURN_IF_ERROR(MeasureBenefit(tested, advice));
  if (control.progress) control.progress(1);
  return advice;
}

absl::StatusOr<std::optional<EventChange>> FindChangeBeforeMap(
    std::span<const DeviationBlocks> events, std::int64_t first_observation) {
  const std::vector<EventChange> changes = FindChanges(events);
  const auto newest =
      std::ranges::max_element(changes, {}, [](const EventChange& one) { return one.change.from; });
  if (newest == changes.end()) return std::nullopt;
  const std::int64_t since = events[newest->event].rows() - newest->change.from;
  if (since >= kMinObservationsSinceChange) return *newest;
  return absl::FailedPreconditionError(
      absl::StrCat("too few rows since the change (", since, " of ", kMinObservationsSinceChange,
                   "): the error changed between rows ", first_observation + newest->change.from,
                   " and ", first_observation + newest->change.to - 1, "; recalibrate after ",
                   kMinObservationsSinceChange - since, " more rows"));
}

std::vector<DeviationBlocks> DeviationsOf(const PredictionBatch& batch) {
  std::vector<DeviationBlocks> events(batch.class_count == 2 ? 2 : 1);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> row = batch.row(i);
    for (std::size_t event = 0; event < events.size(); ++event) {
      const std::size_t k = event == 0 ? PredictedClass(row) : 1;
      const bool happened = batch.labels[i] == static_cast<std::int32_t>(k);
      // The sum of a row may exceed 1 by the tolerance, and so may a probability.
      events[event].Add(std::min(row[k], 1.0) - (happened ? 1 : 0));
    }
  }
  return events;
}

double RecalibrationMemory(std::size_t n, std::size_t class_count) {
  // Every fit copies its rows and their logarithms.
  constexpr double kCopies = 2.0 * kRecalibrationKinds * kRecalibrationFolds;
  return kCopies * sizeof(double) * static_cast<double>(n) * static_cast<double>(class_count) / 2;
}

double RecalibrationOperations(std::size_t n, std::size_t class_count) {
  // An exponential function counts as 20 multiplications. Half of the rows take part in the fits of
  // each fold.
  constexpr double kPerEntry = 20.0 * kMaxFitPasses * (kRecalibrationFolds + 1) / 2;
  return kPerEntry * static_cast<double>(n) * static_cast<double>(class_count);
}

}  // namespace calibd
