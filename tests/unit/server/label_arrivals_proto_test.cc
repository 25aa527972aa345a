#include "server/answers/label_arrivals_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "calibd/core/missing_labels.h"

namespace calibd::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr std::size_t kLabelArrivalsProtoClasses = 100;

ModelDeclaration Declaration() {
  ModelDeclaration declaration;
  declaration.name = {"m", ""};
  auto& classes = declaration.kind.emplace<ClassesSpec>();
  classes.count = kLabelArrivalsProtoClasses;
  classes.block_sizes = {2};
  declaration.window = 10;
  declaration.label_grace = std::chrono::seconds(1);
  declaration.max_pending = 10;
  return declaration;
}

TEST(LabelArrivalsProtoTest, ShowsTheClassesWithTheMostMissingLabelsFirst) {
  ThreadPool pool("writer", 1);
  Model model(1, Declaration(), {}, {}, pool, nullptr);
  // 3 k and 7 k mod 100 cover all classes; many classes have equal numbers of missing labels.
  for (const std::size_t with_predictions :
       {std::size_t{0}, std::size_t{7}, kLabelArrivalsProtoClasses}) {
    auto classes = std::make_shared<std::vector<ClassArrivals>>(kLabelArrivalsProtoClasses);
    for (std::size_t k = 0; k < with_predictions; ++k) {
      ClassArrivals& one = (*classes)[7 * k % kLabelArrivalsProtoClasses];
      one.matured = 50;
      one.missing = static_cast<std::int64_t>(3 * k % kLabelArrivalsProtoClasses / 8);
    }
    std::vector<std::int32_t> order;
    for (std::size_t k = 0; k < kLabelArrivalsProtoClasses; ++k) {
      if ((*classes)[k].matured > 0) order.push_back(static_cast<std::int32_t>(k));
    }
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return (*classes)[static_cast<std::size_t>(a)].missing >
             (*classes)[static_cast<std::size_t>(b)].missing;
    });
    order.resize(std::min<std::size_t>(order.size(), 20));

    LabelArrivals coverage;
    coverage.classes = classes;
    v1::LabelArrivals proto;
    DescribeLabelArrivals(model, coverage, proto);
    std::vector<std::int32_t> shown;
    for (const auto& one : proto.predicted_classes()) {
      shown.push_back(one.predicted_class());
      EXPECT_EQ(one.matured(), 50);
      EXPECT_EQ(one.missing(), (*classes)[static_cast<std::size_t>(one.predicted_class())].missing);
    }
    EXPECT_EQ(shown, order) << with_predictions;
  }
  pool.Stop();
}

