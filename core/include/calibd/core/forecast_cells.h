#ifndef CALIBD_CORE_FORECAST_CELLS_H_
#define CALIBD_CORE_FORECAST_CELLS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/forecast.h"
#include "calibd/core/line_vector.h"
#include "calibd/core/serial_dependence.h"
#include "calibd/core/validation.h"

namespace calibd {

// How a forecast of a number is stated. It decides what a row of values contains.

// Two values: the mean and the standard deviation, at least kMinStandardDeviation.
struct NormalForecasts {
  friend bool operator==(const NormalForecasts&, const NormalForecasts&) = default;
};
// One value for each level: the quantiles, not decreasing. levels: strictly inside (0, 1),
// increasing, 1 to kMaxQuantileLevels.
struct QuantileForecasts {
  std::vector<double> levels;

  friend bool operator==(const QuantileForecasts&, const QuantileForecasts&) = default;
};
// Independent draws from the forecast, in any order. draws: 2 to kMaxDraws.
struct SampleForecasts {
  std::size_t draws = 2;

  friend bool operator==(const SampleForecasts&, const SampleForecasts&) = default;
};
using NumberForecastKind = std::variant<NormalForecasts, QuantileForecasts, SampleForecasts>;

// Errors: InvalidArgument, naming what is wrong with the levels or the number of draws.
[[nodiscard]] absl::Status CheckForecastKind(const NumberForecastKind& kind);
// The number of values of a row. kind: valid.
[[nodiscard]] std::size_t ForecastWidth(const NumberForecastKind& kind) noexcept;

// A non-owning view of n forecasts with their outcomes.
struct NumberForecastBatch {
  // n x ForecastWidth, row-major.
  std::span<const double> forecasts;
  // n.
  std::span<const double> outcomes;

  [[nodiscard]] std::size_t size() const noexcept { return outcomes.size(); }
};
// The rows of a batch of this kind, together with the kind.
[[nodiscard]] ForecastBatch WithKind(const NumberForecastKind& kind,
                                     const NumberForecastBatch& batch) noexcept;

// Describes the first reason why a forecast is invalid: a value that is not finite, a standard
// deviation below kMinStandardDeviation, or quantiles that decrease. The violation has no
// row; its field is "mean", "standard_deviation", or "forecasts" with the column. row:
// ForecastWidth values.
[[nodiscard]] std::optional<Violation> FindForecastViolation(const NumberForecastKind& kind,
                                                             std::span<const double> row);
// The violation of the outcome of a valid forecast: it must be finite, and so must be (outcome -
// mean) / standard_deviation. The field is "outcome".
[[nodiscard]] std::optional<Violation> FindOutcomeViolation(const NumberForecastKind& kind,
                                                            std::span<const double> row,
                                                            double outcome);

// Forecasts are divided into four strata by their scale, and again by their location. The scale is
// the standard deviation, the difference of the outer quantiles, or the standard deviation of the
// draws (divisor r - 1); the location is the mean, the quantile of the level nearest 1/2 (the lower
// of two), or the mean of the draws. Both are finite: values beyond the largest double become it.
// A row of samples is put into its strata by the standard deviation and the mean of the draws and
// the outcome together, r + 1 values: given these values without their order, the rank of the
// outcome is uniform. Given the draws alone it is not: draws that happen to lie close together have
// more outcomes outside. With 5 draws and strata by the draws alone, each of 200 calibrated streams
// of 5000 rows had an e-value of 20 or more.
inline constexpr std::size_t kForecastStrata = 4;
enum class StratumKind : std::uint8_t { kScale, kLocation };
inline constexpr std::size_t kStratumKinds = 2;
using StratumEdges = std::array<double, kForecastStrata - 1>;
// The inner edges of the strata, not decreasing. A value on an edge goes below it.
struct ForecastStrata {
  std::array<StratumEdges, kStratumKinds> edges{};

