// Google Benchmark of core. `tests/benchmark/run` compares each row with its baseline.
#include <benchmark/benchmark.h>
#ifdef CALIBD_WITH_OPENBLAS
#include <cblas.h>
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <random>
#include <thread>
#include <variant>
#include <vector>

#include "benchmark/tile_mix.h"
#include "calibd/core/bandwidth.h"
#include "calibd/core/bootstrap.h"
#include "calibd/core/calibration_function.h"
#include "calibd/core/calibration_loss.h"
#include "calibd/core/estimator_selection.h"
#include "calibd/core/evidence.h"
#include "calibd/core/forecast_discrepancy.h"
#include "calibd/core/forecast_evidence.h"
#include "calibd/core/generator.h"
#include "calibd/core/label_errors.h"
#include "calibd/core/label_evidence.h"
#include "calibd/core/lens.h"
#include "calibd/core/lens_evaluation.h"
#include "calibd/core/running_reliability.h"
#include "calibd/core/running_skce.h"
#include "calibd/core/simd_target.h"
#include "calibd/core/skce.h"

namespace calibd {
namespace {

const PredictionSet& Predictions(std::size_t n, std::size_t m) {
  static std::deque<PredictionSet> made;  // keeps its elements in place
  for (const PredictionSet& set : made) {
    if (set.labels.size() == n && set.class_count == m) return set;
  }
  PredictionSet set;
  Generator::Create(GeneratorSpec::M1(m), 1)->Draw(n, set);
  return made.emplace_back(std::move(set));
}

Kernel MakeKernel() { return *Kernel::ExponentialTotalVariation(0.9); }

RunControl OnThreads(std::size_t threads) {
  RunControl control;
  if (threads == 1) return control;
  control.parallel_for = [threads](std::size_t count,
                                   const std::function<void(std::size_t)>& body) {
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> workers;
    for (std::size_t t = 0; t < threads; ++t) {
      workers.emplace_back([&] {
        for (std::size_t i = next++; i < count; i = next++) body(i);
      });
    }
  };
  return control;
}

void Quadratic(benchmark::State& state, Precision precision) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto m = static_cast<std::size_t>(state.range(1));
  const RunControl control = OnThreads(static_cast<std::size_t>(state.range(2)));
  const PredictionBatch batch = Predictions(n, m).view();
  for (auto _ : state) {
    benchmark::DoNotOptimize(EstimateQuadraticSkce(batch, MakeKernel(), control, precision));
  }
  state.counters["pairs/s"] =
      benchmark::Counter(static_cast<double>(n) * static_cast<double>(n - 1) / 2,
                         benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(Quadratic, float64, Precision::kFloat64)
    ->ArgNames({"n", "m", "threads"})
    ->Args({10000, 10, 1})
    ->Args({10000, 100, 1})
    ->Args({2000, 1000, 1})
    ->Args({10000, 10, 2})
    ->Args({10000, 100, 2})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(Quadratic, float32, Precision::kFloat32)
    ->ArgNames({"n", "m", "threads"})
    ->Args({10000, 10, 1})
    ->Args({10000, 100, 1})
    ->Args({2000, 1000, 1})
    ->Args({10000, 10, 2})
    ->Args({10000, 100, 2})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// The instructions of as many pairs as in Quadratic, without anything else.
void TileMix(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto m = static_cast<std::size_t>(state.range(1));
  for (auto _ : state) testing::RunTileMix(m, n * (n - 1) / 2);
}
BENCHMARK(TileMix)
    ->ArgNames({"n", "m"})
    ->Args({10000, 10})
    ->Args({10000, 100})
    ->Args({2000, 1000})
    ->Unit(benchmark::kMillisecond);

void Median(benchmark::State& state) {
  const PredictionSet& set = Predictions(static_cast<std::size_t>(state.range(0)),
                                         static_cast<std::size_t>(state.range(1)));
  const RunControl control = OnThreads(static_cast<std::size_t>(state.range(2)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(MedianBandwidth(set.probabilities, set.class_count, control));
  }
}
BENCHMARK(Median)
    ->ArgNames({"n", "m", "threads"})
    ->Args({10000, 10, 1})
    ->Args({10000, 100, 1})
    ->Args({12000, 10, 1})
    ->Args({40000, 10, 1})
    ->Args({40000, 10, 4})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void TopLabel(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const LensBatch batch = *ApplyLens(Predictions(n, 10).view(), Lens::TopLabel());
  for (auto _ : state) benchmark::DoNotOptimize(EstimateQuadraticSkce(batch, MakeKernel()));
}
BENCHMARK(TopLabel)->ArgName("n")->Arg(10000)->Arg(1000000)->Unit(benchmark::kMillisecond);

void Bootstrap(benchmark::State& state) {
  const PredictionBatch batch = Predictions(10000, 10).view();
  const RunControl control = OnThreads(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(BootstrapTest(batch, MakeKernel(), {.replicates = 1000}, control));
  }
  // This counts only the multiplications of the tiles by the counts, n^2 replicates / 2 of them.
  state.counters["flop/s"] =
      benchmark::Counter(1e4 * 1e4 * 1000, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["memory"] = static_cast<double>(
      BootstrapMemory(10000, 10, 1000, static_cast<std::size_t>(state.range(0))));
}
BENCHMARK(Bootstrap)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// The whole test that RunTest makes with labels drawn from the predictions.
void Simulation(benchmark::State& state) {
  const PredictionBatch batch = Predictions(static_cast<std::size_t>(state.range(0)), 10).view();
  LensTestOptions options;
  options.kernel.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
  options.kernel.rule.bandwidth.fixed = MakeKernel().bandwidth();
  options.replicates = 999;
  options.null = NullHypothesis::kForecast;
  const auto threads = static_cast<std::size_t>(state.range(1));
  for (auto _ : state) {
    benchmark::DoNotOptimize(TestLens(batch, Lens::Canonical(), options, OnThreads(threads)));
  }
  state.counters["memory"] = LensTestMemory(batch.size(), 10, Lens::Canonical(), options, threads);
}
BENCHMARK(Simulation)
    ->ArgNames({"n", "threads"})
    ->Args({2000, 1})
    ->Args({10000, 1})
    ->Args({10000, 4})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

#ifdef CALIBD_WITH_OPENBLAS
// The maximum speed of a matrix product, for comparison with Bootstrap.
void SgemmPeak(benchmark::State& state) {
  constexpr int kSize = 1024;
  std::vector<float> a(kSize * kSize, 0.5F);
  std::vector<float> b(a);
  std::vector<float> c(a);
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1, a.data(), kSize,
                b.data(), kSize, 0, c.data(), kSize);
    benchmark::ClobberMemory();
  }
  state.counters["flop/s"] = benchmark::Counter(2.0 * kSize * kSize * kSize,
                                                benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(SgemmPeak)->Unit(benchmark::kMillisecond);
#endif

void RunningBlocks(benchmark::State& state) {
  const auto m = static_cast<std::size_t>(state.range(1));
  const PredictionSet& set = Predictions(2000, m);
  auto running =
      RunningBlockSkce::Create(static_cast<std::size_t>(state.range(0)), m, MakeKernel());
  for (auto _ : state) {
    for (std::size_t i = 0; i < 2000; ++i) running->Add(set.view().row(i), set.labels[i]);
  }
  state.SetItemsProcessed(2000 * static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(RunningBlocks)->ArgNames({"b", "m"})->Args({2, 10})->Args({100, 10})->Args({2, 1000});

// The statistics that the history counts for each prediction.
void Reliability(benchmark::State& state) {
  const PredictionSet& set = Predictions(2000, static_cast<std::size_t>(state.range(0)));
  RunningReliability running;
  for (auto _ : state) running.Add(set.view());
  state.SetItemsProcessed(2000 * static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(Reliability)->ArgName("m")->Arg(2)->Arg(10)->Arg(1000);

// Evidence, drift detectors and estimates together, in batches of `rows`.
void EvidenceAdd(benchmark::State& state) {
  const auto m = static_cast<std::size_t>(state.range(0));
  const auto rows = static_cast<std::size_t>(state.range(1));
  const PredictionBatch batch = Predictions(2048, m).view();
  auto process = *EvidenceProcess::Create(*FourierBasis::Create(MakeKernel(), m));
  for (auto _ : state) {
    for (std::size_t i = 0; i < 2048; i += rows) process.Add(batch.rows(i, rows));
  }
  state.SetItemsProcessed(2048 * static_cast<std::int64_t>(state.iterations()));
  // Shown as seconds per prediction.
  state.counters["each"] = benchmark::Counter(
      2048, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["memory"] = static_cast<double>(EvidenceProcess::MaxMemory(m));
}
BENCHMARK(EvidenceAdd)
    ->ArgNames({"m", "rows"})
    ->Args({2, 64})
    ->Args({10, 64})
    ->Args({10, 1})
    ->Args({100, 64})
    ->Args({1000, 64})
    ->Args({1000, 1})
    ->Unit(benchmark::kMillisecond);

// Evidence, drift detector and errors of K labels.
void LabelsAdd(benchmark::State& state) {
  constexpr std::size_t kRows = 2048;
  const auto label_count = static_cast<std::size_t>(state.range(0));
  std::mt19937_64 engine(1);
  std::uniform_real_distribution<double> uniform;
  std::vector<double> probabilities(kRows * label_count);
  std::vector<std::int8_t> truths(probabilities.size());
  for (std::size_t i = 0; i < truths.size(); ++i) {
    probabilities[i] = uniform(engine);
    truths[i] = uniform(engine) < probabilities[i] ? 1 : 0;
  }
  const MultilabelBatch batch{probabilities, truths, label_count};
  LabelEvidence evidence(label_count, kDefaultTolerance);
  LabelErrors errors(label_count);
  for (auto _ : state) {
    evidence.Add(batch);
    errors.Add(batch);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(kRows) * state.iterations());
  state.counters["each"] = benchmark::Counter(
      kRows, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["memory"] = static_cast<double>(LabelEvidence::MaxMemory(label_count));
}
BENCHMARK(LabelsAdd)->ArgName("labels")->Arg(1)->Arg(10)->Arg(1000)->Unit(benchmark::kMillisecond);

// Forecasts with outcomes that are drawn as the forecasts are: n rows of the kind's width.
struct DrawnForecasts {
  DrawnForecasts(const NumberForecastKind& kind, std::size_t n) {
    std::mt19937_64 engine(1);
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < n; ++i) {
      const double mean = normal(engine);
      const double sd = std::exp(.35 * normal(engine));
      outcomes.push_back(mean + sd * normal(engine));
      if (std::holds_alternative<NormalForecasts>(kind)) {
        forecasts.insert(forecasts.end(), {mean, sd});
        continue;
      }
      const std::size_t first = forecasts.size();
      for (std::size_t k = 0; k < ForecastWidth(kind); ++k) {
        forecasts.push_back(mean + sd * normal(engine));
      }
      if (std::holds_alternative<QuantileForecasts>(kind)) {
        std::sort(forecasts.begin() + static_cast<std::ptrdiff_t>(first), forecasts.end());
      }
    }
  }

  std::vector<double> forecasts;
  std::vector<double> outcomes;
};

// Cells, evidence, drift detectors, coverage and scores of forecasts of a number, in batches of
// `rows`. width 2: Normal; up to 63: quantiles; more: samples.
void ForecastAdd(benchmark::State& state) {
  constexpr std::size_t kRows = 2048;
  const auto width = static_cast<std::size_t>(state.range(0));
  const auto rows = static_cast<std::size_t>(state.range(1));
  NumberForecastKind kind = NormalForecasts{};
  if (width > 63) kind = SampleForecasts{width};
  if (width > 2 && width <= 63) {
    std::vector<double> levels;
    for (std::size_t k = 1; k <= width; ++k) {
      levels.push_back(static_cast<double>(k) / static_cast<double>(width + 1));
    }
    kind = QuantileForecasts{levels};
  }
  const DrawnForecasts drawn(kind, kRows);
  const NumberForecastBatch all{.forecasts = drawn.forecasts, .outcomes = drawn.outcomes};
  ForecastEvidence evidence(
      *ForecastCells::Create(kind, StrataOfForecasts(kind, drawn.forecasts), 1, kDefaultTolerance));
  for (auto _ : state) {
    for (std::size_t i = 0; i < kRows; i += rows) {
      evidence.Add({.forecasts = all.forecasts.subspan(i * width, rows * width),
                    .outcomes = all.outcomes.subspan(i, rows)},
                   1);
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(kRows) * state.iterations());
  state.counters["each"] = benchmark::Counter(
      kRows, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["memory"] =
      static_cast<double>(ForecastEvidence::MaxMemory(evidence.cells()->cell_count(), false));
}
BENCHMARK(ForecastAdd)
    ->ArgNames({"width", "rows"})
    ->Args({2, 64})
    ->Args({2, 1})
    ->Args({9, 64})
    ->Args({63, 64})
    ->Args({100, 64})
    ->Args({1000, 64})
    ->Unit(benchmark::kMillisecond);

// The quadratic estimate over Fourier terms and the blocks, in batches of 64 rows. width 2:
// Normal; else samples.
void ForecastDiscrepancyAdd(benchmark::State& state) {
  constexpr std::size_t kRows = 1024;
  const auto width = static_cast<std::size_t>(state.range(0));
  NumberForecastKind kind = NormalForecasts{};
  if (width > 2) kind = SampleForecasts{width};
  const DrawnForecasts drawn(kind, kRows);
  auto discrepancy = *ForecastDiscrepancy::Create(
      kind, *ChooseDiscrepancyKernel(kind, std::span(drawn.forecasts).first(200 * width)));
  for (auto _ : state) {
    for (std::size_t i = 0; i < kRows; i += 64) {
      discrepancy.Add({.forecasts = std::span(drawn.forecasts).subspan(i * width, 64 * width),
                       .outcomes = std::span(drawn.outcomes).subspan(i, 64)});
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(kRows) * state.iterations());
  state.counters["each"] = benchmark::Counter(
      kRows, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(ForecastDiscrepancyAdd)
    ->ArgName("width")
    ->Arg(2)
    ->Arg(100)
    ->Unit(benchmark::kMillisecond);

// The loss of predictions of classes with its gradient, as in a step of training.
void ClassLoss(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto m = static_cast<std::size_t>(state.range(1));
  const RunControl control = OnThreads(static_cast<std::size_t>(state.range(2)));
  const PredictionSet set = Predictions(n, m);
  const ForecastBatch batch{.kind = ForecastKind::kProbabilities,
                            .values = set.probabilities,
                            .width = m,
                            .labels = set.labels,
                            .outcomes = {}};
  LossOptions options;
  options.condition = ForecastCondition{.bandwidth = MakeKernel().bandwidth(), .gamma = {}};
  for (auto _ : state) benchmark::DoNotOptimize(ComputeLoss(batch, options, control));
}
BENCHMARK(ClassLoss)
    ->ArgNames({"n", "m", "threads"})
    ->Args({256, 10, 1})
    ->Args({4096, 100, 1})
    ->Args({256, 10, 2})
    ->Args({4096, 100, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// The unbiased MMD of Normal forecasts given the forecasts, over all pairs.
void DistributionMmd(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const RunControl control = OnThreads(static_cast<std::size_t>(state.range(1)));
  const DrawnForecasts drawn(NormalForecasts{}, n);
  const ForecastBatch batch{.kind = ForecastKind::kNormal,
                            .values = drawn.forecasts,
                            .width = 2,
                            .labels = {},
                            .outcomes = drawn.outcomes};
  LossOptions options;
  options.outcome_kernel = RbfKernel{0.15};
  options.condition = ForecastCondition{.bandwidth = {}, .gamma = 0.3};
  options.gradient = false;
  for (auto _ : state) benchmark::DoNotOptimize(ComputeLoss(batch, options, control));
  state.counters["pairs/s"] =
      benchmark::Counter(static_cast<double>(n) * static_cast<double>(n - 1) / 2,
                         benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(DistributionMmd)
    ->ArgNames({"n", "threads"})
    ->Args({10000, 1})
    ->Args({10000, 4})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void KernelRidgeFit(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto m = static_cast<std::size_t>(state.range(1));
  const ResidualSample sample = *ReduceToResiduals(Predictions(n, m).view(), Lens::Canonical());
  for (auto _ : state) benchmark::DoNotOptimize(KernelRidge::Fit(sample, {}));
}
BENCHMARK(KernelRidgeFit)->ArgNames({"n", "m"})->Args({8000, 10})->Unit(benchmark::kMillisecond);

// All estimators of the top label with the default grids.
void SelectEstimator(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const RunControl control = OnThreads(static_cast<std::size_t>(state.range(1)));
  const PredictionBatch batch = Predictions(n, 10).view();
  for (auto _ : state) benchmark::DoNotOptimize(calibd::SelectEstimator(batch, {}, control));
}
BENCHMARK(SelectEstimator)
    ->ArgNames({"n", "threads"})
    ->Args({10000, 4})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace calibd

int main(int argc, char** argv) {
  benchmark::AddCustomContext("simd_target", calibd::SimdTarget());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
