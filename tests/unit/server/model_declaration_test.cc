#include "server/model/model_declaration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "server/kinds/kind_table.h"
#include "server/state/check_declaration.h"
#include "server/state/declaration_size.h"
#include "server/state/disk_use.h"

namespace calibd::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kMemory = std::size_t{256} << 20;
constexpr std::size_t kDisk = std::size_t{4} << 30;

v1::Model Declared(int class_count = 10) {
  v1::Model model;
  model.set_name("models/resnet18");
  model.mutable_classes()->set_count(class_count);
  return model;
}

std::string Refusal(const v1::Model& model, std::size_t memory = kMemory,
                    std::size_t disk = kDisk) {
  const auto declaration = CheckDeclaration(model, memory, disk);
  EXPECT_EQ(declaration.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(declaration.status().message());
}

std::string RefusalAfter(const std::function<void(v1::Model&)>& change) {
  v1::Model model = Declared();
  change(model);
  return Refusal(model);
}

TEST(ModelDeclarationTest, FillsInTheDefaults) {
  const auto declaration = CheckDeclaration(Declared(), kMemory);
  ASSERT_TRUE(declaration.ok()) << declaration.status();
  EXPECT_EQ(declaration->window, 10000);
  EXPECT_EQ(declaration->warmup, 500);
  EXPECT_THAT(declaration->classes()->block_sizes, ElementsAre(2, 100));
  EXPECT_EQ(declaration->classes()->row_sum_tolerance, 1e-3);
  EXPECT_EQ(declaration->classes()->kernel.rule, KernelRule());
  EXPECT_THAT(declaration->classes()->lenses, ElementsAre(Lens::Canonical()));
  const Monitoring& monitoring = declaration->monitoring;
  EXPECT_FALSE(monitoring.disabled);
  EXPECT_EQ(monitoring.significance_level, 0.05);
  EXPECT_EQ(monitoring.average_run_length, 1e6);
  EXPECT_EQ(monitoring.tolerance, 1e-5);
  EXPECT_EQ(monitoring.stale_after, std::chrono::hours(24));
  EXPECT_EQ(monitoring.min_observations, 100);
  EXPECT_EQ(monitoring.group_tag, "");
  EXPECT_EQ(monitoring.max_groups, 0U);
}

TEST(ModelDeclarationTest, MonitoringSurvivesARoundTrip) {
  v1::Model model = Declared();
  v1::Monitoring& monitoring = *model.mutable_monitoring();
  monitoring.set_significance_level(0.01);
  monitoring.set_average_run_length(1e4);
  monitoring.set_tolerance(0.001);
  monitoring.mutable_stale_after()->set_nanos(1500000);
  monitoring.set_min_observations(7);
  monitoring.set_group_tag("region_2");
  monitoring.set_max_groups(5);
  const auto declaration = CheckDeclaration(model, kMemory);
  ASSERT_TRUE(declaration.ok()) << declaration.status();
  EXPECT_EQ(declaration->monitoring.significance_level, 0.01);
  EXPECT_EQ(declaration->monitoring.stale_after, std::chrono::microseconds(1500));
  EXPECT_EQ(declaration->monitoring.max_groups, 5U);
  EXPECT_EQ(declaration->monitoring.min_group_observations, 7);
  monitoring.set_disabled(true);
  const auto disabled = CheckDeclaration(model, kMemory);
  ASSERT_TRUE(disabled.ok()) << disabled.status();
  for (const auto& declared : {declaration, disabled}) {
    const auto again = CheckDeclaration(ToProto(*declared), kMemory);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *declared);
  }
  EXPECT_FALSE(*disabled == *declaration);
}

TEST(ModelDeclarationTest, StaleAfterIsAtLeastTwiceTheGraceByDefault) {
  v1::Model model = Declared();
  model.mutable_label_grace()->set_seconds(13 * 3600);
  EXPECT_EQ(CheckDeclaration(model, kMemory)->monitoring.stale_after, std::chrono::hours(26));
  model.mutable_label_grace()->set_seconds(60);
  EXPECT_EQ(CheckDeclaration(model, kMemory)->monitoring.stale_after, std::chrono::hours(24));
}

