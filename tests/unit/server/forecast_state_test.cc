// A model that forecasts a number, from its declaration to its state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/answers/verdict.h"
#include "server/ingest/decode.h"
#include "server/rows/row_codec.h"
#include "server/state/check_declaration.h"
#include "server/state/model.h"
#include "support/log_rows.h"

namespace calibd::server {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kMemory = std::size_t{1} << 30;

v1::Model ForecastModel(const std::string& kind) {
  v1::Model model;
  model.set_name("models/demand");
  if (kind == "normal") model.mutable_forecast()->mutable_normal();
  if (kind == "samples") model.mutable_forecast()->mutable_samples()->set_draws(9);
  if (kind == "quantiles") {
    for (const double level : {0.1, 0.5, 0.9}) {
      model.mutable_forecast()->mutable_quantiles()->add_levels(level);
    }
  } else if (kind != "none") {
    model.mutable_forecast()->mutable_decision()->set_threshold(0.3);
    model.mutable_forecast()->mutable_decision()->set_miss_cost(2);
  }
  return model;
}

ModelDeclaration Checked(const v1::Model& model) {
  auto declaration = CheckDeclaration(model, kMemory);
  EXPECT_TRUE(declaration.ok()) << declaration.status();
  return *std::move(declaration);
}

std::string RefusalOf(const v1::Model& model) {
  return std::string(CheckDeclaration(model, kMemory).status().message());
}

TEST(ForecastDeclarationTest, IsKeptWithItsDefaults) {
  for (const char* const kind : {"normal", "quantiles", "samples"}) {
    const v1::Model model = ForecastModel(kind);
    const ModelDeclaration declaration = Checked(model);
    EXPECT_EQ(declaration.monitoring.error_limit, 0.05);
    EXPECT_EQ(declaration.warmup, 500U);
    const v1::Model described = ToProto(declaration);
    v1::Forecast expected = model.forecast();
    if (expected.has_decision()) expected.mutable_decision()->set_false_alarm_cost(1);
    EXPECT_EQ(described.forecast().SerializeAsString(), expected.SerializeAsString());
    EXPECT_TRUE(Checked(described) == declaration) << described.DebugString();
  }
  EXPECT_EQ(Checked(ForecastModel("quantiles")).row_width(), 3U);
  EXPECT_EQ(Checked(ForecastModel("samples")).row_width(), 9U);
}

TEST(ForecastDeclarationTest, NamesWhatIsInvalidInADecision) {
  v1::Model model = ForecastModel("quantiles");
  model.mutable_forecast()->mutable_decision();
  EXPECT_THAT(RefusalOf(model), HasSubstr("model.forecast.decision is set, but quantiles"));
  model = ForecastModel("normal");
  model.mutable_forecast()->mutable_decision()->set_threshold(
      std::numeric_limits<double>::infinity());
  EXPECT_THAT(RefusalOf(model), HasSubstr("model.forecast.decision.threshold is inf"));
  model = ForecastModel("normal");
  model.mutable_forecast()->mutable_decision()->set_miss_cost(-1);
  EXPECT_THAT(RefusalOf(model),
              HasSubstr("model.forecast.decision.miss_cost is -1, expected 1e-100..1e+100"));
  model = ForecastModel("normal");
  model.mutable_monitoring()->set_disabled(true);
  EXPECT_THAT(RefusalOf(model),
              HasSubstr("model.forecast.decision is set, but monitoring.disabled is too"));
}

TEST(ForecastDeclarationTest, NamesWhatIsInvalid) {
  v1::Model model = ForecastModel("normal");
  model.clear_kind();
  EXPECT_THAT(RefusalOf(model), HasSubstr("model.kind is not set, expected one of classes"));
  model = ForecastModel("none");
  model.mutable_forecast();
  EXPECT_THAT(RefusalOf(model), HasSubstr("model.forecast.kind is not set"));
  for (const std::vector<double>& levels : {std::vector<double>{},
                                            {0.5, 0.5},
                                            {0.0, 0.5},
                                            {0.5, 1.0},
                                            {0.9, 0.1},
                                            {std::numeric_limits<double>::quiet_NaN()},
                                            std::vector<double>(64, 0.5)}) {
    model = ForecastModel("none");
    auto& declared = *model.mutable_forecast()->mutable_quantiles();
    declared.mutable_levels()->Add(levels.begin(), levels.end());
    EXPECT_THAT(RefusalOf(model), HasSubstr("model.forecast.quantiles.levels"));
  }
  for (const int draws : {-1, 0, 1, 1001}) {
    model = ForecastModel("samples");
    model.mutable_forecast()->mutable_samples()->set_draws(draws);
    EXPECT_THAT(RefusalOf(model), HasSubstr("model.forecast.samples.draws"));
  }
}

v1::Observations NormalRows(const std::vector<double>& values,
                            const std::vector<double>& outcomes) {
  v1::Observations observations;
  observations.mutable_forecasts()->mutable_values()->Add(values.begin(), values.end());
  observations.mutable_outcomes()->Add(outcomes.begin(), outcomes.end());
  return observations;
}

TEST(ForecastDecodeTest, RefusesInvalidRowsWithTheirValues) {
  const ModelDeclaration normal = Checked(ForecastModel("normal"));
  const auto refusal = [&](const v1::Observations& observations,
                           const ModelDeclaration& declaration) {
    const LogRow row = Decode(observations, declaration);
    EXPECT_EQ(row.validity().code(), absl::StatusCode::kInvalidArgument);
    return std::string(row.validity().message());
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const LogRow valid = Decode(NormalRows({1, 2, -3, 1e-300}, {0, -3}), normal);
  ASSERT_TRUE(valid.validity().ok()) << valid.validity();
  EXPECT_THAT(valid.counted()->truths.outcomes, ElementsAre(0, -3));
  EXPECT_THAT(refusal(NormalRows({1, 2, kInfinity, 1}, {0, 0}), normal), HasSubstr("rows[1]"));
  EXPECT_THAT(refusal(NormalRows({1, 2, 0, 0}, {0, 0}), normal),
              HasSubstr("rows[1].standard_deviation is 0"));
  EXPECT_THAT(refusal(NormalRows({1, 2}, {kInfinity}), normal), HasSubstr("rows[0].outcome"));
  EXPECT_THAT(refusal(NormalRows({0, 1e-300}, {1e20}), normal), HasSubstr("rows[0].outcome"));
  EXPECT_THAT(refusal(NormalRows({1, 2, 3}, {0}), normal),
              HasSubstr("forecasts has 3 values with 1 outcomes"));
  EXPECT_THAT(refusal(NormalRows({2, 1, 3}, {0}), Checked(ForecastModel("quantiles"))),
              HasSubstr("rows[0]"));
  v1::Observations observations = NormalRows({1, 2}, {0});
  observations.clear_outcomes();
  observations.add_labels(0);
  EXPECT_THAT(refusal(observations, normal), HasSubstr("expected outcomes"));
  observations.mutable_probabilities()->add_values(1);
  EXPECT_THAT(refusal(observations, normal), HasSubstr("expected forecasts"));
  v1::Model classes;
  classes.set_name("models/c");
  classes.mutable_classes()->set_count(2);
  EXPECT_THAT(refusal(NormalRows({1, 2}, {0}), Checked(classes)),
              HasSubstr("the model predicts classes"));
  v1::Labels labels;
  labels.add_prediction_ids("a");
  labels.add_labels(1);
  EXPECT_THAT(std::string(Decode(labels, normal).validity().message()),
              HasSubstr("expected outcomes"));
}

TEST(ForecastDecodeTest, SkipsInvalidRowsIfWanted) {
  v1::Observations observations = NormalRows({1, 2, 0, -1, 5, 1}, {0, 0, 4});
  observations.set_skip_invalid_rows(true);
  const LogRow row = Decode(observations, Checked(ForecastModel("normal")));
  ASSERT_TRUE(row.validity().ok()) << row.validity();
  EXPECT_THAT(row.counted()->values, ElementsAre(1, 2, 5, 1));
  EXPECT_THAT(row.counted()->truths.outcomes, ElementsAre(0, 4));
  EXPECT_EQ(row.skipped.rows, 1);
}

TEST(ForecastCodecTest, RowsSurvive) {
  v1::Model declared = ForecastModel("normal");
  declared.mutable_label_grace()->set_seconds(60);
  const ModelDeclaration declaration = Checked(declared);
  v1::Observations observations = NormalRows({0.1, 2, -3, 4}, {1.5, 1e300});
  const LogRow counted = Decode(observations, declaration);
  observations.add_prediction_ids("a");
  observations.add_prediction_ids("b");
  observations.clear_outcomes();
  const LogRow pending = Decode(observations, declaration);
  for (const LogRow* const row : {&counted, &pending}) {
    std::string encoded = EncodeRow(*row);
    AppendElapsed(microseconds(5), encoded);
    const auto read = DecodeRow(encoded, declaration.row_shape());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->values()->values, row->values()->values);
    EXPECT_EQ(read->values()->truths, row->values()->truths);
    EXPECT_FALSE(DecodeRow(encoded, 2).ok()) << "a model of two classes";
  }
}

struct TimedForecasts {
  LogRow row;
  microseconds time;
};

// Forecasts of N(mean, 1) of a number, which the model states with the scale `sd`. Batches of 1 to
// 200 rows over several minutes, in two groups.
std::vector<TimedForecasts> ForecastRows(const ModelDeclaration& declaration, std::size_t n,
                                         double sd, double shift) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::vector<TimedForecasts> rows;
  std::size_t size = 1;
  for (std::size_t done = 0; done < n; done += size, size = (size * 7 + 5) % 201) {
    size = std::clamp<std::size_t>(size, 1, n - done);
    v1::Observations observations;
    for (std::size_t i = 0; i < size; ++i) {
      const double mean = 3 * normal(random);
      std::vector<double> values;
      const auto& kind = declaration.numbers()->forecast;
      if (std::holds_alternative<NormalForecasts>(kind)) {
        values = {mean + shift, sd};
      } else if (std::holds_alternative<QuantileForecasts>(kind)) {
        values = {mean + shift - 1.2815515655446004 * sd, mean + shift,
                  mean + shift + 1.2815515655446004 * sd};
      } else {
        for (std::size_t k = 0; k < declaration.row_width(); ++k) {
          values.push_back(mean + shift + sd * normal(random));
        }
      }
      observations.mutable_forecasts()->mutable_values()->Add(values.begin(), values.end());
      observations.add_outcomes(mean + normal(random));
      observations.add_group_values(i % 3 == 0 ? "north" : "south");
    }
    if (declaration.monitoring.group_tag.empty()) observations.clear_group_values();
    rows.push_back({Decode(observations, declaration), seconds(1000 + rows.size() * 7)});
    EXPECT_TRUE(rows.back().row.validity().ok()) << rows.back().row.validity();
    if (rows.size() % 9 == 4) {
      rows.push_back(
          {testing::RowOf(AcknowledgedRow{.alarm_id = 1, .note = "seen"}), rows.back().time});
    }
  }
  return rows;
}

