// How often the real server says that the error of a model has changed: of models that are wrong in
// the same way all the time, and of models that become worse. The server is killed on the way;
// seeds and the places of kills are fixed.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "integration/server/level_streams.h"

namespace calibd::testing {
namespace {

constexpr int kReferenceStreams = 120;
constexpr int kReferenceBatches = 8;
constexpr int kReferenceBatchRows = 500;
constexpr int kWorseAfter = 4;

v1::Model ModelOfStream(int stream) {
  v1::Model model;
  model.set_name("models/stream-" + std::to_string(stream));
  model.mutable_classes()->set_count(3);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(.3);
  model.mutable_monitoring()->set_reference_rows(1500);
  return model;
}

// Confidences Beta(6, 1), of which each is too high by `off`.
v1::ObserveRequest RowsOfStream(int stream, double off, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform;
  v1::ObserveRequest request;
  request.set_model(ModelOfStream(stream).name());
  v1::Observations& observations = *request.mutable_observations();
  for (int i = 0; i < kReferenceBatchRows; ++i) {
    const double c = .4 + .6 * std::pow(uniform(random), 1. / 6);
    for (const double value : {c, (1 - c) / 2, (1 - c) / 2}) {
      observations.mutable_probabilities()->add_values(value);
    }
    observations.add_labels(uniform(random) < c - off ? 0 : 1);
  }
  return request;
}

// Returns the number of streams whose error has changed. worse: of the later batches.
int ChangedStreams(double worse) {
  LevelCounts counts;
  std::vector<int> sent(kReferenceStreams);
  SendLevelStreams({.count = kReferenceStreams,
                    .batches = kReferenceBatches,
                    .rows = kReferenceBatchRows,
                    .killed_after = 5,
                    .model = ModelOfStream,
                    .next =
                        [&](int stream, std::mt19937_64& random) {
                          const int batch = sent[static_cast<std::size_t>(stream)]++;
                          return RowsOfStream(stream, batch < kWorseAfter ? .08 : worse, random);
                        },
                    .is_over_limit =
                        [](const v1::GetCalibrationResponse& answer) {
                          return answer.verdict().reference_status() ==
                                 v1::ReferenceChange::CHANGED;
                        }},
                   counts);
  // The evidence finds that all of them are wrong.
  EXPECT_EQ(counts.rejected, kReferenceStreams);
  return counts.over_limit;
}

TEST(ReferenceLevelTest, WrongModelsThatStayAsTheyAreHaveSeldomChanged) {
  // P(ever changed) <= 0.05 in each stream. Four standard deviations for chance.
  EXPECT_LE(ChangedStreams(.08),
            .05 * kReferenceStreams + 4 * std::sqrt(.05 * .95 * kReferenceStreams));
}

TEST(ReferenceLevelTest, WorseModelsHaveChanged) {
  // The error becomes 15 points larger for 2000 rows.
  EXPECT_GE(ChangedStreams(.23), 110);
}

}  // namespace
}  // namespace calibd::testing