TEST(ModelDeclarationTest, MonitoringShrinksToTheMemoryOfOneModelUnlessDeclared) {
  // The evidence of 1000 classes needs more than a quarter of 8 MiB.
  v1::Model model = Declared(1000);
  const std::size_t memory = std::size_t{8} << 20;
  const auto unwatched = CheckDeclaration(model, memory);
  ASSERT_TRUE(unwatched.ok()) << unwatched.status();
  EXPECT_TRUE(unwatched->monitoring.disabled);
  EXPECT_LE(StateMemory(*unwatched), memory);
  model.mutable_monitoring()->set_significance_level(0.05);
  const auto watched = CheckDeclaration(model, memory);
  ASSERT_TRUE(watched.ok()) << watched.status();
  EXPECT_FALSE(watched->monitoring.disabled);
  EXPECT_LE(StateMemory(*watched), memory);
  EXPECT_LT(watched->window, unwatched->window);

  // There are as many groups as fit into a quarter of the memory.
  model.mutable_classes()->set_count(60);
  model.mutable_monitoring()->set_group_tag("region");
  const auto grouped = CheckDeclaration(model, memory);
  ASSERT_TRUE(grouped.ok()) << grouped.status();
  EXPECT_LT(grouped->monitoring.max_groups, kMaxGroups);
  EXPECT_GT(grouped->monitoring.max_groups, 0U);
  EXPECT_LE(KindOf(*grouped).Sizes(*grouped).watches, memory / 4);
  ModelDeclaration more = *grouped;
  ++more.monitoring.max_groups;
  EXPECT_GT(KindOf(more).Sizes(more).watches, memory / 4);
  EXPECT_EQ(CheckDeclaration(model, kMemory)->monitoring.max_groups, kMaxGroups);
  model.mutable_monitoring()->set_max_groups(64);
  model.set_window(10);
  EXPECT_THAT(Refusal(model, memory), HasSubstr("model.monitoring of 60 classes takes "));

  // A model that was stored before monitoring existed, with a window that leaves no room.
  v1::Model full = Declared();
  full.set_window(5000);
  full.mutable_monitoring()->set_disabled(true);
  const std::size_t tight = StateMemory(*CheckDeclaration(full, kMemory));
  full.clear_monitoring();
  const auto fits = CheckDeclaration(full, tight);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_TRUE(fits->monitoring.disabled);
}

TEST(ModelDeclarationTest, ErrorsNameTheFieldOfMonitoring) {
  const auto refusal_after = [](const std::function<void(v1::Monitoring&)>& change) {
    return RefusalAfter([&](v1::Model& model) { change(*model.mutable_monitoring()); });
  };
  const std::string field = "model.monitoring.";
  EXPECT_THAT(refusal_after([](auto& m) { m.set_significance_level(0.3); }),
              HasSubstr(field + "significance_level is 0.3, expected 1e-09..0.25"));
  EXPECT_THAT(refusal_after([](auto& m) { m.set_significance_level(NAN); }),
              HasSubstr(field + "significance_level is nan"));
  EXPECT_THAT(refusal_after([](auto& m) { m.set_average_run_length(99); }),
              HasSubstr(field + "average_run_length is 99, expected 100..1e+12"));
  EXPECT_THAT(refusal_after([](auto& m) { m.set_tolerance(-1); }),
              HasSubstr(field + "tolerance is -1, expected 1e-09..0.5"));
  EXPECT_THAT(refusal_after([](auto& m) { m.mutable_stale_after(); }),
              HasSubstr(field + "stale_after is 0 s and 0 ns"));
  EXPECT_THAT(refusal_after([](auto& m) { m.mutable_stale_after()->set_seconds(1L << 60); }),
              HasSubstr(field + "stale_after is"));
  EXPECT_THAT(refusal_after([](auto& m) { m.set_min_observations(-1); }),
              HasSubstr(field + "min_observations is -1, expected 1..1000000000"));
  EXPECT_THAT(
      refusal_after([](auto& m) { m.set_group_tag("Region"); }),
      HasSubstr(field + "group_tag is \"Region\", expected to match ^[a-z][a-z0-9_]{0,31}$"));
  EXPECT_THAT(refusal_after([](auto& m) { m.set_group_tag(std::string(33, 'a')); }),
              HasSubstr(field + "group_tag is"));
  EXPECT_THAT(refusal_after([](auto& m) { m.set_max_groups(3); }),
              HasSubstr(field + "max_groups is 3, expected none without a group_tag"));
  EXPECT_THAT(refusal_after([](auto& m) { m.set_min_group_observations(3); }),
              HasSubstr(field + "min_group_observations is 3, expected none without"));
  EXPECT_THAT(refusal_after([](auto& m) {
                m.set_group_tag("region");
                m.set_max_groups(65);
              }),
              HasSubstr(field + "max_groups is 65, expected 1..64"));
}

