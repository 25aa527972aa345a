#include "client/cli/files/json_lines_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <vector>

namespace calibd::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kNested = {"probabilities"};

struct JsonLinesRows {
  std::vector<std::vector<std::string>> cells;
  std::vector<std::size_t> lines;
  absl::Status status;
};

JsonLinesRows ParseJsonLines(const std::string& text) {
  std::istringstream input(text);
  JsonLinesRows rows;
  rows.status = ReadJsonLines(input, "p.jsonl", kNested, [&](const TextRow& row) {
    rows.cells.emplace_back(row.cells.begin(), row.cells.end());
    rows.lines.push_back(row.line);
    return absl::OkStatus();
  });
  return rows;
}

std::string JsonLinesErrorOf(const std::string& text) {
  return std::string(ParseJsonLines(text).status.message());
}

TEST(ReadJsonLinesTest, ReadsKeysAsColumnsInAnyOrder) {
  const JsonLinesRows rows = ParseJsonLines(
      "{\"cat\": 0.30000000000000004, \"dog\": 1e-5, \"label\": \"cat\"}\n\n"
      "{\"label\": true, \"dog\": -3, \"cat\": null}\r\n{\"cat\": 1}");
  ASSERT_TRUE(rows.status.ok()) << rows.status;
  EXPECT_THAT(rows.cells, ElementsAre(ElementsAre("cat", "dog", "label"),
                                      ElementsAre("0.30000000000000004", "1e-5", "cat"),
                                      ElementsAre("", "-3", "True"), ElementsAre("1", "", "")));
  EXPECT_THAT(rows.lines, ElementsAre(1, 1, 3, 4));
}

TEST(ReadJsonLinesTest, ReadsAnArrayOrAnObjectOfPredictions) {
  EXPECT_THAT(ParseJsonLines("{\"probabilities\": [0.25, 0.75], \"label\": 1}").cells,
              ElementsAre(ElementsAre("0", "1", "label"), ElementsAre("0.25", "0.75", "1")));
  EXPECT_THAT(ParseJsonLines("{\"label\": 1, \"probabilities\": {\"a\": 0.25, \"b\": 0.75}}").cells,
              ElementsAre(ElementsAre("label", "a", "b"), ElementsAre("1", "0.25", "0.75")));
}

TEST(ReadJsonLinesTest, ReadsLongLines) {
  for (const std::size_t length : {65519U, 65520U, 65521U, 65522U, 65523U, 65524U, 200000U}) {
    const std::string text(length, 'x');
    EXPECT_THAT(ParseJsonLines("{\"name\": \"" + text + "\"}\n{\"name\": 1}\n").cells,
                ElementsAre(ElementsAre("name"), ElementsAre(text), ElementsAre("1")));
  }
}

TEST(ReadJsonLinesTest, PassesOverOtherNestedValues) {
  EXPECT_THAT(ParseJsonLines("{\"x\": {\"y\": [1, {\"z\": 2}], \"w\": 3}, \"a\": 4}").cells,
              ElementsAre(ElementsAre("x", "a"), ElementsAre("", "4")));
}

TEST(ReadJsonLinesTest, NamesTheInvalidLine) {
  EXPECT_THAT(JsonLinesErrorOf("{\"a\": 1}\n{\"a\": }\n"),
              HasSubstr("p.jsonl line 2 is not valid JSON at byte 7"));
  EXPECT_THAT(JsonLinesErrorOf("{\"a\": 1}\n{\"b\": 1}\n"),
              HasSubstr("line 2 has \"b\", which the first line does not have"));
  EXPECT_THAT(JsonLinesErrorOf("{\"a\": 1, \"a\": 2}\n"), HasSubstr("line 1 has \"a\" twice"));
  EXPECT_THAT(JsonLinesErrorOf("[{\"a\": 1}]\n"),
              AllOf(HasSubstr("is a JSON array"), HasSubstr("lines=True")));
  EXPECT_THAT(JsonLinesErrorOf("3\n"), HasSubstr("is not a JSON object"));
  EXPECT_THAT(JsonLinesErrorOf("{\"probabilities\": [[1]]}"), HasSubstr("has nested values"));
  EXPECT_THAT(JsonLinesErrorOf("{\"a\": \"" + std::string(kMaxLineBytes, 'x') + "\"}"),
              HasSubstr("line 1 is longer than"));
  EXPECT_THAT(JsonLinesErrorOf(std::string(1000000, '[')), HasSubstr("is a JSON array"));
  EXPECT_THAT(JsonLinesErrorOf("{\"a\": " + std::string(1000000, '[')),
              HasSubstr("is not valid JSON"));
  EXPECT_THAT(ParseJsonLines("").cells, IsEmpty());
  EXPECT_THAT(JsonLinesErrorOf("{\"a\": NaN}\n"),
              HasSubstr("p.jsonl line 1 is not valid JSON at byte 7: NaN is no JSON, write null"));
}

}  // namespace
}  // namespace calibd::cli
