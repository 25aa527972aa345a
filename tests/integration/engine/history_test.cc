// The history of a model together with counting, snapshots, the database and restarts.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <optional>

#include "integration/engine/engine.h"
#include "server/ingest/history_reader.h"
#include "server/store/local/sqlite.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using server::History;
using server::HistoryBucket;
using server::HistoryReader;
using server::HistoryResolution;
using server::LogRow;
using server::Model;
using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using std::chrono::sys_seconds;
using Buckets = std::vector<History::Entry>;

constexpr seconds kHistoryGrace{10};
constexpr HistoryResolution kMinute = HistoryResolution::kMinute;

class HistoryTest : public ::testing::Test {
 protected:
  void Start() {
    engine_.emplace(folder_.path(), Engine::Options{.clock = clock_.clock(), .matures = false});
    reader_.emplace(engine_->store());
    model_ = engine_->Find("models/m");
  }
  void Stop() {
    model_.reset();
    reader_.reset();
    engine_.reset();
  }
  void Create(std::chrono::milliseconds grace = std::chrono::milliseconds(0)) {
    ASSERT_TRUE(engine_->CreateModel(Declare("models/m", 4, grace)).ok());
    model_ = engine_->Find("models/m");
  }

  void Submit(LogRow batch) { engine_->Submit(model_, std::nullopt, std::move(batch)); }
  // Waits until everything that was posted is written and applied.
  void Settle() { static_cast<void>(engine_->StateOf(model_)); }

  absl::StatusOr<Buckets> TryRead(HistoryResolution resolution,
                                  sys_seconds start = sys_seconds::min(),
                                  sys_seconds end = sys_seconds::max()) {
    Buckets buckets;
    std::promise<absl::Status> promise;
    const absl::Status begun = reader_->Read(
        model_, {.resolution = resolution, .start = start, .end = end},
        [&buckets](const History::Entry& entry) { buckets.push_back(entry); },
        [&promise](const absl::Status& status) { promise.set_value(status); });
    if (!begun.ok()) return begun;
    const absl::Status status = promise.get_future().get();
    if (!status.ok()) return status;
    return buckets;
  }
  Buckets Read(HistoryResolution resolution) {
    auto buckets = TryRead(resolution);
    EXPECT_TRUE(buckets.ok()) << buckets.status();
    return buckets.ok() ? *std::move(buckets) : Buckets();
  }
  std::int64_t StoredRows() const {
    auto database = server::Database::Open((folder_.path() / "calibd.db").string());
    return *database->QueryInteger("SELECT count(*) FROM history");
  }

  const TemporaryFolder folder_;
  FakeClock clock_;
  std::optional<Engine> engine_;
  std::optional<HistoryReader> reader_;
  std::shared_ptr<Model> model_;
};

void ExpectSame(const Buckets& a, const Buckets& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].start, b[i].start) << i;
    EXPECT_TRUE(a[i].bucket == b[i].bucket) << i;
  }
}

// Submits batches of varying size with rejected ones between them, over minutes and hours.
void SubmitSome(const std::function<void(LogRow)>& submit, const Model& model, int batches,
                FakeClock& clock) {
  for (int i = 0; i < batches; ++i) {
    submit(i % 7 == 3 ? MakeInvalidBatch(model)
                      : MakeBatch(model, 1 + static_cast<std::size_t>(i * 5 % 23),
                                  static_cast<std::uint64_t>(i)));
    clock.Move(seconds(i % 50 == 49 ? 5000 : 17));
  }
}

TEST_F(HistoryTest, FollowsFromTheLogAcrossAnyNumberOfRestarts) {
  Start();
  Create();
  // Several snapshots are written meanwhile, when a minute has passed.
  SubmitSome([this](LogRow batch) { Submit(std::move(batch)); }, *model_, 200, clock_);
  // For comparison: a model with the same rows that is never restarted.
  server::ThreadPool pool("test", 0);
  Model plain(1, *model_->declaration(), {}, {}, pool, nullptr);
  {
    FakeClock clock;
    const auto add = [&](const LogRow& batch) {
      plain.strand_state().Apply(batch, 0,
                                 std::chrono::duration_cast<std::chrono::microseconds>(
                                     clock.clock().wall().time_since_epoch()));
    };
    SubmitSome(add, *model_, 200, clock);
  }
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    for (const HistoryResolution resolution : server::kHistoryResolutions) {
      const Buckets expected =
          plain.strand_state().history().View(resolution, plain.strand_state().watch_mark());
      ASSERT_GE(expected.size(), resolution == HistoryResolution::kDay ? 1U : 4U);
      EXPECT_TRUE(expected.front().bucket.watch.has_value());
      ExpectSame(Read(resolution), expected);
    }
    Settle();
    EXPECT_GT(StoredRows(), 20);
    EXPECT_LE(model_->strand_state().history().waiting().size(), History::kMostWaiting);
    Stop();
    Start();
    ASSERT_NE(model_, nullptr);
  }
}

