// Google Benchmark of the engine's work for a batch, in one process, as seconds per
// prediction.
#include <benchmark/benchmark.h>

#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "calibd/core/generator.h"
#include "server/ingest/decode.h"
#include "server/rows/row_codec.h"
#include "server/state/model.h"

namespace calibd::server {
namespace {

// A model without monitoring.
ModelDeclaration Declaration(std::size_t class_count) {
  ModelDeclaration declaration;
  declaration.name = {"benchmark", ""};
  auto& classes = declaration.kind.emplace<ClassesSpec>();
  classes.count = class_count;
  classes.kernel.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
  classes.kernel.rule.bandwidth.fixed = 1;
  classes.block_sizes = {2};
  declaration.window = 10000;
  classes.row_sum_tolerance = 1e-3;
  declaration.monitoring.disabled = true;
  return declaration;
}

PredictionSet Predictions(std::size_t rows, std::size_t class_count) {
  PredictionSet set;
  Generator::Create(GeneratorSpec::M1(class_count), 1)->Draw(rows, set);
  return set;
}

template <typename Float>
v1::Observations Message(std::size_t rows, std::size_t class_count) {
  const PredictionSet set = Predictions(rows, class_count);
  v1::Observations observations;
  observations.mutable_labels()->Add(set.labels.begin(), set.labels.end());
  auto* const values = [&] {
    if constexpr (std::is_same_v<Float, double>) {
      return observations.mutable_probabilities()->mutable_values();
    } else {
      return observations.mutable_probabilities_float32()->mutable_values();
    }
  }();
  for (const double value : set.probabilities) values->Add(static_cast<Float>(value));
  return observations;
}

// state.range: classes, rows.
std::size_t Classes(const benchmark::State& state) {
  return static_cast<std::size_t>(state.range(0));
}
std::size_t Rows(const benchmark::State& state) { return static_cast<std::size_t>(state.range(1)); }

void ShowEach(benchmark::State& state) {
  state.counters["each"] = benchmark::Counter(
      static_cast<double>(Rows(state)),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void SetShapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"m", "rows"});
  benchmark->Args({2, 2048})->Args({10, 2048})->Args({100, 256})->Args({1000, 64})->Args({10, 1});
}

void Counting(benchmark::State& state, const Lens& lens, std::size_t block_size, bool watched,
              std::size_t threads = 1) {
  ThreadPool pool("benchmark", threads);
  ModelDeclaration declaration = Declaration(Classes(state));
  declaration.monitoring.disabled = !watched;
  std::get<ClassesSpec>(declaration.kind).lenses = {lens};
  std::get<ClassesSpec>(declaration.kind).block_sizes = {block_size};
  Model model(1, declaration, {}, {}, pool, nullptr);
  const PredictionSet set = Predictions(Rows(state), Classes(state));
  for (auto _ : state) model.strand_state().Observe(set.view());
  ShowEach(state);
}
BENCHMARK_CAPTURE(Counting, canonical, Lens::Canonical(), 2, false)->Apply(SetShapes);
BENCHMARK_CAPTURE(Counting, blocks_of_100, Lens::Canonical(), 100, false)->Apply(SetShapes);
BENCHMARK_CAPTURE(Counting, top_label, Lens::TopLabel(), 2, false)->Apply(SetShapes);
BENCHMARK_CAPTURE(Counting, class_wise, Lens::ClassWise(), 2, false)->Apply(SetShapes);
// The cost of the watch is the difference from `canonical`: evidence, class evidence, scores, and
// the detection of repeated rows.
BENCHMARK_CAPTURE(Counting, watched, Lens::Canonical(), 2, true)->Apply(SetShapes);
BENCHMARK_CAPTURE(Counting, watched_by_4_threads, Lens::Canonical(), 100, true, 4)
    ->Apply(SetShapes)
    ->UseRealTime();

// A watched model with groups of predictions, whose rows alternate at random.
void CountingGroups(benchmark::State& state) {
  ThreadPool pool("benchmark", 1);
  ModelDeclaration declaration = Declaration(10);
  declaration.monitoring.disabled = false;
  declaration.monitoring.group_tag = "group";
  const auto groups = static_cast<std::size_t>(state.range(0));
  declaration.monitoring.max_groups = groups;
  Model model(1, declaration, {}, {}, pool, nullptr);
  const PredictionSet set = Predictions(Rows(state), 10);
  std::vector<std::string> values;
  for (std::size_t i = 0; i < Rows(state); ++i) {
    values.push_back(std::to_string(i * 0x9E3779B1 % 65521 % groups));
  }
  const RowView rows(set.view(), {.groups = GroupValues(values)});
  for (auto _ : state) model.strand_state().Observe(rows);
  ShowEach(state);
}
BENCHMARK(CountingGroups)
    ->ArgNames({"groups", "rows"})
    ->Args({1, 256})
    ->Args({8, 256})
    ->Args({64, 256})
    ->Args({64, 2048})
    ->Args({64, 1});

// Rows of the other kinds of a watched model, so many that none is in the window twice.
class OtherRows {
 public:
  static constexpr std::size_t kBatches = 8;

