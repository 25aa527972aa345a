// A stalled writer, failed transactions, and the write-ahead log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>

#include "integration/engine/engine.h"
#include "support/temporary_folder.h"
#include "support/test_operation.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using server::LogRow;
using server::Model;
using server::Settlement;
using server::Store;
using std::chrono::seconds;
using ::testing::Each;
using ::testing::SizeIs;

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(StalledWriterTest, HoldsAtMostTheQueueAndSettlesEverythingAfterwards) {
  constexpr int kProducers = 4;
  constexpr std::size_t kRows = 500;
  const TemporaryFolder folder;
  Engine engine(folder.path(), {.queue_bytes = kMiB});
  ASSERT_TRUE(engine.CreateModel(Declare("models/m")).ok());
  const std::shared_ptr<Model> model = engine.Find("models/m");

  std::atomic<int> granted = 0;
  std::mutex mutex;
  // The acknowledged batches of each producer, in order.
  std::vector<std::vector<std::int64_t>> settled(kProducers);
  std::vector<std::int64_t> submitted(kProducers);
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    std::size_t all = 0;
    for (const auto& one : settled) all += one.size();
    return all;
  };
  {
    const Blocker blocker(engine.commits());
    std::vector<std::thread> producers;
    for (std::size_t p = 0; p < kProducers; ++p) {
      producers.emplace_back([&, p] {
        constexpr std::size_t kEstimate = 2 * kRows * 4 * sizeof(double);
        while (auto room = engine.ingestor().queue().TryTake(model->id(), kEstimate)) {
          const std::int64_t sequence = ++submitted[p];
          engine.ingestor().OpenAndSubmit(
              model, {{"p" + std::to_string(p), 1, sequence}},
              MakeBatch(*model, kRows, static_cast<std::uint64_t>(sequence)),
              [&, p, sequence](const Settlement& settlement) {
                const std::lock_guard lock(mutex);
                EXPECT_EQ(settlement.kind, Settlement::Kind::kAccepted);
                settled[p].push_back(sequence);
              },
              std::move(room));
        }
      });
    }
    for (std::thread& producer : producers) producer.join();
    EXPECT_EQ(count(), 0U);
    // The only busy model occupies half of the queue. Each producer may exceed that by the
    // difference between the estimate of a batch and the size that it has decoded and encoded.
    constexpr std::size_t kBatchBytes = 2 * kRows * (4 * sizeof(double) + 8) + 100;
    EXPECT_GE(engine.ingestor().queue().bytes(), kMiB / 3);
    EXPECT_LE(engine.ingestor().queue().bytes(), kMiB / 2 + kProducers * kBatchBytes);
    EXPECT_EQ(engine.ingestor().queue().TakeOrWait(model->id(), kBatchBytes,
                                                   [&](auto /*room*/) { ++granted; }),
              nullptr);
    // Flush returns when everything is written.
    EXPECT_EQ(engine.commits().statistics().queued, [&] {
      std::size_t operations = 1;
      for (const std::int64_t one : submitted) operations += static_cast<std::size_t>(one);
      return operations;
    }());
    EXPECT_EQ(granted, 0);
  }
  std::size_t all = 0;
  for (const std::int64_t one : submitted) all += static_cast<std::size_t>(one);
  EXPECT_TRUE(WaitFor([&] { return count() == all; }));
  EXPECT_EQ(engine.ingestor().queue().bytes(), 0U);
  EXPECT_EQ(model->snapshot()->observations, static_cast<std::int64_t>(all * kRows));
  EXPECT_EQ(model->snapshot()->duplicate_batches, 0);
  EXPECT_EQ(granted, 1);
  EXPECT_EQ(count(), all);
  for (std::size_t p = 0; p < kProducers; ++p) {
    ASSERT_EQ(settled[p].size(), static_cast<std::size_t>(submitted[p]));
    for (std::size_t i = 0; i < settled[p].size(); ++i) {
      EXPECT_EQ(settled[p][i], static_cast<std::int64_t>(i) + 1);
    }
  }
}

class FailedCommitTest : public ::testing::Test {
 protected:
  static constexpr seconds kGrace{10};

  void Start() {
    engine_.emplace(folder_.path(), Engine::Options{.clock = clock_.clock(), .matures = false});
  }
  void Submit(const std::string& producer, std::int64_t sequence, LogRow batch) {
    engine_->ingestor().OpenAndSubmit(model_, {{producer, 1, sequence}}, std::move(batch),
                                      [this](const Settlement& settlement) {
                                        const std::lock_guard lock(mutex_);
                                        kinds_.push_back(settlement.kind);
                                        labels_ += settlement.labels;
                                      });
  }
  // Makes the log fail like a full disk.
  void PostFailure() {
    PostToLog(engine_->commits(),
              {.write = [](Store& /*store*/) { return absl::ResourceExhaustedError(""); }});
  }

