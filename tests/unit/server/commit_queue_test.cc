#include "server/ingest/commit_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "support/memory_store.h"
#include "support/test_operation.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemoryDisk;
using testing::MemoryStore;

// What a new store finds in the log.
std::vector<std::string> Log(const std::shared_ptr<MemoryDisk>& disk) {
  std::vector<std::string> log;
  EXPECT_TRUE(MemoryStore(disk)
                  .ReadLog([&](const StoredBatch& batch) {
                    log.emplace_back(batch.data);
                    return absl::OkStatus();
                  })
                  .ok());
  return log;
}

class CommitQueueTest : public ::testing::Test {
 protected:
  // Holds up the storage thread, so that what is posted meanwhile is taken together.
  void HoldUp() {
    auto begun = std::make_shared<std::promise<void>>();
    queue_.Call([begun, go = go_.get_future().share()](Store&, const absl::Status&) {
      begun->set_value();
      go.wait();
    });
    begun->get_future().wait();
  }
  // Appends the text, and notes what becomes of the operation.
  void PostBatch(const std::string& text, const absl::Status& status = absl::OkStatus(),
                 const Model* model = nullptr, std::size_t bytes = 0) {
    testing::PostToLog(queue_,
                       {.write =
                            [this, text, status](Store& store) {
                              events_.push_back("write " + text);
                              store.AppendBatch(1, 1, text);
                              return status;
                            },
                        .undo = [this, text] { events_.push_back("undo " + text); },
                        .finish =
                            [this, text](const absl::Status& committed) {
                              last_ = committed;
                              events_.push_back((committed.ok() ? "done " : "failed ") + text);
                            },
                        .model = model,
                        .bytes = bytes});
  }
  // The transaction of the next batch has this outcome.
  void PostOutcome(Outcome outcome) {
    testing::PostToLog(queue_, {.write = [this, outcome](Store&) {
                         store_->SetNextOutcome(outcome);
                         return absl::OkStatus();
                       }});
  }

  const std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
  MemoryStore* const store_ = new MemoryStore(disk_);  // Owned by queue_.
  std::promise<void> go_;
  std::vector<absl::Status> failures_;
  std::vector<std::string> events_;
  absl::Status last_;
  CommitQueue queue_{std::unique_ptr<Store>(store_),
                     [this](const absl::Status& status) { failures_.push_back(status); }};
};

TEST_F(CommitQueueTest, ConsecutiveOperationsWithOneTargetAreOneTransaction) {
  HoldUp();
  PostBatch("a");
  PostBatch("b", absl::ResourceExhaustedError("full"));
  testing::PostToCatalog(queue_, {.write = [](Store& store) { return store.InsertModel(1, {}); },
                                  .finish =
                                      [this](const absl::Status& committed) {
                                        events_.push_back(committed.ok() ? "created" : "failed");
                                      }});
  PostBatch("d");
  go_.set_value();
  queue_.Flush();
  EXPECT_THAT(events_, ElementsAre("write a", "write b", "undo b", "undo a", "failed a", "failed b",
                                   "created", "write d", "done d"));
  EXPECT_TRUE(failures_.empty());
  queue_.Stop();
  EXPECT_THAT(Log(disk_), ElementsAre("d"));
}

