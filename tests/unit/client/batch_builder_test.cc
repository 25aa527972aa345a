#include "batch_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace calibd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::StreamObservationsResponse::Opened Limits(std::int32_t class_count, std::int32_t rows,
                                              std::int64_t bytes) {
  v1::StreamObservationsResponse::Opened limits;
  limits.mutable_classes()->set_count(class_count);
  limits.set_max_rows_per_batch(rows);
  limits.set_max_bytes_per_batch(bytes);
  return limits;
}

// The label in memory that stays; empty without one.
std::span<const std::int32_t> LabelsOf(std::optional<std::int32_t> label) {
  static std::deque<std::int32_t> kept;
  if (!label.has_value()) return {};
  kept.push_back(*label);
  return {&kept.back(), 1};
}

template <typename T>
PredictionRow<T> RowOf(const std::vector<T>& values, std::optional<std::int32_t> label,
                       std::string_view id = {},
                       PredictionKind kind = PredictionKind::kProbabilities) {
  return {kind, values, id, {}, LabelsOf(label), {}};
}

TEST(BatchBuilderTest, FillsMessagesUpToTheServersLimit) {
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
      for (int i = 0; i < 3; ++i) builder->AddDropped({.rows = 1});
      std::int64_t rows = 0;
      while (!builder->NeedsNewBatch(RowOf(row, m - 1))) builder->Add(RowOf(row, m - 1), rows++);
      OutgoingBatch batch = builder->Take();
      batch.request.mutable_batch()->set_sequence(std::numeric_limits<std::int64_t>::max());
      batch.request.mutable_batch()->mutable_observations()->set_dropped_rows(
          std::numeric_limits<std::int64_t>::max());
      batch.request.mutable_batch()->mutable_observations()->set_dropped_labels(
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
  while (!builder->NeedsNewBatch(RowOf(floats, 0))) builder->Add(RowOf(floats, 0), count++);
  EXPECT_GT(count, (1000 - 112) / (2 * 8 + 5));
  EXPECT_LE(builder->Take().request.ByteSizeLong(), 1000u);

  auto small = BatchBuilder::Create(Limits(2, 1000, 1 << 20), 3);
  ASSERT_TRUE(small.ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(small->NeedsNewBatch(RowOf(floats, 0)));
    small->Add(RowOf(floats, 0), i);
  }
  EXPECT_TRUE(small->NeedsNewBatch(RowOf(floats, 0)));
}

TEST(BatchBuilderTest, DoesNotMixKindsOfNumbers) {
  const std::vector<double> row = {0.5, 0.5};
  auto builder = BatchBuilder::Create(Limits(2, 1000, 1 << 20), 0);
  ASSERT_TRUE(builder.ok());
  builder->Add(RowOf(row, 0), 0);
  EXPECT_FALSE(builder->NeedsNewBatch(RowOf(row, 0)));
  EXPECT_TRUE(builder->NeedsNewBatch(RowOf(row, 0, {}, PredictionKind::kLogits)));
  EXPECT_TRUE(builder->NeedsNewBatch(RowOf(std::vector<float>{0.5F, 0.5F}, 0)));
}

TEST(BatchBuilderTest, DoesNotMixRowsWithAndWithoutIdsOrLabels) {
  const std::vector<double> row = {0.5, 0.5};
  std::vector<PredictionRow<double>> kinds = {RowOf(row, 0), RowOf(row, 0, "a"),
                                              RowOf(row, std::nullopt, "a"), RowOf(row, 0)};
  kinds.back().group = "eu";
  const LabelRow label{"a", LabelsOf(1)};
  for (const auto& first : kinds) {
    auto builder = BatchBuilder::Create(Limits(2, 1000, 1 << 20), 0);
    ASSERT_TRUE(builder.ok());
    builder->Add(first, 0);
    for (const auto& second : kinds) {
      EXPECT_EQ(builder->NeedsNewBatch(second), &first != &second);
    }
    EXPECT_TRUE(builder->NeedsNewBatch(label));
    (void)builder->Take();
    EXPECT_FALSE(builder->NeedsNewBatch(label));
    builder->Add(label, 0);
    EXPECT_FALSE(builder->NeedsNewBatch(label));
    EXPECT_TRUE(builder->NeedsNewBatch(first));
  }
}

TEST(BatchBuilderTest, GroupsOfABatchMayDifferAndTakeBytes) {
  const std::vector<double> values = {0.5, 0.5};
  auto builder = BatchBuilder::Create(Limits(2, 1000, 300), 0);
  ASSERT_TRUE(builder.ok());
  PredictionRow<double> row = RowOf(values, 0);
  row.group = "eu";
  builder->Add(row, 0);
  row.group = "us";
  EXPECT_FALSE(builder->NeedsNewBatch(row));
  builder->Add(row, 1);
  // 204 bytes are available for rows, and these ids and groups take 48.
  const std::string longest(64, 'x');
  row.group = longest;
  builder->Add(row, 2);
  EXPECT_TRUE(builder->NeedsNewBatch(row));
  const OutgoingBatch batch = builder->Take();
  EXPECT_THAT(batch.request.batch().observations().group_values(),
              ElementsAre("eu", "us", longest));
  EXPECT_LE(batch.request.ByteSizeLong(), 300u);
}

TEST(BatchBuilderTest, CountsTheBytesOfIds) {
  const std::vector<float> row = {0.5F, 0.5F};
  const auto fill = [&](auto next) {
    auto builder = BatchBuilder::Create(Limits(2, 1 << 30, 100000), 0);
    EXPECT_TRUE(builder.ok());
    std::mt19937 random(1);
    std::string id;
    for (std::int64_t rows = 0;; ++rows) {
      id = std::string(1 + (random() % 128), 'i');
      if (builder->NeedsNewBatch(next(id))) break;
      builder->Add(next(id), rows);
    }
    return builder->Take();
  };
  for (const OutgoingBatch& batch :
       {fill([&](const std::string& id) { return RowOf(row, std::nullopt, id); }),
        fill([&](const std::string& id) { return RowOf(row, 99999, id); }),
        fill([&](const std::string& id) {
          return LabelRow{id, LabelsOf(99999)};
        })}) {
    EXPECT_LE(batch.request.ByteSizeLong(), 100000u);
    EXPECT_GT(batch.request.ByteSizeLong(), 80000u);
  }
  auto tight = BatchBuilder::Create(Limits(2, 10, 146), 0);
  ASSERT_TRUE(tight.ok());
  EXPECT_TRUE(tight->Fits(RowOf(row, 0, "a")));
  EXPECT_FALSE(tight->Fits(RowOf(row, 0, "a long id of some forty characters or so")));
}

TEST(BatchBuilderTest, KeepsIdsAndLabelsWithTheirRows) {
  const std::vector<double> row = {0.5, 0.5};
  auto builder = BatchBuilder::Create(Limits(2, 1000, 1 << 20), 0);
  ASSERT_TRUE(builder.ok());
  builder->AddDropped({.rows = 1, .labels = 2});
  builder->Add(LabelRow{"b", LabelsOf(1)}, 4);
  builder->Add(LabelRow{"a", LabelsOf(0)}, 6);
  const OutgoingBatch labels = builder->Take();
  ASSERT_TRUE(labels.has_labels());
  EXPECT_THAT(labels.request.batch().labels().prediction_ids(), ElementsAre("b", "a"));
  EXPECT_THAT(labels.request.batch().labels().labels(), ElementsAre(1, 0));
  EXPECT_THAT(labels.row_numbers, ElementsAre(4, 6));
  builder->Add(RowOf(row, std::nullopt, "c"), 1);
  const OutgoingBatch rows = builder->Take();
  EXPECT_FALSE(rows.has_labels());
  EXPECT_THAT(rows.request.batch().observations().prediction_ids(), ElementsAre("c"));
  EXPECT_EQ(rows.request.batch().observations().labels_size(), 0);
  EXPECT_EQ(rows.request.batch().observations().dropped_rows(), 1) << "labels cannot carry it";
  EXPECT_EQ(rows.request.batch().observations().dropped_labels(), 2);
}

TEST(BatchBuilderTest, CarriesDroppedRowsOnceAndKeepsRowNumbers) {
  const std::vector<double> row = {0.5, 0.5};
  auto builder = BatchBuilder::Create(Limits(2, 1000, 1 << 20), 0);
  ASSERT_TRUE(builder.ok());
  builder->AddDropped({.rows = 1});
  builder->Add(RowOf(row, 1), 1);
  builder->AddDropped({.rows = 1});
  builder->Add(RowOf(row, 0), 3);
  const OutgoingBatch first = builder->Take();
  EXPECT_THAT(first.row_numbers, ElementsAre(1, 3));
  EXPECT_THAT(first.request.batch().observations().labels(), ElementsAre(1, 0));
  EXPECT_EQ(first.request.batch().observations().dropped_rows(), 2);
  EXPECT_TRUE(builder->empty());
  builder->Add(RowOf(row, 0), 4);
  EXPECT_EQ(builder->Take().request.batch().observations().dropped_rows(), 0);
}

TEST(BatchBuilderTest, ReportsDroppedRowsThatNoRowFollows) {
  auto builder = BatchBuilder::Create(Limits(2, 1000, 1 << 20), 0);
  ASSERT_TRUE(builder.ok());
  builder->Add(LabelRow{"b", LabelsOf(1)}, 4);
  builder->AddDropped({.rows = 1});
  builder->AddDropped({.rows = 1});
  EXPECT_TRUE(builder->Take().has_labels());
  ASSERT_FALSE(builder->empty());
  const std::vector<double> row = {0.5, 0.5};
  EXPECT_FALSE(builder->NeedsNewBatch(RowOf(row, 1)));
  const OutgoingBatch dropped = builder->Take();
  EXPECT_THAT(dropped.row_numbers, IsEmpty());
  EXPECT_EQ(dropped.request.batch().observations().dropped_rows(), 2);
  EXPECT_TRUE(builder->empty());
}

TEST(BatchBuilderTest, TheTruthOfAnOnlyLabelMayBeMissing) {
  v1::StreamObservationsResponse::Opened limits = Limits(0, 1 << 30, 4096);
  limits.mutable_labels()->add_names("rain");
  auto builder = BatchBuilder::Create(limits, 0);
  ASSERT_TRUE(builder.ok()) << builder.status();
  const std::vector<double> row = {0.5};
  // A missing truth is negative, and takes ten bytes.
  while (!builder->NeedsNewBatch(RowOf(row, -1))) builder->Add(RowOf(row, -1), 0);
  EXPECT_LE(builder->Take().request.ByteSizeLong(), 4096U);
}

TEST(BatchBuilderTest, FailsIfNotEvenOneRowFits) {
  EXPECT_TRUE(
      absl::IsFailedPrecondition(BatchBuilder::Create(Limits(100000, 1000, 100000), 0).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(BatchBuilder::Create(Limits(10, 0, 1 << 20), 0).status()));
}

}  // namespace
}  // namespace calibd::client