TEST(ModelDeclarationTest, ItsProtoGivesTheSameDeclaration) {
  const auto declaration = CheckDeclaration(Declared(), kMemory);
  ASSERT_TRUE(declaration.ok());
  const auto again = CheckDeclaration(ToProto(*declaration), kMemory);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *declaration);
}

TEST(ModelDeclarationTest, ABaselineDoublesTheValuesOfTheLog) {
  v1::Model model = Declared();
  const auto without = CheckDeclaration(model, kMemory);
  model.mutable_classes()->set_baseline("resnet-v3");
  const auto with = CheckDeclaration(model, kMemory);
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_NE(*with, *without);
  const auto again = CheckDeclaration(ToProto(*with), kMemory);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *with);
  EXPECT_EQ(with->values_per_row(), 20U);
  EXPECT_GE(DiskUse(*with), DiskUse(*without) + 2 * 10000 * 10 * sizeof(double));
  EXPECT_GT(StateMemory(*with), StateMemory(*without));
  for (const char* const name : {"-3", "models/resnet", "a b", "\x1b[31m"}) {
    EXPECT_THAT(RefusalAfter([&](auto& m) { m.mutable_classes()->set_baseline(name); }),
                HasSubstr("expected to match ^[A-Za-z0-9]"));
  }
}

TEST(ModelDeclarationTest, KernelsRulesAndLensesSurviveARoundTrip) {
  std::vector<v1::Model> models(5, Declared(3));
  models[0].mutable_classes()->mutable_kernel()->mutable_gaussian();
  models[0].mutable_classes()->mutable_bandwidth()->mutable_median_off_diagonal()->set_warmup(30);
  models[1].mutable_classes()->mutable_kernel()->mutable_exponential()->set_distance(
      v1::ExponentialKernel::EUCLIDEAN);
  models[1].mutable_classes()->mutable_bandwidth()->set_fixed(0.25);
  auto& alpha = *models[2]
                     .mutable_classes()
                     ->mutable_bandwidth()
                     ->mutable_mean_total_variation()
                     ->mutable_alpha();
  alpha.Resize(3, 0.1);
  v1::MatrixKernel::Term& term =
      *models[3].mutable_classes()->mutable_kernel()->mutable_matrix()->add_terms();
  term.mutable_gaussian();
  term.set_bandwidth(0.5);
  for (const double entry : {2, 1, 0, 1, 2, 0, 0, 0, 1}) term.add_matrix(entry);
  models[4].mutable_classes()->add_lenses()->mutable_top_label();
  models[4].mutable_classes()->add_lenses()->mutable_class_wise();
  models[4].mutable_classes()->add_lenses()->mutable_one_class()->set_class_index(2);
  models[4].mutable_classes()->add_lenses()->mutable_top_k()->set_k(2);
  v1::Lens::Grouped& grouped = *models[4].mutable_classes()->add_lenses()->mutable_grouped();
  for (const int group : {0, 1, 1}) grouped.add_group_of_class(group);
  for (const v1::Model& model : models) {
    const auto declaration = CheckDeclaration(model, kMemory);
    ASSERT_TRUE(declaration.ok()) << declaration.status();
    const auto again = CheckDeclaration(ToProto(*declaration), kMemory);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *declaration);
    EXPECT_FALSE(*declaration == *CheckDeclaration(Declared(3), kMemory));
  }
  EXPECT_EQ(CheckDeclaration(models[0], kMemory)->warmup, 30);
  // Neither chooses anything from predictions.
  EXPECT_EQ(CheckDeclaration(models[2], kMemory)->warmup, 0);
  EXPECT_EQ(CheckDeclaration(models[3], kMemory)->warmup, 0);
}

