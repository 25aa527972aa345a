#include "npy_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

namespace calibd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns a file as NumPy writes it: the header is padded to 64 bytes.
template <typename T>
std::string Npy(const std::string& dict, const std::vector<T>& values, int major = 1) {
  std::string header = dict;
  const std::size_t prefix = major == 1 ? 10 : 12;
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  }
  file += header;
  const std::size_t at = file.size();
  file.resize(at + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(file.data() + at, values.data(), values.size() * sizeof(T));
  return file;
}

std::string Dict(const std::string& descr, const std::string& shape,
                 const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

absl::StatusOr<Table> Read(const std::string& file) {
  std::istringstream input(file);
  return ReadNpy(input, "p.npy");
}

std::string ErrorOf(const std::string& file) {
  const auto table = Read(file);
  return table.ok() ? "no error" : std::string(table.status().message());
}

const std::vector<double> kFour = {0.25, 0.75, 1.0, 0.0};

TEST(ReadNpyTest, ReadsFloat64AndFloat32InBothVersions) {
  for (const int version : {1, 2}) {
    const auto doubles = Read(Npy(Dict("<f8", "(2, 2)"), kFour, version));
    ASSERT_TRUE(doubles.ok()) << doubles.status();
    EXPECT_EQ(doubles->row_count, 2u);
    EXPECT_EQ(doubles->column_count, 2u);
    EXPECT_EQ(doubles->values, kFour);
    const auto floats =
        Read(Npy(Dict("<f4", "(2, 2)"), std::vector<float>{0.1F, 0.9F, 1.0F, 0.0F}, version));
    ASSERT_TRUE(floats.ok()) << floats.status();
    EXPECT_EQ(floats->values[0], static_cast<double>(0.1F));
  }
}

TEST(ReadNpyTest, ReadsKeysInAnyOrder) {
  const auto table =
      Read(Npy("{\"shape\": (2,2), \"descr\": \"<f8\", \"fortran_order\": False}", kFour));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->values, kFour);
}

TEST(ReadNpyTest, RefusesOtherLayouts) {
  EXPECT_THAT(ErrorOf(Npy(Dict("<f8", "(2, 2)", "True"), kFour)), HasSubstr("Fortran order"));
  EXPECT_THAT(ErrorOf(Npy(Dict(">f8", "(2, 2)"), kFour)), HasSubstr("type \">f8\""));
  EXPECT_THAT(ErrorOf(Npy(Dict("|O", "(2, 2)"), kFour)), HasSubstr("type \"|O\""));
  EXPECT_THAT(ErrorOf(Npy(Dict("<f8", "(4,)"), kFour)), HasSubstr("shape (4, )"));
  EXPECT_THAT(ErrorOf(Npy(Dict("<f8", "(1, 2, 2)"), kFour)), HasSubstr("expected (predictions"));
  EXPECT_THAT(ErrorOf(Npy(Dict("<f8", "()"), kFour)), HasSubstr("shape ()"));
  EXPECT_THAT(ErrorOf(Npy(Dict("<f8", "(0, 2)"), std::vector<double>{})), HasSubstr("shape (0, 2"));
  EXPECT_THAT(ErrorOf(Npy(Dict("<f8", "(2, 2)"), kFour, 3)), HasSubstr("format 3"));
}

TEST(ReadNpyTest, DoesNotTrustSizesInTheHeader) {
  // The header claims 2^62 elements, but there are four: an error, not an allocation.
  EXPECT_THAT(ErrorOf(Npy(Dict("<f8", "(1152921504606846975, 4)"), kFour)), HasSubstr("shape"));
  EXPECT_THAT(ErrorOf(Npy(Dict("<f8", "(100000000000, 10)"), kFour)), HasSubstr("ends before"));
  EXPECT_THAT(ErrorOf(Npy(Dict("<f8", "(99999999999999999999999, 10)"), kFour)),
              HasSubstr("header"));
  EXPECT_THAT(ErrorOf(Npy(Dict("<f8", "(-2, 2)"), kFour)), HasSubstr("header"));
  EXPECT_THAT(ErrorOf(Npy(Dict("<f8", "(2, 2)"), kFour) + "x"), HasSubstr("has data after"));
}

TEST(ReadNpyTest, RefusesEveryTruncation) {
  const std::string file = Npy(Dict("<f8", "(2, 2)"), kFour);
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(Read(file.substr(0, length)).ok()) << length;
  }
}

TEST(ReadNpyTest, SurvivesEveryChangedByteOfTheHeader) {
  const std::string file = Npy(Dict("<f8", "(2, 2)"), kFour);
  for (std::size_t at = 0; at < file.size() - kFour.size() * sizeof(double); ++at) {
    for (const char c : {'\0', '\xff', '(', '\'', '9'}) {
      std::string changed = file;
      changed[at] = c;
      const auto table = Read(changed);
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
    EXPECT_THAT(ErrorOf(Npy(dict, kFour)), HasSubstr("header")) << dict;
  }
}

TEST(ReadNpyLabelsTest, ReadsIntegersOfAnyWidth) {
  std::istringstream wide(Npy(Dict("<i8", "(3,)"), std::vector<std::int64_t>{0, 9, -1}));
  const auto labels = ReadNpyLabels(wide, "l.npy");
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(*labels, ElementsAre(0, 9, -1));
  std::istringstream narrow(Npy(Dict("|u1", "(2,)"), std::vector<std::uint8_t>{3, 255}));
  const auto bytes = ReadNpyLabels(narrow, "l.npy");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_THAT(*bytes, ElementsAre(3, 255));
}

TEST(ReadNpyLabelsTest, RefusesInvalidLabels) {
  const auto error = [](const std::string& file) {
    std::istringstream input(file);
    return std::string(ReadNpyLabels(input, "l.npy").status().message());
  };
  EXPECT_THAT(error(Npy(Dict("<f8", "(4,)"), kFour)), HasSubstr("expected little-endian integers"));
  EXPECT_THAT(error(Npy(Dict("<u8", "(1,)"), std::vector<std::uint64_t>{~std::uint64_t{0}})),
              HasSubstr("expected a class number"));
  EXPECT_THAT(error("not a NumPy file"), HasSubstr("is not a NumPy file"));
}

}  // namespace
}  // namespace calibd::cli
