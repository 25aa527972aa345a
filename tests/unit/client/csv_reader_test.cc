#include "csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace calibd::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<Table> Read(const std::string& text, const CsvOptions& options = {}) {
  std::istringstream input(text);
  return ReadCsv(input, "p.csv", options);
}

std::string ErrorOf(const std::string& text, const CsvOptions& options = {}) {
  const auto table = Read(text, options);
  return table.ok() ? "no error" : std::string(table.status().message());
}

TEST(ReadCsvTest, ReadsNumbersToTheNearestDouble) {
  const auto table = Read("0.1,2.4e-05\n0.30000000000000004,1\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->row_count, 2u);
  EXPECT_EQ(table->column_count, 2u);
  EXPECT_THAT(table->values, ElementsAre(0.1, 2.4e-05, 0.1 + 0.2, 1.0));
}

TEST(ReadCsvTest, AcceptsByteOrderMarkCarriageReturnsBlanksAndNoLastNewline) {
  const auto table = Read("\xEF\xBB\xBF 0.25 ,\t0.75\r\n1,0");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->values, ElementsAre(0.25, 0.75, 1.0, 0.0));
}

TEST(ReadCsvTest, LeavesNanAndInfinityToValidation) {
  const auto table = Read("nan,inf\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(std::isnan(table->values[0]));
  EXPECT_TRUE(std::isinf(table->values[1]));
}

TEST(ReadCsvTest, ReadsTinyNumbersAsZeroAndRefusesHugeOnes) {
  const auto table = Read("1e-400,0\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->values[0], 0.0);
  EXPECT_THAT(ErrorOf("1e400,0\n"), HasSubstr("\"1e400\" is beyond the range of a double"));
}

TEST(ReadCsvTest, NamesLineAndColumnOfAnInvalidNumber) {
  EXPECT_THAT(ErrorOf("0.5,0.5\n0.5,0.5\n0.5,abc\n"),
              HasSubstr("p.csv line 3, column 2: \"abc\" is not a number"));
  EXPECT_THAT(ErrorOf("0.5,\n"), HasSubstr("line 1, column 2: \"\" is not a number"));
  EXPECT_THAT(ErrorOf("0.5,0.5\n0.5x,1\n"), HasSubstr("line 2, column 1"));
  EXPECT_THAT(ErrorOf("0.5,0.5\n0x10,1\n"), HasSubstr("line 2, column 1"));
  EXPECT_THAT(ErrorOf("0.5;0.5\n"), HasSubstr("line 1, column 1"));
}

TEST(ReadCsvTest, SuggestsHeaderOnlyOnTheFirstLine) {
  EXPECT_THAT(ErrorOf("cat,dog\n0.5,0.5\n"), HasSubstr("--header"));
  EXPECT_THAT(ErrorOf("0.5,0.5\ncat,dog\n"), Not(HasSubstr("--header")));
  const auto table = Read("cat,dog\n0.5,0.5\n", {.header = true});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->row_count, 1u);
}

TEST(ReadCsvTest, RefusesRaggedRowsEmptyLinesAndEmptyFiles) {
  EXPECT_THAT(ErrorOf("1,0\n1,0,0\n"), HasSubstr("line 2, column 2: the line has 3 columns"));
  EXPECT_THAT(ErrorOf("1,0\n1\n"), HasSubstr("the line has 1 columns, expected 2"));
  EXPECT_THAT(ErrorOf("1,0\n\n1,0\n"), HasSubstr("line 2, column 1: the line is empty"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("holds no rows"));
  EXPECT_THAT(ErrorOf("a,b\n", {.header = true}), HasSubstr("holds no rows"));
}

TEST(ReadCsvTest, RefusesAnEndlessLineBeforeAllocatingMemory) {
  EXPECT_THAT(ErrorOf(std::string(kMaxCsvLineBytes + 1, '1')), HasSubstr("is longer than"));
}

TEST(ReadCsvTest, QuotesHostileTextTruncatedAndEscaped) {
  const std::string hostile = "0.5,\x1b[2J" + std::string(5000, '\x07') + "\n";
  const std::string error = ErrorOf(hostile);
  EXPECT_LT(error.size(), 300u);
  EXPECT_THAT(error, AllOf(HasSubstr("\\x1b"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(ErrorOf(std::string("0.5\0,1\n", 7)), HasSubstr("\\x00"));
}

TEST(ReadCsvTest, ReadsLabelsFromTheLastColumn) {
  const auto table = Read("0.5,0.5,1\n1,0,-3\n", {.last_column_is_label = true});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->column_count, 2u);
  EXPECT_THAT(table->labels, ElementsAre(1, -3));
  EXPECT_THAT(ErrorOf("0.5,0.5,1.0\n", {.last_column_is_label = true}),
              HasSubstr("column 3: \"1.0\" is not an integer"));
}

TEST(ReadCsvLabelsTest, ReadsOneIntegerPerLine) {
  std::istringstream good("3\n0\r\n12\n");
  const auto labels = ReadCsvLabels(good, "l.csv", false);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(*labels, ElementsAre(3, 0, 12));

  std::istringstream pairs("3,1\n");
  EXPECT_THAT(std::string(ReadCsvLabels(pairs, "l.csv", false).status().message()),
              HasSubstr("has 2 columns, expected one label a line"));
  std::istringstream huge("99999999999999999999\n");
  EXPECT_FALSE(ReadCsvLabels(huge, "l.csv", false).ok());
}

absl::StatusOr<LabelsById> ReadLabels(const std::string& text, bool header = false) {
  std::istringstream input(text);
  return ReadCsvLabelsById(input, "l.csv", header);
}

absl::StatusOr<std::vector<std::string>> ReadIds(const std::string& text) {
  std::istringstream input(text);
  return ReadCsvIds(input, "i.csv", false);
}

TEST(ReadCsvLabelsByIdTest, ReadsAnIdAndAnIntegerPerLine) {
  const auto labels = ReadLabels("id,label\r\na-1,3\r\n b 2 , -4 \n\"c,\"\"3\"\"\" ,5", true);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(labels->ids, ElementsAre("a-1", "b 2", "c,\"3\""));
  EXPECT_THAT(labels->labels, ElementsAre(3, -4, 5));
}

TEST(ReadCsvLabelsByIdTest, NamesTheInvalidLine) {
  const auto error = [](const std::string& text) {
    return std::string(ReadLabels(text).status().message());
  };
  EXPECT_THAT(error("a,1\nb,x\n"), HasSubstr("l.csv line 2, column 2: \"x\" is not an integer"));
  EXPECT_THAT(error("id,label\n"), HasSubstr("--header"));
  EXPECT_THAT(error("a,1\nb\n"), HasSubstr("line 2, column 1: the line has 1 columns"));
  EXPECT_THAT(error("a,2024-05-01,1\n"), HasSubstr("line 1, column 2: the line has 3 columns"));
  EXPECT_THAT(error("a,1\n\n"), HasSubstr("line 2, column 1: the id is of 0 bytes"));
  EXPECT_THAT(error(",1\n"), HasSubstr("the id is of 0 bytes, expected 1 to 128"));
  EXPECT_THAT(error(std::string(129, 'x') + ",1\n"), HasSubstr("the id is of 129 bytes"));
  EXPECT_THAT(error("\"a,1\n"), HasSubstr("line 1, column 1: the quote is not closed"));
  EXPECT_THAT(error("\"a\"\"\n"), HasSubstr("the quote is not closed"));
  EXPECT_THAT(error("\"\n"), HasSubstr("the quote is not closed"));
  EXPECT_THAT(error("\"a\"b,1\n"), HasSubstr("the quoted id is followed by \"b,1\""));
  EXPECT_THAT(error(""), HasSubstr("holds no rows"));
}

TEST(ReadCsvIdsTest, ReadsOneIdPerLine) {
  const auto ids = ReadIds("a\n\"b,c\"\r\n\"\"\"\"");
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_THAT(*ids, ElementsAre("a", "b,c", "\""));
  EXPECT_THAT(std::string(ReadIds("a\nb,c\n").status().message()),
              HasSubstr("i.csv line 2, column 2: the line has more text, expected one id"));
  EXPECT_THAT(std::string(ReadIds("a\n\nb\n").status().message()), HasSubstr("line 2"));
}

}  // namespace
}  // namespace calibd::cli