TEST(ModelDeclarationTest, BlockSizeTwoIsAlwaysPresent) {
  v1::Model model = Declared();
  model.mutable_classes()->add_block_sizes(50);
  const auto declaration = CheckDeclaration(model, kMemory);
  ASSERT_TRUE(declaration.ok());
  EXPECT_THAT(declaration->classes()->block_sizes, ElementsAre(2, 50));
}

TEST(ModelDeclarationTest, DefaultWarmupIsAtMostTheWindow) {
  v1::Model model = Declared();
  model.set_window(40);
  const auto declaration = CheckDeclaration(model, kMemory);
  ASSERT_TRUE(declaration.ok());
  EXPECT_EQ(declaration->warmup, 40);
}

TEST(ModelDeclarationTest, ClassCountMayComeFromTheNames) {
  v1::Model model = Declared(0);
  model.mutable_classes()->add_names("cat");
  model.mutable_classes()->add_names("dog");
  const auto declaration = CheckDeclaration(model, kMemory);
  ASSERT_TRUE(declaration.ok());
  EXPECT_EQ(declaration->classes()->count, 2);
}

TEST(ModelDeclarationTest, DefaultsShrinkToTheMemoryOfOneModel) {
  for (const int class_count : {2, 1000, 20000, 100000}) {
    const auto declaration = CheckDeclaration(Declared(class_count), kMemory);
    ASSERT_TRUE(declaration.ok()) << declaration.status();
    EXPECT_LE(StateMemory(*declaration), kMemory);
    EXPECT_GE(declaration->window, declaration->warmup);
    EXPECT_GE(declaration->window, class_count == 100000 ? 100U : 500U);
  }
  const auto largest = CheckDeclaration(Declared(100000), kMemory);
  ASSERT_TRUE(largest.ok());
  EXPECT_THAT(largest->classes()->block_sizes, ElementsAre(2));
}

TEST(ModelDeclarationTest, MonitoringIsDisabledIfItDoesNotFitUnlessItIsDeclared) {
  for (const int class_count : {60000, 100000}) {
    v1::Model model = Declared(class_count);
    // What calibctl sends without options.
    model.mutable_monitoring();
    const auto unwatched = CheckDeclaration(model, kMemory);
    ASSERT_TRUE(unwatched.ok()) << unwatched.status();
    EXPECT_TRUE(unwatched->monitoring.disabled);
    model.mutable_monitoring()->set_significance_level(0.01);
    EXPECT_THAT(Refusal(model), AllOf(HasSubstr("model.monitoring of "),
                                      HasSubstr("calibctl model create --no-monitoring")));
    model.mutable_monitoring()->set_disabled(true);
    EXPECT_TRUE(CheckDeclaration(model, kMemory).ok());
  }
}

TEST(ModelDeclarationTest, RefusesAModelThatExceedsTheMemoryOfOneModel) {
  v1::Model model = Declared(100000);
  model.set_window(1000000);
  EXPECT_THAT(Refusal(model), HasSubstr("model.window"));
  EXPECT_THAT(Refusal(Declared(100000), std::size_t{1} << 20), HasSubstr("limit of 1048576"));
}

v1::Model WithGrace(int class_count) {
  v1::Model model = Declared(class_count);
  model.mutable_label_grace()->set_seconds(60);
  return model;
}

TEST(ModelDeclarationTest, DefaultMaxPendingFollowsTheDiskOfOneModel) {
  EXPECT_EQ(CheckDeclaration(WithGrace(2), kMemory, kDisk)->max_pending, 100000U);
  EXPECT_EQ(CheckDeclaration(WithGrace(100), kMemory, kDisk)->max_pending, 100000U);
  for (const int class_count : {1000, 2000, 20000}) {
    const auto declaration = CheckDeclaration(WithGrace(class_count), kMemory, kDisk);
    ASSERT_TRUE(declaration.ok()) << declaration.status();
    const std::size_t each = DiskUsePerPending(*declaration);
    EXPECT_LE(declaration->max_pending * each, kDisk / 4);
    EXPECT_GT((declaration->max_pending + 1) * each, kDisk / 4);
    EXPECT_LE(DiskUse(*declaration), kDisk);
    // The declaration is stored and stays valid, whatever the limit is later.
    const auto stored = CheckStoredDeclaration(ToProto(*declaration), kMemory);
    ASSERT_TRUE(stored.ok()) << stored.status();
    EXPECT_EQ(*stored, *declaration);
  }
}

