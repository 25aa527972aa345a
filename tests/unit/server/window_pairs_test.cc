#include "server/compute/window_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "server/rows/prediction_id.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

WindowPairs Pair(const std::vector<std::uint64_t>& model,
                 const std::vector<std::int32_t>& model_labels,
                 const std::vector<std::uint64_t>& baseline,
                 const std::vector<std::int32_t>& baseline_labels) {
  return FindPairs({.id_hashes = model, .truths = {.labels = model_labels}},
                   {.id_hashes = baseline, .truths = {.labels = baseline_labels}});
}

TEST(WindowPairsTest, PairsIdsInTheOrderOfTheModel) {
  const WindowPairs pairs = Pair({5, kNoIdHash, 7, 9, 6}, {0, 1, 1, 0, 1},
                                 {9, 8, 5, kNoIdHash, kNoIdHash, 7}, {0, 0, 0, 1, 1, 1});
  EXPECT_THAT(pairs.model_rows, ElementsAre(0, 2, 3));
  EXPECT_THAT(pairs.baseline_rows, ElementsAre(2, 5, 0));
  EXPECT_FALSE(pairs.in_same_order());
  EXPECT_EQ(pairs.label_conflicts, 0);
  EXPECT_EQ(pairs.model_without_id, 1);
  EXPECT_EQ(pairs.baseline_without_id, 2);
  EXPECT_TRUE(Pair({5, 7, 9}, {0, 1, 0}, {5, 8, 9}, {0, 0, 0}).in_same_order());
}

TEST(WindowPairsTest, LeavesOutDifferentLabels) {
  const WindowPairs pairs = Pair({5, 7}, {0, 1}, {5, 7}, {1, 1});
  EXPECT_THAT(pairs.model_rows, ElementsAre(1));
  EXPECT_THAT(pairs.baseline_rows, ElementsAre(1));
  EXPECT_EQ(pairs.label_conflicts, 1);
}

TEST(WindowPairsTest, TheNewestRowOfAnIdCounts) {
  const WindowPairs pairs = Pair({5, 5, 7}, {0, 1, 0}, {5, 7, 5}, {0, 0, 1});
  EXPECT_THAT(pairs.model_rows, ElementsAre(1, 2));
  EXPECT_THAT(pairs.baseline_rows, ElementsAre(2, 1));
  EXPECT_EQ(pairs.label_conflicts, 0);
}

TEST(WindowPairsTest, RowsWithoutIdsHaveNoPairs) {
  const WindowPairs pairs = Pair({0, 0}, {1, 1}, {0, 0, 0}, {1, 1, 1});
  EXPECT_THAT(pairs.model_rows, IsEmpty());
  EXPECT_TRUE(pairs.in_same_order());
  EXPECT_EQ(pairs.model_without_id, 2);
  EXPECT_EQ(pairs.baseline_without_id, 3);
}

}  // namespace
}  // namespace calibd::server
