// Running estimates and tests of the window, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "calibd/core/bandwidth.h"
#include "calibd/core/generator.h"
#include "calibd/core/lens.h"
#include "calibd/core/lens_evaluation.h"
#include "calibd/core/matrix_kernel.h"
#include "calibd/core/p_value.h"
#include "calibd/core/running_lens.h"
#include "calibd/core/running_skce.h"
#include "integration/server/calibration_fixture.h"
#include "support/test_data.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-10;

void ExpectRelative(double actual, double expected, double tolerance, const std::string& what) {
  EXPECT_LE(RelativeDifference(actual, expected), tolerance)
      << what << " is " << actual << ", expected " << expected;
}

const v1::BlockEstimate& Estimate(const v1::GetCalibrationResponse& calibration, int block_size) {
  const auto found =
      std::find_if(calibration.estimates().begin(), calibration.estimates().end(),
                   [block_size](const auto& e) { return e.block_size() == block_size; });
  return found == calibration.estimates().end() ? v1::BlockEstimate::default_instance() : *found;
}

TEST_F(CalibrationTest, SaysHowManyObservationsAreNeeded) {
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(10);
  ASSERT_TRUE(client_->Create(model).ok());
  Stream("models/m", Draw(120), 50);
  const v1::GetCalibrationResponse calibration = client_->GetCalibration("models/m");
  EXPECT_EQ(calibration.observations(), 120);
  EXPECT_EQ(calibration.estimates_size(), 0);
  EXPECT_FALSE(calibration.has_provenance());
  EXPECT_EQ(calibration.insufficient_data().needed(), 380);
  EXPECT_THAT(calibration.insufficient_data().reason(), HasSubstr("500"));

  v1::QuadraticTestResult result;
  const grpc::Status status = client_->RunTest(TestRequest("models/m", 99), &result);
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("120 observations, 500 are needed"));

  client_->CreateFixed("models/f", 10);
  EXPECT_EQ(client_->GetCalibration("models/f").insufficient_data().needed(), 2);
}

TEST_F(CalibrationTest, RunningStateEqualsTheOfflineOneForAnyBatches) {
  const PredictionSet set = Draw(1501);
  const double bandwidth = *MedianBandwidth(set.view().rows(0, 500).probabilities, set.class_count);
  auto kernel = Kernel::ExponentialTotalVariation(bandwidth);
  for (const std::size_t max_rows : {1U, 7U, 499U, 501U, 1501U}) {
    const std::string name = "models/cut" + std::to_string(max_rows);
    v1::Model model;
    model.set_name(name);
    model.mutable_classes()->set_count(10);
    ASSERT_TRUE(client_->Create(model).ok());
    Stream(name, set, max_rows, max_rows);
    const v1::GetCalibrationResponse calibration = client_->GetCalibration(name);
    EXPECT_EQ(calibration.provenance().bandwidth(), bandwidth);
    EXPECT_EQ(calibration.provenance().observations(), 1501);
    EXPECT_FALSE(calibration.provenance().valid_for_repeated_looks());
    for (const int block_size : {2, 100}) {
      auto offline = RunningBlockSkce::Create(static_cast<std::size_t>(block_size), 10, *kernel);
      for (std::size_t i = 0; i < set.labels.size(); ++i) {
        offline->Add(set.view().row(i), set.labels[i]);
      }
      const v1::BlockEstimate& served = Estimate(calibration, block_size);
      const auto test = TestMeanIsPositive(offline->moments());
      EXPECT_EQ(served.block_count(), offline->moments().count);
      EXPECT_EQ(served.pending_observations(), static_cast<int>(offline->pending()));
      const double skce = served.skce();
      EXPECT_EQ(std::memcmp(&skce, &offline->moments().mean, sizeof(skce)), 0);
      const double deviation = served.standard_deviation();
      EXPECT_EQ(std::memcmp(&deviation, &test->standard_deviation, sizeof(deviation)), 0);
      EXPECT_EQ(served.has_p_value(), served.block_count() >= kMinTestedBlocks);
      EXPECT_EQ(served.p_value(), served.has_p_value() ? test->p_value : 0);
    }
  }
}