TEST_F(CommitQueueTest, WritesInTheOrderOfPostingAndSaysWhenItIsDone) {
  std::vector<std::string> expected;
  for (int i = 0; i < 100; ++i) PostBatch(expected.emplace_back(std::to_string(i)));
  queue_.Flush();
  std::erase_if(events_, [](const std::string& event) { return !event.starts_with("done "); });
  ASSERT_EQ(events_.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(events_[i], "done " + expected[i]);
  queue_.Stop();
  EXPECT_EQ(Log(disk_), expected);
}

TEST_F(CommitQueueTest, AModelThatHasWrittenLessIsNext) {
  // The queue only compares the addresses.
  const char objects[2] = {};
  const auto* const busy = reinterpret_cast<const Model*>(&objects[0]);
  const auto* const quiet = reinterpret_cast<const Model*>(&objects[1]);
  HoldUp();
  for (const char* const text : {"a", "b", "c", "d"}) {
    PostBatch(text, absl::OkStatus(), busy, std::size_t{1} << 20);
  }
  PostBatch("q", absl::OkStatus(), quiet, 100);
  PostBatch("r", absl::OkStatus(), quiet, 100);
  go_.set_value();
  queue_.Flush();
  queue_.Stop();
  EXPECT_THAT(Log(disk_), ElementsAre("a", "q", "r", "b", "c", "d"));
}

TEST_F(CommitQueueTest, TransactionsAreSmallWhileSeveralModelsAreBusy) {
  // The queue only compares the addresses.
  const char objects[2] = {};
  const auto* const first = reinterpret_cast<const Model*>(&objects[0]);
  const auto* const second = reinterpret_cast<const Model*>(&objects[1]);
  HoldUp();
  constexpr std::size_t kBytes = std::size_t{600} << 10;
  for (const char* const text : {"a", "b", "c"}) {
    PostBatch(text, absl::OkStatus(), first, kBytes);
    PostBatch(text, absl::OkStatus(), second, kBytes);
  }
  go_.set_value();
  queue_.Flush();
  // Two operations make more than one MiB.
  EXPECT_THAT(events_, ElementsAre("write a", "write a", "done a", "done a", "write b", "write b",
                                   "done b", "done b", "write c", "write c", "done c", "done c"));
}

TEST_F(CommitQueueTest, AModelAloneHasLargeTransactions) {
  const char object = 0;
  HoldUp();
  constexpr std::size_t kBytes = std::size_t{600} << 10;
  for (const char* const text : {"a", "b", "c"}) {
    PostBatch(text, absl::OkStatus(), reinterpret_cast<const Model*>(&object), kBytes);
  }
  go_.set_value();
  queue_.Flush();
  EXPECT_THAT(events_, ElementsAre("write a", "write b", "write c", "done a", "done b", "done c"));
}

TEST_F(CommitQueueTest, TransactionsStaySmallAfterAnotherModelWasActive) {
  // The queue only compares the addresses.
  const char objects[2] = {};
  const auto* const busy = reinterpret_cast<const Model*>(&objects[0]);
  const auto* const quiet = reinterpret_cast<const Model*>(&objects[1]);
  constexpr std::size_t kBytes = std::size_t{600} << 10;
  HoldUp();
  PostBatch("q", absl::OkStatus(), quiet, 100);
  for (const char* const text : {"a", "b", "c", "d", "e"}) {
    PostBatch(text, absl::OkStatus(), busy, kBytes);
  }
  go_.set_value();
  queue_.Flush();
  // The second transaction has operations of one model only, but the quiet model may come again.
  EXPECT_THAT(events_, ElementsAre("write q", "write a", "write b", "done q", "done a", "done b",
                                   "write c", "write d", "done c", "done d", "write e", "done e"));
}

TEST_F(CommitQueueTest, AStrandWithABacklogAppliesSeveralTransactionsTogether) {
  ThreadPool pool("test", 1);
  Strand strand(pool);
  std::promise<void> release;
  strand.Post([blocked = release.get_future().share()] { blocked.wait(); });
  std::vector<std::string> applied;
  const auto post = [&](const std::string& text, std::size_t bytes) {
    testing::PostToLog(queue_, {.write =
                                    [text](Store& store) {
                                      store.AppendBatch(1, 1, text);
                                      return absl::OkStatus();
                                    },
                                .bytes = bytes,
                                .strand = &strand,
                                .apply = [&applied, text] { applied.push_back(text); },
                                .publish = [&applied] { applied.emplace_back("publish"); }});
    // Each operation is a transaction of its own.
    queue_.Flush();
  };
  post("a", 1000);
  post("b", 1000);
  post("c", std::size_t{1} << 20);
  strand.Post([&applied] { applied.emplace_back("task"); });
  post("d", 1000);
  post("e", 1000);
  release.set_value();
  pool.Stop();
  // A task of the strand runs after what was committed before it. The large operation ends a group.
  EXPECT_THAT(applied, ElementsAre("a", "b", "c", "publish", "task", "d", "e", "publish"));
}

TEST_F(CommitQueueTest, ALargeTransactionIsDivided) {
  const char object = 0;
  const auto* const model = reinterpret_cast<const Model*>(&object);
  HoldUp();
  for (const char* const text : {"a", "b", "c"}) {
    PostBatch(text, absl::OkStatus(), model, std::size_t{2} << 20);
  }
  go_.set_value();
  queue_.Flush();
  EXPECT_THAT(events_, ElementsAre("write a", "write b", "done a", "done b", "write c", "done c"));
}

TEST_F(CommitQueueTest, ARefusedTransactionIsUndoneAndTheNextOneIsWritten) {
  HoldUp();
  PostOutcome(Outcome::kRefused);
  PostBatch("a");
  PostBatch("b");
  go_.set_value();
  queue_.Flush();
  EXPECT_THAT(events_,
              ElementsAre("write a", "write b", "undo b", "undo a", "failed a", "failed b"));
  EXPECT_EQ(last_.code(), absl::StatusCode::kResourceExhausted);
  PostBatch("c");
  queue_.Flush();
  EXPECT_TRUE(failures_.empty());
  queue_.Stop();
  EXPECT_THAT(Log(disk_), ElementsAre("c"));
}

class FatalOutcomeTest : public CommitQueueTest, public ::testing::WithParamInterface<Outcome> {};

TEST_P(FatalOutcomeTest, NothingIsAcknowledgedOrWrittenAfterIt) {
  HoldUp();
  PostOutcome(GetParam());
  PostBatch("a");
  go_.set_value();
  queue_.Flush();
  EXPECT_THAT(events_, ElementsAre("write a", "undo a", "failed a"));
  // A client tries again elsewhere, or at the next start.
  EXPECT_EQ(last_.code(), absl::StatusCode::kUnavailable);
  ASSERT_EQ(failures_.size(), 1U);
  EXPECT_EQ(OutcomeOf(failures_.front()), GetParam());
  EXPECT_EQ(queue_.refusal(), CommitQueue::Refusal::kEverything);
  PostBatch("b");
  queue_.Flush();
  EXPECT_EQ(events_.back(), "failed b");
  EXPECT_THAT(std::string(last_.message()),
              HasSubstr("the store failed earlier: " + std::string(failures_.front().message())));
  EXPECT_EQ(failures_.size(), 1U);
  queue_.Stop();
  EXPECT_TRUE(Log(disk_).empty());
}

INSTANTIATE_TEST_SUITE_P(Outcomes, FatalOutcomeTest,
                         ::testing::Values(Outcome::kFenced, Outcome::kUnknown),
                         [](const auto& test) {
                           return test.param == Outcome::kFenced ? "Fenced" : "Unknown";
                         });

TEST_F(CommitQueueTest, AnErrorOfAWriteIsAsThatOfTheCommit) {
  PostBatch("a", absl::UnavailableError("broken disk"));
  queue_.Flush();
  EXPECT_THAT(events_, ElementsAre("write a", "undo a", "failed a"));
  ASSERT_EQ(failures_.size(), 1U);
  EXPECT_EQ(failures_.front().message(), "broken disk");
}

TEST_F(CommitQueueTest, SaysThatAStoreHasNoViews) {
  const absl::Status status = queue_.OpenView().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "a store in memory cannot be backed up or verified");
  EXPECT_TRUE(failures_.empty());
}

}  // namespace
}  // namespace calibd::server
