#include "client/cli/files/file_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace calibd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string FormatErrorOf(const std::string& text) {
  std::istringstream input(text);
  const auto format = DetectFormat(input, "p");
  return format.ok() ? "no error" : std::string(format.status().message());
}

TEST(DetectFormatTest, RecognisesTheFormatsThatAreReadAndKeepsThePosition) {
  const auto detect = [](const std::string& text) {
    std::istringstream input(text);
    const auto format = DetectFormat(input, "p");
    EXPECT_TRUE(format.ok()) << format.status();
    std::string rest(text.size(), '\0');
    input.read(rest.data(), static_cast<std::streamsize>(rest.size()));
    EXPECT_EQ(rest, text);
    return format.value_or(FileFormat::kCsv);
  };
  EXPECT_EQ(detect("\x93NUMPY\x01\x00 and more than that"), FileFormat::kNpy);
  EXPECT_EQ(detect("PK\x03\x04"), FileFormat::kNpz);
  EXPECT_EQ(detect("{\"a\": 1}"), FileFormat::kJsonLines);
  EXPECT_EQ(detect(" \n{\"a\": 1}"), FileFormat::kJsonLines);
  EXPECT_EQ(detect("[1, 2]"), FileFormat::kJsonLines);
  EXPECT_EQ(detect("0.5,0.5\n"), FileFormat::kCsv);
  EXPECT_EQ(detect("PAR1,PAR2\n0.5,0.5\n"), FileFormat::kCsv) << "names, not a Parquet file";
  EXPECT_EQ(detect("\xEF\xBB\xBF"
                   "0.5,0.5\n"),
            FileFormat::kCsv);
  EXPECT_EQ(detect(""), FileFormat::kCsv);
}

TEST(DetectFormatTest, NamesOtherFormatsAndTheirConversion) {
  EXPECT_THAT(FormatErrorOf(std::string("PAR1\x15\x04", 6)),
              AllOf(HasSubstr("p: this is a Parquet file"), HasSubstr("read_parquet")));
  EXPECT_THAT(FormatErrorOf(std::string("ARROW1\0\0", 8)), HasSubstr("Arrow or Feather"));
  EXPECT_THAT(FormatErrorOf("\x89HDF\r\n\x1a\n"), AllOf(HasSubstr("HDF5"), HasSubstr("h5py")));
  EXPECT_THAT(FormatErrorOf("\x1F\x8B\x08"), AllOf(HasSubstr("gzip"), HasSubstr("zcat")));
  EXPECT_THAT(FormatErrorOf("\x80\x04\x95"), HasSubstr("a Python pickle"));
  EXPECT_THAT(FormatErrorOf("\xFF\xFE"
                            "0"),
              AllOf(HasSubstr("UTF-16"), HasSubstr("iconv")));
  EXPECT_THAT(FormatErrorOf("MATLAB 5.0 MAT-file, Platform"), HasSubstr("a MATLAB file"));
}

}  // namespace
}  // namespace calibd::cli
