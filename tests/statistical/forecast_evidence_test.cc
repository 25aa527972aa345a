// What the evidence of forecasts promises: false alarms, run lengths, how soon errors are found,
// and the coverage of the interval of the coverage error. Seeds are fixed. With S simulations a
// count at rate p is Binomial(S, p); bounds are 5 standard deviations away, which gives a
// false-failure probability below 1e-6.
#include "calibd/core/forecast_evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/forecast_coverage.h"
#include "calibd/core/forecast_discrepancy.h"
#include "evidence_streams.h"
#include "level_bound.h"

namespace calibd {
namespace {

using testing::kLevel;
using testing::Margin;
using testing::Repeated;

using Engine = std::mt19937_64;

// The quartiles of the standard normal distribution, and those of e^{.35 Z}.
constexpr double kNormalQuartile = 0.6744897501960817;

ForecastStrata KnownStrata() {
  const double spread = std::exp(.35 * kNormalQuartile);
  ForecastStrata strata;
  strata.edges = {StratumEdges{1 / spread, 1, spread},
                  StratumEdges{-kNormalQuartile, 0, kNormalQuartile}};
  return strata;
}

// Draws an outcome, given the mean and the standard deviation of a forecast.
using OutcomeOf = std::function<double(double mean, double sd, Engine& engine)>;

double StandardNormal(Engine& engine) { return std::normal_distribution<double>()(engine); }

double CalibratedOutcome(double mean, double sd, Engine& engine) {
  return mean + sd * StandardNormal(engine);
}

// A stream of forecasts with the mean N(0, 1) and the standard deviation e^{.35 N(0, 1)}, stated in
// one of the three ways.
class ForecastStream {
 public:
  ForecastStream(const NumberForecastKind& kind, OutcomeOf outcome, std::uint64_t seed)
      : kind_(kind), outcome_(std::move(outcome)), engine_(seed) {}

  // Fills the batch with the next rows.
  NumberForecastBatch Next(std::size_t rows) {
    forecasts_.clear();
    outcomes_.clear();
    for (std::size_t i = 0; i < rows; ++i) {
      const double mean = StandardNormal(engine_);
      const double sd = std::exp(.35 * StandardNormal(engine_));
      if (const auto* const quantiles = std::get_if<QuantileForecasts>(&kind_)) {
        for (const double z : ZOf(*quantiles)) forecasts_.push_back(mean + sd * z);
      } else if (const auto* const samples = std::get_if<SampleForecasts>(&kind_)) {
        for (std::size_t s = 0; s < samples->draws; ++s) {
          forecasts_.push_back(CalibratedOutcome(mean, sd, engine_));
        }
      } else {
        forecasts_.insert(forecasts_.end(), {mean, sd});
      }
      outcomes_.push_back(outcome_(mean, sd, engine_));
    }
    return {.forecasts = forecasts_, .outcomes = outcomes_};
  }

 private:
  // Phi^-1 of the levels .05, .25, .5, .75, .95.
  static std::vector<double> ZOf(const QuantileForecasts& /*quantiles*/) {
    return {-1.6448536269514729, -kNormalQuartile, 0, kNormalQuartile, 1.6448536269514722};
  }

