#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/files/prediction_file.h"
#include "unit/client/npz_file.h"
#include "unit/client/prediction_files.h"

// What the columns and values of a file are, if it is not what it seems.
namespace calibd::cli {
namespace {

using ::calibd::testing::Npy;
using ::calibd::testing::NpyDict;
using ::calibd::testing::WriteZip;
using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class PredictionColumnsTest : public PredictionFiles {};

TEST_F(PredictionColumnsTest, ColumnsInTheOrderOfTextsAreOrderedByTheirNumbers) {
  // The class of each row is the column with the 1.
  std::string text = "y";
  for (const char* const number : {"0", "1", "10", "2", "3", "4", "5", "6", "7", "8", "9"}) {
    absl::StrAppend(&text, ",prediction_", number);
  }
  text += "\n10,0,0,1,0,0,0,0,0,0,0,0\n2,0,0,0,1,0,0,0,0,0,0,0\n";
  InputOptions options = Predictions("p.csv", text);
  options.columns.label = "y";
  for (const std::optional<int> base : {std::optional<int>(0), std::optional<int>()}) {
    options.label_base = base;
    const Input input = ParseInput(options);
    EXPECT_THAT(input.labels, ElementsAre(10, 2));
    EXPECT_EQ(input.values[10], 1);
    EXPECT_EQ(input.values[11 + 2], 1);
    EXPECT_EQ(input.class_names[2], "2");
  }
  options.class_names = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"};
  options.label_base = 0;
  EXPECT_EQ(ParseInput(options).values[10], 1);
  EXPECT_THAT(ParseInput(options).columns.note, HasSubstr("in the order of their numbers"));
  // pandas writes the numbers alone.
  options = Predictions("q.csv", "0,1,10,2,3,4,5,6,7,8,9\n0,0,1,0,0,0,0,0,0,0,0\n");
  options.label_base = 0;
  options.labels = Write("l.csv", "y\n10\n");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("may be the column names"));
  options.columns.header = true;
  EXPECT_EQ(ParseInput(options).values[10], 1);
}

TEST_F(PredictionColumnsTest, ColumnsAreNamedAfterTheSameText) {
  InputOptions options = Predictions(
      "p.csv", ".pred_class,.pred_yes,.pred_no,truth\nno,0.2,0.8,no\nyes,0.8,0.2,yes\n");
  options.columns.label = "truth";
  options.class_names = {"no", "yes"};
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.8, 0.2, 0.2, 0.8));
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(0, 1));
  options.class_names.clear();
  options.columns.dropped = {".pred_class"};
  EXPECT_THAT(ParseInput(options).class_names, ElementsAre("yes", "no"));
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  options.predictions = Write("q.csv", "a_no,a_yes,b_no,b_yes,truth\n1,0,0,1,no\n");
  options.class_names = {"no", "yes"};
  options.columns.dropped.clear();
  EXPECT_THAT(InputErrorOf(options),
              AllOf(HasSubstr("two columns for each class"), HasSubstr("--drop-column")));
}

TEST_F(PredictionColumnsTest, RowsThatNoToleranceAllowsAreNotToBeDividedByTheirSums) {
  // Events that do not exclude each other.
  InputOptions options = Predictions(
      "p.csv", "cough,fever,rash,label\n0.9,0.8,0.1,cough\n0.2,0.1,0.05,rash\n0.5,0.4,0.06,rash\n");
  options.columns.label = "label";
  const std::string error(ReadObservations(options, 0).status().message());
  EXPECT_THAT(error, AllOf(HasSubstr("line 2 sums to 1.8, off by 0.8"), HasSubstr("several labels"),
                           HasSubstr("calibctl evaluate-labels"), HasSubstr("--labels"),
                           Not(HasSubstr("--renormalise"))));
  options.predictions = Write("q.csv", "prob_rain,label_rain,prob_fog,label_fog\n0.9,1,0.8,1\n");
  options.columns.label.clear();
  EXPECT_THAT(InputErrorOf(options),
              AllOf(HasSubstr("\"prob_rain\" and \"label_rain\""), HasSubstr("evaluate-labels")));
  options.columns.label = "label_rain";
  options.columns.dropped = {"prob_fog", "label_fog"};
  options.positive_class = "1";
  EXPECT_THAT(ParseInput(options).values, ElementsAre(DoubleEq(0.1), 0.9)) << "one label alone";
}

