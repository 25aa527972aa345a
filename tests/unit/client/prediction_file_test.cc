#include "prediction_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace calibd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PredictionFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    // Tests run in parallel.
    const std::string path =
        ::testing::TempDir() + "prediction_file_test_" + std::to_string(getpid()) + "_" + name;
    std::ofstream(path, std::ios::binary) << text;
    paths_.push_back(path);
    return path;
  }
  void TearDown() override {
    for (const std::string& path : paths_) std::filesystem::remove(path);
  }

 private:
  std::vector<std::string> paths_;
};

TEST_F(PredictionFileTest, ShiftsLabelsByTheStatedBase) {
  InputOptions options;
  options.predictions = Write("p.csv", "0.5,0.5\n1,0\n");
  options.labels = Write("l.csv", "1\n2\n");
  options.label_base = 1;
  const auto input = ReadInput(options);
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_EQ(input->class_count, 2u);
  EXPECT_THAT(input->labels, ElementsAre(0, 1));
}

TEST_F(PredictionFileTest, NamesALabelThatContradictsTheBase) {
  InputOptions options;
  options.predictions = Write("p.csv", "0.5,0.5\n1,0\n");
  options.labels = Write("l.csv", "1\n2\n");
  options.label_base = 0;
  const auto error = ReadInput(options).status();
  EXPECT_THAT(std::string(error.message()),
              HasSubstr("l.csv line 2: label 2, expected 0..1 with --label-base 0"));
  options.drop_invalid = true;
  const auto input = ReadInput(options);
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_THAT(input->labels, ElementsAre(1, -1));
}

TEST_F(PredictionFileTest, RefusesFilesThatDoNotMatch) {
  InputOptions options;
  options.predictions = Write("p.csv", "0.5,0.5\n1,0\n");
  options.labels = Write("l.csv", "1\n");
  options.label_base = 0;
  EXPECT_THAT(std::string(ReadInput(options).status().message()),
              HasSubstr("holds 1 labels, expected 2"));
  options.labels += ".absent";
  EXPECT_TRUE(absl::IsNotFound(ReadInput(options).status()));
  options.predictions = Write("one.csv", "1\n");
  options.labels = Write("l1.csv", "0\n");
  EXPECT_THAT(std::string(ReadInput(options).status().message()), HasSubstr("has 1 columns"));
}

TEST_F(PredictionFileTest, ReadsLabelsFromTheLastColumn) {
  InputOptions options;
  options.predictions = Write("p.csv", "0.5,0.5,1\n1,0,0\n");
  options.labels_last_column = true;
  options.label_base = 0;
  const auto input = ReadInput(options);
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_THAT(input->labels, ElementsAre(1, 0));
  EXPECT_THAT(input->values, ElementsAre(0.5, 0.5, 1, 0));
}

TEST_F(PredictionFileTest, ReadsIdsWithAndWithoutLabels) {
  InputOptions options;
  options.predictions = Write("p.csv", "0.5,0.5\n1,0\n");
  options.ids = Write("i.csv", "a\nb\n");
  EXPECT_FALSE(FindUsageFault(options).has_value()) << "the labels may come later";
  const auto without = ReadInput(options);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_THAT(without->ids, ElementsAre("a", "b"));
  EXPECT_TRUE(without->labels.empty());
  options.labels = Write("l.csv", "1\n2\n");
  EXPECT_THAT(FindUsageFault(options).value_or(""), HasSubstr("--label-base is missing"));
  options.label_base = 1;
  const auto with = ReadInput(options);
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_THAT(with->labels, ElementsAre(0, 1));
  EXPECT_THAT(with->ids, ElementsAre("a", "b"));
  options.ids = Write("i3.csv", "a\nb\nc\n");
  EXPECT_THAT(std::string(ReadInput(options).status().message()),
              HasSubstr("i3.csv holds 3 ids, expected 2, one for each prediction"));
}

TEST_F(PredictionFileTest, ReadsLabelsByIdAndNamesTheLineOfAnInvalidClass) {
  LabelFileOptions options;
  options.path = Write("l.csv", "id,label\na,1\nb,3\n");
  EXPECT_THAT(FindUsageFault(options).value_or(""), HasSubstr("--label-base is missing"));
  options.label_base = 1;
  options.header = true;
  EXPECT_FALSE(FindUsageFault(options).has_value());
  const auto file = ReadLabelFile(options);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto classes = ToClasses(options, *file, 3);
  ASSERT_TRUE(classes.ok()) << classes.status();
  EXPECT_THAT(*classes, ElementsAre(0, 2));
  EXPECT_THAT(std::string(ToClasses(options, *file, 2).status().message()),
              HasSubstr("l.csv line 3: label 3, expected 1..2 with --label-base 1"));
  options.path += ".absent";
  EXPECT_TRUE(absl::IsNotFound(ReadLabelFile(options).status()));
}

TEST(NameLinesTest, NamesTheFilesLinesAndColumns) {
  InputOptions options;
  options.predictions = "p.csv";
  options.labels = "l.csv";
  options.ids = "i.csv";
  EXPECT_EQ(NameLines(options, {}, "rows[1].probabilities sums to 2; rows[0].logits[3] is nan"),
            "p.csv line 2 sums to 2; p.csv line 1, column 4 is nan");
  EXPECT_EQ(NameLines(options, {}, "labels[7] is 9; rows[2].labels is 9"),
            "l.csv line 8 is 9; l.csv line 3 is 9");
  options.header = true;
  EXPECT_EQ(NameLines(options, {}, "rows[0].prediction_ids is not valid UTF-8; 3 more"),
            "i.csv line 2 is not valid UTF-8; 3 more");
  options.labels.clear();
  EXPECT_EQ(NameLines(options, {}, "labels[0] is 9"), "p.csv line 2 is 9");
  Input npy;
  npy.predictions_are_npy = true;
  EXPECT_EQ(NameLines(options, npy, "rows[5].probabilities is 2"),
            "p.csv row 5 (counted from 0) is 2");
  LabelFileOptions labels;
  labels.path = "b.csv";
  EXPECT_EQ(NameLines(labels, "labels[4].prediction_ids is long"), "b.csv line 5 is long");
}

TEST(InputOptionsTest, AsksForTheLabelBaseInsteadOfGuessing) {
  InputOptions options;
  options.predictions = "p.csv";
  options.labels = "l.csv";
  EXPECT_THAT(FindUsageFault(options).value_or(""), HasSubstr("--label-base is missing"));
  options.label_base = 0;
  EXPECT_FALSE(FindUsageFault(options).has_value());
  options.labels_last_column = true;
  EXPECT_THAT(FindUsageFault(options).value_or(""), HasSubstr("not both"));
  options.labels.clear();
  EXPECT_FALSE(FindUsageFault(options).has_value());
  options.labels_last_column = false;
  EXPECT_THAT(FindUsageFault(options).value_or(""), HasSubstr("LABELS is missing"));
}

}  // namespace
}  // namespace calibd::cli
