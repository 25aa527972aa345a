#include "calibd/core/dated_change.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "calibd/core/error_interval.h"

namespace calibd {
namespace {

constexpr double kAlpha = .05;

// Blocks of 64 rows whose means are exactly these and whose mean squares are .07.
DeviationBlocks ExactBlocks(const std::vector<double>& means) {
  DeviationBlocks::State state;
  for (const double mean : means) {
    state.rows += 64;
    state.total.deviation += 64 * mean;
    state.total.squares += 64 * .07;
    state.ends.push_back(state.total);
  }
  return DeviationBlocks(state);
}

std::vector<double> Change(std::size_t before, std::size_t after, double mean) {
  std::vector<double> means(before, 0);
  means.insert(means.end(), after, mean);
  return means;
}

TEST(DatedChangeTest, AgreesWithTheWorkedExample) {
  const DeviationBlocks blocks = ExactBlocks(Change(64, 64, .12));
  const auto change = blocks.Find(kAlpha);
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->from, 4032);
  EXPECT_EQ(change->to, 4160);
  EXPECT_EQ(change->best, 4096);
  EXPECT_EQ(change->before_from, 0);
  EXPECT_NEAR(change->before.mean, 0, 1e-12);
  EXPECT_NEAR(change->after.mean, .12, 1e-12);
  EXPECT_NEAR(change->before.radius, .01482496, 5e-9);
  EXPECT_NEAR(change->after.radius, .02375280, 5e-9);
}

TEST(DatedChangeTest, AStreamWithoutAChangeHasNone) {
  EXPECT_FALSE(DeviationBlocks().Find(kAlpha).has_value());
  EXPECT_FALSE(ExactBlocks({.5}).Find(kAlpha).has_value());
  EXPECT_FALSE(ExactBlocks(std::vector<double>(200, .1)).Find(kAlpha).has_value());
  // One block that differs by chance.
  EXPECT_FALSE(ExactBlocks(Change(64, 1, .1)).Find(kAlpha).has_value());
  DeviationBlocks few;
  for (int i = 0; i < 63; ++i) few.Add(i < 20 ? 0 : 1);
  EXPECT_FALSE(few.Find(kAlpha).has_value());
}

TEST(DatedChangeTest, FindsTheNewestOfTwoChanges) {
  std::vector<double> means = Change(100, 40, .1);
  means.insert(means.end(), 40, 0);
  const auto change = ExactBlocks(means).Find(kAlpha);
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->best, 140 * 64);
  // The stretch before it goes back until a part of it can be shown to differ.
  EXPECT_GT(change->before_from, 80 * 64);
  EXPECT_LE(change->before_from, 100 * 64);
  EXPECT_NEAR(change->before.mean, .1, change->before.radius);
  EXPECT_NEAR(change->after.mean, 0, 1e-12);
}

// What is said of a change is that its two stretches differ.
TEST(DatedChangeTest, TheStretchesOfAChangeAreApart) {
  int found = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::minstd_rand random(seed);
    std::uniform_real_distribution<double> uniform;
    DeviationBlocks blocks;
    for (int row = 1; row <= 15200; ++row) {
      const double stated = uniform(random) < .5 ? .99 : .9;
      const double right = row <= 2000 ? stated - .15 : row <= 14000 ? stated : stated - .06;
      blocks.Add(stated - (uniform(random) < right ? 1 : 0));
      if (row < 14400 || row % 100 != 0) continue;
      const auto change = blocks.Find(kAlpha);
      if (!change.has_value()) continue;
      ++found;
      EXPECT_GT(std::abs(change->before.mean - change->after.mean),
                change->before.radius + change->after.radius)
          << seed << ", row " << row;
    }
  }
  EXPECT_GT(found, 500);
}

TEST(DatedChangeTest, BlocksMergeByPairs) {
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> uniform(-.5, .5);
  DeviationBlocks blocks;
  std::vector<double> x;
  double deviation = 0;
  double squares = 0;
  std::vector<DeviationBlocks::Sums> prefix = {{}};
  for (int i = 0; i < 70000; ++i) {
    x.push_back(uniform(rng) + (i < 50000 ? 0 : .1));
    blocks.Add(x.back());
    deviation += x.back();
    squares += x.back() * x.back();
    prefix.push_back({.deviation = deviation, .squares = squares});
  }
  // 64 * 256 rows fill the smallest blocks; twice as many fill the next ones.
  const DeviationBlocks::State state = blocks.state();
  EXPECT_EQ(state.block_rows, 512);
  EXPECT_EQ(state.ends.size(), 70000 / 512);
  for (std::size_t i = 0; i < state.ends.size(); ++i) {
    EXPECT_EQ(state.ends[i], prefix[(i + 1) * 512]);
  }
  const auto change = blocks.Find(kAlpha);
  ASSERT_TRUE(change.has_value());
  EXPECT_LE(change->from, 50000);
  EXPECT_GE(change->to, 50000);
  // The stretch after the change includes the rows of the last, unfinished block.
  const auto after = static_cast<std::size_t>(change->best);
  EXPECT_DOUBLE_EQ(change->after.mean,
                   (deviation - prefix[after].deviation) / static_cast<double>(x.size() - after));
  ASSERT_LT(state.ends.size(), DeviationBlocks::kMaxBlocks);
  DeviationBlocks restored(state);
  const DeviationBlocks copy = blocks;
  restored.Add(.25);
  blocks.Add(.25);
  EXPECT_EQ(restored.state(), blocks.state());
  EXPECT_EQ(copy.state(), state);
}

// The definition, without the bound that skips pairs.
bool SplitsByDefinition(const DeviationBlocks& blocks, std::int64_t start, std::int64_t end) {
  for (std::int64_t k = start + 64; k < end; k += 64) {
    const MeanDeviation before = blocks.Mean(start, k, kAlpha);
    const MeanDeviation after = blocks.Mean(k, end, kAlpha);
    if (std::abs(before.mean - after.mean) > before.radius + after.radius) return true;
  }
  return false;
}

TEST(DatedChangeTest, SaysSoExactlyIfSomeStretchOfNewestBlocksSplits) {
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> uniform;
  int changed = 0;
  for (int stream = 0; stream < 40; ++stream) {
    const double size = .03 * stream / 4;
    std::vector<double> means;
    for (int i = 0; i < 60; ++i) means.push_back((i < 30 ? 0 : size) + .02 * uniform(rng));
    const DeviationBlocks blocks = ExactBlocks(means);
    bool splits = false;
    for (std::int64_t start = 0; start < 60 * 64; start += 64) {
      splits = splits || SplitsByDefinition(blocks, start, 60 * 64);
    }
    const auto change = blocks.Find(kAlpha);
    EXPECT_EQ(change.has_value(), splits) << size;
    changed += change.has_value() ? 1 : 0;
    if (!change.has_value()) continue;
    EXPECT_LT(change->from, change->best);
    EXPECT_LT(change->best, change->to);
  }
  EXPECT_GT(changed, 5);
  EXPECT_LT(changed, 35);
}

}  // namespace
}  // namespace calibd