TEST_F(PredictionColumnsTest, NamesNumbersInOtherNotations) {
  InputOptions options = Predictions("p.jsonl", "{\"confidence\": \"95%\", \"correct\": true}\n");
  options.columns.label = "correct";
  options.positive_class = "1";
  EXPECT_THAT(InputErrorOf(options),
              AllOf(HasSubstr("key \"confidence\": \"95%\" is not a number, expected a probability "
                              "in [0, 1]; remove the % and divide by 100"),
                    Not(HasSubstr("drop"))));
  options = TwoRows();
  options.predictions = Write("p.csv", "0,5;0,5\n");
  options.columns.delimiter = ";";
  EXPECT_THAT(InputErrorOf(options), HasSubstr("\"0,5\" is not a number, expected a probability in "
                                               "[0, 1]; write a decimal point"));
}

TEST_F(PredictionColumnsTest, NamesLabelsThatAreOneHot) {
  InputOptions options = TwoRows();
  options.labels = Write("l.csv", "0,1\n1,0\n");
  EXPECT_THAT(InputErrorOf(options), HasSubstr("(one-hot), store argmax(axis=1) instead"));
  const std::string p = Npy(NpyDict("<f8", "(2, 2)"), std::vector<double>{0.5, 0.5, 1, 0});
  options.predictions = Path("p.npz");
  options.labels.clear();
  WriteZip(options.predictions, {{"y.npy", p}, {"y_prob.npy", p}}, false);
  EXPECT_THAT(InputErrorOf(options), HasSubstr("(one-hot), store argmax(axis=1) instead"));
}

TEST_F(PredictionColumnsTest, ColumnsNeedNoOptionIfThoseOfPredictionsAreNamed) {
  InputOptions options = Predictions("p.csv", "age;score;name;y\n41;0.25;Ann;1\n7;1;Bob;0\n");
  options.columns.label = "y";
  options.positive_class = "1";
  EXPECT_THAT(InputErrorOf(options), HasSubstr("--predictions-key names it"));
  options.columns.predictions = "score";
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.75, 0.25, 0, 1));
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
  options.columns.predictions = "Score";
  EXPECT_THAT(InputErrorOf(options), HasSubstr("--predictions-key is \"Score\", expected one of"));
  options =
      Predictions("p.jsonl",
                  "{\"age\": 41, \"probabilities\": [0.5, 0.5], \"name\": \"Ann\", \"label\": 1}\n"
                  "{\"label\": 0, \"probabilities\": [1, 0], \"age\": null}\n");
  options.label_base = 0;
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.5, 0.5, 1, 0));
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(1, 0));
}

TEST_F(PredictionColumnsTest, NamesADelimiterThatIsNotTheStatedOne) {
  InputOptions options = Predictions("p.csv", "0,5;0,5\n");
  options.labels = Write("l.csv", "0\n");
  options.label_base = 0;
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("\"5;0\" is not a number, expected a probability in [0, 1]; if a semicolon "
                        "separates the columns, say --delimiter ';'"));
  options.predictions = Write("p.csv", "0.5\t0.5\n");
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.5, 0.5));
  options.columns.delimiter = ",";
  options.columns.header = false;
  options.positive_class = "1";
  EXPECT_THAT(InputErrorOf(options), HasSubstr("a tab separates the columns, say --delimiter tab"));
  options = Predictions("q.csv", "a;b\n0.5;0.5\n");
  options.ids = Write("i.csv", "visit;1\n");
  EXPECT_THAT(ParseInput(options).ids, ElementsAre("visit;1")) << "a file of ids has one column";
}

