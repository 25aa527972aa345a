#include "server/state/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "calibd/core/bandwidth.h"
#include "calibd/core/generator.h"
#include "server/state/check_declaration.h"
#include "server/state/declaration_size.h"
#include "support/log_rows.h"
#include "support/wait_for.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr std::size_t kModelClasses = 3;

PredictionSet Draw(std::size_t n) {
  PredictionSet set;
  auto generator = Generator::Create(GeneratorSpec::M2(kModelClasses), 5);
  generator->Draw(n, set);
  return set;
}

ModelDeclaration Declaration(std::size_t window, std::size_t warmup,
                             std::optional<double> bandwidth = std::nullopt) {
  ModelDeclaration declaration;
  declaration.name = {"m", ""};
  auto& classes = declaration.kind.emplace<ClassesSpec>();
  classes.count = kModelClasses;
  if (bandwidth.has_value()) {
    classes.kernel.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
    classes.kernel.rule.bandwidth.fixed = *bandwidth;
  }
  declaration.warmup = warmup;
  classes.block_sizes = {2, 7};
  declaration.window = window;
  classes.row_sum_tolerance = 1e-3;
  return declaration;
}

class ModelTest : public ::testing::Test {
 protected:
  // Returns the state after batches of these sizes, taken from set in order.
  std::shared_ptr<const ModelSnapshot> StateAfter(const ModelDeclaration& declaration,
                                                  const PredictionSet& set,
                                                  const std::vector<std::size_t>& batches) {
    Model model(1, declaration, {}, {}, pool_, nullptr);
    std::size_t done = 0;
    for (const std::size_t size : batches) {
      model.strand_state().Observe(set.view().rows(done, size));
      done += size;
    }
    EXPECT_EQ(done, set.labels.size());
    model.Publish();
    return model.snapshot();
  }

  ThreadPool pool_{"test", 1};
};

void ExpectEqualBits(double a, double b) { EXPECT_EQ(std::memcmp(&a, &b, sizeof(a)), 0); }

// Observations that several threads count, in batches of different sizes.
store::v1::ModelState StateWith(ThreadPool& pool, const std::string& group_tag) {
  ModelDeclaration declaration = Declaration(300, 0, 0.5);
  std::get<ClassesSpec>(declaration.kind).lenses = {Lens::Canonical(), Lens::ClassWise()};
  declaration.monitoring.group_tag = group_tag;
  declaration.monitoring.max_groups = 2;
  const PredictionSet set = Draw(4000);
  std::vector<std::string> groups;
  for (std::size_t i = 0; i < set.labels.size(); ++i) groups.push_back(i % 3 == 0 ? "a" : "b");
  Model model(1, declaration, {}, {}, pool, nullptr);
  for (std::size_t first = 0, rows = 1; first < set.labels.size(); first += rows, rows *= 3) {
    rows = std::min(rows, set.labels.size() - first);
    model.strand_state().Observe(
        {set.view().rows(first, rows), {.groups = GroupValues(groups).rows(first, rows)}});
  }
  return model.strand_state().Save();
}

TEST_F(ModelTest, StateDoesNotDependOnTheThreads) {
  ThreadPool threads("test", 4);
  for (const std::string group_tag : {"", "site"}) {
    EXPECT_EQ(StateWith(threads, group_tag).SerializeAsString(),
              StateWith(pool_, group_tag).SerializeAsString());
  }
}

TEST_F(ModelTest, IdleThreadsHelpToCountLargeBatches) {
  ThreadPool threads("test", 2);
  Model model(1, Declaration(300, 0, 0.5), {}, {}, threads, nullptr);
  const PredictionSet set = Draw(2000);
  const auto cpu_ns = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
  };
  const auto of_others = [&] {
    return cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns(CLOCK_THREAD_CPUTIME_ID);
  };
  const auto before = of_others();
  const auto own_before = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
  EXPECT_TRUE(testing::WaitFor([&] {
    model.strand_state().Observe(set.view());
    // Waking up the threads in vain takes much less.
    return of_others() - before > 1000000 &&
           of_others() - before > (cpu_ns(CLOCK_THREAD_CPUTIME_ID) - own_before) / 4;
  }));
}

