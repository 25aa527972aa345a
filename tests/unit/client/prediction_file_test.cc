#include "client/cli/files/prediction_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "calibd/core/row_sum.h"
#include "client/cli/files/labels_by_id.h"
#include "client/cli/files/row_faults.h"
#include "google/protobuf/util/time_util.h"
#include "unit/client/npz_file.h"
#include "unit/client/prediction_files.h"

namespace calibd::cli {
namespace {

using ::calibd::testing::Npy;
using ::calibd::testing::NpyDict;
using ::calibd::testing::WriteZip;
using ::google::protobuf::util::TimeUtil;
using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Described(const Input& input, const std::vector<Violation>& violations) {
  return std::string(DescribeFaults(input, violations).message());
}

class PredictionFileTest : public PredictionFiles {};

TEST_F(PredictionFileTest, ShiftsLabelsByTheStatedBase) {
  InputOptions options = TwoRows();
  options.labels = Write("l1.csv", "1\n2\n");
  options.label_base = 1;
  const Input input = ParseInput(options);
  EXPECT_EQ(input.class_count, 2u);
  EXPECT_THAT(input.labels, ElementsAre(0, 1));
}

TEST_F(PredictionFileTest, NamesALabelThatContradictsTheBase) {
  InputOptions options = TwoRows();
  options.labels = Write("l1.csv", "1\n2\n");
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("l1.csv line 2, column 1: label \"2\", expected 0..1 with "
                        "--label-base 0"));
  options.columns.drop_invalid = true;
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, -1));
}

TEST_F(PredictionFileTest, RefusesFilesThatDoNotMatch) {
  InputOptions options = TwoRows();
  options.labels = Write("l1.csv", "1\n");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("holds 1 label, expected 2"));
  options.labels = Write("l3.csv", "0\n1\n0\n");
  EXPECT_THAT(InputErrorOf(options),
              AllOf(HasSubstr("holds 3 labels, expected 2"), HasSubstr("--header")));
  options.labels += ".absent";
  EXPECT_TRUE(absl::IsNotFound(ReadInput(options).status()));
  options = TwoRows();
  options.class_names = {"a", "b", "c"};
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("has 2 columns of probabilities, expected one for each of 3"));
}

TEST_F(PredictionFileTest, ReadsLabelsFromAColumn) {
  InputOptions options = Predictions("p.csv", "0.5,0.5,1\n1,0,0\n");
  options.labels_last_column = true;
  options.label_base = 0;
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.5, 0.5, 1, 0));
  options.labels_last_column = false;
  options.columns.label = "3";
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  options.columns.label = "4";
  EXPECT_THAT(InputErrorOf(options), HasSubstr("--label-column is \"4\", expected 1..3"));
}

TEST_F(PredictionFileTest, MatchesNamedColumnsToTheClassesByName) {
  InputOptions options = Predictions("p.csv", "dog,species,cat\n0.7,cat,0.3\n0.4,dog,0.6\n");
  options.columns.label = "species";
  options.class_names = {"cat", "dog"};
  const Input input = ParseInput(options);
  EXPECT_THAT(input.values, ElementsAre(0.3, 0.7, 0.6, 0.4));
  EXPECT_THAT(input.labels, ElementsAre(0, 1));
  EXPECT_EQ(Described(input, {{"probabilities", "is 2", 1, 0}}),
            options.predictions +
                " line 3, column 3 (\"cat\") is 2 (--drop-invalid leaves out invalid rows)");
  options.class_names = {"cat", "fox"};
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("column \"dog\" is no class; class \"fox\" has no column; "
                        "the classes are \"cat\", \"fox\"; rename"));
  options.columns.label.clear();
  options.labels = Write("l.csv", "cat\ndog\n");
  options.class_names = {"cat", "dog"};
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.3, 0.7, 0.6, 0.4));
  EXPECT_THAT(ParseInput(options).columns.note,
              HasSubstr("p.csv: the column \"species\" is not read"));
  options.labels.clear();
  options.columns.label = "species";
  options.class_names.clear();
  EXPECT_THAT(ParseInput(options).class_names, ElementsAre("dog", "cat"));
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  options.columns.label = "y";
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("--label-column is \"y\", expected one of the columns "
                        "\"dog\", \"species\", \"cat\""));
}

