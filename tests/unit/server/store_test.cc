#include "server/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>

#include "server/store/commit_queue.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "calibd-store-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    Open();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Open() {
    store_.reset();
    auto store = Store::Open(folder_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  static v1::Model Named(const std::string& name) {
    v1::Model model;
    model.set_name(name);
    return model;
  }

  static std::vector<std::string> Log(const Store& store) {
    std::vector<std::string> log;
    EXPECT_TRUE(store
                    .ReadLog([&](const Store::StoredBatch& batch) {
                      log.push_back(std::to_string(batch.log_id) + ":" +
                                    std::to_string(batch.model_id) + ":" + std::string(batch.data));
                      return absl::OkStatus();
                    })
                    .ok());
    return log;
  }

  std::string folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, HoldsWhatWasCommittedAndNothingElse) {
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_->InsertModel(1, Named("models/a")).ok());
  EXPECT_EQ(*store_->AppendBatch(1, 10, "first"), 1);
  ASSERT_TRUE(store_
                  ->PutCursor({.model_id = 1,
                               .producer_id = "p",
                               .epoch = 3,
                               .last_sequence = 4,
                               .contents = "hashes"})
                  .ok());
  ASSERT_TRUE(store_->PutSnapshot(1, 1, "state").ok());
  ASSERT_TRUE(store_->Commit().ok());
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_->AppendBatch(1, 11, "taken back").ok());
  store_->Rollback();
  ASSERT_TRUE(store_->Begin().ok());
  const auto kept = store_->AppendBatch(1, 12, "second");
  ASSERT_TRUE(kept.ok());
  ASSERT_TRUE(store_->Commit().ok());
  Open();
  EXPECT_THAT(Log(*store_), ElementsAre("1:1:first", std::to_string(*kept) + ":1:second"));
  int models = 0;
  ASSERT_TRUE(store_
                  ->ReadModels([&](const Store::StoredModel& model) {
                    ++models;
                    EXPECT_EQ(model.declaration.name(), "models/a");
                    EXPECT_EQ(model.snapshot, "state");
                    EXPECT_EQ(model.snapshot_log_id, 1);
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(models, 1);
  int cursors = 0;
  ASSERT_TRUE(store_
                  ->ReadCursors([&](const Store::StoredCursor& cursor) {
                    ++cursors;
                    EXPECT_EQ(cursor.producer_id, "p");
                    EXPECT_EQ(cursor.epoch, 3);
                    EXPECT_EQ(cursor.last_sequence, 4);
                    EXPECT_EQ(cursor.contents, "hashes");
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(cursors, 1);
}

TEST_F(StoreTest, IdsAreNeverUsedAgain) {
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_->InsertModel(7, Named("models/a")).ok());
  const std::int64_t log_id = *store_->AppendBatch(7, 10, "x");
  ASSERT_TRUE(store_->DeleteModel(7).ok());
  ASSERT_TRUE(store_->DeleteBatches(std::vector<std::int64_t>{log_id}).ok());
  ASSERT_TRUE(store_->Commit().ok());
  Open();
  EXPECT_EQ(store_->next_model_id(), 8);
  ASSERT_TRUE(store_->Begin().ok());
  EXPECT_GT(*store_->AppendBatch(8, 11, "y"), log_id);
  ASSERT_TRUE(store_->Commit().ok());
}

TEST_F(StoreTest, CheckpointsLoseNothing) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(store_->Begin().ok());
    ASSERT_TRUE(store_->AppendBatch(1, i, std::string(10000, 'x')).ok());
    ASSERT_TRUE(store_->Commit().ok());
    if (i == 30) {
      EXPECT_GT(store_->wal_pages(), 90);
      ASSERT_TRUE(store_->Checkpoint().ok());
    }
  }
  EXPECT_LT(store_->wal_pages(), 150);
  Open();
  EXPECT_EQ(Log(*store_).size(), 50U);
}

TEST_F(StoreTest, TheQueueWritesInOrderAndSaysWhenItIsDone) {
  CommitQueue queue(std::move(store_), [](const absl::Status&) { FAIL(); });
  std::vector<int> done;
  for (int i = 0; i < 100; ++i) {
    queue.Post({.write = [i](Store& store) -> absl::Status {
                  return store.AppendBatch(1, i, std::to_string(i)).status();
                },
                .undo = [] { FAIL(); },
                .done =
                    [&done, i](const absl::Status& status) {
                      EXPECT_TRUE(status.ok()) << status;
                      done.push_back(i);
                    }});
  }
  queue.Flush();
  EXPECT_EQ(done.size(), 100U);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  queue.Stop();
}

TEST_F(StoreTest, AFailedTransactionIsTakenBackNewestFirst) {
  std::promise<absl::Status> failure;
  std::vector<std::string> events;
  {
    CommitQueue queue(std::move(store_),
                      [&](const absl::Status& status) { failure.set_value(status); });
    // Holds the storage thread, so that the others come into one transaction.
    std::promise<void> go;
    queue.Post({.write = [&go](Store&) -> absl::Status {
                  go.get_future().wait();
                  return absl::OkStatus();
                },
                .undo = nullptr,
                .done = nullptr});
    for (const std::string& name : {std::string("a"), std::string("b")}) {
      queue.Post({.write = [&events, name](Store& store) -> absl::Status {
                    events.push_back("write " + name);
                    const auto id = store.AppendBatch(1, 1, name);
                    return name == "b" ? absl::UnavailableError("broken disk") : id.status();
                  },
                  .undo = [&events, name] { events.push_back("undo " + name); },
                  .done =
                      [&events, name](const absl::Status& status) {
                        events.push_back("done " + name + " " + std::string(status.message()));
                      }});
    }
    go.set_value();
    queue.Flush();
    EXPECT_THAT(events, ElementsAre("write a", "write b", "undo b", "undo a", "done a broken disk",
                                    "done b broken disk"));
    EXPECT_EQ(failure.get_future().get().message(), "broken disk");
    // Nothing is written after that.
    absl::Status later;
    queue.Post({.write = [](Store&) -> absl::Status {
                  ADD_FAILURE() << "wrote after a failure";
                  return absl::OkStatus();
                },
                .undo = nullptr,
                .done = [&later](const absl::Status& status) { later = status; }});
    queue.Flush();
    EXPECT_THAT(std::string(later.message()), HasSubstr("the store failed before: broken disk"));
  }
  Open();
  EXPECT_TRUE(Log(*store_).empty());
}

}  // namespace
}  // namespace calibd::server
