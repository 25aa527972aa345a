// The evidence of disjoint parts of a stream, combined.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "calibd/core/evidence.h"
#include "calibd/core/generator.h"
#include "support/draw.h"
#include "support/evidence_reference.h"

namespace calibd {
namespace {

using testing::MakeBasis;

TEST(CombineDisjointTest, OnePartIsItself) {
  auto process = *EvidenceProcess::Create(MakeBasis(4));
  process.Add(Draw(GeneratorSpec::M2(4), 60, 3).view());
  const EvidenceProcess* const parts[] = {&process};
  const EvidenceReading reading = process.Read();
  const EvidenceReading combined = *CombineDisjoint(parts);
  EXPECT_EQ(combined.count, 60);
  EXPECT_EQ(combined.evidence.log10_e_value, reading.evidence.log10_e_value);
  EXPECT_EQ(combined.projections, reading.projections);
  EXPECT_EQ(combined.projection_variance, reading.projection_variance);
  EXPECT_NEAR(*combined.skce_unbiased, *reading.skce_unbiased, 1e-14);
  EXPECT_NEAR(combined.drift.log10_now, reading.drift.log10_now, 1e-12);
}

TEST(CombineDisjointTest, EvidenceMultipliesByExpertAndDetectorsAreAveraged) {
  const auto basis = MakeBasis(4);
  const PredictionSet set = Draw(GeneratorSpec::M2(4), 90, 3);
  auto whole = *EvidenceProcess::Create(basis);
  whole.Add(set.view());
  std::vector<EvidenceProcess> processes;
  std::vector<const EvidenceProcess*> parts;
  std::vector<double> log_w(kExpertCount);
  double r1 = 0;
  for (std::size_t part = 0; part < 3; ++part) {
    auto process = *EvidenceProcess::Create(basis);
    // The last part ends in mid-chunk.
    process.Add(set.view().rows(part == 0 ? 0 : part == 1 ? 25 : 50, part < 2 ? 25 : 40));
    const ExpertLogs logs = LogsOf(process.Save());
    processes.push_back(std::move(process));
    for (std::size_t j = 0; j < kExpertCount; ++j) {
      log_w[j] += logs.e[j];
      r1 += kPriors[j] * std::exp(logs.shiryaev_roberts[j]) / 3;
    }
  }
  for (const EvidenceProcess& process : processes) parts.push_back(&process);
  double e = 0;
  for (std::size_t j = 0; j < kExpertCount; ++j) e += kPriors[j] * std::exp(log_w[j]);
  const EvidenceReading combined = *CombineDisjoint(parts);
  EXPECT_NEAR(combined.evidence.log10_e_value, std::log10(e), 1e-12);
  EXPECT_NEAR(combined.drift.log10_now, std::log10(r1), 1e-12);
  // Fourier terms and residuals add up: pairs across parts are included.
  EXPECT_NEAR(*combined.skce_unbiased, *whole.Read().skce_unbiased, 1e-7);
  EXPECT_EQ(combined.projections.count, 90);
}

TEST(CombineDisjointTest, RefusesNoPartsAndPartsThatDiffer) {
  EXPECT_EQ(CombineDisjoint({}).status().code(), absl::StatusCode::kInvalidArgument);
  const EvidenceProcess four = *EvidenceProcess::Create(MakeBasis(4));
  const EvidenceProcess five = *EvidenceProcess::Create(MakeBasis(5));
  const EvidenceProcess* const parts[] = {&four, &five};
  EXPECT_EQ(CombineDisjoint(parts).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AverageLog10EValueTest, IsTheMeanAndDoesNotOverflow) {
  EXPECT_EQ(AverageLog10EValue({}), 0);
  EXPECT_NEAR(AverageLog10EValue(std::vector<double>{1, 2}), std::log10(55), 1e-14);
  EXPECT_NEAR(AverageLog10EValue(std::vector<double>{1e6, -1e6}), 1e6 - std::log10(2), 1e-9);
}

}  // namespace
}  // namespace calibd
