#include "client/cli/files/npy_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>

#include "unit/client/npy_bytes.h"

namespace calibd::cli {
namespace {

using ::calibd::testing::Npy;
using ::calibd::testing::NpyDict;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<NpyArray> ParseNpy(const std::string& file) {
  std::istringstream input(file);
  return ReadNpy(input, "p.npy");
}

std::string NpyErrorOf(const std::string& file) {
  const auto table = ParseNpy(file);
  return table.ok() ? "no error" : std::string(table.status().message());
}

const std::vector<double> kFour = {0.25, 0.75, 1.0, 0.0};

TEST(ReadNpyTest, ReadsFloat64AndFloat32InBothVersions) {
  for (const int version : {1, 2}) {
    const auto doubles = ParseNpy(Npy(NpyDict("<f8", "(2, 2)"), kFour, version));
    ASSERT_TRUE(doubles.ok()) << doubles.status();
    EXPECT_EQ(doubles->row_count, 2u);
    EXPECT_EQ(doubles->column_count, 2u);
    EXPECT_EQ(doubles->values, kFour);
    const auto floats = ParseNpy(
        Npy(NpyDict("<f4", "(2, 2)"), std::vector<float>{0.1F, 0.9F, 1.0F, 0.0F}, version));
    ASSERT_TRUE(floats.ok()) << floats.status();
    EXPECT_EQ(floats->values[0], static_cast<double>(0.1F));
  }
}

TEST(ReadNpyTest, ReadsKeysInAnyOrder) {
  const auto table =
      ParseNpy(Npy("{\"shape\": (2,2), \"descr\": \"<f8\", \"fortran_order\": False}", kFour));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->values, kFour);
}

TEST(ReadNpyTest, ReadsFloat16) {
  const auto array = ParseNpy(
      Npy(NpyDict("<f2", "(1, 4)"), std::vector<std::uint16_t>{0x3400, 0x3a00, 0x3c00, 0x0001}));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->values, ElementsAre(0.25, 0.75, 1.0, 0x1p-24));
}

TEST(ReadNpyTest, ReadsFortranOrder) {
  const auto array = ParseNpy(
      Npy(NpyDict("<f8", "(2, 3)", "True"), std::vector<double>{0.1, 0.4, 0.2, 0.5, 0.7, 0.1}));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->row_count, 2u);
  EXPECT_THAT(array->values, ElementsAre(0.1, 0.2, 0.7, 0.4, 0.5, 0.1));
}

TEST(ReadNpyTest, ReadsOneDimensionAsOneColumn) {
  for (const char* const shape : {"(4,)", "(4, 1)"}) {
    const auto array = ParseNpy(Npy(NpyDict("<f8", shape), kFour));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->row_count, 4u);
    EXPECT_EQ(array->column_count, 1u);
    EXPECT_EQ(array->values, kFour);
  }
}

TEST(ReadNpyTest, ReadsIntegersOfAnyWidthAndTruthValues) {
  const auto wide = ParseNpy(Npy(NpyDict("<i8", "(3,)"), std::vector<std::int64_t>{0, 9, -1}));
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_THAT(wide->values, ElementsAre(0, 9, -1));
  EXPECT_FALSE(wide->truth_values);
  const auto narrow = ParseNpy(Npy(NpyDict("|u1", "(2,)"), std::vector<std::uint8_t>{3, 255}));
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_THAT(narrow->values, ElementsAre(3, 255));
  const auto truth = ParseNpy(Npy(NpyDict("|b1", "(2,)"), std::vector<std::uint8_t>{1, 0}));
  ASSERT_TRUE(truth.ok()) << truth.status();
  EXPECT_THAT(truth->values, ElementsAre(1, 0));
  EXPECT_TRUE(truth->truth_values);
}