TEST_F(PredictionColumnsTest, CountsValuesThatAreARoundingAwayFromAProbability) {
  InputOptions options = Predictions("p.csv", "p,y\n1.00000012,1\n-0.00000012,0\n0.5,1\n");
  options.columns.label = "y";
  options.positive_class = "1";
  const auto input = ReadObservations(options, 0);
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_THAT(input->values, ElementsAre(0, 1, 1, 0, 0.5, 0.5));
  EXPECT_EQ(input->changes.rounded_probabilities, 2U);
  EXPECT_EQ(ToProto(input->changes).rounded_probabilities(), 2);
  options.predictions = Write("q.csv", "p,y\n1.00001,1\n");
  EXPECT_THAT(std::string(ReadObservations(options, 0).status().message()),
              HasSubstr("is 1.00001, expected a number in [0, 1]"));
}

TEST_F(PredictionColumnsTest, WarnsOfClassesThatAreTakenForProbabilities) {
  const auto told = [&](int rows, const char* first) {
    std::string text = absl::StrCat("p,y\n", first, ",1\n");
    for (int row = 1; row < rows; ++row) text += "0,0\n";
    InputOptions options = Predictions("p.csv", text);
    options.columns.label = "y";
    options.positive_class = "1";
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(ReadObservations(options, 0).ok());
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(told(20, "1"), AllOf(HasSubstr("WARNING: all probabilities of the 20 rows"),
                                   HasSubstr("p.csv are 0 or 1"), HasSubstr("predict_proba")));
  EXPECT_EQ(told(19, "1"), "");
  EXPECT_EQ(told(20, "0.99"), "");
}

TEST_F(PredictionColumnsTest, SuggestsThatValuesArePercentagesLogitsOrLogarithms) {
  const auto fault = [&](const std::string& rows) {
    const std::vector<Violation> invalid = {{"probabilities", "is wrong", 0, 0}};
    InputOptions options = TwoRows();
    options.predictions = Write("p.csv", rows);
    return std::string(DescribeFaults(ParseInput(options), invalid).message());
  };
  EXPECT_THAT(fault("70,30\n20.5,79.5\n"), HasSubstr("are these percentages? divide them by 100"));
  EXPECT_THAT(fault("3.5,-2\n-1,0.5\n"), HasSubstr("are these logits? add --logits"));
  EXPECT_THAT(fault("1.5,-0.5\n0.5,0.5\n"), Not(HasSubstr("are these")));
  EXPECT_THAT(fault("-0.105,-2.303\n0,-inf\n"),
              AllOf(HasSubstr("are these logarithms of probabilities? replace each by its exp"),
                    Not(HasSubstr("--logits"))));
  EXPECT_THAT(fault("-0.105,-1\n-0.2,-3\n"), HasSubstr("are these logits? add --logits"));
}

TEST_F(PredictionColumnsTest, NamesAColumnThatIsNoClass) {
  const auto fault = [&](const std::string& header, const std::string& row, int rows) {
    std::string text = header + "\n";
    std::string labels;
    for (int i = 0; i < rows; ++i) {
      text += row + "\n";
      labels += "0\n";
    }
    InputOptions options = Predictions("p.csv", text);
    options.labels = Write("l.csv", labels);
    options.label_base = 0;
    return std::string(ReadObservations(options, 0).status().message());
  };
  EXPECT_THAT(
      fault("no,yes,age", "0.3,0.7,55", 2),
      AllOf(HasSubstr("column 3 (\"age\") is 55"),
            HasSubstr("; the column \"age\" seems to be no class, because the others sum to "
                      "1: leave it out with --drop-column age"),
            Not(HasSubstr("logits")), Not(HasSubstr("--drop-invalid"))));
  EXPECT_THAT(fault("id,no,yes,age", "17,0.3,0.7,55", 2),
              HasSubstr("leave them out with --drop-column id,age"));
  EXPECT_THAT(fault("no,yes,weight", "0.3,0.7,0.6", 2),
              AllOf(HasSubstr("sums to 1.6"), HasSubstr("leave it out with --drop-column weight"),
                    Not(HasSubstr("may be missing"))));
  EXPECT_THAT(
      fault("id,score", "17,0.3", 10),
      HasSubstr("the column \"id\" seems to be no class: leave it out with --drop-column id, "
                "and state with --positive-class whose probability \"score\" is"));
  // Logits, of which the first is the reference.
  EXPECT_THAT(fault("a,b,c", "0,1.5,-3", 10), HasSubstr("are these logits? add --logits"));
  // No other columns are probabilities of classes.
  EXPECT_THAT(fault("a,b,age", "0.3,0.3,55", 10),
              AllOf(Not(HasSubstr("logits")), Not(HasSubstr("no class"))));
  EXPECT_THAT(fault("a,b,c", "0.9,0.8,0.7", 2),
              AllOf(HasSubstr("one value may be no probability of a class"),
                    Not(HasSubstr("--drop-column"))));
}

TEST_F(PredictionColumnsTest, ClassesHaveTheNumbersOfTheLabels) {
  InputOptions options = Predictions("p.csv", "0.5,0.3,0.2,3\n");
  options.labels_last_column = true;
  options.label_base = 1;
  EXPECT_THAT(ParseInput(options).class_names, ElementsAre("1", "2", "3"));
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(2));
  options = Predictions("p.csv", "0.5,2\n");
  options.labels_last_column = true;
  options.label_base = 1;
  options.positive_class = "2";
  EXPECT_THAT(ParseInput(options).class_names, ElementsAre("1", "2"));
  options.label_base = 0;
  options.positive_class = "1";
  options.predictions = Write("p.csv", "0.5,1\n");
  EXPECT_THAT(ParseInput(options).class_names, IsEmpty());
}

