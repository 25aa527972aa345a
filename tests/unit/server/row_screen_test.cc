#include "server/watch/row_screen.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "calibd/core/generator.h"

namespace calibd::server {
namespace {

PredictionSet Drawn(std::size_t n, std::uint64_t seed = 1) {
  PredictionSet set;
  auto generator =
      Generator::Create({.alpha = {1, 1, 1}, .pi = 0, .beta = {1. / 3, 1. / 3, 1. / 3}}, seed);
  generator->Draw(n, set);
  return set;
}

void Append(const PredictionBatch& batch, PredictionSet& set) {
  set.class_count = batch.class_count;
  set.probabilities.insert(set.probabilities.end(), batch.probabilities.begin(),
                           batch.probabilities.end());
  set.labels.insert(set.labels.end(), batch.labels.begin(), batch.labels.end());
}

TEST(RowScreenTest, CountsRepeatsAmongTheNewest) {
  RowScreen screen(100);
  const PredictionSet set = Drawn(200);
  screen.Add(set.view().rows(0, 60));
  EXPECT_EQ(screen.counts().repeats.rows, 0);
  screen.Add(set.view().rows(30, 20));
  EXPECT_EQ(screen.counts().rows, 80);
  EXPECT_EQ(screen.counts().repeats.rows, 20);
  EXPECT_EQ(screen.counts().repeats.aligned, 19);
  PredictionSet relabelled;
  Append(set.view().rows(0, 10), relabelled);
  for (std::int32_t& label : relabelled.labels) label = (label + 1) % 3;
  screen.Add(relabelled.view());
  EXPECT_EQ(screen.counts().repeats.rows, 30);
  EXPECT_EQ(screen.counts().repeats.differing, 10);
  // Only the newest 100 rows count.
  screen.Add(set.view().rows(60, 100));
  EXPECT_EQ(screen.counts().rows, 100);
  EXPECT_EQ(screen.counts().repeats.rows, 0);
  EXPECT_EQ(screen.counts().repeats.expected_differing, 0);
  screen.Add(set.view().rows(0, 1));
  EXPECT_EQ(screen.counts().repeats.rows, 0);
}

bool Equal(const PredictionSet& set, std::size_t i, std::size_t j) {
  return std::equal(set.view().row(i).begin(), set.view().row(i).end(), set.view().row(j).begin());
}

// The repeats among the newest `window` rows; rare: only those that at most 16 of these rows equal.
RowScreen::Repeats RepeatsOf(const PredictionSet& set, std::size_t window, bool rare) {
  RowScreen::Repeats repeats;
  const std::size_t n = set.labels.size();
  for (std::size_t i = n - std::min(n, window); i < n; ++i) {
    // Looks for an equal row among the `window` rows before it.
    std::size_t back = 1;
    while (back <= std::min(i, window) && !Equal(set, i, i - back)) ++back;
    if (back > std::min(i, window)) continue;
    int equal = 0;
    for (std::size_t k = n - std::min(n, window); k < n; ++k) equal += Equal(set, i, k) ? 1 : 0;
    if (rare && equal > 16) continue;
    const std::int32_t earlier = set.labels[i - back];
    ++repeats.rows;
    repeats.differing += set.labels[i] != earlier ? 1 : 0;
    repeats.expected_differing +=
        static_cast<std::int64_t>(255 * (1 - set.view().row(i)[static_cast<std::size_t>(earlier)]));
  }
  return repeats;
}

TEST(RowScreenTest, EqualsACountOfTheNewestRowsForAnyBatches) {
  const PredictionSet pool = Drawn(40);
  std::mt19937_64 random(3);
  PredictionSet sent;
  RowScreen screen(64);
  const auto check = [&sent](const RowScreen& tested) {
    for (const bool rare : {false, true}) {
      const auto& found = rare ? tested.counts().rare_repeats : tested.counts().repeats;
      const RowScreen::Repeats expected = RepeatsOf(sent, 64, rare);
      ASSERT_EQ(found.rows, expected.rows) << sent.labels.size() << rare;
      ASSERT_EQ(found.differing, expected.differing) << sent.labels.size() << rare;
      ASSERT_EQ(found.expected_differing, expected.expected_differing)
          << sent.labels.size() << rare;
    }
  };
  for (std::size_t i = 0; i < 1000; ++i) {
    // Some rows become frequent, and later rare again.
    Append(pool.view().rows(random() % (i % 200 < 100 ? 40 : 4), 1), sent);
    if (random() % 2 == 0) sent.labels.back() = (sent.labels.back() + 1) % 3;
    screen.Add(sent.view().rows(i, 1));
    ASSERT_NO_FATAL_FAILURE(check(screen));
  }
  RowScreen at_once(64);
  at_once.Add(sent.view());
  check(at_once);
}

TEST(RowScreenTest, FewOutputsWithTheSameLabelAreNoDuplicates) {
  const PredictionSet pool = Drawn(10);
  for (const std::size_t outputs : {1U, 2U, 10U}) {
    for (const std::size_t n : {300U, 899U, 5000U}) {
      PredictionSet sent;
      for (std::size_t i = 0; i < n; ++i) Append(pool.view().rows(i * outputs / n, 1), sent);
      sent.labels.assign(n, 1);
      RowScreen screen(10000);
      screen.Add(sent.view());
      EXPECT_EQ(screen.counts().repeats.rows, static_cast<std::int64_t>(n - outputs));
      EXPECT_EQ(screen.counts().Duplicates(1), 0) << outputs << " outputs, " << n << " rows";
    }
  }
}

// A model says that a rare event is ten times as frequent as it is. The labels of equal predictions
// then agree more often than the predictions say, although no row was sent twice.
TEST(RowScreenTest, RareEventsThatAreStatedTooOftenAreNoDuplicates) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform;
  // scale: 20 times the number of distinct predictions.
  const auto rows = [&](double scale) {
    PredictionSet drawn;
    drawn.class_count = 2;
    for (int i = 0; i < 10000; ++i) {
      const double p = std::round(scale * (0.025 + 0.05 * uniform(random))) / scale;
      drawn.probabilities.insert(drawn.probabilities.end(), {1 - p, p});
      drawn.labels.push_back(uniform(random) < p / 10 ? 1 : 0);
    }
    return drawn;
  };
  RowScreen screen(10000);
  screen.Add(rows(1e6).view());
  EXPECT_GT(screen.counts().Duplicates(1), 500);
  // The label differs from the predicted class in .005 of the rows instead of .05.
  EXPECT_EQ(screen.counts().Duplicates(0.1), 0);
  // Rows that are sent twice are still found.
  const PredictionSet distinct = rows(1e12);
  RowScreen twice(10000);
  twice.Add(distinct.view());
  EXPECT_EQ(twice.counts().Duplicates(0.1), 0);
  twice.Add(distinct.view());
  EXPECT_GE(twice.counts().Duplicates(0.1), 9000);
}

TEST(RowScreenTest, DetectsARepeatedDataSetThatFitsTheWindow) {
  const PredictionSet set = Drawn(3000);
  for (const std::size_t window : {2999U, 3000U, 10000U}) {
    RowScreen screen(window);
    for (int time = 0; time < 3; ++time) screen.Add(set.view());
    EXPECT_EQ(screen.counts().rows, static_cast<std::int64_t>(std::min<std::size_t>(window, 9000)));
    EXPECT_EQ(screen.counts().Duplicates(1), window == 2999 ? 0 : window == 3000 ? 3000 : 6000);
  }
  // A row may be repeated often.
  RowScreen often(10000);
  for (int time = 0; time < 300; ++time) often.Add(set.view().rows(0, 100));
  EXPECT_EQ(often.counts().Duplicates(1), 10000);
  // Its memory is bounded, whatever the window.
  RowScreen screen(10000000);
  const PredictionSet large = Drawn(RowScreen::kMostRows);
  for (int time = 0; time < 2; ++time) screen.Add(large.view());
  EXPECT_EQ(screen.counts().Duplicates(1), static_cast<std::int64_t>(RowScreen::kMostRows));
  EXPECT_LT(RowScreen::MaxMemory(10000000), 2U << 20);
}

TEST(RowScreenTest, CountsTheDecimalDigits) {
  for (const bool single : {false, true}) {
    for (int digits = 1; digits <= 8; ++digits) {
      const double scale = std::pow(10, digits);
      PredictionSet set = Drawn(500);
      for (std::size_t i = 0; i < 500; ++i) {
        double* const row = &set.probabilities[3 * i];
        row[0] = std::floor(row[0] * scale) / scale;
        row[1] = std::floor(row[1] * scale) / scale;
        row[2] = std::round((1 - row[0] - row[1]) * scale) / scale;
        for (int k = 0; single && k < 3; ++k) row[k] = static_cast<float>(row[k]);
      }
      RowScreen screen(500);
      screen.Add(set.view());
      for (int most = 1; most <= 6; ++most) {
        const auto count = screen.counts().at_most_digits[static_cast<std::size_t>(most) - 1];
        if (most >= digits) {
          EXPECT_EQ(count, 500) << digits << most;
        } else {
          EXPECT_LE(count, 25) << digits << most;
        }
      }
      EXPECT_EQ(screen.counts().inexact_sums, 0);
    }
  }
}

TEST(RowScreenTest, DigitsAreThoseOfTheNewestRows) {
  RowScreen screen(10000);
  screen.Add(Drawn(5000).view());
  PredictionSet printed;
  printed.class_count = 2;
  for (int i = 0; i < 3000; ++i) {
    printed.probabilities.insert(printed.probabilities.end(), {0.75, 0.25});
    printed.labels.push_back(0);
  }
  screen.Add(printed.view().rows(0, 48));
  EXPECT_EQ(screen.counts().digit_rows, static_cast<std::int64_t>(RowScreen::kMostDigitRows));
  EXPECT_EQ(screen.counts().at_most_digits[1], 48);
  screen.Add(printed.view().rows(48, 2952));
  EXPECT_EQ(screen.counts().rows, 8000);
  EXPECT_EQ(screen.counts().at_most_digits[1], 2048);
  EXPECT_EQ(screen.counts().at_most_digits[0], 0);
}

TEST(RowScreenTest, CountsTheNewestRowsThatAreCertain) {
  RowScreen screen(3000);
  PredictionSet certain;
  certain.class_count = 3;
  for (int i = 0; i < 3000; ++i) {
    for (int k = 0; k < 3; ++k) certain.probabilities.push_back(k == i % 3 ? 1 : 0);
    certain.labels.push_back(i % 2);
  }
  screen.Add(certain.view().rows(0, 100));
  EXPECT_EQ(screen.counts().certain_rows, 100);
  // Nearly certain rows are not.
  PredictionSet nearly;
  nearly.class_count = 3;
  nearly.probabilities = {1 - 1e-7, 1e-7, 0, 1, 1e-300, 0};
  nearly.labels = {0, 0};
  screen.Add(nearly.view());
  EXPECT_EQ(screen.counts().certain_rows, 100);
  EXPECT_EQ(screen.counts().digit_rows, 102);
  screen.Add(certain.view());
  EXPECT_EQ(screen.counts().certain_rows, static_cast<std::int64_t>(RowScreen::kMostDigitRows));
  EXPECT_EQ(screen.counts().digit_rows, static_cast<std::int64_t>(RowScreen::kMostDigitRows));
}

TEST(RowScreenTest, AllocatesNoMemory) {
  const PredictionSet set = Drawn(20000);
  for (const std::size_t window : {10U, 100U, 850U, 1700U, 2048U, 100000U}) {
    RowScreen screen(window);
    const std::size_t before = mallinfo2().uordblks;
    screen.Add(set.view());
    EXPECT_EQ(mallinfo2().uordblks, before) << window;
  }
}

TEST(RowScreenTest, RoundedRowsHaveInexactSums) {
  for (const bool single : {false, true}) {
    PredictionSet set = Drawn(1000);
    for (double& value : set.probabilities) {
      value = std::round(value * 1e5) / 1e5;
      if (single) value = static_cast<float>(value);
    }
    RowScreen screen(1000);
    screen.Add(set.view());
    // The sum of three rounding errors is above half a unit in 1 of 4 rows.
    EXPECT_NEAR(static_cast<double>(screen.counts().inexact_sums), 250, 70);
    screen.Add(Drawn(1000, 2).view());
    EXPECT_EQ(screen.counts().inexact_sums, 0);
  }
}

}  // namespace
}  // namespace calibd::server