TEST(ModelDeclarationTest, RefusesAModelThatExceedsTheDiskOfOneModel) {
  v1::Model model = WithGrace(2000);
  model.set_max_pending(100000);
  EXPECT_THAT(Refusal(model, kMemory, kDisk),
              AllOf(HasSubstr("model.max_pending is 100000, with which the model of 2000 classes "),
                    HasSubstr("more than the limit of 4294967296 for one model "
                              "(calibd --model-disk-bytes)")));
  EXPECT_TRUE(CheckStoredDeclaration(model, kMemory).ok());

  model = Declared(1000);
  EXPECT_THAT(Refusal(model, kMemory, std::size_t{1} << 20), HasSubstr("model.window with 10000 "));
}

TEST(ModelDeclarationTest, ErrorsNameAMaxPendingThatFits) {
  struct Limits {
    int class_count;
    std::size_t memory;
    std::size_t disk;
  };
  // The limiting resource: the disk; the disk, after the memory has reduced the window; the memory.
  for (const Limits& limits :
       {Limits{2000, kMemory, kDisk}, Limits{1000, kMemory, kDisk / 2},
        Limits{10, std::size_t{64} << 20, kDisk}, Limits{1000, std::size_t{128} << 20, kDisk}}) {
    v1::Model model = WithGrace(limits.class_count);
    model.set_max_pending(1000000);
    const std::string refusal = Refusal(model, limits.memory, limits.disk);
    ASSERT_THAT(refusal, HasSubstr("; at most "));
    const int most = std::stoi(refusal.substr(refusal.find("; at most ") + 10));
    model.set_max_pending(most);
    EXPECT_TRUE(CheckDeclaration(model, limits.memory, limits.disk).ok()) << refusal;
    model.set_max_pending(most + 1);
    EXPECT_FALSE(CheckDeclaration(model, limits.memory, limits.disk).ok()) << refusal;
  }
}

TEST(ModelDeclarationTest, TheLeastDiskFitsASmallModel) {
  EXPECT_TRUE(CheckDeclaration(Declared(2), kMemory, LeastModelDisk()).ok());
  EXPECT_FALSE(CheckDeclaration(Declared(2), kMemory, LeastModelDisk() - 1).ok());
}

TEST(ModelDeclarationTest, DefaultModelsFitOnTheDisk) {
  // The defaults of --disk-bytes and --model-disk-bytes.
  const auto ten = CheckDeclaration(Declared(10), kMemory, kDisk);
  EXPECT_LE(1000 * DiskUse(*ten) + kSharedDiskBytes, std::size_t{64} << 30);
  for (const int class_count : {2, 1000, 100000}) {
    const auto declaration = CheckDeclaration(Declared(class_count), kMemory, kDisk);
    ASSERT_TRUE(declaration.ok()) << declaration.status();
    EXPECT_LE(DiskUse(*declaration), kDisk);
  }
}

TEST(ModelDeclarationTest, RefusesBlocksThatCostTooMuch) {
  v1::Model model = Declared(1000);
  for (const int size : {100, 900, 1000}) model.mutable_classes()->add_block_sizes(size);
  // 4 (0.5 + 49.5 + 449.5 + 499.5) + 8 for each probability.
  EXPECT_THAT(
      Refusal(model, std::size_t{1} << 32),
      HasSubstr("model.classes.block_sizes cost with these lenses 4004 multiplications for each "
                "probability, expected at most 4000"));
  model.mutable_classes()->clear_block_sizes();
  model.mutable_classes()->add_block_sizes(1000);
  EXPECT_TRUE(CheckDeclaration(model, std::size_t{1} << 32).ok());
}

