
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "server/state/check_declaration.h"
#include "server/state/declaration_size.h"
#include "server/state/update_declaration.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

ModelDeclaration Declared(bool with_ids = false) {
  v1::Model model;
  model.set_name("models/a");
  model.mutable_classes()->set_count(3);
  model.set_description("first");
  if (with_ids) model.mutable_label_grace()->set_seconds(60);
  return *CheckDeclaration(model, kNoLimit);
}

DeclarationUpdate Update(const std::string& path) {
  DeclarationUpdate update;
  update.mask.add_paths(path);
  return update;
}

TEST(ModelUpdateTest, ChangesOnlyTheFieldsOfTheMask) {
  DeclarationUpdate update = Update("monitoring.tolerance");
  update.model.mutable_monitoring()->set_tolerance(0.01);
  update.model.mutable_classes()->set_row_sum_tolerance(0.05);
  const ModelDeclaration before = Declared();
  const auto after = UpdateDeclaration(before, update);
  ASSERT_TRUE(after.ok()) << after.status();
  ModelDeclaration expected = before;
  expected.monitoring.tolerance = 0.01;
  EXPECT_EQ(*after, expected);
}

TEST(ModelUpdateTest, AnUnsetValueIsTheDefault) {
  DeclarationUpdate update = Update("classes.row_sum_tolerance");
  update.model.mutable_classes()->set_row_sum_tolerance(0.05);
  const auto changed = UpdateDeclaration(Declared(), update);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->classes()->row_sum_tolerance, 0.05);
  DeclarationUpdate reset = Update("classes.row_sum_tolerance");
  reset.mask.add_paths("description");
  const auto again = UpdateDeclaration(*changed, reset);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->classes()->row_sum_tolerance, Declared().classes()->row_sum_tolerance);
  EXPECT_EQ(again->description, "");
}

TEST(ModelUpdateTest, OtherFieldsAreRefusedWithTheListOfThose) {
  for (const char* const path : {"window", "monitoring", "name", "monitoring.group_tag", ""}) {
    const absl::Status status = CheckUpdateMask(Update(path).mask);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    EXPECT_THAT(std::string(status.message()), HasSubstr("label_grace, max_pending"));
  }
  EXPECT_FALSE(CheckUpdateMask({}).ok());
  EXPECT_TRUE(CheckUpdateMask(Update("description").mask).ok());
}

TEST(ModelUpdateTest, NamesInvalidValues) {
  const auto error = [](const ModelDeclaration& declaration, const DeclarationUpdate& update) {
    return std::string(UpdateDeclaration(declaration, update).status().message());
  };
  DeclarationUpdate level = Update("monitoring.significance_level");
  level.model.mutable_monitoring()->set_significance_level(0.5);
  EXPECT_THAT(error(Declared(), level), HasSubstr("model.monitoring.significance_level is 0.5"));
  DeclarationUpdate text = Update("description");
  text.model.set_description("two\nlines");
  EXPECT_THAT(error(Declared(), text), HasSubstr("model.description"));
  // Whether predictions have ids is decided at the creation.
  EXPECT_THAT(error(Declared(true), Update("label_grace")), HasSubstr("model.label_grace"));
  DeclarationUpdate grace = Update("label_grace");
  grace.model.mutable_label_grace()->set_seconds(5);
  EXPECT_THAT(error(Declared(false), grace), HasSubstr("model.label_grace"));
  EXPECT_TRUE(UpdateDeclaration(Declared(true), grace).ok());
  ModelDeclaration unmonitored = Declared();
  unmonitored.monitoring = {};
  unmonitored.monitoring.disabled = true;
  EXPECT_THAT(error(unmonitored, level), HasSubstr("monitoring is disabled"));
}

TEST(ModelUpdateTest, OnlyGrowthIsLimited) {
  const ModelDeclaration before = Declared(true);
  DeclarationUpdate pending = Update("max_pending");
  pending.model.set_max_pending(static_cast<std::int32_t>(before.max_pending) + 1);
  const auto more = UpdateDeclaration(before, pending, StateMemory(before), kNoLimit);
  EXPECT_THAT(std::string(more.status().message()), HasSubstr("model.max_pending"));
  // The limit may have been lowered since the creation.
  pending.model.set_max_pending(10);
  EXPECT_TRUE(UpdateDeclaration(before, pending, 1, 1).ok());
}

TEST(ModelUpdateTest, DescribesChangesAndRestarts) {
  const ModelDeclaration before = Declared(true);
  ModelDeclaration after = before;
  after.label_grace = std::chrono::hours(2);
  after.description = "second";
  const v1::ModelUpdate quiet = DescribeUpdate(before, after);
  ASSERT_EQ(quiet.changes_size(), 2);
  EXPECT_EQ(quiet.changes(0).path(), "description");
  EXPECT_EQ(quiet.changes(0).old_value(), "first");
  EXPECT_EQ(quiet.changes(0).new_value(), "second");
  EXPECT_EQ(quiet.changes(1).path(), "label_grace");
  EXPECT_EQ(quiet.changes(1).old_value(), "60s");
  EXPECT_EQ(quiet.changes(1).new_value(), "7200s");
  EXPECT_EQ(quiet.restarts_size(), 0);
  after.monitoring.average_run_length = 5000;
  EXPECT_THAT(DescribeUpdate(before, after).restarts(),
              ElementsAre(v1::ModelUpdate::DRIFT_DETECTORS));
  after.monitoring.significance_level = 0.01;
  EXPECT_THAT(DescribeUpdate(before, after).restarts(),
              ElementsAre(v1::ModelUpdate::EVIDENCE, v1::ModelUpdate::DRIFT_DETECTORS,
                          v1::ModelUpdate::ERROR));
}

}  // namespace
}  // namespace calibd::server
