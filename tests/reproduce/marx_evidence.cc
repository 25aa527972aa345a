#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "absl/strings/str_format.h"
#include "calibd/core/evidence.h"
#include "calibd/core/forecast_evidence.h"
#include "check.h"
#include "marx.h"

namespace calibd::reproduce {
namespace {

constexpr std::size_t kStreams = 400;
constexpr double kMark = 20;
constexpr double kQuartile = 0.67448975019608171;
// The logarithm of the standard deviation of a forecast is Normal with this deviation.
constexpr double kLogSpread = .35;

struct Forecast {
  double mean = 0;
  double sd = 1;
};
double Normal(std::mt19937_64& random) { return std::normal_distribution<double>()(random); }

// Each stream draws forecasts; an alternative states others, or draws outcomes that differ from
// them.
Forecast Drawn(Forecast drawn) { return drawn; }
double FromForecast(Forecast drawn, std::mt19937_64& random) {
  return drawn.mean + drawn.sd * Normal(random);
}
struct Alternative {
  const char* name;
  Forecast (*stated)(Forecast drawn);
  double (*outcome)(Forecast drawn, std::mt19937_64& random);
  double median_delay;
};

// The number of observations until the e-value reaches kMark, or limit + 1.
// The edges of the strata are the quartiles of the stated forecasts.
std::int64_t Delay(const Alternative& alternative, std::int64_t limit, std::uint64_t seed) {
  ForecastStrata strata;
  for (std::size_t k = 0; k < 3; ++k) {
    const double z = kQuartile * (static_cast<double>(k) - 1);
    const Forecast edge = alternative.stated({z, std::exp(kLogSpread * z)});
    strata.edges[static_cast<std::size_t>(StratumKind::kScale)][k] = edge.sd;
    strata.edges[static_cast<std::size_t>(StratumKind::kLocation)][k] = edge.mean;
  }
  const auto cells = *ForecastCells::Create(NormalForecasts{}, strata, 1, kDefaultTolerance);
  ForecastEvidence evidence(cells, {.log_e = std::log(kMark)});
  std::mt19937_64 random(seed);
  constexpr std::size_t kChunk = 64;
  while (evidence.count() < limit) {
    std::array<double, 2 * kChunk> forecasts;
    std::array<double, kChunk> outcomes;
    for (std::size_t i = 0; i < kChunk; ++i) {
      Forecast drawn;
      drawn.mean = Normal(random);
      drawn.sd = std::exp(kLogSpread * Normal(random));
      const Forecast stated = alternative.stated(drawn);
      forecasts[2 * i] = stated.mean;
      forecasts[2 * i + 1] = stated.sd;
      outcomes[i] = alternative.outcome(drawn, random);
    }
    evidence.Add(NumberForecastBatch{forecasts, outcomes}, evidence.count() + 1);
    const std::int64_t reached = evidence.Read().evidence_reached_at;
    if (reached > 0) return reached;
  }
  return limit + 1;
}

std::vector<std::int64_t> Delays(const Alternative& alternative, std::int64_t limit) {
  std::vector<std::int64_t> delays(kStreams);
  OnAllProcessors(kStreams, [&](std::size_t i) { delays[i] = Delay(alternative, limit, i); });
  return delays;
}

}  // namespace

void ReproduceEvidence() {
  constexpr std::int64_t kLimit = 5000;
  const std::vector<std::int64_t> calibrated = Delays({"", Drawn, FromForecast, 0}, kLimit);
  const auto reached = std::count_if(calibrated.begin(), calibrated.end(),
                                     [](std::int64_t delay) { return delay <= kLimit; });
  const double share = static_cast<double>(reached) / kStreams;
  Verdict(absl::StrFormat("F3 calibrated, share of streams whose e-value ever reaches 20: %.4f, "
                          "expected at most 0.05",
                          share),
          share <= .05);
  const Alternative alternatives[] = {
      {"sd too small by 1.1",
       [](Forecast f) {
         return Forecast{f.mean, f.sd / 1.1};
       },
       FromForecast, 708},
      {"sd too small by 1.25",
       [](Forecast f) {
         return Forecast{f.mean, f.sd / 1.25};
       },
       FromForecast, 103},
      {"sd too small by 1.5",
       [](Forecast f) {
         return Forecast{f.mean, f.sd / 1.5};
       },
       FromForecast, 26},
      {"sd too large by 1.25",
       [](Forecast f) {
         return Forecast{f.mean, f.sd * 1.25};
       },
       FromForecast, 153},
      {"bias .1 sd", Drawn,
       [](Forecast f, std::mt19937_64& r) { return f.mean + f.sd * (.1 + Normal(r)); }, 1451},
      {"bias .25 sd", Drawn,
       [](Forecast f, std::mt19937_64& r) { return f.mean + f.sd * (.25 + Normal(r)); }, 223},
      {"bias .5 sd", Drawn,
       [](Forecast f, std::mt19937_64& r) { return f.mean + f.sd * (.5 + Normal(r)); }, 51},
      {"Student noise, 5 degrees of freedom", Drawn,
       [](Forecast f, std::mt19937_64& r) {
         return f.mean + f.sd * std::sqrt(.6) * std::student_t_distribution<double>(5)(r);
       },
       765},
      {"exponential noise", Drawn,
       [](Forecast f, std::mt19937_64& r) {
         return f.mean + f.sd * (std::exponential_distribution<double>()(r) - 1);
       },
       42},
      {"constant sd, but the forecast's varies", Drawn,
       [](Forecast f, std::mt19937_64& r) { return f.mean + Normal(r); }, 82},
      {"mean .8 mu instead of mu",
       [](Forecast f) {
         return Forecast{.8 * f.mean, f.sd};
       },
       FromForecast, 852}};
  for (const Alternative& alternative : alternatives) {
    std::vector<std::int64_t> delays = Delays(alternative, 20000);
    std::nth_element(delays.begin(), delays.begin() + kStreams / 2, delays.end());
    Relative(absl::StrFormat("F3 %s, median delay", alternative.name),
             static_cast<double>(delays[kStreams / 2]), alternative.median_delay, .25);
  }
}

}  // namespace calibd::reproduce
