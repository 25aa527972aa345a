// Evaluations and recalibrations of the window, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calibd/client/recalibration.h"
#include "calibd/convert/recalibration.h"
#include "calibd/core/evaluation.h"
#include "calibd/core/generator.h"
#include "calibd/core/lens.h"
#include "calibd/core/lens_evaluation.h"
#include "calibd/core/recalibration.h"
#include "integration/server/calibration_fixture.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CalibrationTest, ActionsOfADecisionAreChecked) {
  client_->CreateFixed("models/m", 3);
  v1::EvaluateRequest request;
  request.set_model("models/m");
  v1::Evaluation ignored;
  request.add_actions()->add_losses(1);
  EXPECT_THAT(client_->Evaluate(request, &ignored).error_message(),
              HasSubstr("actions[0].losses has 1 values, expected one for each of the 3 classes"));
  for (const double loss : {2.0, std::numeric_limits<double>::infinity()}) {
    request.mutable_actions(0)->add_losses(loss);
  }
  EXPECT_THAT(client_->Evaluate(request, &ignored).error_message(),
              HasSubstr("actions[0].losses[2] is inf, expected a number in"));
  request.mutable_actions(0)->set_losses(2, 0);
  for (int a = 0; a < 1000; ++a) *request.add_actions() = request.actions(0);
  EXPECT_THAT(client_->Evaluate(request, &ignored).error_message(),
              HasSubstr("actions has 1001 actions, expected at most 1000"));
}

