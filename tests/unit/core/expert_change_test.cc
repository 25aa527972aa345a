// A state that was saved with other experts or priors continues with those of this version.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "calibd/core/evidence.h"
#include "calibd/core/generator.h"
#include "calibd/core/kernel.h"
#include "support/draw.h"

namespace calibd {
namespace {

constexpr std::size_t kClasses = 5;
constexpr std::int32_t kUnknownId = 1000000;

std::shared_ptr<const FourierBasis> BasisOf() {
  static const auto basis =
      *FourierBasis::Create(*Kernel::ExponentialTotalVariation(0.8), kClasses);
  return basis;
}

// n: a multiple of 8, so that the state has no growths.
EvidenceState StateAfter(std::size_t n) {
  auto process = *EvidenceProcess::Create(BasisOf());
  process.Add(Draw(GeneratorSpec::M2(kClasses), n, 3).view());
  EvidenceState state = process.Save();
  state.e_growth = state.shiryaev_roberts_growth = {};
  return state;
}

// sum_j weight_j e^{log_j}.
double Mixture(const std::vector<double>& weights, const std::vector<double>& logs) {
  double sum = 0;
  for (std::size_t j = 0; j < logs.size(); ++j) sum += weights[j] * std::exp(logs[j]);
  return sum;
}

double EValue(const EvidenceState& state) {
  return std::exp(state.log_offset) * Mixture(state.priors, LogsOf(state).e);
}

// Removes the expert at this index from the saved state, as if it were new in this version.
void TakeOut(std::size_t index, EvidenceState& state) {
  const auto at = static_cast<std::ptrdiff_t>(index);
  for (double& prior : state.priors) prior /= 1 - kPriors[index];
  state.expert_ids.erase(state.expert_ids.begin() + at);
  for (auto* const values : {&state.priors, &state.log_e, &state.log_shiryaev_roberts}) {
    values->erase(values->begin() + at);
  }
}

// Adds an expert that this version lacks to the saved state, in front of the others.
void PutIn(EvidenceState& state) {
  for (double& prior : state.priors) prior *= 0.75;
  state.expert_ids.insert(state.expert_ids.begin(), kUnknownId);
  state.priors.insert(state.priors.begin(), 0.25);
  state.log_e.insert(state.log_e.begin(), 3);
  state.log_shiryaev_roberts.insert(state.log_shiryaev_roberts.begin(), 2.5);
}

struct Change {
  std::string name;
  std::function<void(EvidenceState&)> apply;
};

std::vector<Change> Changes() {
  return {{"a new expert", [](EvidenceState& state) { TakeOut(4, state); }},
          {"an expert of the past", PutIn},
          {"other priors",
           [](EvidenceState& state) { std::reverse(state.priors.begin(), state.priors.end()); }},
          {"another order",
           [](EvidenceState& state) {
             for (auto* const values : {&state.priors, &state.log_e, &state.log_shiryaev_roberts}) {
               std::swap((*values)[0], (*values)[20]);
             }
             std::swap(state.expert_ids[0], state.expert_ids[20]);
           }},
          {"all at once",
           [](EvidenceState& state) {
             TakeOut(20, state);
             TakeOut(4, state);
             PutIn(state);
             state.log_offset = -0.5;
           }},
          {"only experts of the past", [](EvidenceState& state) {
             state.expert_ids = {kUnknownId};
             state.priors = {1};
             for (auto* const values : {&state.log_e, &state.log_shiryaev_roberts}) {
               values->resize(1);
             }
           }}};
}

TEST(ExpertChangeTest, TheEValueAndTheDetectorsAreContinuous) {
  for (const Change& change : Changes()) {
    SCOPED_TRACE(change.name);
    EvidenceState saved = StateAfter(40);
    change.apply(saved);
    // Above the current value, so that it must carry over.
    saved.maximum = {.log_value = std::log(EValue(saved)) + 1, .at = 7};
    auto process = *EvidenceProcess::Create(BasisOf());
    ASSERT_TRUE(process.Restore(saved).ok());
    const EvidenceReading reading = process.Read();
    EXPECT_NEAR(reading.evidence.log10_e_value, std::log10(EValue(saved)), 1e-12);
    EXPECT_EQ(reading.maximum, saved.maximum);
    EXPECT_NEAR(reading.drift.log10_now,
                std::log10(Mixture(saved.priors, saved.log_shiryaev_roberts)), 1e-12);
    EXPECT_EQ(reading.drift.maximum, saved.shiryaev_roberts_maximum);
    double shares = 0;
    for (const double share : reading.evidence.family_share) shares += share;
    EXPECT_NEAR(shares, 1, 1e-12);
  }
}

TEST(ExpertChangeTest, ExpertsKeepTheirWealthAndNewOnesStartWithOne) {
  const EvidenceState whole = StateAfter(40);
  for (const Change& change : Changes()) {
    SCOPED_TRACE(change.name);
    EvidenceState saved = whole;
    change.apply(saved);
    auto process = *EvidenceProcess::Create(BasisOf());
    ASSERT_TRUE(process.Restore(saved).ok());
    const EvidenceState continued = process.Save();
    EXPECT_EQ(continued.expert_ids, whole.expert_ids);
    EXPECT_EQ(continued.priors, whole.priors);
    for (std::size_t j = 0; j < kExpertCount; ++j) {
      const bool kept =
          std::count(saved.expert_ids.begin(), saved.expert_ids.end(), kExperts[j].id) > 0;
      EXPECT_EQ(continued.log_e[j], kept ? whole.log_e[j] : 0) << j;
    }
  }
}

TEST(ExpertChangeTest, TheEValueGrowsAsTheNewMixtureDoes) {
  const PredictionSet set = Draw(GeneratorSpec::M2(kClasses), 240, 3);
  for (const Change& change : Changes()) {
    SCOPED_TRACE(change.name);
    EvidenceState saved = StateAfter(40);
    change.apply(saved);
    auto process = *EvidenceProcess::Create(BasisOf());
    ASSERT_TRUE(process.Restore(saved).ok());
    const EvidenceState before = process.Save();
    double maximum = saved.maximum.log_value;
    for (std::size_t i = 40; i < 240; ++i) {
      process.Add(set.view().row(i), set.labels[i]);
      const EvidenceState now = process.Save();
      const double e_value =
          EValue(saved) * Mixture(now.priors, LogsOf(now).e) / Mixture(before.priors, before.log_e);
      EXPECT_NEAR(process.Read().evidence.log10_e_value, std::log10(e_value), 1e-11);
      maximum = std::max(maximum, std::log(e_value));
      EXPECT_NEAR(process.Read().maximum.log_value, maximum, 1e-11);
    }
    // The next version has the same experts and continues with the same offset.
    auto next = *EvidenceProcess::Create(BasisOf());
    ASSERT_TRUE(next.Restore(process.Save()).ok());
    EXPECT_TRUE(next.Save() == process.Save());
  }
}

TEST(ExpertChangeTest, AMarkIsReachedByTheEValueWithItsOffset) {
  constexpr double kAbove = 100;
  EvidenceState saved = StateAfter(40);
  PutIn(saved);
  auto process = *EvidenceProcess::Create(BasisOf(), kDefaultTolerance,
                                          {.log_e = std::log(EValue(saved)) + kAbove});
  ASSERT_TRUE(process.Restore(saved).ok());
  process.Add(Draw(GeneratorSpec::M2(kClasses), 400, 3).view().rows(40, 360));
  const std::int64_t reached = process.Read().evidence_reached_at;
  ASSERT_GT(reached, 41);
  auto until = *EvidenceProcess::Create(BasisOf());
  ASSERT_TRUE(until.Restore(saved).ok());
  until.Add(Draw(GeneratorSpec::M2(kClasses), 400, 3)
                .view()
                .rows(40, static_cast<std::size_t>(reached) - 41));
  const EvidenceReading last = until.Read();
  EXPECT_LT(last.evidence.log10_e_value * std::numbers::ln10, std::log(EValue(saved)) + kAbove);
}

TEST(ExpertChangeTest, TheSameExpertsContinueWithTheSameBits) {
  auto whole = *EvidenceProcess::Create(BasisOf());
  whole.Add(Draw(GeneratorSpec::M2(kClasses), 43, 3).view());
  const EvidenceState saved = whole.Save();
  EXPECT_EQ(saved.log_offset, 0);
  auto process = *EvidenceProcess::Create(BasisOf());
  ASSERT_TRUE(process.Restore(saved).ok());
  EXPECT_TRUE(process.Save() == saved);
}

TEST(ExpertChangeTest, InvalidExpertsAreRefused) {
  const EvidenceState good = StateAfter(40);
  std::vector<EvidenceState> bad(7, good);
  bad[0].expert_ids.pop_back();
  bad[1].priors.pop_back();
  bad[2].priors[0] = 0;
  bad[3].priors[0] = 2;
  bad[4].log_offset = std::nan("");
  bad[5].log_e[0] = 1e308;
  bad[6].expert_ids.clear();
  for (auto* const values : {&bad[6].priors, &bad[6].log_e, &bad[6].log_shiryaev_roberts}) {
    values->clear();
  }
  for (std::size_t i = 0; i < bad.size(); ++i) {
    auto process = *EvidenceProcess::Create(BasisOf());
    EXPECT_EQ(process.Restore(bad[i]).code(), absl::StatusCode::kInvalidArgument) << i;
  }
}

}  // namespace
}  // namespace calibd