TEST_F(PredictionFileTest, TheAdviceOnRowSumsIsGivenOnce) {
  const InputOptions options = TwoRows();
  EXPECT_EQ(Described(ParseInput(options), {{"probabilities", DescribeRowSum(0.95, 1e-3), 0},
                                            {"probabilities", DescribeRowSum(0.96, 1e-3), 1}}),
            absl::StrCat(options.predictions,
                         " line 1 sums to 0.95, off by 0.05, more than the tolerance of 0.001; ",
                         options.predictions,
                         " line 2 sums to 0.96, off by 0.04, more than the tolerance of 0.001",
                         kRowSumAdvice, " (--drop-invalid leaves out invalid rows)"));
}

TEST_F(PredictionFileTest, AKeyOfJsonLinesCanBeLeftOut) {
  InputOptions options =
      Predictions("p.jsonl", "{\"id\": \"a\", \"probabilities\": [0.5, 0.5], \"label\": 1}\n");
  options.label_base = 0;
  EXPECT_THAT(ParseInput(options).ids, ElementsAre("a"));
  options.columns.dropped = {"id"};
  EXPECT_THAT(ParseInput(options).ids, IsEmpty());
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1));
}

TEST_F(PredictionFileTest, ReadsWhatPandasWrites) {
  // The files are written with the index, and without it; the labels are a Series.
  InputOptions options = Predictions("p.csv", ",cat,dog\n0,0.5,0.5\n1,1.0,0.0\n");
  options.labels = Write("l.csv", ",species\n0,dog\n1,cat\n");
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  options.predictions = Write("q.csv", "cat,dog\n0.5,0.5\n1.0,0.0\n");
  options.labels = Write("m.csv", "species\ndog\ncat\n");
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.5, 0.5, 1, 0));
  // Columns without names are numbered, which looks like a row of numbers.
  options.predictions = Write("r.csv", "0,1\n0.5,0.5\n1.0,0.0\n");
  options.label_base = 0;
  options.labels = Write("n.csv", "0\n1\n0\n");
  EXPECT_THAT(ParseInput(options).columns.note, HasSubstr("read as a prediction; say --header"));
  EXPECT_EQ(ParseInput(options).values.size(), 6u);
  options.columns.header = true;
  options.labels = Write("n.csv", "0\nTrue\nFalse\n");
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  options.labels = Write("o.csv", "0\n1.0\n0.0\n");
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
}

TEST_F(PredictionFileTest, AsksWhetherTheFirstLineHoldsNumbersOrNames) {
  InputOptions options = Predictions("p.csv", "0,1,2\n0.5,0.5,0\n");
  options.labels = Write("l.csv", "1\n");
  options.label_base = 0;
  EXPECT_THAT(InputErrorOf(options),
              AllOf(HasSubstr("may be the column names"), HasSubstr("--no-header")));
  options.columns.header = true;
  EXPECT_THAT(InputErrorOf(options), HasSubstr("l.csv holds 0 labels, expected 1"));
  options.labels = Write("l.csv", "y\n1\n");
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.5, 0.5, 0));
  options.columns.header.reset();
  options.predictions = Write("q.csv", ",0.5,0.5\n1,0,0\n");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("q.csv line 1, column 1: the value is missing"));
}

TEST_F(PredictionFileTest, DropsOtherColumnsOnlyOnRequest) {
  InputOptions options = Predictions("p.csv", "cat;dog;text;y\n0.5;0.5;\"a;\nb\";cat\n1;2;c;dog\n");
  options.columns.delimiter = ";";
  options.columns.label = "y";
  options.columns.dropped = {"text"};
  const Input input = ParseInput(options);
  EXPECT_THAT(input.labels, ElementsAre(0, 1));
  EXPECT_EQ(input.places.Of(1), options.predictions + " line 4");
  options.columns.dropped.clear();
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("line 2, column 3 (\"text\"): \"a;\\nb\" is not a number"));
}

TEST_F(PredictionFileTest, ReadsIdsTimesAndGroups) {
  InputOptions options = Predictions("p.csv",
                                     "id,cat,dog,at,country\n"
                                     "a,0.5,0.5,2026-01-31T12:30:00+01:00,DE\n"
                                     "\"b,c\",1,0,1769862600,\n");
  options.columns.id = "id";
  options.columns.time = "at";
  options.columns.group = "country";
  const Input input = ParseInput(options);
  EXPECT_THAT(input.ids, ElementsAre("a", "b,c"));
  EXPECT_THAT(input.groups, ElementsAre("DE", ""));
  EXPECT_THAT(input.labels, IsEmpty()) << "they may come later";
  ASSERT_EQ(input.times.size(), 2u);
  EXPECT_EQ(TimeUtil::ToString(input.times[0]), "2026-01-31T11:30:00Z");
  EXPECT_EQ(TimeUtil::ToString(input.times[1]), "2026-01-31T12:30:00Z");
  options.predictions = Write("q.csv", "id,cat,dog,at,country\na,0.5,0.5,yesterday,DE\n");
  EXPECT_THAT(InputErrorOf(options),
              AllOf(HasSubstr("q.csv line 2, column 4 (\"at\"): 'yesterday' is not a time"),
                    HasSubstr("--drop-invalid")));
}