TEST_F(CalibrationTest, EvaluateEqualsTheOfflineEvaluation) {
  client_->CreateFixed("models/m", 10);
  const PredictionSet set = Draw(600);
  Stream("models/m", set, 100);
  v1::EvaluateRequest request;
  request.set_model("models/m");
  request.set_replicates(199);
  request.set_seed(17);
  request.set_consistency_replicates(99);
  request.set_cme_test_locations(5);
  request.add_reliability_classes(3);
  std::vector<double> loss(20, 1.0);
  for (const auto& [name, first] : {std::pair("accept", 0), {"reject", 10}}) {
    loss[static_cast<std::size_t>(first) + 3] = first == 0 ? 0 : 5;
    v1::Action& action = *request.add_actions();
    action.set_name(name);
    action.mutable_losses()->Add(&loss[static_cast<std::size_t>(first)],
                                 &loss[static_cast<std::size_t>(first)] + 10);
  }
  v1::Evaluation evaluation;
  ASSERT_TRUE(client_->Evaluate(request, &evaluation).ok());

  EvaluationOptions options;
  const double bandwidth = evaluation.lenses(0).result().provenance().bandwidth();
  options.lenses[0].kernel.rule.bandwidth = {
      .kind = BandwidthRule::Kind::kFixed, .fixed = bandwidth, .alpha = {}};
  for (const Lens& lens : {Lens::TopLabel(), Lens::ClassWise()}) {
    options.lenses.push_back({.lens = lens, .kernel = KernelOfLens(lens, {})});
  }
  options.block_sizes = {2, 100};
  options.replicates = 199;
  options.seed = 17;
  options.consistency_replicates = 99;
  options.cme_test_locations = 5;
  options.reliability_classes = {3};
  options.loss = loss;
  const auto offline = Evaluate(set.view(), options);
  ASSERT_TRUE(offline.ok()) << offline.status();
  ASSERT_EQ(evaluation.lenses_size(), 3);
  for (int i = 0; i < 3; ++i) {
    const LensTestResult& expected = *offline->lenses[static_cast<std::size_t>(i)].result;
    EXPECT_EQ(evaluation.lenses(i).result().skce_unbiased(), expected.test.skce.unbiased);
    EXPECT_EQ(evaluation.lenses(i).result().p_value(), expected.test.p_value);
    EXPECT_EQ(evaluation.lenses(i).result().provenance().last_observation(), 600);
  }
  ASSERT_EQ(evaluation.estimates_size(), 2);
  EXPECT_EQ(evaluation.estimates(1).skce(), offline->blocks[1].moments.mean);
  EXPECT_EQ(evaluation.scores().brier(), offline->scores.brier);
  const v1::DecisionEvaluation& decision = evaluation.decision_loss();
  EXPECT_EQ(decision.realised_loss(), offline->decision->calibration.realised_loss);
  EXPECT_EQ(decision.gap_upper_bound(), offline->decision->gap_upper);
  EXPECT_EQ(decision.test().p_value(), offline->decision->test->p_value);
  ASSERT_EQ(decision.actions_size(), 2);
  EXPECT_EQ(decision.actions(1).name(), "reject");
  EXPECT_EQ(decision.actions(0).observations(), offline->decision->actions[0].count);
  EXPECT_EQ(decision.actions(0).observations() + decision.actions(1).observations(), 600);
  ASSERT_EQ(evaluation.binned_errors_size(), 4);
  EXPECT_EQ(evaluation.binned_errors(3).ece(), offline->binned_errors[3].error.ece);
  EXPECT_EQ(evaluation.consistency_test().p_value(), offline->consistency->p_value);
  EXPECT_THAT(evaluation.consistency_test().caveat(), HasSubstr("The test is exact"));
  EXPECT_EQ(evaluation.lenses(0).cme_test().statistic(), (*offline->lenses[0].cme)->statistic);
  EXPECT_THAT(evaluation.lenses(0).cme_test().null_description(), HasSubstr("labels drawn"));
  EXPECT_EQ(evaluation.lenses(1).cme_test().p_value(), (*offline->lenses[1].cme)->p_value);
  // The class-wise lens has several parts.
  EXPECT_FALSE(evaluation.lenses(2).has_cme_test());
  ASSERT_EQ(evaluation.reliability_size(), 2);
  EXPECT_EQ(evaluation.reliability(1).class_index(), 3);
  EXPECT_EQ(evaluation.reliability(1).bins(0).frequency(),
            offline->reliability[1].bins[0].frequency);

  // The diagrams alone are the same, and nothing else is computed.
  v1::EvaluateRequest diagrams;
  diagrams.set_model("models/m");
  diagrams.set_seed(17);
  diagrams.add_reliability_classes(3);
  diagrams.set_reliability_only(true);
  v1::Evaluation only;
  ASSERT_TRUE(client_->Evaluate(diagrams, &only).ok());
  v1::Evaluation expected;
  *expected.mutable_reliability() = evaluation.reliability();
  expected.set_observations(evaluation.observations());
  only.clear_elapsed();
  EXPECT_EQ(only.SerializeAsString(), expected.SerializeAsString());
  diagrams.set_cme_test_locations(3);
  EXPECT_THAT(client_->Evaluate(diagrams, &only).error_message(),
              HasSubstr("reliability_only is set together with cme_test_locations"));
}

TEST_F(CalibrationTest, EvaluateTestsAsManyRowsAsAreAskedFor) {
  Start({});
  client_->CreateFixed("models/m", 10);
  Stream("models/m", Draw(1000), 200);
  v1::EvaluateRequest request;
  request.set_model("models/m");
  request.set_seed(17);
  request.set_replicates(99);
  v1::Evaluation all;
  ASSERT_TRUE(client_->Evaluate(request, &all).ok());
  EXPECT_EQ(all.observations(), 1000);
  EXPECT_EQ(all.tested_observations(), 1000);
  request.set_test_rows(200);
  v1::Evaluation part;
  ASSERT_TRUE(client_->Evaluate(request, &part).ok());
  EXPECT_EQ(part.observations(), 1000);
  EXPECT_EQ(part.tested_observations(), 200);
  const v1::Provenance& provenance = part.lenses(0).result().provenance();
  EXPECT_EQ(provenance.observations(), 200);
  EXPECT_EQ(provenance.first_observation(), 1);
  EXPECT_EQ(provenance.last_observation(), 1000);
  EXPECT_NE(part.lenses(0).result().skce_unbiased(), all.lenses(0).result().skce_unbiased());
  EXPECT_EQ(part.error().upper(), all.error().upper());
  EXPECT_EQ(part.estimates(0).skce(), all.estimates(0).skce());
  EXPECT_THAT(part.reading().certain().text(),
              HasSubstr("tested with 200 of the 1000 rows, drawn at random"));
  EXPECT_THAT(all.reading().certain().text(), Not(HasSubstr("drawn at random")));
  request.set_test_rows(1);
  EXPECT_THAT(client_->Evaluate(request, &part).error_message(), HasSubstr("test_rows"));
}

