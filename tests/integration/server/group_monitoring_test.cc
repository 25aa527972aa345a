// Groups of predictions that are monitored by themselves, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "calibd/core/generator.h"
#include "integration/server/monitored_server.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class GroupsTest : public MonitoringTest {
 protected:
  static v1::Model Grouped(int max_groups = 0) {
    v1::Model model = Declared();
    model.mutable_monitoring()->set_group_tag("region");
    model.mutable_monitoring()->set_max_groups(max_groups);
    model.mutable_monitoring()->set_min_group_observations(50);
    return model;
  }

  // values: one per row, or one for all.
  grpc::Status SendGrouped(const PredictionSet& set, const std::vector<std::string>& values,
                           const std::string& id_prefix = "") {
    v1::ObserveRequest request;
    request.set_model(kMonitoringModel);
    *request.mutable_observations() = ToProto(set.view());
    for (const std::string& value : values) request.mutable_observations()->add_group_values(value);
    for (std::size_t i = 0; !id_prefix.empty() && i < set.labels.size(); ++i) {
      request.mutable_observations()->add_prediction_ids(id_prefix + std::to_string(i));
    }
    return client_->Observe(request);
  }
};

TEST_F(GroupsTest, TheMiscalibratedOneIsFound) {
  Create(Grouped());
  ASSERT_TRUE(SendGrouped(DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 200), {"eu"}).ok());
  for (const char* region : {"us", "asia"}) {
    ASSERT_TRUE(
        SendGrouped(DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 500, 7), {region}).ok());
  }
  // Too few observations to be tested, however bad.
  ASSERT_TRUE(SendGrouped(DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 49), {"moon"}).ok());
  const auto expect = [&] {
    const v1::GetCalibrationResponse answer = Answer();
    ASSERT_EQ(answer.groups_size(), 4);
    EXPECT_EQ(answer.tested_groups(), 3);
    EXPECT_EQ(answer.groups(0).value(), "eu");
    for (const v1::GroupWatch& group : answer.groups()) {
      EXPECT_EQ(group.rejected(), group.value() == "eu") << group.value();
      EXPECT_FALSE(group.overflow());
      EXPECT_EQ(group.tested(), group.value() != "moon");
      EXPECT_EQ(group.watch().min_observations(), 50);
      EXPECT_EQ(group.watch().observations(), group.value() == "eu"     ? 200
                                              : group.value() == "moon" ? 49
                                                                        : 500);
    }
    EXPECT_EQ(answer.groups(0).watch().first_observation(), 1);
    EXPECT_GT(answer.groups(0).scores().brier_score(), answer.scores().brier_score());
    EXPECT_GT(answer.groups(0).direction().gap(), 0.1);
    EXPECT_GT(answer.groups(0).watch().effect_size().skce_lower_bound(), 0);
    EXPECT_GT(answer.groups(0).watch().effect_size().skce_upper_bound(),
              answer.groups(0).watch().effect_size().skce());
  };
  expect();
  // After a restart, the groups are the same.
  server_->Kill();
  Start();
  expect();
}

TEST_F(GroupsTest, ValuesStayWithPendingPredictions) {
  v1::Model model = Grouped(2);
  model.mutable_label_grace()->set_seconds(3600);
  Create(model);
  const PredictionSet set = DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 60);
  std::vector<std::string> values;
  for (int i = 0; i < 60; ++i) values.push_back(i % 3 == 0 ? "eu" : i % 3 == 1 ? "us" : "asia");
  ASSERT_TRUE(SendGrouped(set, values, "x").ok());
  // A prediction with a known id does not count a second time, whatever its group.
  ASSERT_TRUE(SendGrouped(set, {"mars"}, "x").ok());
  client_->SetLabelGrace(kMonitoringModel, ServiceClient::kEndedGrace);
  ASSERT_TRUE(WaitFor([&] { return Answer().observations() == 60; }));
  const v1::GetCalibrationResponse answer = Answer();
  ASSERT_EQ(answer.groups_size(), 3);
  for (const v1::GroupWatch& group : answer.groups()) {
    EXPECT_EQ(group.watch().observations(), 20);
    EXPECT_EQ(group.overflow(), group.value().empty());
    EXPECT_NE(group.value(), "asia");
  }
}