  static constexpr int kSubmissions = 7;
  // One transaction with all submissions, and a failure before the k-th one if k <= kSubmissions.
  void RunTransaction(int failure) {
    kinds_.clear();
    labels_ = {};
    matured_ = false;
    {
      const Blocker blocker(engine_->commits());
      int k = 0;
      const auto step = [&](const std::function<void()>& submit) {
        if (k++ == failure) PostFailure();
        submit();
      };
      step([&] { Submit("p", 1, MakeBatch(*model_, 10, 1)); });
      step([&] { Submit("p", 2, MakeBatch(*model_, 6, 2, MakeIds("c", 6))); });
      // Labels of predictions that existed before, and of new ones.
      step([&] {
        std::vector<std::string> ids = MakeIds("b", 3);
        ids.push_back("c0");
        Submit("q", 1, MakeLabels(*model_, ids));
      });
      step([&] { Submit("p", 3, MakeInvalidBatch(*model_)); });
      step([&] {
        engine_->ingestor().Mature(model_, [this](bool written) { matured_ = written; });
      });
      // Some ids are known, some are new.
      step([&] { Submit("known", 2, MakeBatch(*model_, 8, 3, MakeIds("c", 8))); });
      step([&] { Submit("q", 2, MakeLabels(*model_, MakeIds("c", 3), 2)); });
      if (k == failure) PostFailure();
    }
    state_ = engine_->StateOf(model_, {"p", "q", "known"});
  }

  const TemporaryFolder folder_;
  FakeClock clock_;
  std::optional<Engine> engine_;
  std::shared_ptr<Model> model_;
  std::mutex mutex_;
  std::vector<Settlement::Kind> kinds_;
  server::LabelCounts labels_;
  std::atomic<bool> matured_ = false;
  Engine::State state_;
};

TEST_F(FailedCommitTest, UndoesAWholeTransactionForAnyFailure) {
  Start();
  ASSERT_TRUE(engine_->CreateModel(Declare("models/m", 4, kGrace)).ok());
  model_ = engine_->Find("models/m");
  Submit("known", 1, MakeBatch(*model_, 5, 7, MakeIds("a", 5)));
  Submit("q-before", 1, MakeLabels(*model_, MakeIds("a", 2)));
  engine_->commits().Flush();
  clock_.MoveSteady(seconds(9));
  engine_->Submit(model_, std::nullopt, MakeBatch(*model_, 4, 8, MakeIds("b", 4)));
  clock_.MoveSteady(seconds(1));
  const Engine::State before = engine_->StateOf(model_, {"p", "q", "known"});
  ASSERT_EQ(before.pending, 9U);
  for (int failure = 0; failure <= kSubmissions; ++failure) {
    SCOPED_TRACE(failure);
    RunTransaction(failure);
    EXPECT_THAT(kinds_, SizeIs(kSubmissions - 1));
    EXPECT_THAT(kinds_, Each(Settlement::Kind::kRefused));
    EXPECT_FALSE(matured_);
    EXPECT_TRUE(state_.saved == before.saved);
    EXPECT_EQ(state_.window, before.window);
    EXPECT_EQ(state_.pending, before.pending);
    EXPECT_EQ(state_.pending_by_class, before.pending_by_class);
    EXPECT_EQ(state_.next_due, before.next_due);
    EXPECT_EQ(state_.last_sequences, before.last_sequences);
    EXPECT_EQ(engine_->ingestor().queue().bytes(), 0U);
  }
  EXPECT_EQ(engine_->commits().statistics().failed_commits, kSubmissions + 1);
  EXPECT_FALSE(engine_->failed());

  RunTransaction(/*failure=*/-1);
  using Kind = Settlement::Kind;
  EXPECT_THAT(kinds_, ::testing::ElementsAre(Kind::kAccepted, Kind::kAccepted, Kind::kAccepted,
                                             Kind::kRejected, Kind::kAccepted, Kind::kAccepted));
  EXPECT_TRUE(matured_);
  EXPECT_EQ(labels_.matched, 4 + 2);
  EXPECT_EQ(labels_.conflicting, 1);
  EXPECT_EQ(state_.pending, 4U + 8U);
  EXPECT_EQ(state_.last_sequences.at("p"), 3);
  EXPECT_EQ(state_.last_sequences.at("q"), 2);
  EXPECT_EQ(state_.last_sequences.at("known"), 2);
  clock_.MoveSteady(kGrace);
  EXPECT_TRUE(engine_->Mature(model_));
  const auto snapshot = model_->snapshot();
  EXPECT_EQ(snapshot->label_arrivals->predictions, 5 + 4 + 8);
  EXPECT_EQ(snapshot->label_arrivals->matured, 5 + 4 + 8);
  EXPECT_EQ(snapshot->label_arrivals->duplicate_predictions, 6);
  EXPECT_EQ(snapshot->label_arrivals->missing, 3 + 1 + 5);
  EXPECT_EQ(snapshot->observations, 10 + 2 + 3 + 3);
  EXPECT_EQ(snapshot->rejected_batches, 1);

  const Engine::State last = engine_->StateOf(model_, {"p", "q", "known"});
  model_.reset();
  engine_.reset();
  Start();
  EXPECT_TRUE(engine_->StateOf(engine_->Find("models/m"), {"p", "q", "known"}) == last);
}