TEST_F(PredictionColumnsTest, NamesTheDelimiterOfAHeaderOfOneColumn) {
  InputOptions options = Predictions("p.csv", "cat dog label\n0.3 0.7 cat\n");
  options.columns.label = "label";
  EXPECT_THAT(InputErrorOf(options), HasSubstr("use --delimiter ' '"));
  options.columns.delimiter = " ";
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.3, 0.7));
}

TEST_F(PredictionColumnsTest, SuggestsWhatATextInTheFirstRowMayBe) {
  InputOptions options = Predictions("p.csv", "cat,dog,the species\n.7,.3,cat\n.2,.8,dog\n");
  options.label_base = 0;
  EXPECT_THAT(InputErrorOf(options),
              HasSubstr("line 2, column 3 (\"the species\"): \"cat\" is not a "
                        "number, expected a probability in [0, 1]; if this column "
                        "holds the labels, add --label-column \"the species\""));
  options.predictions = Write("p.jsonl", "{\"probabilities\": [0.5, 0.5], \"label\": \"cat\"}\n");
  EXPECT_THAT(InputErrorOf(options),
              AllOf(HasSubstr("p.jsonl line 1, key \"label\": label \"cat\", expected 0..1"),
                    Not(HasSubstr("header"))));
}

TEST_F(PredictionColumnsTest, TellsThatNumberedColumnsAreUsedByPosition) {
  InputOptions options = Predictions("p.csv", ",0,1\n0,0.3,0.7\n");
  options.labels = Write("l.csv", "label\ndog\n");
  options.class_names = {"cat", "dog"};
  const Input input = ParseInput(options);
  EXPECT_THAT(input.labels, ElementsAre(1));
  EXPECT_THAT(input.columns.note,
              HasSubstr("the columns \"0\", \"1\" are used as the classes \"cat\", \"dog\""));
}

TEST_F(PredictionColumnsTest, MatchesNumberedColumnsUnlessTheyContradictTheBase) {
  InputOptions options = Predictions("p.csv", "1,0,y\n0.3,0.7,0\n");
  options.columns.label = "y";
  EXPECT_THAT(ParseInput(options).labels, ElementsAre(0));
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.7, 0.3))
      << "the class 0 is the last column";
  options.label_base = 0;
  EXPECT_THAT(ParseInput(options).values, ElementsAre(0.7, 0.3));
  options.label_base = 1;
  EXPECT_THAT(InputErrorOf(options), HasSubstr("which contradicts --label-base 1"));
}

Input Observations(const InputOptions& options) {
  auto input = ReadObservations(options, 0);
  EXPECT_TRUE(input.ok()) << input.status();
  return input.ok() ? *std::move(input) : Input();
}

std::string ObservationsErrorOf(const InputOptions& options) {
  return std::string(ReadObservations(options, 0).status().message());
}

