#include "client/cli/files/label_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calibd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::string> kPets = {"cat", "dog"};

std::int32_t Parse(const LabelOptions& options, std::string_view label) {
  const auto parser = LabelParser::Create(options);
  EXPECT_TRUE(parser.ok()) << parser.status();
  const auto parsed = parser->Parse(label);
  return parsed.value_or(-1);
}

std::string LabelErrorOf(const LabelOptions& options, std::string_view label) {
  return std::string(LabelParser::Create(options)->Parse(label).status().message());
}

TEST(LabelParserTest, ReadsNumbersFromTheBase) {
  const LabelOptions one = {.base = 1, .class_names = {}, .class_count = 3, .positive_class = {}};
  EXPECT_EQ(Parse(one, "1"), 0);
  EXPECT_EQ(Parse(one, "3.0"), 2);
  EXPECT_EQ(Parse(one, "3e0"), 2);
  for (const char* const label : {"0", "4", "-1", "1.5", "cat", "", "nan", "1x", "False",
                                  "9223372036854775808", "-9223372036854775808", "1e300"}) {
    EXPECT_EQ(Parse(one, label), -1) << label;
  }
  const LabelOptions zero = {.base = 0, .class_names = {}, .class_count = 2, .positive_class = {}};
  EXPECT_EQ(Parse(zero, "True"), 1);
  EXPECT_EQ(Parse(zero, "false"), 0);
  EXPECT_THAT(LabelErrorOf(zero, "2"), HasSubstr("label \"2\", expected 0..1 with --label-base 0"));
  EXPECT_THAT(LabelErrorOf(zero, "NaN"), HasSubstr("the label is missing"));
}

TEST(LabelParserTest, ReadsClassNames) {
  const LabelOptions names = {
      .base = {}, .class_names = kPets, .class_count = 2, .positive_class = {}};
  EXPECT_EQ(Parse(names, "dog"), 1);
  EXPECT_EQ(Parse(names, "1"), -1) << "a number is not guessed to be an index";
  EXPECT_EQ(Parse(names, "True"), -1);
  EXPECT_EQ(LabelErrorOf(names, "cow"),
            "label \"cow\", expected one of the class names \"cat\", \"dog\"");
  EXPECT_EQ(LabelErrorOf(names, "1"),
            "label \"1\", expected one of the class names \"cat\", \"dog\"; if the labels are "
            "class numbers, add --label-base 0 or 1");
  LabelOptions columns = names;
  columns.names_of_columns = true;
  for (const char* const label : {"True", "cow"}) {
    EXPECT_THAT(LabelErrorOf(columns, label),
                HasSubstr("if one of these columns is no class, leave it out with --drop-column"));
  }
  LabelOptions both = names;
  both.base = 1;
  EXPECT_EQ(Parse(both, "2"), 1);
  EXPECT_EQ(Parse(both, "cat"), 0);
}

TEST(LabelParserTest, MatchesNumbersToNamesThatAreNumbers) {
  const std::vector<std::string> numbers = {"10", "1", "2"};
  const LabelOptions names = {
      .base = {}, .class_names = numbers, .class_count = 3, .positive_class = {}};
  EXPECT_EQ(Parse(names, "1"), 1);
  EXPECT_EQ(Parse(names, "10.0"), 0);
  EXPECT_EQ(Parse(names, "0"), -1);
  const std::vector<std::string> places = {"0", "1"};
  const LabelOptions columns = {.base = {},
                                .class_names = places,
                                .names_of_columns = true,
                                .class_count = 2,
                                .positive_class = {}};
  EXPECT_THAT(LabelErrorOf(columns, "yes"),
              AllOf(HasSubstr("state the names of the classes in this order with --class-names"),
                    Not(HasSubstr("--label-base"))));
}

TEST(LabelParserTest, ReadsTruthValuesAsThePositiveClass) {
  const LabelOptions positive = {
      .base = {}, .class_names = kPets, .class_count = 2, .positive_class = 0};
  EXPECT_EQ(Parse(positive, "True"), 0);
  EXPECT_EQ(Parse(positive, "1"), 0);
  EXPECT_EQ(Parse(positive, "0.0"), 1);
  EXPECT_EQ(Parse(positive, "dog"), 1);
  EXPECT_EQ(Parse(positive, "2"), -1);
}

TEST(LabelParserTest, AsksForTheBaseInsteadOfGuessing) {
  const LabelOptions unknown = {
      .base = {}, .class_names = {}, .class_count = 2, .positive_class = {}};
  EXPECT_THAT(std::string(LabelParser::Create(unknown).status().message()),
              AllOf(HasSubstr("--label-base is missing"), HasSubstr("does not guess")));
}

}  // namespace
}  // namespace calibd::cli
