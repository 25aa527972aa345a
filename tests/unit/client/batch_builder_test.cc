#include "batch_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calibd::client {
namespace {

using ::testing::ElementsAre;

v1::StreamObservationsResponse::Opened Limits(std::int32_t class_count, std::int32_t rows,
                                              std::int64_t bytes) {
  v1::StreamObservationsResponse::Opened limits;
  limits.set_class_count(class_count);
  limits.set_max_rows_per_batch(rows);
  limits.set_max_bytes_per_batch(bytes);
  return limits;
}

TEST(BatchBuilderTest, FillsMessagesUpToTheServersBytes) {
  for (const std::int32_t m : {2, 10, 1000, 100000}) {
    for (const std::int64_t bytes : {std::int64_t{4096}, std::int64_t{1} << 20}) {
      auto builder = BatchBuilder::Create(Limits(m, 1 << 30, bytes), 0);
      const std::int64_t row_bytes = 8 * std::int64_t{m};
      if (row_bytes + 200 > bytes) {
        EXPECT_EQ(builder.ok(), row_bytes + 101 <= bytes) << m;
        continue;
      }
      ASSERT_TRUE(builder.ok()) << builder.status();
      const std::vector<double> row(static_cast<std::size_t>(m), 1.0 / m);
      for (int i = 0; i < 3; ++i) builder->AddDropped();
      std::int64_t rows = 0;
      while (!builder->NeedsNewBatch<double>(PredictionKind::kProbabilities)) {
        builder->Add<double>(PredictionKind::kProbabilities, row, m - 1, rows++);
      }
      OutgoingBatch batch = builder->Take();
      batch.request.mutable_batch()->set_sequence(std::numeric_limits<std::int64_t>::max());
      batch.request.mutable_batch()->mutable_observations()->set_dropped_rows(
          std::numeric_limits<std::int64_t>::max());
      const auto size = static_cast<std::int64_t>(batch.request.ByteSizeLong());
      EXPECT_LE(size, bytes) << m;
      EXPECT_GT(size + 2 * row_bytes + 4 * rows + 100, bytes) << "a row more would have fitted";
    }
  }
}

TEST(BatchBuilderTest, KeepsRowLimitsAndTakesMoreFloatsThanDoubles) {
  const std::vector<float> floats = {0.5F, 0.5F};
  auto builder = BatchBuilder::Create(Limits(2, 1000, 1000), 0);
  ASSERT_TRUE(builder.ok());
  std::int64_t count = 0;
  while (!builder->NeedsNewBatch<float>(PredictionKind::kProbabilities)) {
    builder->Add<float>(PredictionKind::kProbabilities, floats, 0, count++);
  }
  EXPECT_GT(count, (1000 - 96) / (2 * 8 + 5));
  EXPECT_LE(builder->Take().request.ByteSizeLong(), 1000u);

  auto small = BatchBuilder::Create(Limits(2, 1000, 1 << 20), 3);
  ASSERT_TRUE(small.ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(small->NeedsNewBatch<float>(PredictionKind::kProbabilities));
    small->Add<float>(PredictionKind::kProbabilities, floats, 0, i);
  }
  EXPECT_TRUE(small->NeedsNewBatch<float>(PredictionKind::kProbabilities));
}

TEST(BatchBuilderTest, DoesNotMixKindsOfNumbers) {
  const std::vector<double> row = {0.5, 0.5};
  auto builder = BatchBuilder::Create(Limits(2, 1000, 1 << 20), 0);
  ASSERT_TRUE(builder.ok());
  builder->Add<double>(PredictionKind::kProbabilities, row, 0, 0);
  EXPECT_FALSE(builder->NeedsNewBatch<double>(PredictionKind::kProbabilities));
  EXPECT_TRUE(builder->NeedsNewBatch<double>(PredictionKind::kLogits));
  EXPECT_TRUE(builder->NeedsNewBatch<float>(PredictionKind::kProbabilities));
}

TEST(BatchBuilderTest, CarriesDroppedRowsOnceAndKeepsRowNumbers) {
  const std::vector<double> row = {0.5, 0.5};
  auto builder = BatchBuilder::Create(Limits(2, 1000, 1 << 20), 0);
  ASSERT_TRUE(builder.ok());
  builder->AddDropped();
  builder->Add<double>(PredictionKind::kProbabilities, row, 1, 1);
  builder->AddDropped();
  builder->Add<double>(PredictionKind::kProbabilities, row, 0, 3);
  const OutgoingBatch first = builder->Take();
  EXPECT_THAT(first.row_numbers, ElementsAre(1, 3));
  EXPECT_THAT(first.request.batch().observations().labels(), ElementsAre(1, 0));
  EXPECT_EQ(first.request.batch().observations().dropped_rows(), 2);
  EXPECT_TRUE(builder->empty());
  builder->Add<double>(PredictionKind::kProbabilities, row, 0, 4);
  EXPECT_EQ(builder->Take().request.batch().observations().dropped_rows(), 0);
}

TEST(BatchBuilderTest, SaysWhenNotEvenOneRowFits) {
  EXPECT_TRUE(
      absl::IsFailedPrecondition(BatchBuilder::Create(Limits(100000, 1000, 100000), 0).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(BatchBuilder::Create(Limits(10, 0, 1 << 20), 0).status()));
}

}  // namespace
}  // namespace calibd::client