TEST(ModelDeclarationTest, TheLensesShareTheWorkLimitOfTheBandwidth) {
  v1::Model model = Declared(1000);
  model.mutable_classes()->mutable_bandwidth()->mutable_median()->set_warmup(2000);
  ASSERT_TRUE(CheckDeclaration(model, std::size_t{1} << 32).ok());
  model.mutable_classes()->add_lenses()->mutable_top_label();
  EXPECT_THAT(Refusal(model, std::size_t{1} << 32),
              HasSubstr("expected 2..1414, the most for 1000 classes and 2 lenses"));
}

TEST(ModelDeclarationTest, NamesAreOfUpperAndLowerCase) {
  const std::string longest(128, 'Z');
  for (const std::string& name :
       {std::string("models/Fraud_EU.v2-b"), "models/" + longest, "models/M/versions/" + longest}) {
    v1::Model model = Declared();
    model.set_name(name);
    const auto declaration = CheckDeclaration(model, kMemory);
    ASSERT_TRUE(declaration.ok()) << declaration.status();
    EXPECT_EQ(declaration->name.ToString(), name);
  }
  for (const std::string& name : {"models/" + longest + "Z", std::string("models/_a"),
                                  std::string("models/My model"), std::string("models/\xc3\xbc")}) {
    EXPECT_THAT(RefusalAfter([&](auto& m) { m.set_name(name); }),
                HasSubstr("^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"));
  }
}

TEST(ModelDeclarationTest, TheRowSumToleranceGrowsWithTheClasses) {
  v1::Model model = Declared();
  model.mutable_classes()->clear_names();
  model.mutable_classes()->set_count(1000);
  EXPECT_EQ(CheckDeclaration(model, kMemory)->classes()->row_sum_tolerance, 0.05);
  model.mutable_classes()->set_row_sum_tolerance(1e-6);
  EXPECT_EQ(CheckDeclaration(model, kMemory)->classes()->row_sum_tolerance, 1e-6);
}

TEST(ModelDeclarationTest, LabelsComeWithPredictionsOnlyWithIds) {
  EXPECT_THAT(RefusalAfter([](auto& m) { m.set_labels_come_with_predictions(true); }),
              HasSubstr("model.labels_come_with_predictions is set, expected none without a "
                        "label_grace"));
  v1::Model model = Declared();
  model.set_labels_come_with_predictions(true);
  model.mutable_label_grace()->set_seconds(60);
  const auto declaration = CheckDeclaration(model, kMemory);
  ASSERT_TRUE(declaration.ok()) << declaration.status();
  EXPECT_TRUE(ToProto(*declaration).labels_come_with_predictions());
}