TEST_F(PredictionFileTest, ReadsIdsWithAndWithoutLabels) {
  InputOptions options = Predictions("p.csv", "0.5,0.5\n1,0\n");
  options.ids = Write("i.csv", "a\nb\n");
  EXPECT_FALSE(FindUsageFault(options).has_value()) << "the labels may come later";
  EXPECT_THAT(ParseInput(options).ids, ElementsAre("a", "b"));
  EXPECT_THAT(ParseInput(options).labels, IsEmpty());
  options.labels = Write("l.csv", "1\n2\n");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("--label-base is missing"));
  options.label_base = 1;
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(0, 1));
  EXPECT_THAT(ParseInput(options).ids, ElementsAre("a", "b"));
  options.ids = Write("i3.csv", "a\nb\nc\n");
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("i3.csv holds 3 ids, expected 2, one for each prediction"));
  options.ids = Write("i2.csv", "a\nb,c\n");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("i2.csv line 2, column 2: the line has more text"));
  options.ids = Write("i0.csv", "a\n\n");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("i0.csv line 2, column 1: the id is of 0 bytes"));
}

TEST_F(PredictionFileTest, DropInvalidCoversMissingAndInvalidCells) {
  InputOptions options =
      Predictions("p.csv", "cat,dog,y\n0.5,0.5,cat\n0.5,,dog\n0.5,x,dog\n0.5,0.5,\n0.5\n0,1,dog\n");
  options.columns.label = "y";
  EXPECT_THAT(InputErrorOf(options),
              AllOf(HasSubstr("line 3, column 2 (\"dog\"): the value is missing"),
                    HasSubstr("--drop-invalid")));
  options.columns.drop_invalid = true;
  const Input input = ParseInput(options);
  ASSERT_EQ(input.labels.size(), 6u);
  EXPECT_TRUE(std::isnan(input.values[3]) && std::isnan(input.values[5]));
  EXPECT_EQ(input.labels[3], -1);
  EXPECT_TRUE(std::isnan(input.values[8])) << "the row has too few columns";
  EXPECT_THAT(input.labels.back(), 1);
}

TEST_F(PredictionFileTest, NamesTheCellThatIsNotANumber) {
  InputOptions options = TwoRows();
  options.predictions = Write("p.csv", "0.5,0.5\n0.5,0x10\n");
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("p.csv line 2, column 2: \"0x10\" is not a number, expected "
                        "a probability in [0, 1]"));
  options.predictions = Write("p.csv", "0.5,abc\n0.5,0.5\n");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("say --header"));
  options.predictions = Write("p.csv", "1e400,0\n");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("\"1e400\" is not a number"));
  options.predictions = Write("p.csv", "1e-400,1\n0.1,2.4e-05\n");
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0, 1, 0.1, 2.4e-05));
  options.predictions = Write("p.csv", "1,0\n1,0,0\n");
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("line 2, column 2: the line has 3 columns, expected 2"));
  options.predictions = Write("p.csv", "1,0\n\n1,0\n");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("line 2, column 1: the line is empty"));
  options.predictions = Write("p.csv", "");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("holds no rows"));
  options.predictions = Write("p.csv", "0.5:0.5\n");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("--delimiter"));
}

TEST_F(PredictionFileTest, ExpandsTheProbabilityOfThePositiveClass) {
  InputOptions options = Predictions("p.csv", "0.25\n1\n");
  options.labels = Write("l.csv", "1\n0\n");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("--positive-class"));
  options.positive_class = "1";
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.75, 0.25, 0, 1));
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  options.positive_class = "0";
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.25, 0.75, 1, 0));
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0))
      << "labels are still numbers of classes";
  options.positive_class = "2";
  EXPECT_THAT(InputErrorOf(options), HasSubstr("--positive-class is \"2\", expected 0 or 1"));
  options.class_names = {"ham", "spam"};
  options.positive_class = "ham";
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.25, 0.75, 1, 0));
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(0, 1)) << "1 is the positive class";
  options.logits = true;
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.25, 0, 1, 0));
}

