// Concurrent producers of two models, creations and deletions of models, and readers.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "integration/engine/engine.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using server::LogRow;
using server::Model;
using server::ModelSnapshot;
using server::Settlement;

constexpr int kProducers = 4;
constexpr std::int64_t kBatches = 60;
constexpr std::size_t kConcurrencyRows = 48;
constexpr int kConcurrencyClasses = 60;
constexpr char kPlain[] = "models/plain";
constexpr char kAwaiting[] = "models/awaiting";

// Sums over the settlements.
class Tally {
 public:
  // Returns the callback for the next submitted batch.
  std::function<void(Settlement)> Expect() {
    ++submitted_;
    return [this](Settlement settlement) {
      const std::lock_guard lock(mutex_);
      ++settled_;
      ++kinds_[settlement.kind];
      accepted_rows_ += settlement.accepted_rows;
      duplicate_rows_ += settlement.duplicate_rows;
      labels_ += settlement.labels;
    };
  }
  void WaitForAll() {
    EXPECT_TRUE(WaitFor(
        [this] {
          const std::lock_guard lock(mutex_);
          return settled_ == submitted_;
        },
        std::chrono::seconds(60)));
  }
  // Valid after WaitForAll.
  [[nodiscard]] std::int64_t submitted() const { return submitted_; }
  [[nodiscard]] std::int64_t count(Settlement::Kind kind) { return kinds_[kind]; }
  [[nodiscard]] std::int64_t accepted_rows() const { return accepted_rows_; }
  [[nodiscard]] std::int64_t duplicate_rows() const { return duplicate_rows_; }
  [[nodiscard]] const server::LabelCounts& labels() const { return labels_; }

 private:
  std::atomic<std::int64_t> submitted_ = 0;
  std::mutex mutex_;
  std::int64_t settled_ = 0;                        // guarded by mutex_
  std::map<Settlement::Kind, std::int64_t> kinds_;  // guarded by mutex_
  std::int64_t accepted_rows_ = 0;                  // guarded by mutex_
  std::int64_t duplicate_rows_ = 0;                 // guarded by mutex_
  server::LabelCounts labels_;                      // guarded by mutex_
};

struct Tallies {
  Tally observations;
  Tally predictions;
  Tally labels;
};

