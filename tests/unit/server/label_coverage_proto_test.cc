#include "server/rpc/label_coverage_proto.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace calibd::server {
namespace {

TEST(LabelCoverageProtoTest, ShowsTheClassesThatMissTheMostFirstAndNoneWithoutPredictions) {
  constexpr std::size_t kClasses = 100;
  ThreadPool pool("writer", 1);
  ModelDeclaration declaration;
  declaration.name = {"m", ""};
  declaration.class_count = kClasses;
  declaration.block_sizes = {2};
  declaration.window = 10;
  declaration.label_grace = std::chrono::seconds(1);
  declaration.max_pending = 10;
  Model model(1, declaration, {}, 10, pool, nullptr);
  // 3 k and 7 k mod 100 go through all classes; many classes miss as many.
  for (const std::size_t with_predictions : {std::size_t{0}, std::size_t{7}, kClasses}) {
    auto classes = std::make_shared<std::vector<ClassCoverage>>(kClasses);
    for (std::size_t k = 0; k < with_predictions; ++k) {
      ClassCoverage& one = (*classes)[7 * k % kClasses];
      one.matured = 50;
      one.missing = static_cast<std::int64_t>(3 * k % kClasses / 8);
    }
    std::vector<std::int32_t> order;
    for (std::size_t k = 0; k < kClasses; ++k) {
      if ((*classes)[k].matured > 0) order.push_back(static_cast<std::int32_t>(k));
    }
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return (*classes)[static_cast<std::size_t>(a)].missing >
             (*classes)[static_cast<std::size_t>(b)].missing;
    });
    order.resize(std::min<std::size_t>(order.size(), 20));

    LabelCoverage coverage;
    coverage.classes = classes;
    v1::LabelCoverage proto;
    DescribeLabelCoverage(model, coverage, proto);
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

}  // namespace
}  // namespace calibd::server