TEST_F(PredictionFileTest, ShowsAnInvalidProbabilityOfThePositiveClass) {
  InputOptions options = Predictions("p.csv", "y,p\n1,0.25\n0,1.5\n");
  options.columns.label = "y";
  options.positive_class = "1";
  const Input input = ParseInput(options);
  EXPECT_THAT(input.values, ElementsAre(0.75, 0.25, 1.5, 1.5));
  EXPECT_THAT(Described(input, {{"probabilities", "is 1.5", 1, 0}}),
              HasSubstr("p.csv line 3, column 2 (\"p\") is 1.5"));
  options.predictions = Write("q.csv", "0.5,0.5,1\n");
  options.columns.label = "3";
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("has 2 columns of probabilities, but --positive-class"));
}

TEST_F(PredictionFileTest, RenormalisesAndRecordsIt) {
  InputOptions options = TwoRows();
  options.predictions = Write("p.csv", "0.5,0.5\n0.33,0.66\n");
  EXPECT_FALSE(ParseInput(options).changes.renormalisation.has_value());
  options.renormalise = true;
  const Input input = ParseInput(options);
  EXPECT_THAT(input.values, ElementsAre(0.5, 0.5, DoubleEq(0.33 / 0.99), DoubleEq(0.66 / 0.99)));
  ASSERT_TRUE(input.changes.renormalisation.has_value());
  EXPECT_EQ(input.changes.renormalisation->rows, 1);
  EXPECT_NEAR(input.changes.renormalisation->largest_correction, 0.01, 1e-15);
  options.predictions = Write("p.csv", "0,0\n-1,3\n");
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0, 0, -1, 3))
      << "left to the check of the values";
  options.logits = true;
  EXPECT_THAT(FindUsageFault(options).value_or(""), HasSubstr("not for --logits"));
}

TEST_F(PredictionFileTest, ReadsAPipeAtStandardInput) {
  InputOptions options = TwoRows();
  options.predictions = "-";
  const std::string npy = Npy(NpyDict("<f8", "(2, 2)"), std::vector<double>{0.5, 0.5, 1, 0});
  for (const std::string& bytes : {std::string("0.5,0.5\n1,0\n"), npy, std::string("0.5,x\n")}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    close(ends[1]);
    const int before = dup(STDIN_FILENO);
    dup2(ends[0], STDIN_FILENO);
    const auto input = ReadInput(options);
    dup2(before, STDIN_FILENO);
    close(before);
    close(ends[0]);
    if (bytes.find('x') == std::string::npos) {
      ASSERT_TRUE(input.ok()) << input.status();
      EXPECT_THAT(input->values, ElementsAre(0.5, 0.5, 1, 0));
    } else {
      EXPECT_THAT(std::string(input.status().message()),
                  HasSubstr("standard input line 1, column 2"));
    }
  }
}

TEST_F(PredictionFileTest, ReadsNumpyFiles) {
  InputOptions options = TwoRows();
  options.predictions =
      Write("p.npy", Npy(NpyDict("<f4", "(2, 2)", "True"), std::vector<float>{0.5F, 1, 0.5F, 0}));
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.5, 0.5, 1, 0));
  for (const std::string& labels : {Npy(NpyDict("<i8", "(2,)"), std::vector<std::int64_t>{1, 0}),
                                    Npy(NpyDict("<f8", "(2, 1)"), std::vector<double>{1, 0}),
                                    Npy(NpyDict("|b1", "(2,)"), std::vector<std::uint8_t>{1, 0})}) {
    options.labels = Write("l.npy", labels);
    EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  }
  options.labels = Write("l.npy", Npy(NpyDict("<f8", "(2,)"), std::vector<double>{0.5, 0}));
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("l.npy row 0 (counted from 0): label \"0.5\", expected 0..1"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  options.labels = Write("l.npy", Npy(NpyDict("<f8", "(2,)"), std::vector<double>{nan, 0}));
  EXPECT_THAT(InputErrorOf(options), HasSubstr("the label is missing"));
  options.labels = Write("l.npy", Npy(NpyDict("<f8", "(1, 2)"), std::vector<double>{1, 0}));
  EXPECT_THAT(InputErrorOf(options), HasSubstr("expected one label in each row"));
  options.label_base.reset();
  options.class_names = {"a", "b"};
  options.labels =
      Write("l.npy", Npy(NpyDict("<U1", "(2,)"), std::vector<std::uint32_t>{'b', 'a'}));
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  options.columns.id = "id";
  EXPECT_THAT(InputErrorOf(options), HasSubstr("is a NumPy file: --id-column"));
}