// Sends every third batch of observations, every fourth of predictions and every fifth of labels
// twice.
void Produce(Engine& engine, int producer, Tallies& tallies) {
  const std::shared_ptr<Model> plain = engine.Find(kPlain);
  const std::shared_ptr<Model> awaiting = engine.Find(kAwaiting);
  const std::string name = "p" + std::to_string(producer);
  std::int64_t sequence = 0;
  for (std::int64_t i = 1; i <= kBatches; ++i) {
    const LogRow batch =
        MakeBatch(*plain, kConcurrencyRows, static_cast<std::uint64_t>(producer * kBatches + i));
    for (int times = i % 3 == 0 ? 2 : 1; times > 0; --times) {
      engine.ingestor().OpenAndSubmit(plain, {{name, 1, i}}, batch, tallies.observations.Expect());
    }
    const std::vector<std::string> ids =
        MakeIds(name + "-" + std::to_string(i) + "-", kConcurrencyRows);
    const LogRow predictions =
        MakeBatch(*awaiting, kConcurrencyRows, static_cast<std::uint64_t>(i), ids);
    // The ids are sent again under another number. Only the first ones count.
    for (int times = i % 4 == 0 ? 2 : 1; times > 0; --times) {
      engine.ingestor().OpenAndSubmit(awaiting, {{name, 1, ++sequence}}, predictions,
                                      tallies.predictions.Expect());
    }
    // Labels for one half of the predictions, without a position.
    const std::vector<std::string> half(ids.begin(), ids.begin() + kConcurrencyRows / 2);
    for (int times = i % 5 == 0 ? 2 : 1; times > 0; --times) {
      engine.ingestor().Submit(awaiting, std::nullopt, MakeLabels(*awaiting, half),
                               tallies.labels.Expect());
    }
    if (i % 16 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Creates models, sends to them and deletes them: under a name that others use too, and under its
// own.
void ComeAndGo(Engine& engine, std::uint64_t seed, Tally& tally) {
  for (std::uint64_t i = 0; i < 15; ++i) {
    const bool own = i % 2 == 1;
    const std::string name = own ? "models/own-" + std::to_string(seed) : "models/fleeting";
    const absl::Status created =
        engine.CreateModel(Declare(name, 3, std::chrono::milliseconds(100)));
    EXPECT_TRUE(created.ok() || (!own && absl::IsAborted(created)));
    if (const std::shared_ptr<Model> model = engine.Find(name)) {
      engine.ingestor().Submit(model, std::nullopt, MakeBatch(*model, 5, seed + i), tally.Expect());
      engine.ingestor().Submit(
          model, std::nullopt,
          MakeBatch(*model, 5, seed + i, MakeIds(std::to_string(seed + i) + "-", 5)),
          tally.Expect());
    }
    const absl::Status deleted = engine.DeleteModel(name);
    EXPECT_TRUE(deleted.ok() || (!own && absl::IsNotFound(deleted)));
  }
}

// Reads what queries and metrics read, until stopped. Counts must never decrease.
void Read(Engine& engine, const std::atomic<bool>& ends) {
  std::map<std::int64_t, std::int64_t> observations;
  while (!ends) {
    const auto models = engine.registry().List("", 100);
    for (const std::shared_ptr<Model>& model : *models) {
      const std::shared_ptr<const ModelSnapshot> snapshot = model->snapshot();
      EXPECT_GE(snapshot->observations, observations[model->id()]);
      observations[model->id()] = snapshot->observations;
      const PredictionSet newest = snapshot->window.CopyNewest(snapshot->window.size());
      EXPECT_EQ(newest.labels.size(), snapshot->window.size());
      for (const server::LensSnapshot& lens : snapshot->lenses) {
        EXPECT_FALSE(lens.blocks.empty());
      }
      if (snapshot->label_arrivals.has_value()) {
        const server::LabelArrivals& coverage = *snapshot->label_arrivals;
        std::int64_t matured = 0;
        server::PendingCounts pending;
        for (const server::ClassArrivals& one : *coverage.classes) {
          matured += one.matured;
          pending.all += one.pending.all;
          pending.labelled += one.pending.labelled;
        }
        EXPECT_EQ(matured, coverage.matured);
        EXPECT_EQ(pending,
                  (server::PendingCounts{coverage.pending(), coverage.pending_labelled()}));
        EXPECT_GE(coverage.pending(), coverage.pending_labelled());
      }
      if (model->declaration()->max_pending > 0) {
        EXPECT_GT(model->next_due().count(), 0);
        EXPECT_GE(model->oldest_pending_time_us(), 0);
      }
      EXPECT_GE(model->stored_time_us(), 0);
    }
    EXPECT_EQ(engine.commits().statistics().failed_commits, 0);
    static_cast<void>(engine.ingestor().queue().bytes());
    EXPECT_GT(engine.registry().reserved_bytes(), 0U);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(ConcurrencyTest, CountsExactlyAndARestartGivesTheSameBits) {
  const TemporaryFolder folder;
  const std::vector<std::string> producers{"p0", "p1", "p2", "p3"};
  std::map<std::string, Engine::State> before;
  {
    // Small log files, so that some are created and removed during the test.
    Engine engine(folder.path(), {.segment_bytes = std::uint64_t{256} << 10});
    // The window is so small that snapshots are written.
    v1::Model plain = Declare(kPlain, kConcurrencyClasses);
    plain.set_window(1000);
    ASSERT_TRUE(engine.CreateModel(plain).ok());
    ASSERT_TRUE(
        engine.CreateModel(Declare(kAwaiting, kConcurrencyClasses, std::chrono::milliseconds(300)))
            .ok());
    Tallies tallies;
    std::array<Tally, 2> fleeting;
    std::atomic<bool> ends = false;
    std::thread reader([&] { Read(engine, ends); });
    std::vector<std::thread> threads;
    for (int i = 0; i < kProducers; ++i) {
      threads.emplace_back([&, i] { Produce(engine, i, tallies); });
    }
    threads.emplace_back([&] { ComeAndGo(engine, 1000, fleeting[0]); });
    threads.emplace_back([&] { ComeAndGo(engine, 2000, fleeting[1]); });
    for (std::thread& thread : threads) thread.join();
    tallies.observations.WaitForAll();
    tallies.predictions.WaitForAll();
    tallies.labels.WaitForAll();
    for (Tally& tally : fleeting) {
      tally.WaitForAll();
      EXPECT_GE(tally.count(Settlement::Kind::kAccepted), 14);
      // The other thread had deleted the model.
      EXPECT_EQ(tally.count(Settlement::Kind::kAccepted) + tally.count(Settlement::Kind::kRefused),
                tally.submitted());
    }

    constexpr std::int64_t kAll = kProducers * kBatches;
    constexpr auto kAllRows = kAll * static_cast<std::int64_t>(kConcurrencyRows);
    EXPECT_EQ(tallies.observations.count(Settlement::Kind::kAccepted), kAll);
    EXPECT_EQ(tallies.observations.count(Settlement::Kind::kDuplicate), kAll / 3);
    EXPECT_EQ(tallies.observations.accepted_rows(), kAllRows);
    EXPECT_EQ(tallies.predictions.count(Settlement::Kind::kAccepted), kAll + kAll / 4);
    EXPECT_EQ(tallies.predictions.accepted_rows(), kAllRows);
    EXPECT_EQ(tallies.predictions.duplicate_rows(), kAllRows / 4);
    EXPECT_EQ(tallies.labels.count(Settlement::Kind::kAccepted), kAll + kAll / 5);
    // On a slow machine some labels are late.
    const server::LabelCounts& labels = tallies.labels.labels();
    EXPECT_EQ(labels.matched + labels.repeated + labels.late, (kAllRows + kAllRows / 5) / 2);
    EXPECT_GT(labels.matched, 0);
    EXPECT_EQ(labels.conflicting, 0);
    EXPECT_EQ(labels.unknown, 0);

    const std::shared_ptr<Model> awaiting = engine.Find(kAwaiting);
    EXPECT_TRUE(WaitFor([&] { return awaiting->snapshot()->label_arrivals->pending() == 0; }));
    ends = true;
    reader.join();
    engine.StopDueWork();
    const auto counted = awaiting->snapshot();
    EXPECT_EQ(counted->label_arrivals->predictions, kAllRows);
    EXPECT_EQ(counted->label_arrivals->matured, kAllRows);
    EXPECT_EQ(counted->label_arrivals->missing, kAllRows - labels.matched);
    EXPECT_EQ(counted->label_arrivals->labelled, labels.matched);
    EXPECT_EQ(counted->observations, labels.matched);
    EXPECT_EQ(engine.Find(kPlain)->snapshot()->observations, kAllRows);
    EXPECT_EQ(engine.Find(kPlain)->snapshot()->accepted_batches, kAll);
    EXPECT_EQ(engine.Find(kPlain)->snapshot()->duplicate_batches, kAll / 3);
    EXPECT_GT(engine.Find(kPlain)->stored_time_us(), 0) << "it never made a snapshot";
    EXPECT_EQ(engine.Find("models/fleeting"), nullptr);
    EXPECT_EQ(engine.ingestor().queue().bytes(), 0U);
    EXPECT_FALSE(engine.failed());
    for (const std::string name : {kPlain, kAwaiting}) {
      before[name] = engine.StateOf(engine.Find(name), producers);
    }
  }
  Engine engine(folder.path(), {.matures = false, .segment_bytes = std::uint64_t{256} << 10});
  EXPECT_EQ(engine.recovery().models, 2);
  for (const std::string name : {kPlain, kAwaiting}) {
    const Engine::State after = engine.StateOf(engine.Find(name), producers);
    EXPECT_TRUE(after.saved == before[name].saved) << name;
    EXPECT_EQ(after.window, before[name].window);
    EXPECT_EQ(after.last_sequences, before[name].last_sequences);
    EXPECT_EQ(after.pending, before[name].pending);
  }
}

}  // namespace
}  // namespace calibd::testing