TEST(ModelDeclarationTest, ErrorsNameFieldValueAndExpectation) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(RefusalAfter([](auto& m) { m.set_name("resnet18"); }), HasSubstr("model.name"));
  EXPECT_THAT(RefusalAfter([](auto& m) { m.set_name("models/-x"); }), HasSubstr("models/-x"));
  EXPECT_THAT(RefusalAfter([](auto& m) { m.set_name("models/a/versions/"); }),
              HasSubstr("model.name"));
  EXPECT_THAT(RefusalAfter([](auto& m) { m.set_name("models/\x1b[31m"); }), HasSubstr("\\x1b"));
  EXPECT_THAT(RefusalAfter([](auto& m) { m.mutable_classes()->set_count(1); }),
              HasSubstr("model.classes.count is 1, expected 2..100000"));
  EXPECT_THAT(RefusalAfter([](auto& m) { m.mutable_classes()->add_names("cat"); }),
              HasSubstr("model.classes.names has 1 names"));
  EXPECT_THAT(RefusalAfter([](auto& m) { m.mutable_classes()->set_row_sum_tolerance(kNan); }),
              HasSubstr("model.classes.row_sum_tolerance is nan"));
  EXPECT_THAT(RefusalAfter([](auto& m) { m.mutable_classes()->add_block_sizes(1001); }),
              HasSubstr("model.classes.block_sizes[0] is 1001, expected 2..1000"));
  EXPECT_THAT(RefusalAfter([](auto& m) {
                m.mutable_classes()->add_block_sizes(3);
                m.mutable_classes()->add_block_sizes(3);
              }),
              HasSubstr("model.classes.block_sizes[1] is 3 again"));
  EXPECT_THAT(RefusalAfter([](auto& m) { m.mutable_classes()->mutable_bandwidth()->set_fixed(0); }),
              HasSubstr("model.classes.bandwidth.fixed is 0"));
  EXPECT_THAT(
      RefusalAfter([](auto& m) { m.mutable_classes()->mutable_bandwidth()->set_fixed(kNan); }),
      HasSubstr("model.classes.bandwidth.fixed"));
  EXPECT_THAT(
      RefusalAfter([](auto& m) {
        m.mutable_classes()->mutable_bandwidth()->mutable_mean_total_variation()->add_alpha(1);
      }),
      HasSubstr("model.classes.bandwidth.mean_total_variation.alpha has 1 values, expected 10"));
  EXPECT_THAT(
      RefusalAfter([](auto& m) {
        m.mutable_classes()->mutable_kernel()->mutable_matrix()->add_terms()->set_bandwidth(1);
      }),
      HasSubstr("model.classes.kernel.matrix.terms[0].matrix has 0 values, expected 10 x 10"));
  EXPECT_THAT(
      RefusalAfter([](auto& m) {
        // The error is found before memory for 100000 x 100000 is allocated.
        m.mutable_classes()->set_count(100000);
        m.mutable_classes()->mutable_kernel()->mutable_matrix()->add_terms()->set_bandwidth(1);
      }),
      HasSubstr("has 0 values, expected 100000 x 100000"));
  EXPECT_THAT(RefusalAfter([](auto& m) {
                m.mutable_classes()->set_count(2);
                auto& term = *m.mutable_classes()->mutable_kernel()->mutable_matrix()->add_terms();
                term.set_bandwidth(1);
                for (const double entry : {1e30, 0.0, 0.0, 1e30}) term.add_matrix(entry);
              }),
              HasSubstr("largest eigenvalue 1e+30, expected 1e-06..1e+06"));
  EXPECT_THAT(
      RefusalAfter([](auto& m) { m.mutable_classes()->add_lenses()->mutable_top_k()->set_k(10); }),
      HasSubstr("model.classes.lenses[0] top_k is 10, expected 1..9"));
  EXPECT_THAT(RefusalAfter([](auto& m) {
                m.mutable_classes()->add_lenses()->mutable_top_label();
                m.mutable_classes()->add_lenses()->mutable_top_label();
              }),
              HasSubstr("model.classes.lenses[1] is top_label again"));
  EXPECT_THAT(RefusalAfter([](auto& m) { m.set_window(1); }), HasSubstr("model.window is 1"));
  EXPECT_THAT(RefusalAfter([](auto& m) {
                m.set_window(10);
                m.mutable_classes()->mutable_bandwidth()->mutable_median()->set_warmup(11);
              }),
              HasSubstr("model.classes.bandwidth.median.warmup is 11, expected 2..10"));
  EXPECT_THAT(RefusalAfter([](auto& m) {
                m.mutable_classes()->mutable_kernel()->mutable_exponential()->set_distance(
                    static_cast<v1::ExponentialKernel::Distance>(9));
              }),
              HasSubstr("distance is 9"));
}

TEST(ModelDeclarationTest, ClassNamesAreDistinctAndPrintable) {
  v1::Model model = Declared(2);
  model.mutable_classes()->add_names("cat");
  model.mutable_classes()->add_names("cat");
  EXPECT_THAT(Refusal(model), HasSubstr("model.classes.names[1] is \"cat\" again"));
  model.mutable_classes()->set_names(1, "a\nb");
  EXPECT_THAT(Refusal(model), HasSubstr("model.classes.names[1] has U+000A at byte 1"));
  model.mutable_classes()->set_names(1, "a\u202eb");
  EXPECT_THAT(Refusal(model), HasSubstr("model.classes.names[1] has U+202E at byte 1"));
  // A store may contain such a declaration from a time when it was allowed.
  EXPECT_TRUE(CheckStoredDeclaration(model, kMemory).ok());
}

}  // namespace
}  // namespace calibd::server