TEST_F(PredictionFileTest, AColumnOfAnArrayMayHoldTheLabels) {
  InputOptions options;
  options.predictions =
      Write("p.npy", Npy(NpyDict("<f8", "(2, 3)"), std::vector<double>{0.5, 1, 0.5, 1, 0, 0}));
  options.label_base = 0;
  options.columns.label = "2";
  const Input input = ParseInput(options);
  EXPECT_THAT(input.values, ElementsAre(0.5, 0.5, 1, 0));
  EXPECT_THAT(input.labels, ElementsAre(1, 0));
}

TEST_F(PredictionFileTest, ReadsThePositiveClassFromANumpyVector) {
  InputOptions options = TwoRows();
  options.predictions = Write("p.npy", Npy(NpyDict("<f4", "(2,)"), std::vector<float>{0.25F, 1}));
  EXPECT_THAT(InputErrorOf(options), HasSubstr("--positive-class"));
  options.label_base.reset();
  options.positive_class = "1";
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.75, 0.25, 0, 1));
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
}

TEST_F(PredictionFileTest, ReadsNamedArrays) {
  const std::string p = Npy(NpyDict("<f8", "(2, 2)"), std::vector<double>{0.5, 0.5, 1, 0});
  const std::string y = Npy(NpyDict("<i8", "(2,)"), std::vector<std::int64_t>{1, 0});
  InputOptions options;
  options.label_base = 0;
  options.predictions = Path("a.npz");
  WriteZip(options.predictions, {{"y_true.npy", y}, {"y_prob.npy", p}}, true);
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.5, 0.5, 1, 0));
  options.predictions = Path("b.npz");
  WriteZip(options.predictions, {{"arr_0.npy", p}, {"arr_1.npy", y}}, false);
  EXPECT_THAT(InputErrorOf(options), AllOf(HasSubstr("has the arrays \"arr_0\", \"arr_1\""),
                                           HasSubstr("--predictions-key")));
  options.columns.predictions = "arr_0";
  EXPECT_THAT(InputErrorOf(options), HasSubstr("LABELS is missing"));
  options.columns.label = "arr_1";
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  const std::string three = Npy(NpyDict("<i8", "(3,)"), std::vector<std::int64_t>{1, 0, 7});
  WriteZip(options.predictions, {{"arr_0.npy", p}, {"arr_1.npy", three}}, false);
  EXPECT_THAT(InputErrorOf(options),
              AllOf(HasSubstr("class names need --class-names"), Not(HasSubstr("header"))));
  options.columns.drop_invalid = true;
  EXPECT_THAT(InputErrorOf(options),
              AllOf(HasSubstr("holds 3 labels, expected 2"), Not(HasSubstr("header"))));
}

TEST_F(PredictionFileTest, ReadsJsonLines) {
  InputOptions options =
      Predictions("p.jsonl",
                  "{\"probabilities\": [0.5, 0.5], \"label\": 1, \"id\": \"a\", \"group\": \"x\"}\n"
                  "{\"probabilities\": [1, 0], \"label\": 0, \"id\": \"b\", \"group\": \"y\"}\n");
  options.label_base = 0;
  const Input input = ParseInput(options);
  EXPECT_THAT(input.values, ElementsAre(0.5, 0.5, 1, 0));
  EXPECT_THAT(input.labels, ElementsAre(1, 0));
  EXPECT_THAT(input.ids, ElementsAre("a", "b"));
  EXPECT_THAT(input.groups, ElementsAre("x", "y"));
  options.predictions = Write(
      "q.jsonl", "{\"dog\": 0.75, \"cat\": 0.25, \"y\": \"cat\"}\n{\"y\": null, \"dog\": 1}\n");
  options.label_base.reset();
  options.columns.label = "y";
  options.class_names = {"cat", "dog"};
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("q.jsonl line 2, key \"cat\": the value is missing"));
  options.columns.drop_invalid = true;
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(0, -1));
  EXPECT_EQ(ParseInput(options).values[0], 0.25);
}

