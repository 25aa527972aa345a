// Every instruction set of this CPU gives the same bits, whatever the other rows are.
#include "scores/row_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "calibd/core/binary_predictions.h"
#include "calibd/core/generator.h"
#include "calibd/core/scores.h"
#include "property/simd_targets.h"

namespace calibd {
namespace {

using testing::ExpectBits;
using testing::ForEachTarget;

// Some predictions are certain, right or wrong, and some have ties.
PredictionSet Predictions(std::size_t n, std::size_t m) {
  PredictionSet set;
  Generator::Create(GeneratorSpec::M2(m), n + m)->Draw(n, set);
  for (std::size_t i = 0; i < n; i += 3) {
    for (std::size_t k = 0; k < m; ++k) {
      set.probabilities[i * m + k] = i % 2 == 0 ? 1 / static_cast<double>(m) : k == i % m ? 1 : 0;
    }
  }
  return set;
}

TEST(RowScoresTest, EqualTheirDefinitions) {
  ForEachTarget([] {
    for (const std::size_t m : {2U, 3U, 4U, 5U, 7U, 8U, 10U, 101U}) {
      for (std::size_t n = 1; n <= kMaxScoredRows; ++n) {
        const PredictionSet set = Predictions(n, m);
        RowScores scores;
        ComputeRowScores(set.view(), scores);
        for (std::size_t i = 0; i < n; ++i) {
          const auto g = set.view().row(i);
          const auto label = static_cast<std::size_t>(set.labels[i]);
          const std::size_t predicted = PredictedClass(g);
          EXPECT_EQ(scores.predicted_class[i], static_cast<double>(predicted));
          EXPECT_EQ(scores.confidence[i], g[predicted]);
          double brier = 0;
          for (std::size_t k = 0; k < m; ++k) brier += std::pow(g[k] - (k == label ? 1 : 0), 2);
          EXPECT_NEAR(scores.brier[i], brier, 1e-15 * static_cast<double>(m));
          const double loss = -std::log(std::max(g[label], kLogLossFloor));
          EXPECT_NEAR(scores.log_loss[i], loss, 1e-15 * std::max(1.0, loss));
          RowScores alone;
          ComputeRowScores(set.view().rows(i, 1), alone);
          ExpectBits(alone.brier[0], scores.brier[i]);
          ExpectBits(alone.log_loss[0], scores.log_loss[i]);
        }
      }
    }
  });
}

// The values are from the floor to above 1, and on both sides of 1, where the logarithm is small.
TEST(RowScoresTest, LogLossIsExactToThreeUlp) {
  std::vector<double> values{
      0, kLogLossFloor,          0.5,   std::sqrt(0.5), std::nextafter(1.0, 0),
      1, std::nextafter(1.0, 2), 1.0001};
  for (double p = kLogLossFloor; p < 1; p *= 1.37) values.push_back(p);
  for (double away = 1e-15; away < 0.3; away *= 1.7) values.push_back(1 - away);
  std::vector<double> first;
  ForEachTarget([&] {
    std::vector<double> losses;
    for (const double p : values) {
      const std::vector<double> g{p, 1 - p};
      const std::vector<std::int32_t> label{0};
      RowScores scores;
      ComputeRowScores({g, label, 2}, scores);
      const auto exact = -std::log(static_cast<long double>(std::max(p, kLogLossFloor)));
      EXPECT_NEAR(scores.log_loss[0], static_cast<double>(exact),
                  3 * std::numeric_limits<double>::epsilon() * std::abs(static_cast<double>(exact)))
          << p;
      losses.push_back(scores.log_loss[0]);
    }
    if (first.empty()) first = losses;
    for (std::size_t i = 0; i < losses.size(); ++i) ExpectBits(losses[i], first[i]);
  });
}

}  // namespace
}  // namespace calibd