  friend bool operator==(const ForecastStrata&, const ForecastStrata&) = default;
};

[[nodiscard]] double ForecastScale(const NumberForecastKind& kind,
                                   std::span<const double> row) noexcept;
[[nodiscard]] double ForecastLocation(const NumberForecastKind& kind,
                                      std::span<const double> row) noexcept;
// The quartiles of the scale and of the location over n >= 1 valid forecasts, such as those of a
// warm-up: the order statistic of the rank (n - 1) k / 4, k = 1, 2, 3, counted from 0, linear
// between two. Outcomes take no part. Cost: O(n (width + log n)).
[[nodiscard]] ForecastStrata StrataOfForecasts(const NumberForecastKind& kind,
                                               std::span<const double> forecasts);

// A forecast with its outcome, as ForecastEvidence counts it.
struct ForecastRow {
  // The cell of the outcome, and the stratum of the forecast of each kind.
  std::uint8_t cell = 0;
  std::array<std::uint8_t, kStratumKinds> strata{};
  // How many of the quantiles equal the outcome; 0 for other kinds. Such a tied outcome fits all
  // cells from `cell` to `cell + ties`. cell + ties < K.
  std::uint8_t ties = 0;
  // (outcome - mean) / standard_deviation and the log score ln sd + t^2 / 2 + ln(2 pi) / 2 of
  // Normal forecasts; 0 for the other kinds.
  double t = 0;
  double log_score = 0;
  // Normal: the CRPS sd [t (2 Phi(t) - 1) + 2 phi(t) - 1 / sqrt(pi)]. Samples: its unbiased
  // estimate mean |S - y| - sum_{s,t} |S_s - S_t| / (2 r (r - 1)). Quantiles: not the CRPS but the
  // mean over the levels of twice the pinball loss, a proper score of these quantiles. At most
  // kMostScore.
  double crps = 0;
};
// The deviation of a row for SerialDependence: 1/2 minus the middle of the cells that the outcome
// fits, in (-1/2, 1/2). It is 0 on average for exact forecasts. edges: those of the cells.
[[nodiscard]] double RowDeviation(const ForecastRow& row, std::span<const double> edges) noexcept;
// The tails of a forecast for SerialDependence, for any finite number. Normal: Phi(t) and 1 -
// Phi(t). Quantiles: the largest level whose quantile is at most the number, and 1 minus the
// smallest level whose quantile is at least that. Samples: the share of draws on each side, with r
// + 1 as the divisor: given the draws and the outcome without their order, and j of them on a side,
// the outcome is on the other one with a probability of (r + 1 - j) / (r + 1), and then the share
// is j / (r + 1), so that the mean of the factor is at most 1.
[[nodiscard]] SerialDependence::Tails ForecastTails(const NumberForecastKind& kind,
                                                    std::span<const double> row,
                                                    double number) noexcept;

// Larger scores, and larger values of t^2, are counted as this, so that their sums are finite.
inline constexpr double kMostScore = 1e289;
// The bound of a standardised residual in sums: its square stays below kMostScore.
inline constexpr double kMostResidual = 1e144;

// The experts that state another distribution: if the forecast is the standard normal in terms of
// z = Phi^-1(PIT), the outcome is Normal with mean `shift` and standard deviation `scale`.
struct LocationScale {
  double shift = 0;
  double scale = 1;

  friend bool operator==(const LocationScale&, const LocationScale&) = default;
};
inline constexpr std::array kForecastShifts = {-.5, -.25, -.1, 0., .1, .25, .5};
inline constexpr std::array kForecastScales = {.5, .67, .8, .9, 1., 1.11, 1.25, 1.5, 2., 3.};
// All pairs of them but (0, 1), by shift and then by scale.
inline constexpr std::size_t kLocationScaleCount =
    kForecastShifts.size() * kForecastScales.size() - 1;
// The shares of its wealth that an expert of the family of levels risks.
inline constexpr std::array kLevelBets = {.1, .25, .5};
// j: below kLocationScaleCount.
[[nodiscard]] LocationScale LocationScaleOf(std::size_t j) noexcept;

// The cells in which the outcomes of forecasts are counted. If the forecasts are calibrated, the
// cell of an outcome given the forecast and the past has the known probabilities pi:
// - Normal: 24 cells of t, with the inner edges .001, .01, .05, .10, ..., .95, .99, .999 of the
//   PIT, compared as t.
// - Quantiles: cell k if y is above k of the quantiles, with the declared levels as inner edges.
//   Where y equals quantiles, such as a dry day whose quantiles are 0, any cell from #{q < y} to
//   #{q <= y} fits y. The null hypothesis is then P(y < q_k) <= tau_k <= P(y <= q_k) for all
//   levels tau_k, which exact quantiles of a discrete outcome fulfil. Under it one of the cells
//   that fit has exactly the probabilities pi: that of F(y-) + U (F(y) - F(y-)) with a uniform U,
//   where F is the distribution of the outcome. Which one it is remains unknown.
// - Samples: the rank of y, #{S_s < y} plus a uniform integer in 0 .. #{S_s = y}, which is a hash
//   of the seed and the number of the observation. The r + 1 ranks are equally likely. Up to 64
//   ranks are a cell each. More are grouped by the inner edges .001, .0025, .005, .01, .015, .02,
//   .025, .05, .075, ..., .5 and their mirror images, each rounded to a rank: at most 52 cells.
// Sources: Dawid, J. R. Stat. Soc. A 147 (1984) 278, and Diebold, Gunther & Tay, Int. Econ. Rev. 39
// (1998) 863, of the PIT; Hamill, Mon. Weather Rev. 129 (2001) 550, of ranks.
//
// Immutable. Share one among the model and all its groups: it holds up to 80 KiB of constants.
class ForecastCells {
 public:
  // seed: of the ranks of samples; the model's own, the same in all its replicas. tolerance: bets
  // use the smoothed probabilities p_c = (pi_c + eps) / (1 + K eps) with K eps = tolerance, see
  // kDefaultTolerance in evidence.h. Errors: InvalidArgument for an invalid kind, for edges that
  // decrease or are not finite, and unless tolerance is in [1e-9, 0.5].
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const ForecastCells>> Create(
      NumberForecastKind kind, const ForecastStrata& strata, std::uint64_t seed, double tolerance);