TEST_F(PredictionFileTest, ReadsLabelsByIdAndNamesTheLineOfAnInvalidClass) {
  LabelFileOptions options;
  options.path = Write("l.csv", "id,label\na,1\n\"b,\",3\n");
  const auto error = [&](std::size_t class_count) {
    return std::string(ReadLabelFile(options, {}, class_count).status().message());
  };
  EXPECT_THAT(error(3), HasSubstr("--label-base is missing"));
  options.label_base = 1;
  options.path = Write("m.csv", "visit,class\na,1\n\"b,\",3\n");
  EXPECT_THAT(error(3), HasSubstr("m.csv line 1, column 2: label \"class\", expected 1..3"));
  EXPECT_THAT(error(3), HasSubstr("say --header"));
  options.columns.header = true;
  EXPECT_TRUE(ReadLabelFile(options, {}, 3).ok());
  options.columns.header.reset();
  options.path = Write("l.csv", "id,label\na,1\n\"b,\",3\n");
  const auto file = ReadLabelFile(options, {}, 3);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->ids, ElementsAre("a", "b,"));
  EXPECT_THAT(file->labels, ElementsAre(0, 2));
  const std::vector<Violation> fault = {{"prediction_ids", "is long", 1}};
  EXPECT_EQ(std::string(DescribeFaults(*file, fault).message()), options.path + " line 3 is long");
  EXPECT_THAT(error(2),
              HasSubstr("l.csv line 3, column 2 (\"label\"): label \"3\", expected 1..2"));
  options.columns.drop_invalid = true;
  EXPECT_THAT(ReadLabelFile(options, {}, 2)->labels, ElementsAre(0, -1));
  options.path += ".absent";
  EXPECT_TRUE(absl::IsNotFound(ReadLabelFile(options, {}, 2).status()));
}

TEST_F(PredictionFileTest, FindsTheColumnsOfLabelsById) {
  const std::vector<std::string> pets = {"cat", "dog"};
  LabelFileOptions options;
  options.path = Write("l.csv", "when,species,visit\n2026,dog,a\n2027,cat,b\n");
  options.columns.header = true;
  EXPECT_THAT(std::string(ReadLabelFile(options, pets, 2).status().message()),
              HasSubstr("has 3 columns, expected two: an id and a label"));
  options.columns.id = "visit";
  options.columns.label = "species";
  const auto file = ReadLabelFile(options, pets, 2);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->ids, ElementsAre("a", "b"));
  EXPECT_THAT(file->labels, ElementsAre(1, 0));
  options.columns = {};
  options.path = Write("l.jsonl", "{\"id\": 7, \"label\": \"dog\"}\n");
  EXPECT_THAT(ReadLabelFile(options, pets, 2)->ids, ElementsAre("7"));
}

TEST_F(PredictionFileTest, NamesTheFilesLinesAndColumnsOfFaults) {
  InputOptions options = TwoRows();
  options.ids = Write("i.csv", "a\nb\n");
  const Input input = ParseInput(options);
  EXPECT_THAT(Described(input, {{"probabilities", "sums to 2", 1}, {"logits", "is nan", 0, 1}}),
              AllOf(HasSubstr("p.csv line 2 sums to 2; "),
                    HasSubstr("p.csv line 1, column 2 is nan"), HasSubstr("--drop-invalid")));
  EXPECT_THAT(Described(input, {{"labels", "is 9", 1}, {"labels", "is 9", 0}}),
              AllOf(HasSubstr("l.csv line 2 is 9; "), HasSubstr("l.csv line 1 is 9")));
  EXPECT_THAT(Described(input, {{"prediction_ids", "is not valid UTF-8", 0}}),
              HasSubstr("i.csv line 1 is not"));
}

TEST(InputOptionsTest, NamesOptionsThatContradictEachOther) {
  InputOptions options;
  EXPECT_THAT(FindUsageFault(options).value_or(""), HasSubstr("PREDICTIONS is missing"));
  options.predictions = "-";
  options.labels = "-";
  EXPECT_THAT(FindUsageFault(options).value_or(""), HasSubstr("cannot both be standard input"));
  options.labels = "l.csv";
  EXPECT_FALSE(FindUsageFault(options).has_value());
  options.labels_last_column = true;
  EXPECT_THAT(FindUsageFault(options).value_or(""), HasSubstr("not both"));
  options.labels.clear();
  EXPECT_FALSE(FindUsageFault(options).has_value());
  options.ids = "i.csv";
  options.columns.id = "id";
  EXPECT_THAT(FindUsageFault(options).value_or(""), HasSubstr("--ids or --id-column"));
}

}  // namespace
}  // namespace calibd::cli
