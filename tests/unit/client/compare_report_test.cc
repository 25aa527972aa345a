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

}  // namespace
}  // namespace calibd::cli