class Cifar10Test : public CalibrationTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(Cifar10Test, ServedValuesEqualTheReference) {
  const std::optional<PredictionSet> set = ReadCifar10(GetParam());
  if (!set.has_value()) GTEST_SKIP() << "no predictions in " << Cifar10Dir();
  const nlohmann::json expected = ReadJson(Cifar10Dir() / "expected.json").at(GetParam());
  v1::Model model;
  model.set_name("models/network");
  model.mutable_classes()->set_count(10);
  model.set_window(10000);
  model.mutable_classes()->mutable_bandwidth()->mutable_median()->set_warmup(10000);
  for (const int block_size : {2, 10, 100}) model.mutable_classes()->add_block_sizes(block_size);
  ASSERT_TRUE(client_->Create(model).ok());
  Stream(model.name(), *set, 700);

  const v1::GetCalibrationResponse calibration = client_->GetCalibration(model.name());
  ExpectRelative(calibration.provenance().bandwidth(), expected.at("nu"), 1e-12, "nu");
  const v1::BlockEstimate& linear = Estimate(calibration, 2);
  ExpectRelative(linear.skce(), expected.at("SKCE_ul"), kTolerance, "SKCE_ul");
  ExpectRelative(linear.standard_deviation(), expected.at("h_pairs_sd"), kTolerance, "sd");
  ExpectRelative(linear.z(), expected.at("z_ul"), kTolerance, "z");
  ExpectRelative(linear.p_value(), expected.at("p_ul"), kTolerance, "p");
  ExpectRelative(linear.p_value_upper_bound(), expected.at("p_free_ul"), kTolerance, "p_free_ul");
  for (const int block_size : {10, 100}) {
    const nlohmann::json& block = expected.at("block" + std::to_string(block_size));
    const v1::BlockEstimate& served = Estimate(calibration, block_size);
    EXPECT_EQ(served.block_count(), block.at("nblocks").get<std::int64_t>());
    ExpectRelative(served.skce(), block.at("estimate"), kTolerance, "block estimate");
    ExpectRelative(served.standard_deviation(), block.at("sd"), kTolerance, "block sd");
    ExpectRelative(served.z(), block.at("z"), kTolerance, "block z");
    ExpectRelative(served.p_value(), block.at("p"), kTolerance, "block p");
  }

  v1::QuadraticTestResult result;
  const grpc::Status status = client_->RunTest(TestRequest(model.name(), 99), &result);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(result.provenance().observations(), 10000);
  EXPECT_EQ(result.provenance().first_observation(), 1);
  ExpectRelative(result.skce_biased(), expected.at("SKCE_b"), kTolerance, "SKCE_b");
  ExpectRelative(result.skce_unbiased(), expected.at("SKCE_uq"), kTolerance, "SKCE_uq");
  ExpectRelative(result.p_value_upper_bound_biased(), expected.at("p_free_b"), kTolerance,
                 "p_free_b");
  ExpectRelative(result.p_value_upper_bound_unbiased(), expected.at("p_free_uq"), kTolerance,
                 "p_free_uq");
}

INSTANTIATE_TEST_SUITE_P(Networks, Cifar10Test,
                         ::testing::Values("densenet121", "resnet18", "googlenet"));