TEST(ForecastStateTest, DoesNotDependOnTheDivisionIntoTasksNorOnARestart) {
  ThreadPool pool("test", 2);
  for (const char* const kind : {"normal", "quantiles", "samples"}) {
    for (const bool grouped : {false, true}) {
      v1::Model declared = ForecastModel(kind);
      declared.set_window(700);
      if (grouped) declared.mutable_monitoring()->set_group_tag("site");
      const ModelDeclaration declaration = Checked(declared);
      const std::vector<TimedForecasts> rows = ForecastRows(declaration, 3000, 0.6, 0.3);
      const auto state_after = [&](std::size_t together, std::size_t restart) {
        auto model = std::make_unique<Model>(1, declaration, ModelSnapshot::Time(),
                                             ProducerLimits(), pool, nullptr);
        for (std::size_t i = 0; i < rows.size(); ++i) {
          StrandState& state = model->strand_state();
          state.Append(rows[i].row, static_cast<std::int64_t>(i) + 1, rows[i].time);
          if ((i + 1) % together == 0) state.ApplyAppended();
          if (i + 1 != restart) continue;
          state.ApplyAppended();
          const store::v1::ModelState saved = state.Save();
          model = std::make_unique<Model>(1, declaration, ModelSnapshot::Time(), ProducerLimits(),
                                          pool, nullptr);
          EXPECT_TRUE(model->strand_state().Restore(saved).ok());
          for (std::size_t j = 0; j <= i; ++j) {
            model->strand_state().Refill(rows[j].row, static_cast<std::int64_t>(j) + 1);
          }
        }
        model->strand_state().ApplyAppended();
        EXPECT_EQ(model->strand_state().Snapshot()->window.size(), 700U);
        return model->strand_state().Save().SerializeAsString();
      };
      const std::string expected = state_after(1, 0);
      store::v1::ModelState state;
      ASSERT_TRUE(state.ParseFromString(expected));
      EXPECT_GE(state.monitor().alarms_size(), 2);
      EXPECT_EQ(state.monitor().groups_size(), grouped ? 2 : 0);
      EXPECT_EQ(state_after(5, 0), expected) << kind;
      // During the warm-up, and after it.
      EXPECT_EQ(state_after(1, 3), expected) << kind;
      EXPECT_EQ(state_after(1, rows.size() / 2), expected) << kind;
    }
  }
}