TEST_F(PredictionColumnsTest, AProbabilityNamedAfterItsClassNeedsNoOption) {
  InputOptions options = Predictions("p.csv", "prob_yes,outcome\n0.25,no\n0.75,yes\n0.5,no\n");
  Input input = Observations(options);
  EXPECT_THAT(input.values, ElementsAre(0.75, 0.25, 0.25, 0.75, 0.5, 0.5));
  EXPECT_THAT(input.labels, ElementsAre(0, 1, 0));
  EXPECT_THAT(input.class_names, ElementsAre("no", "yes"));
  EXPECT_THAT(input.columns.note, HasSubstr("\"prob_yes\" is read as the probability of the class "
                                            "\"yes\", and \"outcome\" as the labels"));
  // The other column may come first, and be stated.
  options = Predictions("q.csv", "outcome,id,.pred_yes\nno,7,0.25\nyes,8,0.75\n");
  options.columns.label = "outcome";
  options.columns.id = "id";
  EXPECT_THAT(Observations(options).labels, ElementsAre(0, 1));
  // The labels may be elsewhere, and say whether the class is true.
  options = Predictions("r.csv", "prob_yes\n0.25\n0.75\n");
  options.labels = Write("l.csv", "False\nTrue\n");
  EXPECT_THAT(Observations(options).labels, ElementsAre(0, 1));
  // 1 and 0 are the names of the classes.
  EXPECT_THAT(Observations(Predictions("s.csv", "prob_1,y\n0.25,0\n0.75,1\n")).labels,
              ElementsAre(0, 1));
  EXPECT_THAT(Observations(Predictions("t.csv", "prob_0,y\n0.25,0\n0.75,1\n")).labels,
              ElementsAre(1, 0));
  EXPECT_THAT(Observations(Predictions("u.csv", "prob_2,y\n0.25,1\n0.75,2\n")).labels,
              ElementsAre(0, 1));
}

TEST_F(PredictionColumnsTest, ALabelThatMayMeanEitherClassIsRefused) {
  InputOptions options = Predictions("p.csv", "prob_cat,y\n0.25,0\n0.75,1\n");
  EXPECT_THAT(ObservationsErrorOf(options),
              HasSubstr("label \"0\" does not say whether it is the class \"cat\": add "
                        "--positive-class 1"));
  // What the error says to do.
  options.positive_class = "1";
  EXPECT_THAT(Observations(options).labels, ElementsAre(0, 1));
  options.positive_class = "0";
  EXPECT_THAT(Observations(options).labels, ElementsAre(0, 1));
  EXPECT_THAT(Observations(options).values, ElementsAre(0.25, 0.75, 0.75, 0.25));
  // Three labels are not two classes.
  EXPECT_THAT(
      ObservationsErrorOf(Predictions("q.csv", "prob_cat,y\n0.25,cat\n0.75,dog\n0.75,bird\n")),
      HasSubstr("label \"bird\", expected one of two: \"cat\" or \"dog\""));
  // The name contradicts the option.
  options = Predictions("r.csv", "prob_0,y\n0.25,0\n0.75,1\n");
  options.positive_class = "1";
  EXPECT_THAT(ObservationsErrorOf(options), HasSubstr("--predictions-key names it"));
  // pred_ may stand before a predicted class.
  EXPECT_THAT(ObservationsErrorOf(Predictions("s.csv", "pred_yes,y\n0.25,no\n0.75,yes\n")),
              HasSubstr("--label-column"));
  // The classes of a model have an order that the name does not say.
  EXPECT_THAT(InputErrorOf(Predictions("t.csv", "prob_yes,y\n0.25,no\n0.75,yes\n")),
              HasSubstr("if this column holds the labels"));
}