TEST_F(CalibrationTest, SmallCasesEqualTheReference) {
  int number = 0;
  for (const nlohmann::json& small_case : SmallCases()) {
    const std::string name = "models/case" + std::to_string(number++);
    SCOPED_TRACE(small_case.at("name").get<std::string>());
    const PredictionSet set = ToPredictionSet(small_case);
    v1::Model model;
    model.set_name(name);
    model.mutable_classes()->set_count(static_cast<int>(set.class_count));
    model.mutable_classes()->mutable_bandwidth()->set_fixed(small_case.at("nu_used").get<double>());
    // Some of the rows are rounded to two decimals.
    model.mutable_classes()->set_row_sum_tolerance(0.1);
    ASSERT_TRUE(client_->Create(model).ok());
    Stream(name, set, set.labels.size());
    const v1::BlockEstimate linear = Estimate(client_->GetCalibration(name), 2);
    ExpectRelative(linear.skce(), small_case.at("SKCE_ul"), kTolerance, "SKCE_ul");
    ExpectRelative(linear.p_value_upper_bound(), small_case.at("p_free_ul"), kTolerance,
                   "p_free_ul");
    v1::QuadraticTestResult result;
    ASSERT_TRUE(client_->RunTest(TestRequest(name, 99), &result).ok());
    ExpectRelative(result.skce_biased(), small_case.at("SKCE_b"), kTolerance, "SKCE_b");
    ExpectRelative(result.skce_unbiased(), small_case.at("SKCE_uq"), kTolerance, "SKCE_uq");
    ExpectRelative(result.p_value_upper_bound_biased(), small_case.at("p_free_b"), kTolerance,
                   "p_free_b");
    ExpectRelative(result.p_value_upper_bound_unbiased(), small_case.at("p_free_uq"), kTolerance,
                   "p_free_uq");
  }
}

TEST_F(CalibrationTest, SameSeedGivesTheSamePValueAndTheWindowIsTheNewest) {
  client_->CreateFixed("models/m", 10);
  Stream("models/m", Draw(400), 100);
  v1::RunTestRequest request = TestRequest("models/m", 199);
  request.set_window(300);
  v1::QuadraticTestResult first;
  v1::QuadraticTestResult second;
  ASSERT_TRUE(client_->RunTest(request, &first).ok());
  ASSERT_TRUE(client_->RunTest(request, &second).ok());
  EXPECT_EQ(first.p_value(), second.p_value());
  EXPECT_EQ(first.replicate_mean(), second.replicate_mean());
  EXPECT_EQ(first.seed(), 17U);
  EXPECT_EQ(first.provenance().first_observation(), 101);
  EXPECT_EQ(first.provenance().last_observation(), 400);
  EXPECT_DOUBLE_EQ(first.p_value(), (1.0 + first.exceedances()) / 200.0);
}