TEST(ForecastStateTest, AnInvalidSnapshotIsRefused) {
  ThreadPool pool("test", 1);
  const ModelDeclaration declaration = Checked(ForecastModel("normal"));
  Model model(1, declaration, {}, {}, pool, nullptr);
  const auto rows = ForecastRows(declaration, 800, 1, 0);
  for (const TimedForecasts& one : rows) model.strand_state().Apply(one.row, 1, one.time);
  const store::v1::ModelState saved = model.strand_state().Save();
  const auto refused = [&](const auto& damage) {
    store::v1::ModelState state = saved;
    damage(state);
    Model other(1, declaration, {}, {}, pool, nullptr);
    return !other.strand_state().Restore(state).ok();
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& state) { state.mutable_monitor()->clear_stratum_edges(); }));
  EXPECT_TRUE(
      refused([](auto& state) { state.mutable_monitor()->mutable_stratum_edges()->RemoveLast(); }));
  EXPECT_TRUE(
      refused([](auto& state) { state.mutable_monitor()->mutable_stratum_edges()->Set(0, 1e9); }));
  EXPECT_TRUE(refused([](auto& state) { state.mutable_monitor()->clear_error(); }));
  EXPECT_TRUE(refused([](auto& state) {
    state.mutable_monitor()->mutable_watch()->mutable_forecast()->clear_recent();
  }));
  EXPECT_TRUE(refused([](auto& state) {
    state.mutable_monitor()->mutable_discrepancy()->mutable_sums()->RemoveLast();
  }));
  EXPECT_TRUE(refused(
      [](auto& state) { state.mutable_monitor()->mutable_discrepancy()->set_outcome_length(0); }));
  for (const std::int64_t actions : {-1, 801}) {
    EXPECT_TRUE(refused([actions](auto& state) {
      state.mutable_monitor()->mutable_decision()->set_actions(actions);
    }));
  }
  EXPECT_TRUE(
      refused([](auto& state) { state.mutable_monitor()->mutable_decision()->set_expected(-1); }));
  EXPECT_TRUE(refused([](auto& state) {
    state.mutable_monitor()->mutable_decision()->mutable_gaps()->set_count(799);
  }));
  EXPECT_TRUE(refused([](auto& state) { state.mutable_monitor()->clear_decision(); }));
  EXPECT_TRUE(refused(
      [](auto& state) { state.mutable_monitor()->mutable_discrepancy()->add_block_outcomes(0); }));
  EXPECT_TRUE(refused([](auto& state) {
    state.mutable_history()->mutable_open(0)->mutable_forecasts()->add_cells(0);
  }));
  EXPECT_TRUE(refused([](auto& state) { state.set_observations(10); }));
}

