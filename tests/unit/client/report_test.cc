#include "client/cli/reports/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/reports/evaluation_report.h"

namespace calibd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ReportTest, ShowsHowManyObservationsATestNeeds) {
  google::protobuf::RepeatedPtrField<v1::BlockEstimate> estimates;
  v1::BlockEstimate& estimate = *estimates.Add();
  estimate.set_block_size(100);
  estimate.set_pending_observations(25);
  const std::string text = DescribeEstimates(estimates);
  EXPECT_THAT(text, HasSubstr("blocks of 100: z, p and bound not computed: needs 30 blocks, 3000 "
                              "observations"));
  EXPECT_THAT(text, HasSubstr("ONE look"));
}

TEST(ReportTest, NeverPrintsAPValueOfZero) {
  google::protobuf::RepeatedPtrField<v1::BlockEstimate> estimates;
  v1::BlockEstimate& estimate = *estimates.Add();
  estimate.set_block_size(2);
  estimate.set_p_value(0);
  EXPECT_THAT(DescribeEstimates(estimates), HasSubstr("<1e-300"));
}

TEST(ReportTest, ATestThatDidNotRunHasItsReason) {
  v1::Evaluation evaluation;
  v1::LensEvaluation& lens = *evaluation.add_lenses();
  lens.set_lens("top_label");
  lens.mutable_result();
  lens.mutable_cme_test()->set_error("it cannot");
  evaluation.add_reliability();
  EXPECT_THAT(DescribeEvaluation(evaluation),
              HasSubstr("CME test of the lens top_label not computed: it cannot"));
}

TEST(ReportTest, ShowsTheNumberOfObservationsOfTheScores) {
  v1::GetCalibrationResponse response;
  response.set_model("models/unwatched");
  response.set_observations(12480);
  EXPECT_THAT(DescribeCalibration(response), Not(HasSubstr("Scores")));
  v1::RunningScores& scores = *response.mutable_scores();
  scores.set_observations(12480);
  scores.set_brier_score(0.25);
  scores.set_log_loss(0.5);
  scores.set_ece(0.0625);
  EXPECT_THAT(
      DescribeCalibration(response),
      HasSubstr("Scores: Brier 0.250, log loss 0.500, ECE 0.062, of all 12480 observations; "
                "the ECE of a calibrated model is above 0 too, and larger with fewer "
                "observations.\n"));
  scores.set_observations(480);
  EXPECT_THAT(DescribeCalibration(response), HasSubstr("of the newest 480 observations;"));
}

TEST(ReportTest, ShowsTheScoresOfForecasts) {
  v1::GetCalibrationResponse response;
  response.set_observations(3800);
  v1::ForecastScores& scores = *response.mutable_forecast();
  scores.set_observations(3800);
  scores.set_crps(5.921);
  scores.set_log_score(-1.25);
  v1::CentralCoverage& widest = *scores.add_central_coverage();
  widest.set_promised(0.9);
  widest.set_coverage(0.8217);
  EXPECT_THAT(DescribeCalibration(response),
              HasSubstr("Scores: CRPS 5.92, log score -1.25, of all 3800 observations; the 90 % "
                        "intervals cover 82.2 %.\n"));
}

TEST(ReportTest, DescribesLabelsThatComeLater) {
  v1::GetCalibrationResponse response;
  response.set_model("models/clicks");
  EXPECT_THAT(DescribeCalibration(response), Not(HasSubstr("predictions with ids")));
  v1::LabelArrivals& coverage = *response.mutable_label_arrivals();
  coverage.set_predictions(1300);
  coverage.set_duplicate_predictions(3);
  coverage.set_pending(300);
  coverage.set_pending_labelled(150);
  coverage.set_pending_rate(300.0 / 1300);
  EXPECT_THAT(DescribeCalibration(response), HasSubstr("; 0 matured, 0 of them without a label\n"));
  coverage.set_matured(1000);
  coverage.set_missing(40);
  coverage.set_missing_rate(0.04);
  coverage.mutable_labels()->set_matched(1110);
  coverage.mutable_labels()->set_conflicting(2);
  coverage.mutable_labels()->set_late(5);
  coverage.mutable_labels()->set_unknown(1);
  coverage.set_conflicting_rate(0.002);
  coverage.set_late_rate(0.005);
  coverage.set_unknown_rate(0.001);
  for (const std::int64_t missing : {30, 10, 0}) {
    auto& predicted = *coverage.add_predicted_classes();
    predicted.set_predicted_class(static_cast<std::int32_t>(missing));
    predicted.set_predictions(250);
    predicted.set_pending(50);
    predicted.set_pending_rate(0.2);
    predicted.set_matured(200);
    predicted.set_missing(missing);
    predicted.set_missing_rate(static_cast<double>(missing) / 200);
  }
  coverage.mutable_predicted_classes(1)->set_late(5);
  coverage.mutable_predicted_classes(1)->set_late_rate(0.025);
  coverage.mutable_predicted_classes(1)->set_conflicting(2);
  coverage.mutable_predicted_classes(1)->set_conflicting_rate(0.01);
  coverage.set_missing_p_value(0);
  coverage.add_warnings("labels are missing more often for class 30");
  const std::string text = DescribeCalibration(response);
  EXPECT_THAT(text, HasSubstr("1300 accepted, 3 duplicates; 300 (23.1 %) pending, 150 of them "
                              "labelled; 1000 matured, 40 (4 %) of them without a label\n"));
  EXPECT_THAT(text, HasSubstr("1110 matched, 0 repeated, 2 (0.2 %) conflicting, 5 (0.5 %) late, "
                              "1 (0.1 %) unknown, 0 waiting\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "predicted class  accepted    pending  matured    missing       late  "
          "conflicting\n"
          "30                    250  50 (20 %)      200  30 (15 %)          0  "
          "          0\n"
          "10                    250  50 (20 %)      200   10 (5 %)  5 (2.5 %)  "
          "    2 (1 %)\n"
          "0                     250  50 (20 %)      200          0          0  "
          "          0\n"
          "if labels were missing equally often for every predicted class, the probability of such "
          "differences would be p = <1e-300 (one look)\n"));
  EXPECT_THAT(text, HasSubstr("WARNING: labels are missing more often for class 30\n"));
}

TEST(ReportTest, ShowsTheLabelGraceOfModelsThatHaveOne) {
  v1::Model plain;
  plain.set_name("models/plain");
  v1::Model clicks;
  clicks.set_name("models/clicks");
  clicks.mutable_label_grace()->set_seconds(5400);
  clicks.set_max_pending(100000);
  EXPECT_THAT(DescribeModels({plain}), Not(HasSubstr("label grace")));
  const std::string text = DescribeModels({plain, clicks});
  EXPECT_THAT(text, HasSubstr("label grace  max pending"));
  EXPECT_THAT(text, HasSubstr("1.5h       100000"));
}

TEST(FormatTableTest, AlignsColumns) {
  EXPECT_EQ(FormatTable({{"a", "bb"}, {"ccc", "d"}}), "a    bb\nccc   d\n");
}

}  // namespace
}  // namespace calibd::cli
