#include "lens_option.h"

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
  EXPECT_EQ(ParseLens("top_k:5")->top_k().k(), 5);
  EXPECT_THAT(ParseLens("grouped:0/1/0")->grouped().group_of_class(), ElementsAre(0, 1, 0));
}

TEST(LensOptionTest, QuotesWhatItDoesNotKnow) {
  for (const char* text : {"", "top", "top_k", "top_k:", "top_k:x", "top_k:99999999999",
                           "grouped:", "grouped:0/", "grouped:0/a", "Canonical"}) {
    const auto lens = ParseLens(text);
    ASSERT_FALSE(lens.ok()) << text;
    EXPECT_EQ(lens.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(lens.status().message()),
                HasSubstr("lens '" + std::string(text) + "' is not known"));
  }
}

TEST(LensOptionTest, EachLensHasABlindSpotOfItsOwn) {
  EXPECT_NE(BlindSpot("top_label"), BlindSpot("class_wise"));
  EXPECT_NE(BlindSpot("top_k[3]"), BlindSpot("grouped"));
}

}  // namespace
}  // namespace calibd::cli
