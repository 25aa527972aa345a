// Runs one hot path for a fixed number of predictions, which it prints.
// tests/benchmark/instructions.py counts the instructions.
#include <hwy/nanobenchmark.h>
#include <hwy/targets.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "calibd/convert/json.h"
#include "calibd/convert/json_reader.h"
#include "calibd/core/calibration_loss.h"
#include "calibd/core/evidence.h"
#include "calibd/core/forecast_evidence.h"
#include "calibd/core/fourier_basis.h"
#include "calibd/core/generator.h"
#include "calibd/core/kernel.h"
#include "calibd/core/running_lens.h"
#include "calibd/core/simd_target.h"
#include "calibd/core/skce.h"
#include "calibd/v1/ingest_service.pb.h"
#include "server/model/model_declaration.h"
#include "server/rows/row_view.h"
#include "server/state/strand_state.h"

// libhwy measures its timer when it is loaded, with the instruction RDTSCP. Valgrind refuses RDTSCP
// on CPUs that do not report it, so this definition replaces that of libhwy. Nothing here uses the
// timer.
namespace hwy::platform {
uint64_t TimerResolution() { return 1; }
}  // namespace hwy::platform

// The counter counts only what runs inside this function.
extern "C" [[gnu::noinline]] void CountInstructions(const std::function<void()>& work) { work(); }

namespace calibd {
namespace {

// Exit code of a skipped test.
constexpr int kSkipped = 77;

Kernel MakeKernel() { return *Kernel::ExponentialTotalVariation(0.9); }

PredictionSet Predictions(std::size_t rows, std::size_t class_count) {
  PredictionSet set;
  Generator::Create(GeneratorSpec::M1(class_count), 1)->Draw(rows, set);
  return set;
}

// Adds the first predictions of the set and then, under the counter, the whole set. Returns its
// size.
template <typename State>
std::size_t Add(State& state, const PredictionSet& set, std::size_t first) {
  state.Add(set.view().rows(0, first));
  CountInstructions([&] { state.Add(set.view()); });
  return set.labels.size();
}

std::size_t Evidence(std::size_t class_count) {
  auto evidence = *EvidenceProcess::Create(*FourierBasis::Create(MakeKernel(), class_count));
  return Add(evidence, Predictions(256, class_count), 64);
}

// Normal forecasts, whose rows have two values: the outcome is about as far away as a Normal one.
struct Normals {
  explicit Normals(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      // Numbers that are spread evenly over [0, 1).
      const double u = std::fmod(static_cast<double>(i) * 0.618, 1);
      forecasts.insert(forecasts.end(), {std::fmod(static_cast<double>(i) * 0.414, 1), 1 + u});
      outcomes.push_back(std::log((u + 0.01) / (1.01 - u)));
    }
  }