TEST_F(CalibrationTest, EvaluateIsBoundedBeforeItStarts) {
  Start({"--max-test-operations", "1e8"});
  client_->CreateFixed("models/m", 10);
  Stream("models/m", Draw(1000), 200);
  v1::EvaluateRequest request;
  request.set_model("models/m");
  v1::Evaluation evaluation;
  const auto refusal = [&](auto change) {
    v1::EvaluateRequest changed = request;
    change(changed);
    return client_->Evaluate(changed, &evaluation);
  };
  const grpc::Status large = refusal([](auto&) {});
  EXPECT_EQ(large.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(large), "JOB_TOO_LARGE");
  EXPECT_THAT(refusal([](auto& r) { r.set_replicates(5); }).error_message(),
              HasSubstr("replicates is 5, expected 99..100000"));
  for (const double level : {2.0, 1e-17, 0.9999}) {
    EXPECT_THAT(refusal([level](auto& r) { r.set_band_level(level); }).error_message(),
                HasSubstr("band_level is "));
  }
  EXPECT_THAT(refusal([](auto& r) { r.set_cme_test_locations(-1); }).error_message(),
              HasSubstr("cme_test_locations is"));
  EXPECT_THAT(refusal([](auto& r) { r.add_reliability_classes(10); }).error_message(),
              HasSubstr("reliability_classes holds 10, expected 0 to 9"));
  EXPECT_THAT(refusal([](auto& r) { r.add_binned_errors(); }).error_message(),
              HasSubstr("binned_errors[0] bins is unset"));
  EXPECT_THAT(refusal([](auto& r) {
                r.add_binned_errors()->mutable_top_label()->set_bins(-1);
              }).error_message(),
              HasSubstr("binned_errors[0].top_label.bins is"));
  for (int i = 0; i < 17; ++i) request.add_lenses()->mutable_top_label();
  EXPECT_THAT(refusal([](auto&) {}).error_message(), HasSubstr("lenses has 17"));
}

TEST_F(CalibrationTest, RecalibrateEqualsTheAdviceOfCore) {
  client_->CreateFixed("models/m", 10);
  PredictionSet set = Draw(1200);
  ApplyRecalibration(TemperatureMap{0.4}, 10, set.probabilities);
  Stream("models/m", set, 100);
  v1::RecalibrateRequest request;
  request.set_model("models/m");
  request.set_window(1000);
  v1::Recalibration result;
  ASSERT_TRUE(client_->Recalibrate(request, &result).ok());
  const auto advice = AdviseRecalibration(set.view().rows(200, 1000), RecalibrationSplit::kHalves);
  ASSERT_TRUE(advice.ok()) << advice.status();
  EXPECT_TRUE(advice->helps());
  const v1::Recalibration expected = convert::ToProto(*advice, 10, "", 201, std::nullopt);
  EXPECT_TRUE(result.has_compute_time());
  result.clear_compute_time();
  EXPECT_EQ(result.SerializeAsString(), expected.SerializeAsString());
  EXPECT_GT(result.corp_before_size(), 1);
  EXPECT_GT(result.corp_after_size(), 1);
  EXPECT_EQ(client_->GetCalibration("models/m").recalibration().corp_before_size(), 0);

  // The SDK applies the map without the server.
  std::vector<double> rows = set.probabilities;
  std::vector<double> same = set.probabilities;
  ASSERT_TRUE(client::ApplyRecalibration(result.map(), rows).ok());
  ApplyRecalibration(advice->map, 10, same);
  EXPECT_EQ(rows, same);
  rows.pop_back();
  EXPECT_THAT(client::ApplyRecalibration(result.map(), rows).ToString(),
              HasSubstr("rows has 11999 probabilities, expected a multiple of 10"));
  result.mutable_map()->set_version(2);
  EXPECT_THAT(client::ApplyRecalibration(result.map(), rows).ToString(),
              HasSubstr("version is 2, expected 1"));
}