TEST_F(ModelTest, ASnapshotIsMuchSmallerThanTheRowsAfterWhichItIsDue) {
  for (const int class_count : {10, 1000}) {
    SCOPED_TRACE(class_count);
    v1::Model declared;
    declared.set_name("models/m");
    declared.mutable_classes()->set_count(class_count);
    declared.mutable_classes()->mutable_bandwidth()->set_fixed(1);
    const auto declaration =
        CheckDeclaration(declared, std::size_t{256} << 20, std::size_t{4} << 30);
    ASSERT_TRUE(declaration.ok()) << declaration.status();
    Model model(1, *declaration, {}, {}, pool_, nullptr);
    PredictionSet set;
    // The block of 100 observations is almost full.
    Generator::Create(GeneratorSpec::M1(declaration->classes()->count), 1)->Draw(199, set);
    model.strand_state().Observe(set.view());
    const std::size_t row_bytes = declaration->classes()->count * sizeof(double);
    EXPECT_LT(6 * model.strand_state().Save().ByteSizeLong(),
              SnapshotRows(*declaration) * row_bytes);
  }
}

TEST_F(ModelTest, StateDoesNotDependOnTheBatches) {
  const PredictionSet set = Draw(1000);
  ModelDeclaration declaration = Declaration(300, 100);
  std::get<ClassesSpec>(declaration.kind).lenses = {Lens::Canonical(), Lens::ClassWise(),
                                                    Lens::Grouped({0, 1, 1})};
  const std::vector<std::vector<std::size_t>> cuts{std::vector<std::size_t>(1000, 1),
                                                   {1000},
                                                   {99, 1, 900},
                                                   {99, 2, 899},
                                                   {100, 900},
                                                   {101, 899},
                                                   {50, 350, 300, 299, 1}};

  auto kernel = Kernel::ExponentialTotalVariation(
      *MedianBandwidth(set.view().rows(0, 100).probabilities, kModelClasses));
  const PredictionSet warmup = {
      .probabilities = {set.probabilities.begin(), set.probabilities.begin() + 100 * kModelClasses},
      .labels = {set.labels.begin(), set.labels.begin() + 100},
      .class_count = kModelClasses};
  const LensBatch grouped = *ApplyLens(warmup.view(), declaration.classes()->lenses[2]);
  const std::vector<Kernel> kernels = {
      *kernel, *Kernel::ExponentialTotalVariation(kScalarBandwidth),
      *Kernel::ExponentialTotalVariation(*MedianBandwidth(grouped.parts[0].probabilities, 2))};
  std::vector<std::vector<RunningBlock>> offline;
  for (std::size_t lens = 0; lens < declaration.classes()->lenses.size(); ++lens) {
    auto running = RunningLens::Create(declaration.classes()->lenses[lens], kModelClasses,
                                       kernels[lens], declaration.classes()->block_sizes);
    running->Add(set.view());
    offline.push_back(running->Blocks());
  }

  for (const std::vector<std::size_t>& cut : cuts) {
    const auto state = StateAfter(declaration, set, cut);
    ASSERT_EQ(state->lenses.size(), offline.size());
    for (std::size_t lens = 0; lens < offline.size(); ++lens) {
      ASSERT_TRUE(state->lenses[lens].kernel.has_value());
      ExpectEqualBits(std::get<Kernel>(*state->lenses[lens].kernel).bandwidth(),
                      kernels[lens].bandwidth());
      const std::vector<RunningBlock>& blocks = state->lenses[lens].blocks;
      ASSERT_EQ(blocks.size(), offline[lens].size());
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        EXPECT_EQ(blocks[b].moments.count, offline[lens][b].moments.count);
        ExpectEqualBits(blocks[b].moments.mean, offline[lens][b].moments.mean);
        ExpectEqualBits(blocks[b].moments.m2, offline[lens][b].moments.m2);
        EXPECT_EQ(blocks[b].pending, offline[lens][b].pending);
      }
    }
    ASSERT_EQ(state->window.size(), 300U);
    const PredictionSet newest = state->window.CopyNewest(300);
    EXPECT_EQ(newest.labels, std::vector<std::int32_t>(set.labels.end() - 300, set.labels.end()));
    EXPECT_EQ(newest.probabilities,
              std::vector<double>(set.probabilities.end() - 300 * kModelClasses,
                                  set.probabilities.end()));
  }
}

