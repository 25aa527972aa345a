// The level is kept when the experts change, at any prediction. The bound is 5 standard deviations
// above the level, as in evidence_test.cc.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "calibd/core/evidence.h"
#include "calibd/core/generator.h"
#include "evidence_streams.h"

namespace calibd {
namespace {

using testing::BasisOf;
using testing::Dirichlet;
using testing::Draw;
using testing::EvidenceCrossed;
using testing::kLevel;
using testing::Margin;
using testing::Repeated;

// A stream over 50 versions. Each version replaces the experts that have lost by new ones, which
// start with 1, and keeps those that have won: the worst choice that looks at the past.
bool AlarmsOverVersions(const std::shared_ptr<const FourierBasis>& basis,
                        const PredictionSet& set) {
  constexpr std::size_t kVersions = 50;
  constexpr std::int32_t kUnknownIds = 1000000;
  const std::size_t rows = set.labels.size() / kVersions;
  auto process = *EvidenceProcess::Create(basis);
  for (std::size_t version = 0; version < kVersions; ++version) {
    process.Add(set.view().rows(version * rows, rows));
    EvidenceState state = process.Save();
    for (std::size_t j = 0; j < kExpertCount; ++j) {
      if (state.log_e[j] < 0) state.expert_ids[j] += kUnknownIds;
    }
    EXPECT_TRUE(process.Restore(state).ok());
  }
  return EvidenceCrossed(process.Read());
}

TEST(ExpertChangeLevelTest, FalseAlarmsStayBelowTheLevelOverManyVersions) {
  const int simulations = Repeated(1000);
  for (const std::size_t m : {2u, 10u}) {
    const GeneratorSpec spec = Dirichlet(m, 1);
    const auto basis = BasisOf(spec);
    int alarms = 0;
    for (int i = 0; i < simulations; ++i) {
      const PredictionSet set = Draw(spec, 1000, 500000 + static_cast<std::uint64_t>(i));
      if (AlarmsOverVersions(basis, set)) ++alarms;
    }
    const double rate = static_cast<double>(alarms) / simulations;
    ::testing::Test::RecordProperty("rate_m" + std::to_string(m), std::to_string(rate));
    EXPECT_LE(rate, kLevel + Margin(kLevel, simulations)) << "m=" << m;
  }
}

}  // namespace
}  // namespace calibd