TEST_F(CalibrationTest, RefusesTestsOutsideTheLimits) {
  Start({"--test-memory-bytes", "2000000", "--max-test-operations", "1e8"});
  client_->CreateFixed("models/m", 10);
  Stream("models/m", Draw(1000), 100);
  const auto refusal = [this](int replicates, int window) {
    v1::RunTestRequest request = TestRequest("models/m", replicates);
    request.set_window(window);
    v1::QuadraticTestResult result;
    return client_->RunTest(request, &result);
  };
  EXPECT_EQ(refusal(98, 0).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(refusal(100001, 0).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(refusal(99, 1).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(refusal(99, -1).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(refusal(99, 10001).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(refusal(99, 1001).error_message(),
              HasSubstr("in the window: 1000, at least 1001 are needed"));
  const grpc::Status too_large = refusal(1000, 1000);
  EXPECT_EQ(too_large.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(too_large), "JOB_TOO_LARGE");
  EXPECT_EQ(refusal(99, 100).error_code(), grpc::OK);
  v1::RunTestRequest simulation = TestRequest("models/m", 1000);
  simulation.set_null(v1::QuadraticTestResult::FORECAST);
  v1::QuadraticTestResult result;
  EXPECT_EQ(Reason(client_->RunTest(simulation, &result)), "JOB_TOO_LARGE");
}

TEST_F(CalibrationTest, EachLensEqualsTheOfflineEvaluation) {
  client_->CreateFixed("models/m", 10);
  const PredictionSet set = Draw(600);
  Stream("models/m", set, 100);
  v1::RunTestRequest request = TestRequest("models/m", 199);
  request.set_null(v1::QuadraticTestResult::FORM);
  std::vector<std::pair<v1::Lens, Lens>> lenses(5, {v1::Lens(), Lens::Canonical()});
  lenses[1].first.mutable_top_label();
  lenses[1].second = Lens::TopLabel();
  lenses[2].first.mutable_class_wise();
  lenses[2].second = Lens::ClassWise();
  lenses[3].first.mutable_top_k()->set_k(3);
  lenses[3].second = Lens::TopK(3);
  const std::vector<std::int32_t> groups = {0, 0, 0, 1, 1, 1, 2, 2, 2, 2};
  for (const std::int32_t group : groups) {
    lenses[4].first.mutable_grouped()->add_group_of_class(group);
  }
  lenses[4].second = Lens::Grouped(groups);
  for (const auto& [proto, lens] : lenses) {
    SCOPED_TRACE(lens.name());
    *request.mutable_lens() = proto;
    v1::QuadraticTestResult result;
    ASSERT_TRUE(client_->RunTest(request, &result).ok());
    LensTestOptions options;
    options.replicates = 199;
    options.seed = 17;
    KernelSpec canonical;
    canonical.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
    canonical.rule.bandwidth.fixed = result.provenance().bandwidth();
    options.kernel = KernelOfLens(lens, canonical);
    const auto offline = TestLens(set.view(), lens, options);
    ASSERT_TRUE(offline.ok());
    EXPECT_EQ(result.provenance().lens(), lens.name());
    EXPECT_EQ(result.provenance().bandwidth(), std::get<Kernel>(offline->kernel).bandwidth());
    EXPECT_GE(result.provenance().threads(), 1);
    EXPECT_EQ(result.skce_unbiased(), offline->test.skce.unbiased);
    EXPECT_EQ(result.p_value(), offline->test.p_value);
    EXPECT_EQ(result.noise_floor_unbiased().upper_quantile(),
              offline->null_moments.Unbiased().upper_quantile);
    EXPECT_EQ(result.classes_size(), lens == Lens::ClassWise() ? 10 : 0);
    EXPECT_GE(result.kce_lower_bound(), 0);
    EXPECT_GT(result.kce_upper_bound(), std::sqrt(result.skce_biased()));
  }
  request.mutable_lens()->mutable_top_k()->set_k(10);
  v1::QuadraticTestResult result;
  const grpc::Status misfit = client_->RunTest(request, &result);
  EXPECT_EQ(misfit.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(misfit.error_message(), HasSubstr("lens top_k is 10, expected 1..9"));
}

TEST_F(CalibrationTest, LabelsDrawnFromThePredictionsAreTheOtherNullHypothesis) {
  client_->CreateFixed("models/m", 10);
  const PredictionSet set = Draw(600);
  Stream("models/m", set, 100);
  v1::RunTestRequest request = TestRequest("models/m", 199);
  request.set_null(v1::QuadraticTestResult::FORM);
  v1::QuadraticTestResult result;
  ASSERT_TRUE(client_->RunTest(request, &result).ok());
  EXPECT_EQ(result.null(), v1::QuadraticTestResult::FORM);
  EXPECT_THAT(result.null_description(), HasSubstr("approximate"));
  request.clear_null();
  for (const Lens& lens : {Lens::Canonical(), Lens::TopLabel(), Lens::ClassWise()}) {
    SCOPED_TRACE(lens.name());
    if (lens == Lens::TopLabel()) request.mutable_lens()->mutable_top_label();
    if (lens == Lens::ClassWise()) request.mutable_lens()->mutable_class_wise();
    ASSERT_TRUE(client_->RunTest(request, &result).ok());
    LensTestOptions options;
    options.kernel.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
    options.kernel.rule.bandwidth.fixed = result.provenance().bandwidth();
    options.replicates = 199;
    options.seed = 17;
    options.null = NullHypothesis::kForecast;
    const auto offline = TestLens(set.view(), lens, options);
    EXPECT_EQ(result.p_value(), offline->test.p_value);
    EXPECT_EQ(result.statistic(), offline->test.statistic);
    EXPECT_EQ(result.seed(), 17U);
    EXPECT_EQ(result.replicate_mean(), offline->test.replicate_mean);
    EXPECT_EQ(result.replicate_upper_quantile(), offline->test.replicate_upper_quantile);
    EXPECT_EQ(result.null(), v1::QuadraticTestResult::FORECAST);
    EXPECT_THAT(result.null_description(), HasSubstr("labels drawn from the predictions"));
  }
  request.clear_replicates();
  ASSERT_TRUE(client_->RunTest(request, &result).ok());
  EXPECT_EQ(result.replicates(), 999);
  request.set_null(static_cast<v1::QuadraticTestResult::NullHypothesis>(7));
  EXPECT_THAT(
      client_->RunTest(request, &result).error_message(),
      HasSubstr("null is 7, expected a value of calibd.v1.QuadraticTestResult.NullHypothesis"));

  v1::EvaluateRequest evaluate;
  evaluate.set_model("models/m");
  evaluate.set_replicates(99);
  evaluate.set_consistency_replicates(99);
  evaluate.set_cme_test_locations(5);
  evaluate.set_null(v1::QuadraticTestResult::FORECAST);
  v1::Evaluation evaluation;
  ASSERT_TRUE(client_->Evaluate(evaluate, &evaluation).ok());
  for (const v1::LensEvaluation& lens : evaluation.lenses()) {
    EXPECT_EQ(lens.result().null(), v1::QuadraticTestResult::FORECAST);
  }
  EXPECT_EQ(evaluation.consistency_test().null(), v1::QuadraticTestResult::FORECAST);
  EXPECT_EQ(evaluation.estimates(0).null(), v1::QuadraticTestResult::FORECAST);
  EXPECT_THAT(evaluation.consistency_test().caveat(), HasSubstr("exact"));
  EXPECT_EQ(evaluation.lenses(0).cme_test().replicates(), 99);
  EXPECT_THAT(evaluation.lenses(0).cme_test().null_description(), HasSubstr("labels drawn"));
  evaluate.set_null(static_cast<v1::QuadraticTestResult::NullHypothesis>(7));
  EXPECT_THAT(client_->Evaluate(evaluate, &evaluation).error_message(), HasSubstr("null is 7"));
}

TEST_F(CalibrationTest, APearsonCurveReplacesTheReplicates) {
  client_->CreateFixed("models/m", 10);
  const PredictionSet set = Draw(600);
  Stream("models/m", set, 100);
  v1::RunTestRequest request;
  request.set_model("models/m");
  request.set_null(v1::QuadraticTestResult::PEARSON);
  v1::QuadraticTestResult result;
  ASSERT_TRUE(client_->RunTest(request, &result).ok());
  LensTestOptions options;
  options.kernel.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
  options.kernel.rule.bandwidth.fixed = result.provenance().bandwidth();
  options.null = NullHypothesis::kPearson;
  const auto offline = TestLens(set.view(), Lens::Canonical(), options);
  EXPECT_EQ(result.p_value(), offline->test.p_value);
  EXPECT_EQ(result.statistic(), result.skce_unbiased());
  EXPECT_EQ(result.replicates(), 0);
  EXPECT_FALSE(result.has_exceedances());
  EXPECT_FALSE(result.has_seed());
  EXPECT_EQ(result.replicate_upper_quantile(), result.noise_floor_unbiased().upper_quantile());
  EXPECT_EQ(result.null(), v1::QuadraticTestResult::PEARSON);
  EXPECT_THAT(result.null_description(), HasSubstr("a Pearson curve"));
  request.set_replicates(999);
  EXPECT_THAT(client_->RunTest(request, &result).error_message(),
              HasSubstr("replicates is set, but null is PEARSON"));

  // Only the tests of the lenses have a curve.
  v1::EvaluateRequest evaluate;
  evaluate.set_model("models/m");
  evaluate.set_replicates(99);
  evaluate.set_consistency_replicates(99);
  evaluate.set_null(v1::QuadraticTestResult::PEARSON);
  v1::Evaluation evaluation;
  ASSERT_TRUE(client_->Evaluate(evaluate, &evaluation).ok());
  EXPECT_EQ(evaluation.lenses(0).result().p_value(), offline->test.p_value);
  EXPECT_EQ(evaluation.consistency_test().null(), v1::QuadraticTestResult::FORECAST);
  EXPECT_EQ(evaluation.estimates(0).null(), v1::QuadraticTestResult::FORECAST);
}

TEST_F(CalibrationTest, DeclaredLensesHaveTheirOwnBandwidth) {
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(10);
  model.mutable_classes()->mutable_kernel()->mutable_exponential()->set_distance(
      v1::ExponentialKernel::EUCLIDEAN);
  model.mutable_classes()->mutable_bandwidth()->mutable_median_off_diagonal()->set_warmup(200);
  model.mutable_classes()->add_lenses()->mutable_class_wise();
  model.mutable_classes()->add_lenses()->mutable_top_k()->set_k(3);
  ASSERT_TRUE(client_->Create(model).ok());
  const PredictionSet set = Draw(600);
  Stream("models/m", set, 100);
  const v1::GetCalibrationResponse calibration = client_->GetCalibration("models/m");
  ASSERT_EQ(calibration.lenses_size(), 2);
  EXPECT_EQ(calibration.lenses(0).lens(), "class_wise");
  EXPECT_EQ(calibration.lenses(0).provenance().bandwidth(), kScalarBandwidth);
  EXPECT_EQ(calibration.lenses(1).lens(), "top_k[3]");

  const LensBatch seen = *ApplyLens(set.view().rows(0, 200), Lens::TopK(3));
  const Kernel kernel = *Kernel::Over(
      Distance::kEuclidean,
      *MedianOffDiagonalBandwidth(seen.parts[0].probabilities, 4, {}, Distance::kEuclidean));
  EXPECT_EQ(calibration.lenses(1).provenance().bandwidth(), kernel.bandwidth());
  const std::vector<std::size_t> block_sizes = {2, 100};
  auto offline = RunningLens::Create(Lens::TopK(3), 10, kernel, block_sizes);
  offline->Add(set.view());
  ASSERT_EQ(calibration.lenses(1).estimates_size(), 2);
  for (int b = 0; b < 2; ++b) {
    const RunningBlock block = offline->Blocks()[static_cast<std::size_t>(b)];
    EXPECT_EQ(calibration.lenses(1).estimates(b).skce(), block.moments.mean);
    EXPECT_EQ(calibration.lenses(1).estimates(b).noise_floor().upper_quantile(),
              block.noise_floor->upper_quantile);
  }
  // A test of a declared lens uses its running bandwidth and reports how it was chosen.
  v1::RunTestRequest request = TestRequest("models/m", 99);
  request.mutable_lens()->mutable_top_k()->set_k(3);
  v1::QuadraticTestResult result;
  ASSERT_TRUE(client_->RunTest(request, &result).ok());
  EXPECT_EQ(result.provenance().bandwidth(), kernel.bandwidth());
  EXPECT_EQ(result.provenance().bandwidth_rule().median_off_diagonal().warmup(), 200);
}

TEST_F(CalibrationTest, AMatrixValuedKernelIsServed) {
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(3);
  v1::MatrixKernel::Term& term =
      *model.mutable_classes()->mutable_kernel()->mutable_matrix()->add_terms();
  term.set_bandwidth(0.5);
  const std::vector<double> matrix = {2, 1, 0, 1, 1, 0, 0, 0, 0};
  term.mutable_matrix()->Add(matrix.begin(), matrix.end());
  ASSERT_TRUE(client_->Create(model).ok());
  PredictionSet set;
  Generator::Create(GeneratorSpec::M2(3), 5)->Draw(300, set);
  Stream("models/m", set, 50);
  const MatrixKernel kernel =
      *MatrixKernel::Create({{*Kernel::ExponentialTotalVariation(0.5), matrix}}, 3);
  const v1::GetCalibrationResponse calibration = client_->GetCalibration("models/m");
  EXPECT_FALSE(calibration.provenance().universal_kernel());
  double sum = 0;
  for (std::size_t i = 0; i < 300; i += 2) {
    sum += SkceTerm(set.view().row(i), set.labels[i], set.view().row(i + 1), set.labels[i + 1],
                    kernel);
  }
  ExpectRelative(calibration.estimates(0).skce(), sum / 150, kTolerance, "SKCE_ul");
  v1::QuadraticTestResult result;
  ASSERT_TRUE(client_->RunTest(TestRequest("models/m", 99), &result).ok());
  ExpectRelative(result.skce_unbiased(), EstimateQuadraticSkce(set.view(), kernel)->unbiased,
                 kTolerance, "SKCE_uq");
}

TEST_F(CalibrationTest, CancelStopsTheTest) {
  Start({"--max-queued-tests", "0", "--compute-threads", "1"});
  client_->CreateFixed("models/m", 10);
  Stream("models/m", Draw(10000), 1000);
  {
    // Takes minutes unless it is stopped.
    CallContext context;
    v1::RunTestRequest large = TestRequest("models/m", 20000);
    large.set_null(v1::QuadraticTestResult::FORM);
    const auto reader = client_->calibration->RunTest(&context, large);
    v1::RunTestResponse response;
    while (reader->Read(&response) && response.progress().fraction() == 0) {
    }
    // There is no room for a second large test now.
    large.set_replicates(99);
    v1::QuadraticTestResult result;
    EXPECT_EQ(Reason(client_->RunTest(large, &result)), "TOO_MANY_JOBS");
    context.TryCancel();
    // There is room as soon as the first one has stopped.
    v1::RunTestRequest small = TestRequest("models/m", 99);
    small.set_window(2);
    EXPECT_TRUE(WaitFor([&] { return client_->RunTest(small, &result).ok(); }));
    while (reader->Read(&response)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
  }
}

TEST_F(CalibrationTest, DeletingTheModelStopsItsTest) {
  for (const v1::QuadraticTestResult::NullHypothesis null :
       {v1::QuadraticTestResult::UNSPECIFIED, v1::QuadraticTestResult::FORECAST}) {
    client_->CreateFixed("models/m", 10);
    Stream("models/m", Draw(10000), 1000);
    CallContext context;
    v1::RunTestRequest request = TestRequest("models/m", 100000);
    request.set_null(null);
    const auto reader = client_->calibration->RunTest(&context, request);
    v1::RunTestResponse response;
    while (reader->Read(&response) && response.progress().fraction() == 0) {
    }
    ASSERT_TRUE(client_->Delete("models/m").ok());
    while (reader->Read(&response)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::NOT_FOUND);
  }
}

TEST_F(CalibrationTest, EqualPredictionsGiveABandwidthError) {
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(2);
  model.mutable_classes()->mutable_bandwidth()->mutable_median()->set_warmup(10);
  ASSERT_TRUE(client_->Create(model).ok());
  PredictionSet set;
  set.class_count = 2;
  for (int i = 0; i < 20; ++i) {
    set.probabilities.insert(set.probabilities.end(), {0.5, 0.5});
    set.labels.push_back(i % 2);
  }
  Stream("models/m", set, 7);
  const v1::GetCalibrationResponse calibration = client_->GetCalibration("models/m");
  EXPECT_THAT(calibration.bandwidth_error(), HasSubstr("fixed bandwidth"));
  EXPECT_EQ(calibration.observations(), 20);
  EXPECT_EQ(calibration.estimates_size(), 0);
  v1::QuadraticTestResult result;
  EXPECT_EQ(Reason(client_->RunTest(TestRequest("models/m", 99), &result)), "NO_BANDWIDTH");
  // A lens with its own bandwidth can be tested nevertheless.
  v1::RunTestRequest request = TestRequest("models/m", 99);
  request.mutable_lens()->mutable_top_label();
  EXPECT_TRUE(client_->RunTest(request, &result).ok());
  EXPECT_EQ(result.provenance().bandwidth_rule().fixed(), kScalarBandwidth);
}

}  // namespace
}  // namespace calibd::testing