TEST_F(ModelTest, ContinuesASavedStateWithTheSameBits) {
  const PredictionSet set = Draw(1000);
  ModelDeclaration declaration = Declaration(300, 100);
  std::get<ClassesSpec>(declaration.kind).lenses = {Lens::Canonical(), Lens::ClassWise(),
                                                    Lens::Grouped({0, 1, 1})};
  ModelDeclaration matrix = Declaration(300, 0);
  std::get<ClassesSpec>(matrix.kind).kernel.matrix =
      std::make_shared<const MatrixKernel>(*MatrixKernel::Create(
          {{*Kernel::Over(Distance::kSquaredEuclidean, 1 / 0.5), {2, 1, 0, 1, 2, 0, 0, 0, 1}}},
          kModelClasses));
  for (const ModelDeclaration& declared : {declaration, matrix}) {
    const auto whole = StateAfter(declared, set, {1000});
    for (const std::size_t cut : {0U, 57U, 100U, 101U, 555U, 1000U}) {
      Model before(1, declared, {}, {}, pool_, nullptr);
      before.strand_state().Apply(testing::ObservedRow(set.view().rows(0, cut)), 0,
                                  std::chrono::seconds(9));
      before.strand_state().Apply(testing::RowOf(RejectedRow{.rows = 3}), 0,
                                  std::chrono::seconds(9));
      const store::v1::ModelState saved = before.strand_state().Save();
      Model after(1, declared, {}, {}, pool_, nullptr);
      const absl::Status restored = after.strand_state().Restore(saved);
      ASSERT_TRUE(restored.ok()) << restored;
      EXPECT_EQ(after.strand_state().Save().SerializeAsString(), saved.SerializeAsString());
      after.strand_state().Refill(testing::ObservedRow(set.view().rows(0, cut)), 0);
      after.strand_state().Observe(set.view().rows(cut, 1000 - cut));
      after.Publish();
      const auto state = after.snapshot();
      EXPECT_EQ(state->observations, 1000);
      EXPECT_EQ(state->rejected_rows, 3);
      ASSERT_EQ(state->lenses.size(), whole->lenses.size());
      for (std::size_t lens = 0; lens < whole->lenses.size(); ++lens) {
        for (std::size_t b = 0; b < whole->lenses[lens].blocks.size(); ++b) {
          const RunningBlock& expected = whole->lenses[lens].blocks[b];
          const RunningBlock& block = state->lenses[lens].blocks[b];
          ExpectEqualBits(block.moments.mean, expected.moments.mean);
          ExpectEqualBits(block.moments.m2, expected.moments.m2);
          EXPECT_EQ(block.pending, expected.pending);
          ASSERT_EQ(block.noise_floor.has_value(), expected.noise_floor.has_value());
          if (expected.noise_floor.has_value()) {
            ExpectEqualBits(block.noise_floor->standard_deviation,
                            expected.noise_floor->standard_deviation);
          }
        }
      }
      EXPECT_EQ(state->window.CopyNewest(300).probabilities,
                whole->window.CopyNewest(300).probabilities);
    }
  }
}