  explicit OtherRows(std::size_t rows) : rows_(rows) {}
  std::mt19937_64& generator() noexcept { return generator_; }
  [[nodiscard]] std::size_t count() const noexcept { return rows_ * kBatches; }
  std::vector<double>& values() noexcept { return values_; }
  std::vector<double>& outcomes() noexcept { return outcomes_; }
  std::vector<std::int32_t>& labels() noexcept { return labels_; }

  [[nodiscard]] RowView Batch(std::size_t number) const {
    const std::size_t width = values_.size() / count();
    const std::size_t first = number % kBatches * rows_;
    const TruthView truths = {.labels = labels_, .outcomes = outcomes_, .each = width};
    return RowView(values_, width, truths, {}).rows(first, rows_);
  }

 private:
  std::size_t rows_;
  std::mt19937_64 generator_{1};
  std::vector<double> values_;
  std::vector<double> outcomes_;
  std::vector<std::int32_t> labels_;
};

void CountOthers(benchmark::State& state, ModelDeclaration declaration, const OtherRows& rows) {
  ThreadPool pool("benchmark", 1);
  declaration.monitoring.disabled = false;
  declaration.window = 1000;
  Model model(1, declaration, {}, {}, pool, nullptr);
  std::size_t number = 0;
  for (std::size_t added = 0; added < declaration.warmup; added += rows.Batch(0).size()) {
    model.strand_state().Observe(rows.Batch(number++));
  }
  for (auto _ : state) model.strand_state().Observe(rows.Batch(number++));
  state.counters["each"] = benchmark::Counter(
      static_cast<double>(rows.Batch(0).size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// draws: of each forecast; 0 for Normal forecasts.
void CountingForecasts(benchmark::State& state, std::size_t draws) {
  OtherRows rows(static_cast<std::size_t>(state.range(0)));
  std::normal_distribution<double> normal;
  for (std::size_t i = 0; i < rows.count(); ++i) {
    const double mean = normal(rows.generator());
    if (draws == 0) rows.values().insert(rows.values().end(), {mean, 1});
    for (std::size_t k = 0; k < draws; ++k) {
      rows.values().push_back(mean + normal(rows.generator()));
    }
    rows.outcomes().push_back(mean + normal(rows.generator()));
  }
  ModelDeclaration declaration = Declaration(2);
  auto& numbers = declaration.kind.emplace<NumbersSpec>();
  numbers.forecast = NormalForecasts{};
  if (draws > 0) numbers.forecast = SampleForecasts{draws};
  declaration.warmup = 1000;
  CountOthers(state, declaration, rows);
}
BENCHMARK_CAPTURE(CountingForecasts, normal, 0)->ArgName("rows")->Arg(256)->Arg(2048);
BENCHMARK_CAPTURE(CountingForecasts, samples_of_20, 20)->ArgName("rows")->Arg(256)->Arg(2048);

void CountingLabels(benchmark::State& state) {
  constexpr std::size_t kLabels = 10;
  OtherRows rows(static_cast<std::size_t>(state.range(0)));
  std::uniform_real_distribution<double> uniform;
  for (std::size_t i = 0; i < rows.count() * kLabels; ++i) {
    rows.values().push_back(uniform(rows.generator()));
    rows.labels().push_back(uniform(rows.generator()) < rows.values().back() ? 1 : 0);
  }
  ModelDeclaration declaration = Declaration(2);
  auto& labels = declaration.kind.emplace<LabelsSpec>();
  for (std::size_t k = 0; k < kLabels; ++k) labels.names.push_back(std::to_string(k));
  CountOthers(state, declaration, rows);
}
BENCHMARK(CountingLabels)->ArgName("rows")->Arg(256)->Arg(2048);

template <typename Float>
void Decoding(benchmark::State& state) {
  const ModelDeclaration declaration = Declaration(Classes(state));
  const v1::Observations message = Message<Float>(Rows(state), Classes(state));
  for (auto _ : state) benchmark::DoNotOptimize(Decode(message, declaration));
  ShowEach(state);
}
BENCHMARK_TEMPLATE(Decoding, double)->Apply(SetShapes);
BENCHMARK_TEMPLATE(Decoding, float)->Apply(SetShapes);

template <typename Float>
void Encoding(benchmark::State& state) {
  LogRow row = Decode(Message<Float>(Rows(state), Classes(state)), Declaration(Classes(state)));
  row.position = ProducerPosition{.producer_id = "benchmark", .epoch = 1, .sequence = 1};
  for (auto _ : state) {
    std::string encoded = EncodeRow(row);
    AppendElapsed(std::chrono::microseconds(1), encoded);
    benchmark::DoNotOptimize(encoded);
  }
  ShowEach(state);
}
BENCHMARK_TEMPLATE(Encoding, double)->Apply(SetShapes);
BENCHMARK_TEMPLATE(Encoding, float)->Apply(SetShapes);

}  // namespace
}  // namespace calibd::server

BENCHMARK_MAIN();
