// A model that was saved by a version with other experts continues with the same e-value.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "calibd/core/experts.h"
#include "calibd/core/forecast_experts.h"
#include "calibd/core/label_evidence.h"
#include "server/ingest/decode.h"
#include "server/state/check_declaration.h"
#include "unit/server/watched_model.h"

namespace calibd::server {
namespace {

using Reals = google::protobuf::RepeatedField<double>;

double LogSum(const std::vector<double>& logs) {
  const double largest = *std::ranges::max_element(logs);
  double sum = 0;
  for (const double one : logs) sum += std::exp(one - largest);
  return largest + std::log(sum);
}

// The logarithm of the e-value that the stored state of a watch of classes has.
double LogEValueOf(const store::v1::EvidenceState& state) {
  std::vector<double> logs;
  for (int j = 0; j < state.expert_ids_size(); ++j) {
    logs.push_back(std::log(state.priors(j)) + state.log_e(j) + std::log(state.e_growth(j)));
  }
  return LogSum(logs) + state.log_offset();
}

void RemoveExpert(store::v1::EvidenceState& state, std::int32_t id) {
  const auto& ids = state.expert_ids();
  const auto at = std::ranges::find(ids, id) - ids.begin();
  state.mutable_expert_ids()->erase(ids.begin() + at);
  for (Reals* const values :
       {state.mutable_priors(), state.mutable_log_e(), state.mutable_log_shiryaev_roberts(),
        state.mutable_e_growth(), state.mutable_shiryaev_roberts_growth()}) {
    values->erase(values->begin() + at);
  }
  double total = 0;
  for (const double prior : state.priors()) total += prior;
  for (double& prior : *state.mutable_priors()) prior /= total;
}

void AddUnknownExpert(store::v1::EvidenceState& state) {
  constexpr double kPrior = 0.1;
  for (double& prior : *state.mutable_priors()) prior *= 1 - kPrior;
  state.add_expert_ids(1000000);
  state.add_priors(kPrior);
  state.add_log_e(7);
  state.add_log_shiryaev_roberts(5);
  state.add_e_growth(1.5);
  state.add_shiryaev_roberts_growth(1);
}

double LogEValueOf(Model& model) {
  model.Publish();
  return model.snapshot()->monitor->watch->reading.evidence.log10_e_value * std::numbers::ln10;
}

TEST(ChangedExpertsTest, AModelOfClassesContinuesWithItsEValue) {
  ThreadPool pool("test", 1);
  const PredictionSet set = DrawFrom(GeneratorSpec::M2(kModelMonitorClasses), 600);
  const auto apply = [&](Model& model, std::size_t first, std::size_t count) {
    model.strand_state().Apply(testing::ObservedRow(set.view().rows(first, count)), 0,
                               std::chrono::seconds(first));
  };
  Model model(1, Watched(), {}, {}, pool, nullptr);
  apply(model, 0, 400);
  const store::v1::ModelState saved = model.strand_state().Save();
  ASSERT_EQ(saved.monitor().watch().evidence().expert_ids_size(), static_cast<int>(kExpertCount));
  EXPECT_NEAR(LogEValueOf(saved.monitor().watch().evidence()), LogEValueOf(model), 1e-9);

  const auto continues = [&](const auto& change) {
    store::v1::ModelState other = saved;
    store::v1::EvidenceState& evidence =
        *other.mutable_monitor()->mutable_watch()->mutable_evidence();
    change(evidence);
    const double expected = LogEValueOf(evidence);
    Model restored(1, Watched(), {}, {}, pool, nullptr);
    const absl::Status status = restored.strand_state().Restore(other);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_NEAR(LogEValueOf(restored), expected, 1e-9 * std::abs(expected));
    EXPECT_GT(std::abs(expected - LogEValueOf(model)), 1e-6) << "the change changes nothing";
    apply(restored, 400, 200);
    const store::v1::EvidenceState after =
        restored.strand_state().Save().monitor().watch().evidence();
    EXPECT_EQ(after.expert_ids_size(), static_cast<int>(kExpertCount));
    EXPECT_NE(after.log_offset(), 0);
    EXPECT_NEAR(LogEValueOf(after), LogEValueOf(restored), 1e-9 * std::abs(expected));
  };
  for (const Expert& expert : kExperts) {
    SCOPED_TRACE(expert.id);
    continues([&](store::v1::EvidenceState& state) { RemoveExpert(state, expert.id); });
  }
  continues(AddUnknownExpert);
}

TEST(ChangedExpertsTest, AModelOfNumbersContinuesWithItsEValue) {
  ThreadPool pool("test", 1);
  v1::Model declared;
  declared.set_name("models/demand");
  declared.mutable_forecast()->mutable_normal();
  const auto declaration = CheckDeclaration(declared, std::size_t{1} << 30);
  ASSERT_TRUE(declaration.ok()) << declaration.status();
  const auto apply = [&](Model& model, std::size_t count) {
    v1::Observations observations;
    for (std::size_t i = 0; i < count; ++i) {
      const double outcome = std::sin(static_cast<double>(i * i));
      observations.mutable_forecasts()->add_values(0);
      observations.mutable_forecasts()->add_values(1);
      observations.add_outcomes(outcome);
    }
    model.strand_state().Apply(Decode(observations, *declaration), 1, std::chrono::seconds(1));
  };
  Model model(1, *declaration, {}, {}, pool, nullptr);
  // No observation is pending after a multiple of 64.
  apply(model, 512);
  const store::v1::ModelState saved = model.strand_state().Save();
  const store::v1::ForecastState& before = saved.monitor().watch().forecast();
  ASSERT_EQ(before.pending_size(), 0);
  ASSERT_EQ(before.histogram_weights_size(), static_cast<int>(kHistogramWeights.size()));
  ASSERT_EQ(before.location_scale_ids_size(), static_cast<int>(kLocationScaleCount));
  EXPECT_NEAR(before.log_e_value(), LogEValueOf(model), 1e-9);

  const auto continues = [&](const auto& change) {
    // What the version with the other experts said.
    constexpr double kLogEValue = 4.5;
    store::v1::ModelState other = saved;
    store::v1::ForecastState& evidence =
        *other.mutable_monitor()->mutable_watch()->mutable_forecast();
    change(evidence);
    evidence.set_log_e_value(kLogEValue);
    Model restored(1, *declaration, {}, {}, pool, nullptr);
    const absl::Status status = restored.strand_state().Restore(other);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_NEAR(LogEValueOf(restored), kLogEValue, 1e-9);
    apply(restored, 256);
    const store::v1::ForecastState after =
        restored.strand_state().Save().monitor().watch().forecast();
    EXPECT_EQ(after.location_scale_ids_size(), static_cast<int>(kLocationScaleCount));
    EXPECT_EQ(after.histogram_weights_size(), static_cast<int>(kHistogramWeights.size()));
    EXPECT_NE(after.log_offset(), 0);
    EXPECT_NEAR(after.log_e_value(), LogEValueOf(restored), 1e-9);
  };
  const auto remove = [](auto& values, int at) { values.erase(values.begin() + at); };
  for (const int i : {0, 30, before.location_scale_ids_size() - 1}) {
    SCOPED_TRACE(i);
    continues([&](store::v1::ForecastState& state) {
      remove(*state.mutable_location_scale_ids(), i);
      remove(*state.mutable_log_shiryaev_roberts(), i);
    });
  }
  for (int i = 0; i < before.histogram_weights_size(); ++i) {
    SCOPED_TRACE(i);
    continues([&](store::v1::ForecastState& state) {
      remove(*state.mutable_histogram_weights(), i);
      remove(*state.mutable_log_histograms(), i);
      remove(*state.mutable_log_shiryaev_roberts(), state.location_scale_ids_size() + i);
    });
  }
  const auto insert = [](auto& values, int at, auto value) {
    values.Add(value);
    std::rotate(values.begin() + at, values.end() - 1, values.end());
  };
  continues([&](store::v1::ForecastState& state) {
    insert(*state.mutable_location_scale_ids(), 3, 1000000);
    insert(*state.mutable_log_shiryaev_roberts(), 3, 5.0);
  });
  continues([&](store::v1::ForecastState& state) {
    const int at = state.histogram_weights_size();
    insert(*state.mutable_log_histograms(), at, 9.0);
    insert(*state.mutable_log_shiryaev_roberts(), state.location_scale_ids_size() + at, 5.0);
    insert(*state.mutable_histogram_weights(), at, 12345.0);
  });
}

TEST(ChangedExpertsTest, AModelOfLabelsContinuesWithItsEValue) {
  ThreadPool pool("test", 1);
  v1::Model declared;
  declared.set_name("models/weather");
  for (const char* const name : {"rain", "fog"}) declared.mutable_labels()->add_names(name);
  const auto declaration = CheckDeclaration(declared, std::size_t{1} << 30);
  ASSERT_TRUE(declaration.ok()) << declaration.status();
  const auto apply = [&](Model& model, int count) {
    ObservationsRow rows;
    rows.values.width = rows.values.truths.each = 2;
    for (int i = 0; i < 2 * count; ++i) {
      rows.values.values.push_back(i % 4 < 2 ? 0.75 : 0.25);
      rows.values.truths.labels.push_back(i % 5 == 0 ? 1 : 0);
    }
    model.strand_state().Apply(testing::RowOf(std::move(rows)), 1, std::chrono::seconds(1));
  };
  Model model(1, *declaration, {}, {}, pool, nullptr);
  apply(model, 40);
  const store::v1::ModelState saved = model.strand_state().Save();
  const int ratios = saved.monitor().watch().labels().odds_ratios_size();
  ASSERT_EQ(ratios, static_cast<int>(kLabelOddsRatios.size()));
  for (int j = 0; j < ratios; ++j) {
    SCOPED_TRACE(j);
    store::v1::ModelState other = saved;
    store::v1::LabelState& evidence = *other.mutable_monitor()->mutable_watch()->mutable_labels();
    evidence.mutable_odds_ratios()->erase(evidence.odds_ratios().begin() + j);
    // The sides of both labels, from the last one on.
    for (int first = evidence.inverses_size() - ratios; first >= 0; first -= ratios) {
      for (Reals* const values :
           {evidence.mutable_inverses(), evidence.mutable_shiryaev_roberts()}) {
        values->erase(values->begin() + first + j);
      }
    }
    double mean = 0;
    for (int k = 0; k < 2; ++k) {
      double fixed = 1;
      for (int side = 0; side < 2; ++side) {
        double sum = 0;
        for (int i = 0; i < ratios - 1; ++i) {
          sum += 1 / evidence.inverses((2 * k + side) * (ratios - 1) + i);
        }
        fixed *= sum / (ratios - 1);
      }
      mean += (fixed + 1 / evidence.histogram(k)) / 4;
    }
    Model restored(1, *declaration, {}, {}, pool, nullptr);
    const absl::Status status = restored.strand_state().Restore(other);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_NEAR(LogEValueOf(restored), std::log(mean), 1e-9);
    EXPECT_GT(std::abs(LogEValueOf(restored) - LogEValueOf(model)), 1e-6)
        << "the change changes nothing";
    apply(restored, 100);
    EXPECT_EQ(restored.strand_state().Save().monitor().watch().labels().odds_ratios_size(), ratios);
  }
}

}  // namespace
}  // namespace calibd::server