  NumberForecastKind kind_;
  OutcomeOf outcome_;
  Engine engine_;
  std::vector<double> forecasts_;
  std::vector<double> outcomes_;
};

// The number of observations until E >= 20, or one more than `rows`.
std::int64_t DelayOf(const std::shared_ptr<const ForecastCells>& cells, const OutcomeOf& outcome,
                     std::int64_t rows, std::uint64_t seed) {
  ForecastStream stream(cells->kind(), outcome, seed);
  ForecastEvidence evidence(cells, {.log_e = -std::log(kLevel)});
  for (std::int64_t first = 0; first < rows;) {
    const std::int64_t count = std::min<std::int64_t>(100, rows - first);
    evidence.Add(stream.Next(static_cast<std::size_t>(count)), first + 1);
    first += count;
    // Its logarithm is far below that of 20 where the mark was not reached.
    const ForecastEvidenceState state = evidence.Save();
    if (state.evidence_reached_at > 0) return state.evidence_reached_at;
  }
  return rows + 1;
}

TEST(ForecastEvidenceLevelTest, FalseAlarmsStayBelowTheLevel) {
  double sum = 0;
  const int simulations = Repeated(400);
  const std::vector<NumberForecastKind> kinds = {
      NormalForecasts{}, QuantileForecasts{{.05, .25, .5, .75, .95}}, SampleForecasts{5}};
  for (const NumberForecastKind& kind : kinds) {
    const auto cells = *ForecastCells::Create(kind, KnownStrata(), 1, kDefaultTolerance);
    const std::int64_t rows = std::holds_alternative<NormalForecasts>(kind) ? 5000 : 2000;
    int alarms = 0;
    for (int i = 0; i < simulations; ++i) {
      alarms += DelayOf(cells, CalibratedOutcome, rows, 100 + static_cast<std::uint64_t>(i)) <= rows
                    ? 1
                    : 0;
    }
    const double rate = static_cast<double>(alarms) / simulations;
    EXPECT_LE(rate, kLevel + Margin(kLevel, simulations)) << "kind " << kind.index();
    RecordProperty("kind" + std::to_string(kind.index()), std::to_string(rate));
    sum += rate;
  }
  // All kinds together are 1200 streams. The mixture over experts has a rate of .03.
  EXPECT_LE(sum / static_cast<double>(kinds.size()), kLevel);
}

TEST(ForecastEvidenceLevelTest, DriftAlarmsAreRare) {
  // E R_T <= E T for the time T at which R reaches c or n rows have passed: P(T < n) <= n / c.
  constexpr std::int64_t kRows = 1000;
  constexpr double kRunLength = 4 * kRows;
  const int simulations = Repeated(400);
  const auto cells = *ForecastCells::Create(NormalForecasts{}, KnownStrata(), 1, kDefaultTolerance);
  int alarms = 0;
  for (int i = 0; i < simulations; ++i) {
    ForecastStream stream(NormalForecasts{}, CalibratedOutcome,
                          5000 + static_cast<std::uint64_t>(i));
    ForecastEvidence evidence(cells, {.log_shiryaev_roberts = std::log1p(kRunLength)});
    evidence.Add(stream.Next(kRows), 1);
    alarms += evidence.Read().drift_reached_at > 0 ? 1 : 0;
  }
  const double rate = static_cast<double>(alarms) / simulations;
  RecordProperty("rate", std::to_string(rate));
  EXPECT_LE(rate, .25 + Margin(.25, simulations));
  EXPECT_GT(alarms, 0);
}

// After 5000 calibrated rows, the detectors see a change sooner than the evidence, which has to
// learn it against all that it has lost.
TEST(ForecastEvidenceDelayTest, ChangesAreFound) {
  constexpr std::int64_t kCalibrated = 5000;
  constexpr int kStreams = 100;
  const auto cells = *ForecastCells::Create(NormalForecasts{}, KnownStrata(), 1, kDefaultTolerance);
  std::vector<double> delays;
  for (int i = 0; i < kStreams; ++i) {
    std::int64_t row = 0;
    const auto outcome = [&row](double mean, double sd, Engine& engine) {
      return mean + (row++ < kCalibrated ? 1 : 1.5) * sd * StandardNormal(engine);
    };
    ForecastStream stream(NormalForecasts{}, outcome, 9000 + static_cast<std::uint64_t>(i));
    ForecastEvidence evidence(cells, {.log_shiryaev_roberts = std::log1p(1e6)});
    evidence.Add(stream.Next(kCalibrated), 1);
    ASSERT_EQ(evidence.Read().drift_reached_at, 0);
    evidence.Add(stream.Next(1000), kCalibrated + 1);
    const std::int64_t reached = evidence.Read().drift_reached_at;
    delays.push_back(static_cast<double>(reached > 0 ? reached - kCalibrated : 1000));
  }
  std::sort(delays.begin(), delays.end());
  RecordProperty("median", std::to_string(delays[kStreams / 2]));
  // The evidence needs 26 rows from the start to reach 20; the threshold is 50000 times higher.
  EXPECT_LE(delays[kStreams / 2], 120);
  EXPECT_GE(delays[kStreams / 2], 20);
}

TEST(ForecastEvidenceDelayTest, MedianDelaysAreAsMeasured) {
  struct Scenario {
    const char* name;
    double median;
    OutcomeOf outcome;
  };
  const auto shifted = [](double shift, double scale) {
    return [shift, scale](double mean, double sd, Engine& engine) {
      return mean + sd * (shift + scale * StandardNormal(engine));
    };
  };
  // The mean of the stated standard deviations.
  const double mean_sd = std::exp(.35 * .35 / 2);
  const std::vector<Scenario> scenarios = {
      {"sd too small by 1.1", 708, shifted(0, 1.1)},
      {"sd too small by 1.25", 103, shifted(0, 1.25)},
      {"sd too small by 1.5", 26, shifted(0, 1.5)},
      {"sd too large by 1.25", 153, shifted(0, 1 / 1.25)},
      {"bias .1", 1451, shifted(.1, 1)},
      {"bias .25", 223, shifted(.25, 1)},
      {"bias .5", 51, shifted(.5, 1)},
      {"Student t5", 765,
       [](double mean, double sd, Engine& engine) {
         return mean + sd * std::student_t_distribution<double>(5)(engine) / std::sqrt(5.0 / 3);
       }},
      {"exponential", 42,
       [](double mean, double sd, Engine& engine) {
         return mean + sd * (std::exponential_distribution<double>()(engine) - 1);
       }},
      {"constant sd", 82,
       [mean_sd](double mean, double /*sd*/, Engine& engine) {
         return mean + mean_sd * StandardNormal(engine);
       }},
      {"mean .8 mu", 852,
       [](double mean, double sd, Engine& engine) {
         return .8 * mean + sd * StandardNormal(engine);
       }},
  };
  const auto cells = *ForecastCells::Create(NormalForecasts{}, KnownStrata(), 1, kDefaultTolerance);
  constexpr int kStreams = 400;
  for (const Scenario& scenario : scenarios) {
    std::vector<double> delays;
    for (int i = 0; i < kStreams; ++i) {
      delays.push_back(static_cast<double>(
          DelayOf(cells, scenario.outcome, 5000, 1000 + static_cast<std::uint64_t>(i))));
    }
    std::sort(delays.begin(), delays.end());
    const double median = (delays[kStreams / 2 - 1] + delays[kStreams / 2]) / 2;
    EXPECT_NEAR(median, scenario.median, .25 * scenario.median) << scenario.name;
    RecordProperty(scenario.name, std::to_string(median));
  }
}

// The mean of the quadratic estimate is 0 for calibrated forecasts, also from few draws, and the
// interval of the discrepancy holds 0.
TEST(ForecastDiscrepancyLevelTest, IsUnbiasedForCalibratedForecasts) {
  constexpr std::size_t kRows = 100;
  const int simulations = Repeated(400);
  for (const NumberForecastKind& kind :
       {NumberForecastKind(NormalForecasts{}), NumberForecastKind(SampleForecasts{2}),
        NumberForecastKind(QuantileForecasts{{.05, .25, .5, .75, .95}})}) {
    ForecastStream stream(kind, CalibratedOutcome, 31);
    const DiscrepancyKernel kernel = *ChooseDiscrepancyKernel(kind, stream.Next(500).forecasts);
    RunningMoments estimates;
    RunningMoments blocks;
    int missed = 0;
    for (int i = 0; i < simulations; ++i) {
      auto discrepancy = *ForecastDiscrepancy::Create(kind, kernel);
      discrepancy.Add(stream.Next(kRows));
      estimates.Add(*discrepancy.Unbiased());
      blocks.Merge(discrepancy.blocks().moments());
      missed += discrepancy.Interval(kLevel)->lower > 0 ? 1 : 0;
    }
    const double error = std::sqrt(estimates.Variance() / simulations);
    EXPECT_NEAR(estimates.mean, 0, 5 * error) << "kind " << kind.index();
    EXPECT_EQ(blocks.count, 2 * simulations);
    EXPECT_NEAR(blocks.mean, 0, 5 * std::sqrt(blocks.Variance() / (2.0 * simulations)));
    EXPECT_LE(static_cast<double>(missed) / simulations, kLevel + Margin(kLevel, simulations));
  }
}

// The largest distance of the running coverage error from its plug-in, relative to its bound, over
// all times. shift(previous S): how much probability the outcomes take from the second half of
// `cell_count` equally likely cells and give to the first half, at most 1/2.
double LargestExcess(std::size_t cell_count, int rows,
                     const std::function<double(const std::vector<double>&)>& shift,
                     Engine& engine) {
  std::vector<double> deviations(cell_count);
  std::vector<double> expectations(cell_count);
  std::uniform_real_distribution<double> uniform;
  const double q = 1.0 / static_cast<double>(cell_count);
  const std::size_t half = cell_count / 2;
  double largest = 0;
  for (int t = 1; t <= rows; ++t) {
    const double moved = shift(deviations);
    const bool first = uniform(engine) < .5 + moved;
    const auto within = static_cast<std::size_t>(uniform(engine) * static_cast<double>(half));
    double plug_in = 0;
    double error = 0;
    for (std::size_t c = 0; c < cell_count; ++c) {
      const bool inside = c == (first ? 0 : half) + within;
      deviations[c] += (inside ? 1 : 0) - q;
      expectations[c] += (c < half ? moved : -moved) / static_cast<double>(half);
      plug_in += std::abs(deviations[c]) / (2.0 * t);
      error += std::abs(expectations[c]) / (2.0 * t);
    }
    largest =
        std::max(largest, std::abs(error - plug_in) / CoverageErrorMargin(t, cell_count, kLevel));
  }
  return largest;
}

TEST(ForecastCoverageLevelTest, TheIntervalHoldsTheCoverageErrorAtAllTimes) {
  const int simulations = Repeated(400);
  const auto calibrated = [](const std::vector<double>&) { return 0.0; };
  // Pushes the sums away from 0, and back.
  const auto away = [](const std::vector<double>& sums) { return sums[0] < 0 ? -.2 : .2; };
  const auto back = [](const std::vector<double>& sums) { return sums[0] < 0 ? .3 : -.3; };
  for (const std::size_t cell_count : {2U, 20U}) {
    std::vector<double> rates;
    for (const auto& shift :
         std::vector<std::function<double(const std::vector<double>&)>>{calibrated, away, back}) {
      Engine engine(77);
      int missed = 0;
      int missed_by_a_narrow_one = 0;
      for (int i = 0; i < simulations; ++i) {
        const double excess = LargestExcess(cell_count, 2000, shift, engine);
        missed += excess > 1 ? 1 : 0;
        missed_by_a_narrow_one += excess > .6 ? 1 : 0;
      }
      EXPECT_LE(static_cast<double>(missed) / simulations, kLevel + Margin(kLevel, simulations));
      // The simulation would find an interval that is too narrow by 40 %.
      rates.push_back(static_cast<double>(missed_by_a_narrow_one) / simulations);
    }
    EXPECT_GT(rates.front(), kLevel + Margin(kLevel, simulations));
  }
}

}  // namespace
}  // namespace calibd