TEST(ForecastStateTest, TheLimitIsDecidedByTheCoverage) {
  ThreadPool pool("test", 1);
  const ModelDeclaration declaration = Checked(ForecastModel("normal"));
  const auto verdict = [&](std::size_t n, double sd) {
    Model model(1, declaration, {}, {}, pool, nullptr);
    for (const TimedForecasts& one : ForecastRows(declaration, n, sd, 0)) {
      model.strand_state().Apply(one.row, 1, one.time);
    }
    model.Publish();
    const auto snapshot = model.snapshot();
    const Verdict made = MakeVerdict(model, *snapshot, *snapshot->monitor->last_counted_time);
    return std::pair(made.limit_status, made.status);
  };
  EXPECT_EQ(verdict(300, 1),
            std::pair(v1::CalibrationError::UNDECIDED, v1::Verdict::INSUFFICIENT_DATA));
  EXPECT_EQ(verdict(40000, 1),
            std::pair(v1::CalibrationError::WITHIN_LIMIT, v1::Verdict::NOT_REJECTED));
  EXPECT_EQ(verdict(3000, 0.5),
            std::pair(v1::CalibrationError::OVER_LIMIT, v1::Verdict::MISCALIBRATED));
}

// Forecasts of rain that are quantiles at the levels .1, .5 and .9: it is dry with a probability
// from .4 to .8, else the amount is exponential. Days are dry with `dry` times the stated
// probability.
std::vector<TimedForecasts> RainRows(const ModelDeclaration& declaration, std::size_t n,
                                     double dry) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> uniform;
  std::vector<TimedForecasts> rows;
  constexpr std::size_t kTogether = 100;
  for (std::size_t done = 0; done < n; done += kTogether) {
    v1::Observations observations;
    for (std::size_t i = 0; i < kTogether; ++i) {
      const double stated = .4 + .4 * uniform(random);
      const double mean = 1 + 4 * uniform(random);
      for (const double level : {.1, .5, .9}) {
        const double wet = level <= stated ? 0 : (level - stated) / (1 - stated);
        observations.mutable_forecasts()->add_values(-mean * std::log1p(-wet));
      }
      const bool is_dry = uniform(random) < dry * stated;
      observations.add_outcomes(is_dry ? 0 : -mean * std::log1p(-uniform(random)));
    }
    rows.push_back({Decode(observations, declaration), seconds(1000 + rows.size() * 7)});
  }
  return rows;
}

