#include "client/cli/files/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>
#include <vector>

namespace calibd::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct CsvRows {
  std::vector<std::vector<std::string>> cells;
  std::vector<std::size_t> lines;
  absl::Status status;
};

CsvRows ParseCsv(const std::string& text, std::optional<char> delimiter = ',') {
  std::istringstream input(text);
  CsvRows rows;
  rows.status = ReadCsv(input, "p.csv", delimiter, [&](const TextRow& row) {
    rows.cells.emplace_back(row.cells.begin(), row.cells.end());
    rows.lines.push_back(row.line);
    return absl::OkStatus();
  });
  return rows;
}

std::string CsvErrorOf(const std::string& text) {
  return std::string(ParseCsv(text).status.message());
}

TEST(ReadCsvTest, AcceptsByteOrderMarkCarriageReturnsBlanksAndNoLastNewline) {
  const CsvRows rows = ParseCsv("\xEF\xBB\xBF 0.25 ,\t0.75\r\n1,0");
  ASSERT_TRUE(rows.status.ok()) << rows.status;
  EXPECT_THAT(rows.cells, ElementsAre(ElementsAre("0.25", "0.75"), ElementsAre("1", "0")));
  EXPECT_THAT(rows.lines, ElementsAre(1, 2));
}

TEST(ReadCsvTest, ReadsQuotedCellsWithDelimitersQuotesAndLineEnds) {
  const CsvRows rows =
      ParseCsv("\"a,b\" , \"say \"\"no\"\"\",\"\"\n\"x\ny\n\",2,\" z \"\r\n3,4,\"5\"");
  ASSERT_TRUE(rows.status.ok()) << rows.status;
  EXPECT_THAT(rows.cells,
              ElementsAre(ElementsAre("a,b", "say \"no\"", ""), ElementsAre("x\ny\n", "2", " z "),
                          ElementsAre("3", "4", "5")));
  EXPECT_THAT(rows.lines, ElementsAre(1, 2, 5)) << "the second row has three lines";
}

TEST(ReadCsvTest, KeepsAQuoteInsideACell) {
  EXPECT_THAT(ParseCsv("5\"disk,1\n").cells, ElementsAre(ElementsAre("5\"disk", "1")));
}

TEST(ReadCsvTest, KeepsEmptyCellsAndEmptyLines) {
  EXPECT_THAT(ParseCsv(",a,\n\n\r\nb,c,d\n").cells,
              ElementsAre(ElementsAre("", "a", ""), ElementsAre(""), ElementsAre(""),
                          ElementsAre("b", "c", "d")));
  EXPECT_THAT(ParseCsv("").cells, IsEmpty());
}

TEST(ReadCsvTest, SplitsAtAnotherDelimiter) {
  EXPECT_THAT(ParseCsv("0,5;1\n", ';').cells, ElementsAre(ElementsAre("0,5", "1")));
  EXPECT_THAT(ParseCsv("\t a\t\"b\"\t\n", '\t').cells, ElementsAre(ElementsAre("", "a", "b", "")));
}

TEST(ReadCsvTest, TheFirstLineDecidesTheDelimiterThatIsNotStated) {
  const auto parsed = [](const std::string& text) { return ParseCsv(text, std::nullopt).cells; };
  EXPECT_THAT(parsed("a;b\n1;2,5\n"), ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "2,5")));
  EXPECT_THAT(parsed("a\tb;c\n"), ElementsAre(ElementsAre("a\tb", "c")));
  EXPECT_THAT(parsed("\xEF\xBB\xBF\"a,b\"\tc\r\n"), ElementsAre(ElementsAre("a,b", "c")));
  EXPECT_THAT(parsed("0,5;1\n"), ElementsAre(ElementsAre("0", "5;1"))) << "a comma comes first";
  EXPECT_THAT(parsed("a\t\n1;2\n"), ElementsAre(ElementsAre("a"), ElementsAre("1;2")))
      << "a tab at the end separates nothing";
  EXPECT_THAT(parsed("\n1;2\n"), ElementsAre(ElementsAre(""), ElementsAre("1;2")));
}

TEST(ReadCsvTest, ReadsRowsAcrossTheChunksOfTheInput) {
  std::string text;
  for (int i = 0; i < 40000; ++i)
    text += "\"" + std::to_string(i) + "\n\",b" + std::to_string(i) + "\n";
  const CsvRows rows = ParseCsv(text);
  ASSERT_TRUE(rows.status.ok()) << rows.status;
  ASSERT_EQ(rows.cells.size(), 40000u);
  for (std::size_t i = 0; i < rows.cells.size(); ++i) {
    ASSERT_THAT(rows.cells[i], ElementsAre(std::to_string(i) + "\n", "b" + std::to_string(i)));
    ASSERT_EQ(rows.lines[i], 2 * i + 1);
  }
}

TEST(ReadCsvTest, NamesTheLineAndColumnOfAnInvalidQuote) {
  EXPECT_THAT(CsvErrorOf("1,2\n3,\"a\"b\n"),
              HasSubstr("p.csv line 2, column 2: the closing quote is followed by \"b\""));
  EXPECT_THAT(CsvErrorOf("\"a,1\n"), HasSubstr("line 1, column 1: the quote is not closed"));
  EXPECT_THAT(CsvErrorOf("1,\""), HasSubstr("line 1, column 2: the quote is not closed"));
  EXPECT_THAT(CsvErrorOf("\"a\"\"\n"), HasSubstr("the quote is not closed"));
}

TEST(ReadCsvTest, RefusesAnEndlessLineBeforeAllocatingMemory) {
  EXPECT_THAT(CsvErrorOf(std::string(kMaxLineBytes + 1, '1')), HasSubstr("line 1 is longer than"));
  std::string open = "1\n\"";
  for (std::size_t i = 0; i < kMaxLineBytes; ++i) open += "\n";
  EXPECT_THAT(CsvErrorOf(open), AllOf(HasSubstr("line 2 is longer than"), HasSubstr("quote")));
}

TEST(ReadCsvTest, EndsWithTheErrorOfTheCaller) {
  std::istringstream input("1\n2\n3\n");
  int rows = 0;
  const absl::Status status = ReadCsv(input, "p.csv", ',', [&](const TextRow& /*row*/) {
    return ++rows == 2 ? absl::InvalidArgumentError("enough") : absl::OkStatus();
  });
  EXPECT_EQ(status.message(), "enough");
  EXPECT_EQ(rows, 2);
}

TEST(QuoteTest, ShowsHostileTextTruncatedAndEscaped) {
  const std::string quoted = Quote("\x1b[2J" + std::string(5000, '\x07'));
  EXPECT_LT(quoted.size(), 200u);
  EXPECT_THAT(quoted, AllOf(HasSubstr("\\x1b"), Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace calibd::cli
