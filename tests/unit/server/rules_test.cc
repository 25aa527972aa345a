#include "server/base/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "calibd/core/evidence.h"
#include "calibd/core/forecast.h"
#include "calibd/core/multilabel.h"
#include "calibd/core/resampling.h"
#include "calibd/core/row_sum.h"
#include "calibd/core/validation.h"
#include "calibd/rpc/rules.pb.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/model_service.pb.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <typename Message>
const rpc::FieldRules& RulesOf(const char* field) {
  return Message::descriptor()->FindFieldByName(field)->options().GetExtension(rpc::rules);
}

std::vector<std::string> Found(const google::protobuf::Message& message, RuleScope scope = {}) {
  std::vector<Violation> violations;
  CheckRules(message, "", scope, violations);
  std::vector<std::string> texts;
  texts.reserve(violations.size());
  for (const Violation& one : violations) texts.push_back(one.field + " " + one.description);
  return texts;
}

TEST(RulesTest, TheRulesOfTheContractAreTheLimitsOfCore) {
  EXPECT_EQ(RulesOf<v1::Classes>("count").least(), kMinClassCount);
  EXPECT_EQ(RulesOf<v1::Classes>("count").most(), kMaxClassCount);
  EXPECT_EQ(RulesOf<v1::Classes>("row_sum_tolerance").most(), kMaxRowSumTolerance);
  EXPECT_EQ(RulesOf<v1::Forecast::Quantiles>("levels").most_items(), kMaxQuantileLevels);
  EXPECT_EQ(RulesOf<v1::Forecast::Samples>("draws").most(), kMaxDraws);
  EXPECT_EQ(RulesOf<v1::LabelSet>("names").most_items(), kMaxLabelCount);
  EXPECT_EQ(RulesOf<v1::Monitoring>("tolerance").least(), kMinTolerance);
  EXPECT_EQ(RulesOf<v1::Monitoring>("tolerance").most(), kMaxTolerance);
  EXPECT_EQ(RulesOf<v1::EvaluateRequest>("replicates").least(), kMinReplicates);
  EXPECT_EQ(RulesOf<v1::EvaluateRequest>("replicates").most(), kMaxReplicates);
}

TEST(RulesTest, FieldsThatAMessageMustHaveAreNamed) {
  EXPECT_THAT(
      Found(v1::Model()),
      ElementsAre(
          "name is \"\", expected to match "
          "^models/[A-Za-z0-9][A-Za-z0-9._-]{0,127}(/versions/[A-Za-z0-9][A-Za-z0-9._-]{0,127})?$",
          "kind is not set, expected one of classes, forecast, labels"));
  EXPECT_THAT(Found(v1::Model(), {.required = false}), IsEmpty());
  v1::Classes classes;
  EXPECT_THAT(Found(classes), ElementsAre("count is 0, expected 2..100000"));
  classes.add_names("cat");
  EXPECT_THAT(Found(classes), IsEmpty());
}

TEST(RulesTest, ListsNameTheirElements) {
  v1::Classes classes;
  classes.set_count(2);
  for (const int size : {2, 2, 1}) classes.add_block_sizes(size);
  for (const char* name : {"a", "a", "", "b\n"}) classes.add_names(name);
  EXPECT_THAT(Found(classes),
              ElementsAre("names[1] is \"a\" again, expected distinct names",
                          "names[2] is \"\", expected 1..64 bytes",
                          "names[3] has U+000A at byte 1, expected printable characters",
                          "block_sizes[1] is 2 again, expected distinct sizes",
                          "block_sizes[2] is 1, expected 2..1000"));
}

TEST(RulesTest, AZeroMeansTheDefaultUnlessTheFieldHasPresence) {
  v1::RunTestRequest request;
  request.set_window(0);
  EXPECT_THAT(Found(request), IsEmpty());
  request.set_replicates(0);
  EXPECT_THAT(Found(request), ElementsAre("replicates is 0, expected 99..100000"));
  v1::EvaluateRequest evaluate;
  evaluate.set_replicates(0);
  EXPECT_THAT(Found(evaluate), IsEmpty());
}

}  // namespace
}  // namespace calibd::server