TEST_F(HistoryTest, ReadsTheBucketsThatBeginInTheRange) {
  Start();
  Create();
  std::vector<sys_seconds> starts;
  for (int i = 0; i < 100; ++i) {
    starts.push_back(std::chrono::floor<minutes>(clock_.clock().wall()));
    Submit(MakeBatch(*model_, 3, static_cast<std::uint64_t>(i)));
    clock_.MoveWall(minutes(1));
  }
  EXPECT_EQ(Read(kMinute).size(), 100U);
  // Buckets in the database, pending ones, and the open ones.
  for (const std::size_t from : {0U, 10U, 95U, 99U}) {
    for (const std::size_t to : {from + 1, from + 3, std::size_t{100}}) {
      const sys_seconds end = to < 100 ? starts[to] : sys_seconds::max();
      const auto buckets = TryRead(kMinute, starts[from], end);
      ASSERT_TRUE(buckets.ok());
      ASSERT_EQ(buckets->size(), std::min<std::size_t>(to, 100) - from);
      EXPECT_EQ(buckets->front().start, starts[from]);
      const auto later = TryRead(kMinute, starts[from] + seconds(1), end + seconds(0));
      ASSERT_TRUE(later.ok());
      EXPECT_EQ(later->size(), buckets->size() - 1);
    }
  }
}

TEST_F(HistoryTest, DoesNotWaitLongForASnapshot) {
  Start();
  Create();
  for (int i = 0; i < 200; ++i) {
    Submit(MakeBatch(*model_, 1, static_cast<std::uint64_t>(i)));
    clock_.MoveWall(minutes(1));
    Settle();
    EXPECT_LE(model_->strand_state().history().waiting().size(), History::kMostWaiting);
  }
  // The history is stored long before 256 batches have come.
  EXPECT_GE(StoredRows(), 200 - static_cast<std::int64_t>(History::kMostWaiting) - 1);
  EXPECT_EQ(Read(kMinute).size(), 200U);
}

TEST_F(HistoryTest, IsKeptForItsRetention) {
  Start();
  Create();
  std::map<HistoryResolution, std::vector<sys_seconds>> starts;
  // An observation in the first minute of every third hour.
  for (int i = 0; i < 8 * 70; ++i) {
    const auto now = clock_.clock().wall();
    for (const HistoryResolution resolution : server::kHistoryResolutions) {
      const auto since = now.time_since_epoch() % SpanOf(resolution);
      const auto start = std::chrono::floor<seconds>(now - since);
      if (starts[resolution].empty() || starts[resolution].back() != start) {
        starts[resolution].push_back(start);
      }
    }
    Submit(MakeBatch(*model_, 2, static_cast<std::uint64_t>(i)));
    clock_.Move(hours(3));
  }
  Settle();
  const auto expect = [&](HistoryResolution resolution, seconds kept) {
    const Buckets buckets = Read(resolution);
    // Old buckets are deleted with a snapshot, of which there is at least one per 33 buckets.
    const sys_seconds newest = starts[resolution].back();
    const std::vector<sys_seconds>& all = starts[resolution];
    ASSERT_FALSE(buckets.empty());
    EXPECT_EQ(buckets.back().start, newest);
    EXPECT_LE(buckets.front().start, std::max(newest - kept, all.front()));
    EXPECT_GE(buckets.front().start, std::max(newest - kept - 33 * hours(3), all.front()));
    // No bucket is missing in between.
    const auto first = std::find(all.begin(), all.end(), buckets.front().start);
    ASSERT_NE(first, all.end());
    EXPECT_EQ(static_cast<std::size_t>(all.end() - first), buckets.size());
  };
  expect(kMinute, days(2));
  expect(HistoryResolution::kHour, days(60));
  expect(HistoryResolution::kDay, days(1000));
  EXPECT_LT(Read(kMinute).size(), 60U);
  EXPECT_GE(Read(HistoryResolution::kDay).size(), 70U);
}

TEST_F(HistoryTest, AMistakenStepOfTheWallClockDestroysNothing) {
  Start();
  Create();
  std::uint64_t rows = 0;
  // Submits a row in each of this many minutes.
  const auto submit = [&](int count) {
    for (int i = 0; i < count; ++i) {
      Submit(MakeBatch(*model_, 1, ++rows));
      clock_.Move(minutes(1));
    }
  };
  const sys_seconds first = std::chrono::floor<minutes>(clock_.clock().wall());
  submit(40);
  for (const days step : {days(400), days(-1)}) {
    clock_.MoveWall(step);
    submit(5);
    clock_.MoveWall(-step);
    submit(40);
  }
  // While the wall clock stands still, no minute ends.
  clock_.MoveSteady(minutes(20));
  Submit(MakeBatch(*model_, 1, ++rows));
  Submit(MakeBatch(*model_, 1, ++rows));
  Settle();
  EXPECT_GT(StoredRows(), 60);
  const Buckets buckets = Read(kMinute);
  ASSERT_EQ(buckets.size(), 131U);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    EXPECT_EQ(buckets[i].start, first + minutes(static_cast<int>(i)));
    EXPECT_EQ(buckets[i].bucket.observations(), i < 130 ? 1 : 2);
  }
  Stop();
  Start();
  ExpectSame(Read(kMinute), buckets);
}

