// How often the range of rows that is told holds the row of the decision. Seeds are fixed; the
// bound is 3 standard deviations of the binomial share below the promised 80 %.
#include "calibd/core/rows_until_decided.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "evidence_streams.h"
#include "limit_streams.h"
#include "server/kinds/classes/class_measure.h"
#include "server/kinds/numbers/coverage_measure.h"

namespace calibd {
namespace {

using server::ClassErrorWatch;
using server::ClassMeasure;
using server::CoverageMeasure;
using server::CoverageWatch;
using server::ErrorBudget;
using server::ErrorSnapshot;
using server::LimitStatus;
using testing::LimitStream;
using testing::Repeated;
using testing::Sharpness;

constexpr double kPromise = 0.8;
constexpr std::int64_t kLooks[] = {1000, 1700, 3000, 6000};
// A range is not told for more rows than 38 times the last look.
constexpr std::int64_t kMostRows = 6000 * 39;

// How many ranges were told, and held.
struct Told {
  int told = 0;
  int held = 0;

  void Add(const Told& other) {
    told += other.told;
    held += other.held;
  }
};

void ExpectHeld(const Told& all, const std::string& what) {
  ::testing::Test::RecordProperty("told_" + what, all.told);
  ::testing::Test::RecordProperty("held_" + what, all.held);
  ASSERT_GT(all.told, 0) << what;
  const double share = static_cast<double>(all.held) / all.told;
  EXPECT_GE(share, kPromise - 3 * std::sqrt(kPromise * (1 - kPromise) / all.told))
      << what << ": " << all.held << " of " << all.told;
}

// Follows a stream to its decision, with a look at each of kLooks. add(watch, row) adds a row,
// counted from 1. A decision within 5 % of the range counts as held.
template <typename Watch, typename Add>
Told Follow(Watch& watch, const Add& add) {
  struct Range {
    double lower;
    double upper;
  };
  std::vector<Range> ranges;
  Told result;
  double last = 0;
  std::int64_t row = 0;
  bool decided = false;
  while (!decided && row < kMostRows) {
    add(watch, ++row);
    const bool look = std::ranges::find(kLooks, row) != std::end(kLooks);
    decided = watch.TakeCrossing().has_value();
    if (!decided && (row % 16 == 0 || look)) {
      const ErrorSnapshot snapshot = watch.Snapshot();
      decided = snapshot.Read().status != LimitStatus::kUndecided;
      if (const auto rows = decided || !look ? std::nullopt : snapshot.Foresee()) {
        const auto now = static_cast<double>(row);
        ranges.push_back({.lower = now + static_cast<double>(rows->lower),
                          .upper = now + static_cast<double>(rows->upper)});
        last = std::max(last, 1.05 * ranges.back().upper);
      }
    }
    // No range can hold any more, and none will be told.
    if (row > kLooks[std::size(kLooks) - 1] && static_cast<double>(row) > last) break;
  }
  const auto end = static_cast<double>(row);
  for (const Range& range : ranges) {
    ++result.told;
    result.held += decided && range.lower / 1.05 <= end && end <= range.upper * 1.05 ? 1 : 0;
  }
  return result;
}

struct Kind {
  const char* name;
  Sharpness sharpness;
  double excess;
  double limit;
};

constexpr Kind kKinds[] = {
    {"sharp_0_2", Sharpness::kSharp, 0, 0.02},      {"sharp_1_2", Sharpness::kSharp, 0.01, 0.02},
    {"sharp_3_2", Sharpness::kSharp, 0.03, 0.02},   {"sharp_4_2", Sharpness::kSharp, 0.04, 0.02},
    {"sharp_3_5", Sharpness::kSharp, 0.03, 0.05},   {"medium_0_5", Sharpness::kMedium, 0, 0.05},
    {"medium_4_2", Sharpness::kMedium, 0.04, 0.02}, {"medium_0_2", Sharpness::kMedium, 0, 0.02},
    {"vague_0_5", Sharpness::kVague, 0, 0.05},      {"vague_1_5", Sharpness::kVague, 0.01, 0.05},
    {"vague_4_2", Sharpness::kVague, 0.04, 0.02},   {"vague_5_2", Sharpness::kVague, 0.05, 0.02}};

Told FollowClasses(const Kind& kind, std::size_t class_count, std::uint64_t seed) {
  LimitStream stream(kind.sharpness, kind.excess, class_count, seed);
  ClassErrorWatch watch(ClassMeasure(ErrorBudget::OfModel(0.05, class_count)),
                        {.error_limit = kind.limit, .min_observations = 100}, 1);
  return Follow(watch, [&](ClassErrorWatch& to, std::int64_t row) { stream.AddTo(to, row); });
}

TEST(RowsUntilDecidedTest, MostRangesOfClassesHold) {
  const int streams = Repeated(10);
  for (const std::size_t class_count : {10U, 2U}) {
    Told all;
    for (const Kind& kind : kKinds) {
      Told of_kind;
      for (int i = 0; i < streams; ++i) {
        of_kind.Add(FollowClasses(kind, class_count, static_cast<std::uint64_t>(i) + 1));
      }
      const std::string name = absl::StrCat(kind.name, "_of_", class_count);
      RecordProperty("told_" + name, of_kind.told);
      RecordProperty("held_" + name, of_kind.held);
      all.Add(of_kind);
    }
    ExpectHeld(all, absl::StrCat("of_", class_count));
  }
}

// Normal forecasts, and quantiles at three levels: the residuals of outcomes are Normal.
TEST(RowsUntilDecidedTest, MostRangesOfNumbersHold) {
  struct Forecasts {
    const char* name;
    NumberForecastKind kind;
    double scale;
    double limit;
  };
  const Forecasts all_kinds[] = {{"normal_1_5", NormalForecasts{}, 1, 0.05},
                                 {"normal_1_10", NormalForecasts{}, 1, 0.1},
                                 {"normal_1.4_5", NormalForecasts{}, 1.4, 0.05},
                                 {"normal_1.3_5", NormalForecasts{}, 1.3, 0.05},
                                 {"quantiles_1_5", QuantileForecasts{{.1, .5, .9}}, 1, 0.05},
                                 {"quantiles_1.4_5", QuantileForecasts{{.1, .5, .9}}, 1.4, 0.05}};
  const int streams = Repeated(10);
  Told all;
  for (const Forecasts& forecasts : all_kinds) {
    const std::shared_ptr<const ForecastCells> cells =
        *ForecastCells::Create(forecasts.kind, {}, 1, kDefaultTolerance);
    std::vector<double> forecast{0, 1};
    if (std::holds_alternative<QuantileForecasts>(forecasts.kind)) {
      forecast = {-1.2815515655446, 0, 1.2815515655446};
    }
    Told of_kind;
    for (int i = 0; i < streams; ++i) {
      std::mt19937_64 rng(static_cast<std::uint64_t>(i) + 1);
      std::normal_distribution<double> residual(0, forecasts.scale);
      CoverageWatch watch(CoverageMeasure(CoverageMeasure::Of::kModel, cells, 0.05),
                          {.error_limit = forecasts.limit, .min_observations = 100}, 1);
      std::vector<ForecastRow> rows(1);
      of_kind.Add(Follow(watch, [&](CoverageWatch& to, std::int64_t row) {
        const std::vector<double> outcome{residual(rng)};
        cells->Describe({.forecasts = forecast, .outcomes = outcome}, row, rows);
        to.Add(rows[0], row);
      }));
    }
    RecordProperty(absl::StrCat("told_", forecasts.name), of_kind.told);
    RecordProperty(absl::StrCat("held_", forecasts.name), of_kind.held);
    all.Add(of_kind);
  }
  ExpectHeld(all, "of_numbers");
}

}  // namespace
}  // namespace calibd