  std::vector<double> forecasts;
  std::vector<double> outcomes;
};

std::size_t Forecast() {
  constexpr std::size_t kFirst = 128;
  constexpr std::size_t kRows = 640;
  const auto [forecasts, outcomes] = Normals(kFirst + kRows);
  const NumberForecastBatch all{.forecasts = forecasts, .outcomes = outcomes};
  ForecastEvidence evidence(*ForecastCells::Create(
      NormalForecasts{}, StrataOfForecasts(NormalForecasts{}, forecasts), 1, kDefaultTolerance));
  const auto rows = [&](std::size_t first, std::size_t count) {
    return NumberForecastBatch{.forecasts = all.forecasts.subspan(2 * first, 2 * count),
                               .outcomes = all.outcomes.subspan(first, count)};
  };
  evidence.Add(rows(0, kFirst), 1);
  CountInstructions([&] { evidence.Add(rows(kFirst, kRows), 1 + kFirst); });
  return kRows;
}

// The pairs of a discrepancy given the forecasts.
std::size_t Distribution() {
  const Normals normals(512);
  const ForecastBatch batch{.kind = ForecastKind::kNormal,
                            .values = normals.forecasts,
                            .width = 2,
                            .labels = {},
                            .outcomes = normals.outcomes};
  LossOptions options;
  options.outcome_kernel = RbfKernel{0.15};
  options.condition = ForecastCondition{.bandwidth = {}, .gamma = 0.3};
  options.gradient = false;
  CountInstructions([&] {
    if (!ComputeLoss(batch, options).ok()) std::abort();
  });
  return batch.size();
}

// The loss of predictions of classes and its gradient.
std::size_t Loss(std::size_t class_count) {
  const PredictionSet set = Predictions(512, class_count);
  const ForecastBatch batch{.kind = ForecastKind::kProbabilities,
                            .values = set.probabilities,
                            .width = class_count,
                            .labels = set.labels,
                            .outcomes = {}};
  LossOptions options;
  options.condition = ForecastCondition{.bandwidth = MakeKernel().bandwidth(), .gamma = {}};
  CountInstructions([&] {
    if (!ComputeLoss(batch, options).ok()) std::abort();
  });
  return set.labels.size();
}

// A request in JSON as clients write it, with all digits.
std::size_t Json(std::size_t class_count) {
  const PredictionSet set = Predictions(256, class_count);
  v1::ObserveRequest request;
  v1::Observations& observations = *request.mutable_observations();
  observations.mutable_probabilities()->mutable_values()->Add(set.probabilities.begin(),
                                                              set.probabilities.end());
  observations.mutable_labels()->Add(set.labels.begin(), set.labels.end());
  const std::string text = convert::ToJsonText(request);
  v1::ObserveRequest read;
  const auto read_text = [&] {
    read.Clear();
    if (convert::ReadJson(text, read).has_value()) std::abort();
  };
  // The first time also builds the descriptors.
  read_text();
  CountInstructions(read_text);
  if (read.SerializeAsString() != request.SerializeAsString()) std::abort();
  return set.labels.size();
}

// A watched model. group_count: 0 for none.
server::ModelDeclaration Declaration(std::size_t class_count, std::size_t group_count) {
  server::ModelDeclaration declaration;
  declaration.name = {"benchmark", ""};
  auto& classes = declaration.kind.emplace<server::ClassesSpec>();
  classes.count = class_count;
  classes.kernel.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
  classes.kernel.rule.bandwidth.fixed = 0.9;
  classes.lenses = {Lens::Canonical()};
  classes.block_sizes = {2};
  classes.row_sum_tolerance = 1e-3;
  declaration.window = 1000;
  if (group_count > 0) declaration.monitoring.group_tag = "group";
  declaration.monitoring.max_groups = group_count;
  return declaration;
}

// A watched model that receives one row at a time.
std::size_t SingleRows(std::size_t class_count) {
  server::StrandState state(
      std::make_shared<const server::ModelDeclaration>(Declaration(class_count, 0)));
  const PredictionSet set = Predictions(256, class_count);
  const auto add = [&] {
    for (std::size_t i = 0; i < set.labels.size(); ++i) state.Observe(set.view().rows(i, 1));
  };
  // A process computes few rows together until it has seen many.
  for (int i = 0; i < 4; ++i) add();
  CountInstructions(add);
  return set.labels.size();
}

// A watched model with 64 groups, whose rows alternate without order.
std::size_t Groups(std::size_t class_count) {
  constexpr std::size_t kGroups = 64;
  server::StrandState state(
      std::make_shared<const server::ModelDeclaration>(Declaration(class_count, kGroups)));
  const PredictionSet set = Predictions(512, class_count);
  std::vector<std::string> values;
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    values.push_back(std::to_string(i * 0x9E3779B1 % 65521 % kGroups));
  }
  const server::RowView rows(set.view(), {.groups = server::GroupValues(values)});
  // A process computes few rows together until it has seen many.
  for (int i = 0; i < 20; ++i) state.Observe(rows);
  CountInstructions([&] { state.Observe(rows); });
  return set.labels.size();
}

// The block sizes are those of the default declaration. Only whole blocks are counted.
std::size_t Blocks(std::size_t class_count) {
  constexpr std::array<std::size_t, 2> kBlockSizes{2, 100};
  auto lens = *RunningLens::Create(Lens::Canonical(), class_count, MakeKernel(), kBlockSizes);
  return Add(lens, Predictions(400, class_count), 100);
}

std::size_t Tiles(std::size_t class_count) {
  const PredictionSet set = Predictions(512, class_count);
  CountInstructions([&] {
    if (!EstimateQuadraticSkce(set.view(), MakeKernel()).ok()) std::abort();
  });
  return set.labels.size();
}

int Main(std::string_view path, std::size_t class_count) {
  hwy::DisableTargets(~std::int64_t{HWY_AVX2});
  if (SimdTarget() != std::string_view("AVX2")) {
    std::cerr << "skipped: this CPU has no AVX2\n";
    return kSkipped;
  }
  std::size_t counted = 0;
  if (path == "evidence") counted = Evidence(class_count);
  if (path == "forecast" && class_count == 2) counted = Forecast();
  if (path == "distribution" && class_count == 2) counted = Distribution();
  if (path == "blocks") counted = Blocks(class_count);
  if (path == "tiles") counted = Tiles(class_count);
  if (path == "loss") counted = Loss(class_count);
  if (path == "json") counted = Json(class_count);
  if (path == "single") counted = SingleRows(class_count);
  if (path == "groups") counted = Groups(class_count);
  std::cout << counted << '\n';
  return counted > 0 ? 0 : 1;
}

}  // namespace
}  // namespace calibd

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: instructions evidence|blocks|tiles|loss|json|single|groups CLASSES, or "
                 "forecast|distribution 2\n";
    return 2;
  }
  return calibd::Main(argv[1], std::stoul(argv[2]));
}