TEST_F(HistoryTest, PredictionsWithAnIdCountWhenTheyMature) {
  Start();
  Create(kHistoryGrace);
  const auto minute = [this] {
    return sys_seconds(std::chrono::floor<minutes>(clock_.clock().wall()));
  };
  Submit(MakeBatch(*model_, 5, 1, MakeIds("a", 5)));
  clock_.MoveWall(minutes(2));
  Submit(MakeLabels(*model_, MakeIds("a", 3)));
  EXPECT_TRUE(Read(kMinute).empty());
  clock_.MoveSteady(kHistoryGrace);
  clock_.MoveWall(minutes(3));
  const sys_seconds matured = minute();
  EXPECT_TRUE(engine_->Mature(model_));
  clock_.MoveWall(minutes(1));
  Submit(MakeInvalidBatch(*model_));
  const Buckets buckets = Read(kMinute);
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_EQ(buckets[0].start, matured);
  EXPECT_EQ(buckets[0].bucket.observations(), 3);
  EXPECT_EQ(buckets[0].bucket.missing_labels, 2);
  EXPECT_EQ(buckets[0].bucket.rejected_rows, 0);
  EXPECT_EQ(buckets[1].bucket.rejected_rows, 1);
  Stop();
  Start();
  ExpectSame(Read(kMinute), buckets);
}

TEST_F(HistoryTest, NothingIsLostWhenASnapshotFails) {
  Start();
  Create();
  // So many minutes that a snapshot is due with the next one.
  for (std::size_t i = 0; i < History::kMostWaiting + 1; ++i) {
    Submit(MakeBatch(*model_, 2, i));
    clock_.MoveWall(minutes(1));
  }
  ASSERT_EQ(StoredRows(), 0);
  Signal release;
  model_->strand().Post([&release] { release.Wait(); });
  engine_->ingestor().Submit(model_, std::nullopt, MakeBatch(*model_, 2, 100), [](auto) {});
  engine_->commits().Flush();
  FailTransaction(engine_->commits(), [&release] { release.Set(); });
  Settle();
  EXPECT_EQ(StoredRows(), 0);
  const Buckets all = Read(kMinute);
  ASSERT_EQ(all.size(), History::kMostWaiting + 2);
  // The snapshot is retried after a second, with all pending buckets.
  clock_.MoveSteady(server::LogRetention::kRetryInterval);
  EXPECT_TRUE(WaitFor([this] {
    Submit(MakeInvalidBatch(*model_));
    Settle();
    return StoredRows() > 0;
  }));
  const Buckets now = Read(kMinute);
  ASSERT_EQ(now.size(), all.size());
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    EXPECT_TRUE(now[i].bucket == all[i].bucket) << i;
  }
  EXPECT_TRUE(model_->strand_state().history().waiting().empty());
}

TEST_F(HistoryTest, IsDeletedWithItsModel) {
  Start();
  Create();
  SubmitSome([this](LogRow batch) { Submit(std::move(batch)); }, *model_, 200, clock_);
  Settle();
  ASSERT_GT(StoredRows(), 0);
  ASSERT_TRUE(engine_->DeleteModel("models/m").ok());
  EXPECT_EQ(TryRead(kMinute).status().code(), absl::StatusCode::kNotFound);
  Settle();
  EXPECT_EQ(StoredRows(), 0);
  Create();
  EXPECT_TRUE(Read(HistoryResolution::kDay).empty());
}

TEST_F(HistoryTest, RefusesTooManyReads) {
  Start();
  Create();
  Signal release;
  model_->strand().Post([&release] { release.Wait(); });
  std::atomic<std::size_t> read = 0;
  std::size_t refused = 0;
  for (std::size_t i = 0; i < HistoryReader::kMostReads + 5; ++i) {
    const absl::Status status = reader_->Read(
        model_, {.resolution = kMinute, .start = {}, .end = {}}, [](const History::Entry&) {},
        [&read](const absl::Status&) { ++read; });
    refused += absl::IsResourceExhausted(status) ? 1U : 0U;
  }
  EXPECT_EQ(refused, 5U);
  release.Set();
  EXPECT_TRUE(WaitFor([&read] { return read == HistoryReader::kMostReads; }));
  EXPECT_TRUE(TryRead(kMinute).ok());
}

}  // namespace
}  // namespace calibd::testing