TEST(ReadNpyTest, ReadsTextsAsUtf8) {
  const auto array = ParseNpy(Npy(
      NpyDict("<U3", "(2, 1)"), std::vector<std::uint32_t>{'c', 0xe4, 0x1F600, 0x20AC, 0, 0xD800}));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->texts, ElementsAre("c\xC3\xA4\xF0\x9F\x98\x80", "\xE2\x82\xAC"));
  EXPECT_TRUE(array->values.empty());
  EXPECT_THAT(NpyErrorOf(Npy(NpyDict("<U99999999999", "(2,)"), kFour)),
              HasSubstr("elements of type"));
}

TEST(ReadNpyTest, RefusesOtherLayoutsAndSaysHowToConvert) {
  EXPECT_THAT(NpyErrorOf(Npy(NpyDict(">f8", "(2, 2)"), kFour)),
              AllOf(HasSubstr("type \">f8\""), HasSubstr("a.astype(\"<f8\")")));
  EXPECT_THAT(NpyErrorOf(Npy(NpyDict("|O", "(2, 2)"), kFour)),
              AllOf(HasSubstr("pickled Python objects"), HasSubstr("a.astype(str)")));
  EXPECT_THAT(NpyErrorOf(Npy(NpyDict("<f8", "(1, 2, 2)"), kFour)),
              HasSubstr("shape (1, 2, 2), expected (rows,)"));
  EXPECT_THAT(NpyErrorOf(Npy(NpyDict("<f8", "()"), kFour)), HasSubstr("shape ()"));
  EXPECT_THAT(NpyErrorOf(Npy(NpyDict("<f8", "(0, 2)"), std::vector<double>{})),
              HasSubstr("shape (0, 2"));
  EXPECT_THAT(NpyErrorOf(Npy(NpyDict("<f8", "(2, 2)"), kFour, 3)), HasSubstr("format 3"));
}

TEST(ReadNpyTest, DoesNotTrustSizesInTheHeader) {
  // The header claims 2^62 elements, but there are four: an error, not an allocation.
  EXPECT_THAT(NpyErrorOf(Npy(NpyDict("<f8", "(1152921504606846975, 4)"), kFour)),
              HasSubstr("shape"));
  EXPECT_THAT(NpyErrorOf(Npy(NpyDict("<f8", "(100000000000, 10)"), kFour)),
              HasSubstr("ends before"));
  EXPECT_THAT(NpyErrorOf(Npy(NpyDict("<f8", "(99999999999999999999999, 10)"), kFour)),
              HasSubstr("header"));
  EXPECT_THAT(NpyErrorOf(Npy(NpyDict("<f8", "(-2, 2)"), kFour)), HasSubstr("header"));
  EXPECT_THAT(NpyErrorOf(Npy(NpyDict("<f8", "(2, 2)"), kFour) + "x"), HasSubstr("has data after"));
}

TEST(ReadNpyTest, RefusesEveryTruncation) {
  const std::string file = Npy(NpyDict("<f8", "(2, 2)"), kFour);
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(ParseNpy(file.substr(0, length)).ok()) << length;
  }
}

TEST(ReadNpyTest, SurvivesEveryChangedByteOfTheHeader) {
  const std::string file = Npy(NpyDict("<f8", "(2, 2)"), kFour);
  for (std::size_t at = 0; at < file.size() - kFour.size() * sizeof(double); ++at) {
    for (const char c : {'\0', '\xff', '(', '\'', '9'}) {
      std::string changed = file;
      changed[at] = c;
      const auto table = ParseNpy(changed);
      if (table.ok()) {
        EXPECT_EQ(table->values.size(), table->row_count * table->column_count);
      }
    }
  }
}

TEST(ReadNpyTest, RefusesMalformedHeaders) {
  for (const char* dict : {"", "{", "{}", "{'descr'}", "{'descr': '<f8'}", "import os",
                           "{'descr': '<f8', 'descr': '<f8', 'shape': (2, 2)}",
                           "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2, 2)}",
                           "{'descr': '<f8', 'fortran_order': 0, 'shape': (2, 2)}",
                           "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2)} + x"}) {
    EXPECT_THAT(NpyErrorOf(Npy(dict, kFour)), HasSubstr("header")) << dict;
  }
}

}  // namespace
}  // namespace calibd::cli