TEST_F(ModelTest, DoesNotRestoreAnotherModelsState) {
  const PredictionSet set = Draw(200);
  Model model(1, Declaration(300, 100), {}, {}, pool_, nullptr);
  model.strand_state().Observe(set.view());
  const store::v1::ModelState good = model.strand_state().Save();
  const auto code_after = [&](const std::function<void(store::v1::ModelState&)>& change) {
    store::v1::ModelState state = good;
    change(state);
    return Model(1, Declaration(300, 100), {}, {}, pool_, nullptr)
        .strand_state()
        .Restore(state)
        .code();
  };
  EXPECT_EQ(code_after([](auto&) {}), absl::StatusCode::kOk);
  EXPECT_EQ(code_after([](auto& state) {
              state.set_dropped_rows(std::numeric_limits<std::int64_t>::max());
              state.set_dropped_labels(std::numeric_limits<std::int64_t>::max());
            }),
            absl::StatusCode::kOk)
      << "clients claimed it";
  EXPECT_EQ(code_after([](auto& state) { state.mutable_lenses(0)->set_bandwidth(1e200); }),
            absl::StatusCode::kOk)
      << "a client chose it";
  const std::vector<std::function<void(store::v1::ModelState&)>> changes{
      [](auto& state) { state.clear_lenses(); },
      [](auto& state) { state.set_observations(99); },
      [](auto& state) { state.set_observations(-1); },
      [](auto& state) { state.mutable_lenses(0)->set_bandwidth(-1); },
      [](auto& state) { state.mutable_lenses(0)->mutable_blocks()->RemoveLast(); },
      [](auto& state) { state.mutable_lenses(0)->add_previous_probabilities(0.5); },
      [](auto& state) { state.mutable_lenses(0)->mutable_blocks(1)->add_pending_labels(0); },
      [](auto& state) { state.mutable_lenses(0)->mutable_blocks(1)->set_pending_labels(0, 3); },
      [](auto& state) {
        state.mutable_lenses(0)->mutable_blocks(0)->mutable_moments()->set_mean(NAN);
      },
      [](auto& state) { state.set_dropped_rows(-1); },
      [](auto& state) { state.set_dropped_labels(-1); },
      [](auto& state) { state.set_accepted_batches(std::numeric_limits<std::int64_t>::max()); },
      [](auto& state) {
        state.set_last_observation_time_us(std::numeric_limits<std::int64_t>::max());
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(code_after(changes[i]), absl::StatusCode::kDataLoss) << i;
  }
}

TEST_F(ModelTest, CountsPredictionsAndLabelsOfEachPredictedClass) {
  ModelDeclaration declaration = Declaration(10, 0, 0.5);
  declaration.label_grace = std::chrono::seconds(60);
  declaration.max_pending = 10;
  Model model(1, declaration, {}, {}, pool_, nullptr);
  const auto coverage = [](Model& of) {
    of.Publish();
    return *of.snapshot()->label_arrivals;
  };
  const LabelArrivals none = coverage(model);
  const auto apply = [&model](auto kind) {
    model.strand_state().Apply(testing::RowOf(std::move(kind)), 0, {});
  };
  PredictionsRow predictions;
  predictions.predicted_classes = {0, 2, 2};
  predictions.duplicates = 1;
  apply(predictions);
  PredictionsRow labelled;
  labelled.predicted_classes = {1};
  labelled.values.truths.labels = {1};
  apply(labelled);
  LabelsRow matched;
  matched.counts = {.matched = 2, .conflicting = 1, .unknown = 5};
  matched.classes = {.matched = {2, 0}, .conflicting = {1}, .late = {}};
  apply(matched);
  const LabelArrivals waiting = coverage(model);
  EXPECT_EQ((*none.classes)[2].pending.all, 0) << "readers keep what they have";
  EXPECT_EQ((*waiting.classes)[0].pending, (PendingCounts{1, 1}));
  EXPECT_EQ((*waiting.classes)[1].pending, (PendingCounts{1, 1}));
  EXPECT_EQ((*waiting.classes)[2].pending, (PendingCounts{2, 1}));
  EXPECT_EQ((*waiting.classes)[1].conflicting, 1);
  EXPECT_EQ((*waiting.classes)[1].labelled(), 1);

  // The predictions of classes 0 and 1, and one of class 2, with their labels.
  MaturedRow matured;
  matured.values.values = {0.5, 0.25, 0.25, 0, 1, 0, 0.25, 0.25, 0.5};
  matured.values.truths.labels = {0, 1, 2};
  matured.values.width = kModelClasses;
  matured.missing_predicted_classes = {2};
  apply(matured);
  LabelsRow late;
  late.counts = {.late = 3};
  late.classes = {.matched = {}, .conflicting = {}, .late = {2, 2, 0}};
  apply(late);
  const auto check = [](const LabelArrivals& all) {
    EXPECT_EQ(all.pending(), 0);
    EXPECT_EQ(all.pending_labelled(), 0);
    std::int64_t of_classes = 0;
    for (const ClassArrivals& one : *all.classes) {
      EXPECT_EQ(one.pending, PendingCounts{});
      of_classes += one.predictions();
    }
    EXPECT_EQ(of_classes, all.predictions);
    EXPECT_EQ((*all.classes)[2].matured, 2);
    EXPECT_EQ((*all.classes)[2].missing, 1);
    EXPECT_EQ((*all.classes)[2].late, 2);
    EXPECT_EQ((*all.classes)[0].late, 1);
    EXPECT_EQ((*all.classes)[1].conflicting, 1);
  };
  check(coverage(model));
  Model restored(1, declaration, {}, {}, pool_, nullptr);
  ASSERT_TRUE(restored.strand_state().Restore(model.strand_state().Save()).ok());
  check(coverage(restored));
  EXPECT_EQ(restored.strand_state().Save().SerializeAsString(),
            model.strand_state().Save().SerializeAsString());
  restored.strand_state().RestorePending(std::vector<PendingCounts>{{3, 1}, {0, 0}, {2, 2}});
  EXPECT_EQ((*coverage(restored).classes)[0].pending, (PendingCounts{3, 1}));
  EXPECT_EQ((*coverage(restored).classes)[2].predictions(), 4);
}

TEST_F(ModelTest, NothingIsEstimatedDuringWarmup) {
  const PredictionSet set = Draw(99);
  const auto state = StateAfter(Declaration(300, 100), set, {99});
  EXPECT_TRUE(state->warming_up());
  EXPECT_EQ(state->observations, 99);
  EXPECT_EQ(state->window.size(), 99U);
}

TEST_F(ModelTest, FixedBandwidthCountsFromTheFirstObservation) {
  const PredictionSet set = Draw(5);
  const auto state = StateAfter(Declaration(3, 0, 0.5), set, {1, 1, 3});
  ASSERT_EQ(state->lenses.size(), 1U);
  ASSERT_EQ(state->lenses[0].blocks.size(), 2U);
  EXPECT_EQ(state->lenses[0].blocks[0].moments.count, 2);
  EXPECT_EQ(state->lenses[0].blocks[0].pending, 1U);
  EXPECT_EQ(state->window.size(), 3U);
}

TEST_F(ModelTest, EqualPredictionsGiveABandwidthErrorAndTheWindowContinues) {
  PredictionSet set;
  set.class_count = kModelClasses;
  for (int i = 0; i < 20; ++i) {
    set.probabilities.insert(set.probabilities.end(), {0.2, 0.3, 0.5});
    set.labels.push_back(i % 3);
  }
  ModelDeclaration declaration = Declaration(15, 10);
  std::get<ClassesSpec>(declaration.kind).lenses.push_back(Lens::TopLabel());
  const auto state = StateAfter(declaration, set, {4, 16});
  ASSERT_EQ(state->lenses.size(), 2U);
  EXPECT_FALSE(state->lenses[0].kernel.has_value());
  EXPECT_THAT(state->lenses[0].bandwidth_error, HasSubstr("fixed bandwidth"));
  EXPECT_TRUE(state->lenses[0].blocks.empty());
  // Lenses without a median continue.
  EXPECT_EQ(state->lenses[1].blocks[0].moments.count, 10);
  EXPECT_EQ(state->observations, 20);
  EXPECT_EQ(state->window.size(), 15U);
}

TEST_F(ModelTest, SnapshotsDoNotChange) {
  const PredictionSet set = Draw(100);
  Model model(1, Declaration(8, 0, 0.5), {}, {}, pool_, nullptr);
  std::vector<std::shared_ptr<const ModelSnapshot>> snapshots;
  for (std::size_t i = 0; i < 100; ++i) {
    model.strand_state().Observe(set.view().rows(i, 1));
    model.Publish();
    snapshots.push_back(model.snapshot());
  }
  for (std::size_t i = 0; i < 100; ++i) {
    ASSERT_EQ(snapshots[i]->observations, static_cast<std::int64_t>(i) + 1);
    const PredictionSet newest = snapshots[i]->window.CopyNewest(1);
    EXPECT_EQ(newest.labels[0], set.labels[i]);
    EXPECT_EQ(newest.probabilities[0], set.view().row(i)[0]);
  }
}

TEST(ObservationWindowTest, KeepsTheNewestRowsInChunksOfAnySizeAndPrecision) {
  PredictionSet set = Draw(200);
  // Some batches of four rows are in single precision.
  const auto is_single = [](std::size_t row) { return row / 4 % 7 < 3; };
  for (std::size_t i = 0; i < set.probabilities.size(); ++i) {
    double& value = set.probabilities[i];
    if (is_single(i / kModelClasses)) value = static_cast<double>(static_cast<float>(value));
  }
  for (const std::size_t chunk_rows : {1U, 3U, 8U, 64U}) {
    ObservationWindow window({.width = kModelClasses,
                              .capacity = 10,
                              .chunk_rows = chunk_rows,
                              .keeps_ids = true,
                              .feature_count = 2,
                              .keeps_groups = true});
    std::vector<WindowView> views;
    std::vector<std::string> names;
    // Every third batch has no ids.
    std::vector<std::uint64_t> hashes(200);
    for (std::size_t i = 0; i < 200; ++i) hashes[i] = i / 4 % 3 == 0 ? kNoIdHash : i + 1;
    std::vector<double> features(400);
    std::iota(features.begin(), features.end(), 0.5);
    for (std::size_t i = 0; i < 200; i += 4) {
      window.Reserve(4, is_single(i));
      // Every fifth batch has one group for all rows, and some have none.
      const std::vector<std::string> groups =
          i / 4 % 5 == 0 ? std::vector<std::string>{"eu"}
                         : (i / 4 % 5 == 1 ? std::vector<std::string>()
                                           : std::vector<std::string>{"us", "eu", "us", "asia"});
      window.Append({set.view().rows(i, 4),
                     {.id_hashes = i / 4 % 3 == 0 ? std::span<const std::uint64_t>()
                                                  : std::span(hashes).subspan(i, 4),
                      .features = std::span(features).subspan(2 * i, 8),
                      .feature_count = 2,
                      .groups = GroupValues(groups)}});
      for (std::size_t row = 0; row < 4; ++row) names.push_back(GroupValues(groups)[row]);
      views.push_back(window.View());
      ASSERT_EQ(views.back().size(), std::min<std::size_t>(10, i + 4));
    }
    for (std::size_t i = 0; i < views.size(); ++i) {
      const std::size_t size = views[i].size();
      const PredictionSet rows = views[i].CopyNewest(size);
      const PredictionBatch newest = set.view().rows(4 * (i + 1) - size, size);
      ASSERT_THAT(rows.labels, ElementsAreArray(newest.labels));
      ASSERT_THAT(rows.probabilities, ElementsAreArray(newest.probabilities));
      ASSERT_THAT(views[i].CopyNewestIdHashes(size),
                  ElementsAreArray(std::span(hashes).subspan(4 * (i + 1) - size, size)));
      ASSERT_THAT(views[i].CopyNewestFeatures(size),
                  ElementsAreArray(std::span(features).subspan(8 * (i + 1) - 2 * size, 2 * size)));
      const auto [groups, group_hashes] = views[i].CopyNewestGroups(size);
      ASSERT_EQ(groups.size(), size);
      for (std::size_t a = 0; a < size; ++a) {
        const std::size_t first = 4 * (i + 1) - size;
        ASSERT_EQ(group_hashes.at(static_cast<std::size_t>(groups[a])),
                  HashOfGroup(names[first + a]));
        for (std::size_t b = 0; b < a; ++b) {
          ASSERT_EQ(groups[a] == groups[b], names[first + a] == names[first + b]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace calibd::server