TEST(ForecastStateTest, ExactQuantilesOfADiscreteOutcomeAreNotRejected) {
  ThreadPool pool("test", 1);
  const ModelDeclaration declaration = Checked(ForecastModel("quantiles"));
  const auto verdict = [&](std::size_t n, double dry) {
    auto model = std::make_unique<Model>(1, declaration, ModelSnapshot::Time(), ProducerLimits(),
                                         pool, nullptr);
    const std::vector<TimedForecasts> rows = RainRows(declaration, n, dry);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      model->strand_state().Apply(rows[i].row, static_cast<std::int64_t>(i) + 1, rows[i].time);
      // A restart changes nothing.
      if (i % 29 != 13) continue;
      const store::v1::ModelState saved = model->strand_state().Save();
      model = std::make_unique<Model>(1, declaration, ModelSnapshot::Time(), ProducerLimits(), pool,
                                      nullptr);
      EXPECT_TRUE(model->strand_state().Restore(saved).ok());
      for (std::size_t j = 0; j <= i; ++j) {
        model->strand_state().Refill(rows[j].row, static_cast<std::int64_t>(j) + 1);
      }
      EXPECT_EQ(model->strand_state().Save().SerializeAsString(), saved.SerializeAsString());
    }
    model->Publish();
    const auto snapshot = model->snapshot();
    EXPECT_TRUE(snapshot->forecasts.ToCounts().has_ties());
    EXPECT_GT(snapshot->monitor->watch->reading.evidence.family_share[4], 0);
    const Verdict made = MakeVerdict(*model, *snapshot, *snapshot->monitor->last_counted_time);
    return std::pair(made.limit_status, made.status);
  };
  EXPECT_EQ(verdict(12000, 1),
            std::pair(v1::CalibrationError::WITHIN_LIMIT, v1::Verdict::NOT_REJECTED));
  EXPECT_EQ(verdict(4000, .5),
            std::pair(v1::CalibrationError::OVER_LIMIT, v1::Verdict::MISCALIBRATED));
}