TEST_F(FailedCommitTest, AFailedMaturationUndoesNothingElse) {
  Start();
  ASSERT_TRUE(engine_->CreateModel(Declare("models/m", 4, kGrace)).ok());
  model_ = engine_->Find("models/m");
  const auto matured_log_id = [this] {
    std::promise<std::int64_t> known;
    engine_->commits().Call([this, &known](Store& /*store*/, const absl::Status& /*committed*/) {
      known.set_value(model_->storage_state().tracker->matured_log_id());
    });
    return known.get_future().get();
  };
  engine_->Submit(model_, std::nullopt, MakeBatch(*model_, 3, 1, MakeIds("a", 3)));
  clock_.MoveSteady(kGrace);
  ASSERT_TRUE(engine_->Mature(model_));
  const std::int64_t matured = matured_log_id();
  ASSERT_GT(matured, 0);
  engine_->Submit(model_, std::nullopt, MakeBatch(*model_, 3, 2, MakeIds("b", 3)));
  clock_.MoveSteady(kGrace);
  std::promise<bool> written;
  {
    const Blocker blocker(engine_->commits());
    PostFailure();
    engine_->ingestor().Mature(model_, [&written](bool ok) { written.set_value(ok); });
  }
  EXPECT_FALSE(written.get_future().get());
  EXPECT_EQ(matured_log_id(), matured);
  EXPECT_TRUE(engine_->Mature(model_));
  EXPECT_GT(matured_log_id(), matured);
}

TEST_F(FailedCommitTest, AModelThatCouldNotBeStoredDoesNotExist) {
  Start();
  absl::Status created;
  std::thread creator;
  FailTransaction(engine_->commits(), [&] {
    creator = std::thread([&] { created = engine_->CreateModel(Declare("models/m")); });
  });
  creator.join();
  EXPECT_EQ(created.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(engine_->Find("models/m"), nullptr);
  ASSERT_TRUE(engine_->CreateModel(Declare("models/m")).ok());
  model_ = engine_->Find("models/m");
  FailTransaction(engine_->commits(), [&] {
    creator = std::thread([&] { created = engine_->DeleteModel("models/m"); });
  });
  creator.join();
  EXPECT_EQ(created.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(model_->deleted());
  EXPECT_EQ(engine_->Submit(model_, std::nullopt, MakeBatch(*model_, 3, 1)).kind,
            Settlement::Kind::kAccepted);
}

TEST(CommitQueueTest, FreesFinishedOperationsBeforeItWritesMore) {
  const TemporaryFolder folder;
  Engine engine(folder.path(), {.matures = false});
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> seen = held;
  std::optional<bool> gone;
  {
    const Blocker blocker(engine.commits());
    // Taken from the queue together, but two transactions.
    PostToLog(engine.commits(), {.write = [held](Store& /*store*/) { return absl::OkStatus(); }});
    held.reset();
    PostToCatalog(engine.commits(), {.write = [&](Store& /*store*/) {
                    gone = seen.expired();
                    return absl::OkStatus();
                  }});
  }
  engine.commits().Flush();
  EXPECT_EQ(gone, true);
}

TEST(CheckpointTest, TheWriteAheadLogIsCheckpointedDuringCommits) {
  const TemporaryFolder folder;
  Engine engine(folder.path(), {.matures = false});
  const std::string database = (folder.path() / "calibd.db").string();
  std::uintmax_t written = 0;
  std::uintmax_t longest = 0;
  for (int round = 0; round < 18; ++round) {
    // More than the size at which a checkpoint begins, in several commits.
    for (int i = 0; i < 10; ++i) {
      PostToCatalog(engine.commits(), {.write = [id = round * 10 + i + 1](Store& store) {
                      return store.PutSnapshot({.model_id = id,
                                                .log_id = 1,
                                                .data = std::string(kMiB, 'x'),
                                                .first_log_id = 1,
                                                .matured_log_id = 0});
                    }});
      engine.commits().Flush();
      written += kMiB;
    }
    longest = std::max(longest, std::filesystem::file_size(database + "-wal"));
    // Everything except pages for which no checkpoint begins yet.
    EXPECT_TRUE(WaitFor([&] { return std::filesystem::file_size(database) > written - 9 * kMiB; }))
        << round << ": " << std::filesystem::file_size(database);
  }
  // The log is restarted at the latest at 32000 pages of 4 KiB.
  EXPECT_GE(written, 180 * kMiB);
  EXPECT_LT(longest, 160 * kMiB);
  EXPECT_FALSE(engine.failed());
}

}  // namespace
}  // namespace calibd::testing