// Two groups whose errors of class 1 cancel, in all rows together and in the top label of each.
TEST_F(GroupsTest, EachEventOfTwoClassesIsMeasured) {
  v1::Model model = Grouped();
  model.mutable_classes()->set_count(2);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.1);
  Create(model);
  // Of 100 rows each, as many are class 1: a at 0.7, a at 0.3, b at 0.7, b at 0.3.
  const std::vector<int> class_1 = {87, 47, 53, 13};
  PredictionSet set;
  set.class_count = 2;
  std::vector<std::string> values;
  for (int i = 0; i < 400; ++i) {
    const auto kind = static_cast<std::size_t>(i % 4);
    const double stated = kind % 2 == 0 ? 0.7 : 0.3;
    set.probabilities.insert(set.probabilities.end(), {1 - stated, stated});
    set.labels.push_back(i / 4 * 37 % 100 < class_1[kind] ? 1 : 0);
    values.emplace_back(kind < 2 ? "a" : "b");
  }
  ASSERT_TRUE(SendGrouped(set, values).ok());
  const v1::GetCalibrationResponse answer = Answer();
  ASSERT_EQ(answer.groups_size(), 2);
  for (const v1::GroupWatch& group : answer.groups()) {
    const v1::ErrorMeasurement& error = group.error().since_start();
    EXPECT_TRUE(group.rejected());
    EXPECT_NEAR(error.top_label().estimate(), 0, 1e-12);
    EXPECT_NEAR(error.class_1().estimate(), 0.17, 1e-12);
    EXPECT_NEAR(error.class_1().stated(), 0.5, 1e-12);
    EXPECT_NEAR(error.class_1().gap(), group.value() == "a" ? -0.17 : 0.17, 1e-12);
  }
  EXPECT_EQ(answer.verdict().rejected_groups_size(), 2);
  EXPECT_THAT(
      answer.reading().where().text(),
      AllOf(HasSubstr("group a P(class 1) 0 to 36.3 points off (says 50.0 %, is 67.0 %), rejected"),
            HasSubstr("(says 50.0 %, is 33.0 %), rejected")));
  if (answer.verdict().status() == v1::Verdict::NOT_REJECTED) {
    EXPECT_THAT(answer.reading().verdict().text(), AnyOf(HasSubstr("rejected for groups a, b"),
                                                         HasSubstr("rejected for groups b, a")));
  }
}

TEST_F(GroupsTest, ErrorsNameTheField) {
  Create(Declared());
  const PredictionSet set = DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 3);
  grpc::Status status = SendGrouped(set, {"eu"});
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("group_values are given, expected none"));
  ASSERT_TRUE(client_->Delete(kMonitoringModel).ok());
  Create(Grouped());
  status = SendGrouped(set, {"eu", "us"});
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("group_values has 2 values with 3 predictions"));
  status = SendGrouped(set, {"eu", std::string(65, 'x'), "us"});
  EXPECT_THAT(status.error_message(), HasSubstr("group_values[1] is"));
  EXPECT_THAT(status.error_message(), HasSubstr("65 bytes, expected 1..64"));
  status = SendGrouped(set, {"eu", "us", ""});
  EXPECT_THAT(status.error_message(), HasSubstr("group_values[2] is"));
  EXPECT_EQ(Answer().observations(), 0);
  EXPECT_TRUE(SendGrouped(set, {"eu", "us", "us"}).ok());
  EXPECT_TRUE(SendGrouped(set, {}).ok());
  EXPECT_EQ(Answer().groups_size(), 3);
}

}  // namespace
}  // namespace calibd::testing