// Calibrated forecasts whose outcomes come in random order, or in runs of 20 as of one source.
TEST(ForecastStateTest, OutcomesThatGoTogetherAreFound) {
  ThreadPool pool("test", 1);
  const ModelDeclaration declaration = Checked(ForecastModel("normal"));
  const auto found_at = [&](int run) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    Model model(1, declaration, {}, {}, pool, nullptr);
    double common = 0;
    for (int first = 0; first < 6000; first += 500) {
      ObservationsRow batch;
      batch.values.width = 2;
      for (int i = first; i < first + 500; ++i) {
        if (i % run == 0) common = normal(random);
        batch.values.values.insert(batch.values.values.end(), {3, 2});
        const double own = run == 1 ? 0 : normal(random);
        batch.values.truths.outcomes.push_back(3 + 2 * (0.8 * common + 0.6 * own) /
                                                       (run == 1 ? 0.8 : 1));
      }
      model.strand_state().Apply(testing::RowOf(std::move(batch)), first + 1, seconds(first));
    }
    model.Publish();
    return model.snapshot()->monitor->dependence_found_at;
  };
  EXPECT_EQ(found_at(1), 0);
  EXPECT_GT(found_at(20), 0);
}

TEST(ForecastStateTest, ExtremeOutcomesLeaveEverythingFinite) {
  ThreadPool pool("test", 1);
  v1::Model declared = ForecastModel("normal");
  declared.mutable_label_grace()->set_seconds(1);
  const ModelDeclaration declaration = Checked(declared);
  Model model(1, declaration, {}, {}, pool, nullptr);
  // Outcomes that come later are not checked against their forecasts.
  MaturedRow matured;
  matured.through_log_id = 1;
  matured.values.width = 2;
  for (int i = 0; i < 600; ++i) {
    matured.values.values.insert(matured.values.values.end(), {-1e308, 1e-300});
    matured.values.truths.outcomes.push_back(i % 2 == 0 ? 1e308 : -1e308);
  }
  PredictionsRow predictions;
  predictions.values = matured.values;
  predictions.values.truths.outcomes.clear();
  predictions.predicted_classes.assign(600, 0);
  model.strand_state().Apply(testing::RowOf(std::move(predictions)), 1, seconds(1));
  model.strand_state().Apply(testing::RowOf(std::move(matured)), 2, seconds(2));
  const store::v1::ModelState saved = model.strand_state().Save();
  Model other(1, declaration, {}, {}, pool, nullptr);
  EXPECT_TRUE(other.strand_state().Restore(saved).ok()) << saved.ShortDebugString();
}

}  // namespace
}  // namespace calibd::server