TEST_F(CalibrationTest, RecalibrateUsesTheRowsSinceAChange) {
  PredictionSet set = Draw(6000);
  ApplyRecalibration(TemperatureMap{0.2}, 10, std::span(set.probabilities).subspan(3000 * 10));
  PredictionSet first = set;
  first.probabilities.resize(3700 * 10);
  first.labels.resize(3700);
  client_->CreateFixed("models/few", 10);
  Stream("models/few", first, 100);
  v1::RecalibrateRequest request;
  request.set_model("models/few");
  v1::Recalibration result;
  const grpc::Status few = client_->Recalibrate(request, &result);
  EXPECT_EQ(few.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(few), "INSUFFICIENT_DATA");
  EXPECT_THAT(few.error_message(), HasSubstr("too few rows since the change ("));
  EXPECT_FALSE(client_->GetCalibration("models/few").has_recalibration());

  client_->CreateFixed("models/m", 10);
  Stream("models/m", set, 100);
  request.set_model("models/m");
  ASSERT_TRUE(client_->Recalibrate(request, &result).ok());
  const v1::DatedChange dated = client_->GetCalibration("models/m").error().change();
  EXPECT_EQ(result.change().SerializeAsString(), dated.SerializeAsString());
  EXPECT_LE(dated.from_observation(), 3001);
  EXPECT_GE(dated.to_observation(), 3001);
  // The window may begin after the change.
  EXPECT_GE(result.first_observation(), dated.from_observation());
  const auto older = static_cast<std::size_t>(result.first_observation() - 1);
  EXPECT_EQ(result.fit_observations() + result.test_observations(),
            static_cast<std::int64_t>(6000 - older));
  const auto advice =
      AdviseRecalibration(set.view().rows(older, 6000 - older), RecalibrationSplit::kAlternating);
  ASSERT_TRUE(advice.ok()) << advice.status();
  const v1::Recalibration expected =
      convert::ToProto(*advice, 10, "", result.first_observation(), result.change());
  result.clear_compute_time();
  EXPECT_EQ(result.SerializeAsString(), expected.SerializeAsString());
}

TEST_F(CalibrationTest, RecalibrateNeedsObservationsAndIsBoundedBeforeItStarts) {
  Start({"--max-test-operations", "1e8"});
  client_->CreateFixed("models/m", 10);
  Stream("models/m", Draw(1000), 200);
  v1::RecalibrateRequest request;
  request.set_model("models/m");
  v1::Recalibration result;
  EXPECT_EQ(Reason(client_->Recalibrate(request, &result)), "JOB_TOO_LARGE");
  request.set_window(50);
  const grpc::Status few = client_->Recalibrate(request, &result);
  EXPECT_EQ(few.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(few.error_message(), HasSubstr("window: 50, at least 100 are needed"));
  EXPECT_EQ(Reason(few), "INSUFFICIENT_DATA");
  request.set_window(-1);
  EXPECT_EQ(client_->Recalibrate(request, &result).error_code(), grpc::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace calibd::testing