TEST_F(PredictionColumnsTest, OtherColumnsBesideTheOneOfThePositiveClassAreNotRead) {
  InputOptions options =
      Predictions("p.csv", "age,prob_yes,region,y\n30,0.25,a,no\n40,0.75,b,yes\n");
  options.columns.label = "y";
  options.positive_class = "yes";
  options.class_names = {"no", "yes"};
  const Input input = Observations(options);
  EXPECT_THAT(input.values, ElementsAre(0.75, 0.25, 0.25, 0.75));
  EXPECT_THAT(input.labels, ElementsAre(0, 1));
  EXPECT_THAT(input.columns.note, HasSubstr("the columns \"age\", \"region\" are not read"));
  // The classes may be numbers, and the name that of any probability.
  for (const char* const name : {"prob_yes", "prob_1", "probability"}) {
    options = Predictions("r.csv", absl::StrCat("age,", name, ",y\n30,0.25,0\n40,0.75,1\n"));
    options.columns.label = "y";
    options.positive_class = "1";
    EXPECT_THAT(Observations(options).values, ElementsAre(0.75, 0.25, 0.25, 0.75)) << name;
  }
  // That of another class is not.
  options = Predictions("s.csv", "age,prob_0,y\n30,0.25,0\n40,0.75,1\n");
  options.columns.label = "y";
  options.positive_class = "1";
  EXPECT_THAT(ObservationsErrorOf(options), HasSubstr("has 2 columns of probabilities"));
  options = Predictions("t.csv", "age,prob_no,y\n30,0.25,no\n40,0.75,yes\n");
  options.columns.label = "y";
  options.positive_class = "yes";
  options.class_names = {"no", "yes"};
  EXPECT_THAT(ObservationsErrorOf(options), HasSubstr("has 2 columns of probabilities"));
  // Two columns of the same class are not chosen between.
  options = Predictions("q.csv", "prob_yes,proba_yes,y\n0.25,0.3,no\n0.75,0.8,yes\n");
  options.columns.label = "y";
  options.positive_class = "yes";
  options.class_names = {"no", "yes"};
  EXPECT_THAT(ObservationsErrorOf(options), HasSubstr("has 2 columns of probabilities"));
}

TEST_F(PredictionColumnsTest, ColumnsOfOneHotLabelsAreNamed) {
  InputOptions options = Predictions("p.csv", "cat,dog,is_cat,is_dog\n0.3,0.7,1,0\n0.8,0.2,0,1\n");
  const std::string hint =
      "the columns \"is_cat\", \"is_dog\" are 0 except for a 1 in each row: if they are the labels "
      "(one-hot), write one column with the true class";
  EXPECT_THAT(InputErrorOf(options), AllOf(HasSubstr("LABELS is missing"), HasSubstr(hint)));
  options.labels = Write("l.csv", "cat\ndog\n");
  EXPECT_THAT(ObservationsErrorOf(options),
              AllOf(HasSubstr("sums to 2"), HasSubstr(hint), Not(HasSubstr("--renormalise"))));
  // Certain predictions of four classes are no labels.
  options = Predictions("q.csv", "a,b,c,d\n0.5,0.5,1,0\n0,1,0,0\n");
  options.labels = Write("l.csv", "a\nb\n");
  EXPECT_THAT(ObservationsErrorOf(options), Not(HasSubstr("one-hot")));
  options =
      Predictions("r.csv", "prob_cat,prob_dog,label_cat,label_dog\n0.3,0.7,1,0\n0.8,0.2,0,1\n");
  EXPECT_THAT(InputErrorOf(options), AllOf(HasSubstr("evaluate-labels"), HasSubstr("one-hot")));
}

TEST_F(PredictionColumnsTest, PercentagesAreNamedAlsoWhereInvalidRowsAreLeftOut) {
  InputOptions options = Predictions("p.csv", "p,y\n95%,1\n0.8,0\n");
  options.columns.label = "y";
  options.positive_class = "1";
  options.columns.drop_invalid = true;
  EXPECT_THAT(ObservationsErrorOf(options), HasSubstr("remove the % and divide by 100"));
  options = Predictions("q.csv", "a,b,y\nx,0.5,a\n0.5,x,b\n");
  options.columns.label = "y";
  options.columns.drop_invalid = true;
  EXPECT_THAT(ObservationsErrorOf(options), HasSubstr("all 2 rows are invalid"));
}

TEST_F(PredictionColumnsTest, ABarMaySeparateColumns) {
  InputOptions options = Predictions("p.csv", "a|b|y\n0.3|0.7|a\n0.8|0.2|b\n");
  options.columns.label = "y";
  EXPECT_THAT(Observations(options).labels, ElementsAre(0, 1));
}

}  // namespace
}  // namespace calibd::cli
