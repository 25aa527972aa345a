// How often calibrated predictions of several labels are called miscalibrated by the real server,
// which is looked at after every batch and killed on the way. Seeds and the places of kills are
// fixed.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "integration/server/level_streams.h"

namespace calibd::testing {
namespace {

constexpr int kLabelStreams = 400;
constexpr int kLabelBatches = 6;
constexpr int kLabelRows = 300;
constexpr int kKilledAfter = 2;
constexpr int kLabelsOfStream = 4;

v1::Model LevelModelOfLabels(int stream) {
  v1::Model model;
  model.set_name("models/stream-" + std::to_string(stream));
  for (int k = 0; k < kLabelsOfStream; ++k) model.mutable_labels()->add_names(std::to_string(k));
  return model;
}

// Each label holds as often as it is stated. Two labels always hold together, which the intervals
// must allow for, and a fifth of the truths of the last one are missing.
v1::ObserveRequest NextRowsOfLabels(int stream, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform;
  v1::ObserveRequest request;
  request.set_model(LevelModelOfLabels(stream).name());
  v1::Observations& observations = *request.mutable_observations();
  for (int i = 0; i < kLabelRows; ++i) {
    double stated = 0;
    double draw = 0;
    for (int k = 0; k < kLabelsOfStream; ++k) {
      if (k != 1) {
        stated = uniform(random);
        draw = uniform(random);
      }
      observations.mutable_probabilities()->add_values(stated);
      const bool missing = k == kLabelsOfStream - 1 && i % 5 == 0;
      observations.add_labels(missing ? -1 : draw < stated ? 1 : 0);
    }
  }
  return request;
}

TEST(LabelLevelTest, CalibratedStreamsAreSeldomRejected) {
  LevelCounts counts;
  ASSERT_NO_FATAL_FAILURE(SendLevelStreams({.count = kLabelStreams,
                                            .batches = kLabelBatches,
                                            .rows = kLabelRows,
                                            .killed_after = kKilledAfter,
                                            .model = LevelModelOfLabels,
                                            .next = NextRowsOfLabels,
                                            // Also if a single label is over the limit.
                                            .is_over_limit =
                                                [](const v1::GetCalibrationResponse& answer) {
                                                  return !answer.labels().over_limit().empty() ||
                                                         answer.verdict().limit_status() ==
                                                             v1::CalibrationError::OVER_LIMIT;
                                                }},
                                           counts));
  // P(ever E >= 20) <= 0.05 in each stream, and the intervals of all labels and of all together
  // hold at all times with 95 %. The error of calibrated labels is 0, so an error that is shown to
  // be above the limit contradicts its interval. Four standard deviations for chance.
  const double most = 0.05 * kLabelStreams + 4 * std::sqrt(0.05 * 0.95 * kLabelStreams);
  EXPECT_LE(counts.rejected, most);
  EXPECT_LE(counts.over_limit, most);
}

}  // namespace
}  // namespace calibd::testing
