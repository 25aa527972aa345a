#include "client/cli/reports/compare_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calibd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

void Set(v1::ScoreDifference& score, double model, double baseline, double lower, double upper) {
  score.set_model(model);
  score.set_baseline(baseline);
  score.set_difference(model - baseline);
  score.set_lower(lower);
  score.set_upper(upper);
}

v1::ModelComparison Result() {
  v1::ModelComparison result;
  v1::Comparison& comparison = *result.mutable_comparison();
  comparison.set_paired(true);
  comparison.set_observations(248);
  comparison.set_baseline_observations(248);
  comparison.set_level(0.05);
  comparison.set_repeated_looks_valid(true);
  Set(*comparison.mutable_log_loss(), 0.41234, 0.45534, -0.0612, -0.02512);
  Set(*comparison.mutable_brier(), 0.262, 0.24, 0.01, 0.0341);
  Set(*comparison.mutable_binned_error(), 0.031, 0.052, -0.0641, 0.022);
  comparison.mutable_log_loss()->set_text("the words of the log loss");
  comparison.mutable_brier()->set_text("of the Brier score");
  comparison.mutable_binned_error()->set_text("of the error");
  v1::Pairing& pairing = *result.mutable_pairing();
  pairing.set_only_in_model(50);
  pairing.set_only_in_baseline(40);
  pairing.set_baseline_without_id(5);
  return result;
}

TEST(CompareReportTest, BeginsWithTheAnswerForEachScore) {
  const std::string text = DescribeComparison("m@2", "m@1", Result());
  EXPECT_THAT(text, StartsWith("m@2 against m@1: the words of the log loss; of the Brier score; of "
                               "the error.\n\nscore "));
  EXPECT_THAT(text, HasSubstr("95 % interval"));
  EXPECT_THAT(text, ::testing::ContainsRegex("log loss \\(nats\\) +0.412 +0.455 +-0.043 +-0.061 to "
                                             "-0.025\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("binned error \\(points\\) +3.1 +5.2 +-2.1 +-6.4 to "
                                             "\\+2.2\n"));
}

TEST(CompareReportTest, SaysWhichObservationsWereCompared) {
  v1::ModelComparison result = Result();
  EXPECT_THAT(DescribeComparison("a", "b", result),
              AllOf(HasSubstr("Paired: 248 observations that both models scored"),
                    HasSubstr("50 observations of the model whose ids are not in the other "
                              "window, and 0 without an id.\n"),
                    HasSubstr("40 observations of the baseline whose ids are not in the other "
                              "window, and 5 without an id.\n"),
                    HasSubstr("however often this comparison is repeated"),
                    Not(HasSubstr("different labels"))));
  result.mutable_pairing()->set_label_conflicts(2);
  result.mutable_comparison()->set_repeated_looks_valid(false);
  EXPECT_THAT(DescribeComparison("a", "b", result),
              AllOf(HasSubstr("2 ids have different labels"),
                    HasSubstr("for one look, because the pairs have another order")));
  result.set_first_observation(51);
  EXPECT_THAT(DescribeComparison("a", "b", result),
              HasSubstr("for one look, because the observations are not all since the first"));

  result.mutable_comparison()->set_paired(false);
  result.mutable_comparison()->set_baseline_observations(300);
  EXPECT_THAT(DescribeComparison("a", "b", result),
              AllOf(HasSubstr("Unpaired: 248 observations of the model and 300 of the "
                              "baseline, because no id has the same label in both windows"),
                    HasSubstr("may also come from the observations")));
  result.mutable_pairing()->set_label_conflicts(0);
  result.mutable_pairing()->set_only_in_baseline(0);
  EXPECT_THAT(DescribeComparison("a", "b", result),
              HasSubstr("at least one of the windows has no ids"));
}

TEST(CompareReportTest, NumbersHaveTheirOwnScores) {
  v1::ModelComparison result = Result();
  v1::Comparison& comparison = *result.mutable_comparison();
  comparison.clear_log_loss();
  comparison.clear_brier();
  comparison.clear_binned_error();
  Set(*comparison.mutable_crps(), 41.2, 44.1, -3.6, -2.2);
  comparison.mutable_crps()->set_text("the words of the CRPS");
  result.mutable_pairing()->set_label_conflicts(2);
  EXPECT_THAT(DescribeComparison("a", "b", result),
              AllOf(StartsWith("a against b: the words of the CRPS.\n"),
                    HasSubstr("CRPS (unit of the outcomes)   41.2      44.1        -2.9"),
                    HasSubstr("2 ids have different outcomes in the two windows"),
                    HasSubstr("hold approximately however often"), Not(HasSubstr("log score")),
                    Not(HasSubstr("Brier"))));
  Set(*comparison.mutable_log_score(), 4.1, 4.2, -0.2, 0.01);
  comparison.mutable_log_score()->set_text("of the log score");
  comparison.set_paired(false);
  EXPECT_THAT(DescribeComparison("a", "b", result),
              AllOf(StartsWith("a against b: the words of the CRPS; of the log score.\n"),
                    HasSubstr("log score (nats)"), HasSubstr("no id has the same outcome")));
}

}  // namespace
}  // namespace calibd::cli