  [[nodiscard]] const NumberForecastKind& kind() const noexcept { return kind_; }
  [[nodiscard]] const ForecastStrata& strata() const noexcept { return strata_; }
  [[nodiscard]] double tolerance() const noexcept { return tolerance_; }
  // Values of a row of forecasts.
  [[nodiscard]] std::size_t width() const noexcept { return width_; }
  // K, 2 to 64.
  [[nodiscard]] std::size_t cell_count() const noexcept { return probabilities_.size(); }
  // The K - 1 inner edges of the PIT, increasing.
  [[nodiscard]] std::span<const double> edges() const noexcept { return edges_; }
  // pi and p.
  [[nodiscard]] std::span<const double> probabilities() const noexcept { return probabilities_; }
  [[nodiscard]] std::span<const double> smoothed() const noexcept { return smoothed_; }

  // Computes the rows of a valid batch. first_observation: the number of its first row within the
  // model; rows have consecutive numbers. out: as many rows. Allocates no memory. Cost: some 100 ns
  // a row for Normal forecasts, O(K) for quantiles, O(r log r) for samples.
  void Describe(const NumberForecastBatch& batch, std::int64_t first_observation,
                std::span<ForecastRow> out) const noexcept;

  // ln e_j(c) of expert j, below kLocationScaleCount, for cell c: the logarithm of
  //   [Phi((Z_{c+1} - d) / s) - Phi((Z_c - d) / s)] / p_c,  Z_c = Phi^-1 of the edges,
  // minus log1p(tolerance). At least ln kLeastBet, which adds at most that to the mean of the bet.
  [[nodiscard]] double LogBet(std::size_t j, std::size_t c) const noexcept {
    return log_bets_[c * kPaddedBets + j];
  }
  static constexpr double kLeastBet = 1e-37;
  // Lines of K x kPaddedBets values: ln e_j(c) and e_j(c), 0 and 1 for the padding.
  static constexpr std::size_t kPaddedBets = 72;
  [[nodiscard]] const double* log_bets() const noexcept { return log_bets_.data(); }
  [[nodiscard]] const double* bets() const noexcept { return bets_.data(); }
  // What each expert of the family of levels gains where it is right, see ForecastFamily::kLevels;
  // where it is wrong, its bet is 1 - lambda. By lambda, kind and level: kLevelBets x 2 x (K - 1).
  // Empty for other kinds than quantiles.
  [[nodiscard]] std::span<const double> level_wins() const noexcept { return level_wins_; }

  // Upper bound of the bytes that an object holds.
  [[nodiscard]] static std::size_t MaxMemory() noexcept;

 private:
  ForecastCells(NumberForecastKind kind, const ForecastStrata& strata, std::uint64_t seed,
                double tolerance);

  void ComputeBets();
  [[nodiscard]] std::size_t CellOf(std::span<const double> row, double outcome,
                                   std::int64_t observation) const noexcept;

  NumberForecastKind kind_;
  ForecastStrata strata_;
  std::uint64_t seed_;
  double tolerance_;
  std::size_t width_;
  std::vector<double> edges_;
  // Phi^-1 of the edges.
  std::vector<double> normal_edges_;
  // The cell of each rank, for samples.
  std::vector<std::uint8_t> cell_of_rank_;
  std::vector<double> probabilities_;
  std::vector<double> smoothed_;
  LineVector log_bets_;
  LineVector bets_;
  std::vector<double> level_wins_;
};

// Adds the rows of a batch to a series. described: of these cells, as Describe computes them. Cost:
// some 20 ns a row for Normal forecasts. May throw bad_alloc at the first row.
void AddToSeries(const ForecastCells& cells, const NumberForecastBatch& batch,
                 std::span<const ForecastRow> described, SerialDependence& series);

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_CELLS_H_
