#include "client/cli/commands/lens_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calibd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LensOptionTest, ReadsEachLens) {
  EXPECT_TRUE(ParseLens("canonical")->has_canonical());
  EXPECT_TRUE(ParseLens("top_label")->has_top_label());
  EXPECT_TRUE(ParseLens("class_wise")->has_class_wise());
  EXPECT_EQ(ParseLens("class:3")->one_class().class_index(), 3);
  EXPECT_EQ(ParseLens("top_k:5")->top_k().k(), 5);
  EXPECT_THAT(ParseLens("grouped:0/1/0")->grouped().group_of_class(), ElementsAre(0, 1, 0));
}

TEST(LensOptionTest, QuotesUnknownLenses) {
  for (const char* text :
       {"", "top", "top_k", "top_k:", "top_k:x", "top_k:-1", "top_k:1/2", "top_k:99999999999",
        "grouped:", "grouped:0/", "grouped:0/a", "canonical:", "canonical:1", "Canonical"}) {
    const auto lens = ParseLens(text);
    ASSERT_FALSE(lens.ok()) << text;
    EXPECT_EQ(lens.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(lens.status().message()),
                HasSubstr("lens '" + std::string(text) + "' is not known"));
  }
}

TEST(ParseBinsTest, AcceptsEveryKindAndDistance) {
  EXPECT_EQ(ParseBins("top_label:20")->top_label().bins(), 20);
  EXPECT_EQ(ParseBins("class_wise:5")->class_wise().bins(), 5);
  EXPECT_EQ(ParseBins("uniform:4:squared_euclidean")->uniform().distance(),
            v1::ExponentialKernel::SQUARED_EUCLIDEAN);
  EXPECT_EQ(ParseBins("median_variance:50")->median_variance().min_size(), 50);
  EXPECT_EQ(ParseBins("median_variance:50:cityblock")->median_variance().distance(),
            v1::ExponentialKernel::CITYBLOCK);
  for (const char* text :
       {"", "uniform", "uniform:x", "uniform:4:manhattan", "top_label:5:euclidean",
        "uniform:4:", "uniform:4:unspecified", "other:3"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseBins(text).status())) << text;
  }
}

}  // namespace
}  // namespace calibd::cli