TEST(LabelArrivalsProtoTest, RatesAreUnsetWithoutADenominator) {
  ThreadPool pool("writer", 1);
  Model model(1, Declaration(), {}, {}, pool, nullptr);
  auto classes = std::make_shared<std::vector<ClassArrivals>>(kLabelArrivalsProtoClasses);
  LabelArrivals coverage;
  coverage.classes = classes;
  v1::LabelArrivals none;
  DescribeLabelArrivals(model, coverage, none);
  EXPECT_FALSE(none.has_pending_rate());
  EXPECT_FALSE(none.has_missing_rate());
  EXPECT_FALSE(none.has_late_rate());
  EXPECT_FALSE(none.has_conflicting_rate());
  EXPECT_FALSE(none.has_unknown_rate());
  EXPECT_TRUE(none.warnings().empty());

  // 20 labels that were not repeated.
  coverage.predictions = 40;
  coverage.matured = 10;
  coverage.missing = 4;
  coverage.labelled = 13;
  coverage.labels = {.matched = 12, .repeated = 9, .conflicting = 1, .late = 2, .unknown = 4};
  // A class without matured predictions, and one with 10 labels.
  (*classes)[3] = {.pending = {20, 0}};
  (*classes)[7] = {.pending = {10, 3}, .matured = 8, .missing = 4, .late = 2, .conflicting = 1};
  v1::LabelArrivals proto;
  DescribeLabelArrivals(model, coverage, proto);
  EXPECT_DOUBLE_EQ(proto.pending_rate(), 0.75);
  EXPECT_DOUBLE_EQ(proto.missing_rate(), 0.4);
  EXPECT_DOUBLE_EQ(proto.late_rate(), 0.1);
  EXPECT_DOUBLE_EQ(proto.conflicting_rate(), 0.05);
  EXPECT_DOUBLE_EQ(proto.unknown_rate(), 0.2);
  EXPECT_THAT(proto.warnings(),
              ElementsAre(StartsWith("40.0 % of the matured predictions have no label"),
                          StartsWith("10.0 % of the labels came too late"),
                          StartsWith("1 label contradicted a known label")));
  ASSERT_EQ(proto.predicted_classes_size(), 2);
  const auto& one = proto.predicted_classes(0);
  EXPECT_EQ(one.predicted_class(), 7);
  EXPECT_EQ(one.predictions(), 18);
  EXPECT_EQ(one.pending(), 10);
  EXPECT_EQ(one.pending_labelled(), 3);
  EXPECT_EQ(one.late(), 2);
  EXPECT_EQ(one.conflicting(), 1);
  EXPECT_DOUBLE_EQ(one.pending_rate(), 10.0 / 18);
  EXPECT_DOUBLE_EQ(one.missing_rate(), 0.5);
  EXPECT_DOUBLE_EQ(one.late_rate(), 0.2);
  EXPECT_DOUBLE_EQ(one.conflicting_rate(), 0.1);
  const auto& waiting = proto.predicted_classes(1);
  EXPECT_EQ(waiting.predicted_class(), 3);
  EXPECT_DOUBLE_EQ(waiting.pending_rate(), 1);
  EXPECT_FALSE(waiting.has_missing_rate());
  EXPECT_FALSE(waiting.has_late_rate());
  EXPECT_FALSE(waiting.has_conflicting_rate());
  pool.Stop();
}

// Describes a model whose predictions are of these classes only.
v1::LabelArrivals Describe(const std::vector<LabelledCount>& counts) {
  ThreadPool pool("writer", 1);
  Model model(1, Declaration(), {}, {}, pool, nullptr);
  auto classes = std::make_shared<std::vector<ClassArrivals>>(kLabelArrivalsProtoClasses);
  LabelArrivals coverage;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    (*classes)[k].matured = counts[k].predictions;
    (*classes)[k].missing = counts[k].missing;
    coverage.predictions += counts[k].predictions;
    coverage.matured += counts[k].predictions;
    coverage.missing += counts[k].missing;
  }
  coverage.labelled = coverage.matured - coverage.missing;
  coverage.classes = classes;
  v1::LabelArrivals proto;
  DescribeLabelArrivals(model, coverage, proto);
  pool.Stop();
  return proto;
}

TEST(LabelArrivalsProtoTest, WarnsOfManyMissingLabelsInAnyCase) {
  EXPECT_THAT(Describe({{.predictions = 1000, .missing = 100}}).warnings(), IsEmpty());
  EXPECT_THAT(Describe({{.predictions = 1000, .missing = 101}}).warnings(),
              ElementsAre(StartsWith("10.1 % of the matured predictions have no label (more than "
                                     "10.0 %): ")));
  EXPECT_THAT(
      Describe({{.predictions = 40000, .missing = 40000}, {.predictions = 40000, .missing = 40000}})
          .warnings(),
      ElementsAre(StartsWith("100.0 % of the matured predictions")));
}

TEST(LabelArrivalsProtoTest, WarnsOfClassesOnlyIfTheyDifferSubstantially) {
  // A difference of half a point with so many predictions that it is certain, and a class with too
  // few predictions.
  v1::LabelArrivals proto = Describe({{.predictions = 10000000, .missing = 500000},
                                      {.predictions = 10000000, .missing = 550000},
                                      {.predictions = 1, .missing = 1}});
  EXPECT_LT(proto.missing_p_value(), 1e-4);
  EXPECT_THAT(proto.warnings(), IsEmpty());
  proto = Describe({{.predictions = 10000000, .missing = 500000},
                    {.predictions = 10000000, .missing = 600000},
                    {.predictions = 10000, .missing = 700}});
  EXPECT_THAT(proto.warnings(),
              ElementsAre(AllOf(StartsWith("labels are missing for 7.0 % of the predictions of "
                                           "class 2 and 5.5 % of all predictions: "),
                                HasSubstr("may be false"))));
}

}  // namespace
}  // namespace calibd::server
