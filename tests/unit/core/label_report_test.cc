#include "calibd/core/label_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace calibd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LabelReportTest, NamesTheLabelsThatAreOff) {
  // Labels 1 and 3 hold less often than stated, by 10 and by 30 points.
  const std::vector<double> excess = {0, 0.1, 0, 0.3};
  std::mt19937_64 rng(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<double> g(4);
  std::vector<std::int8_t> truths(4);
  LabelErrors errors(4);
  LabelEvidence evidence(4, kDefaultTolerance);
  const LabelReportOptions options{.levels = kSingleErrorLevels};
  EXPECT_FALSE(ReportOnLabels(errors, evidence.Read(), options).error.has_value());
  for (int i = 0; i < 4000; ++i) {
    for (std::size_t k = 0; k < 4; ++k) {
      g[k] = 0.4 + 0.5 * uniform(rng);
      truths[k] = uniform(rng) < g[k] - excess[k] ? 1 : 0;
    }
    if (i % 4 == 0) truths[2] = kMissingTruth;
    errors.Add({g, truths, 4});
    evidence.Add({g, truths, 4});
  }
  const LabelReport report = ReportOnLabels(errors, evidence.Read(), options);
  EXPECT_EQ(report.rows, 4000);
  EXPECT_EQ(report.truths, 15000);
  EXPECT_THAT(report.OverLimit(), ElementsAre(3, 1));
  EXPECT_THAT(report.Rejected(), ElementsAre(3, 1));
  EXPECT_EQ(report.labels[2].truths, 3000);
  EXPECT_NEAR(report.labels[3].stated - report.labels[3].held, 0.3, 0.03);
  EXPECT_GT(report.labels[1].error->gap_lower, 0.02);
  EXPECT_NEAR(report.error->gap, 0.1, 0.02);
  EXPECT_GT(report.log10_e_value, 10);
  // A higher limit, and a smaller false discovery rate than any e-value reaches.
  const LabelReport loose = ReportOnLabels(
      errors, evidence.Read(),
      {.levels = kSingleErrorLevels, .error_limit = 0.2, .significance_level = 1e-300});
  EXPECT_THAT(loose.OverLimit(), ElementsAre(3));
  EXPECT_THAT(loose.Rejected(), IsEmpty());
}

}  // namespace
}  // namespace calibd
