// Producers that expire or end, and request ids: no row counts twice, also after a restart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "integration/engine/engine.h"
#include "server/ingest/snapshots.h"
#include "server/ingest/verification.h"
#include "server/store/local/sqlite.h"
#include "support/temporary_folder.h"
#include "support/test_operation.h"

namespace calibd::testing {
namespace {

using server::Model;
using server::Settlement;
using std::chrono::hours;
using std::chrono::minutes;
using Kind = Settlement::Kind;

constexpr std::size_t kProducersRows = 5;

class ProducersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Start();
    v1::Model model = Declare("models/m");
    model.set_window(1000);
    ASSERT_TRUE(engine_->CreateModel(model).ok());
    model_ = engine_->Find("models/m");
  }

  // Starts again; the state after the newest snapshot comes from the log.
  void Start() {
    model_.reset();
    engine_.reset();
    engine_.emplace(folder_.path(),
                    Engine::Options{.clock = clock_.clock(),
                                    .matures = false,
                                    .producers = {.producers = 4, .expired = 16, .requests = 16}});
    model_ = engine_->Find("models/m");
  }
  void StoreSnapshot() {
    EXPECT_EQ(
        server::StoreSnapshots(engine_->registry(), engine_->commits(), engine_->ingestor().clock(),
                               std::chrono::steady_clock::now() + minutes(1)),
        0U);
  }
  // For all combinations of later restarts and snapshots, runs `check`, which must not change what
  // it checks.
  template <typename Check>
  void AfterRestarts(const Check& check) {
    check();
    Start();
    check();
    StoreSnapshot();
    check();
    Start();
    check();
    const auto verified = server::VerifyStore(engine_->commits(), [](double) { return true; });
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_THAT(verified->problems(), ::testing::IsEmpty());
  }

  Settlement Send(const std::string& producer, std::int64_t sequence, std::uint64_t seed = 1) {
    return engine_->Submit(
        model_, {{producer, 0, sequence}},
        MakeBatch(*model_, kProducersRows, seed * 1000 + static_cast<std::uint64_t>(sequence)));
  }
  // Makes a call with a request id.
  Settlement Ask(const std::string& id, std::uint64_t seed = 1) {
    return Ask(id, MakeBatch(*model_, kProducersRows, seed));
  }
  Settlement Ask(const std::string& id, server::LogRow batch) {
    Settlement settlement;
    Signal done;
    engine_->ingestor().Submit(
        model_, server::ProducerPosition{.producer_id = id, .sequence = 1, .request = true},
        std::move(batch), [&](Settlement answer) {
          settlement = std::move(answer);
          done.Set();
        });
    done.Wait();
    return settlement;
  }
  absl::Status End(const std::string& producer, std::int64_t last) {
    absl::Status ended;
    Signal done;
    engine_->ingestor().End(model_, {.producer_id = producer, .sequence = last},
                            [&](absl::Status status) {
                              ended = std::move(status);
                              done.Set();
                            });
    done.Wait();
    return ended;
  }
  absl::StatusOr<std::int64_t> Open(const std::string& producer) {
    absl::StatusOr<std::int64_t> next;
    Signal done;
    engine_->ingestor().Open(model_, producer, 0, [&](absl::StatusOr<std::int64_t> answer) {
      next = std::move(answer);
      done.Set();
    });
    done.Wait();
    return next;
  }
  std::int64_t Counted() const { return model_->snapshot()->observations; }

  const TemporaryFolder folder_;
  FakeClock clock_;
  std::optional<Engine> engine_;
  std::shared_ptr<Model> model_;
};

TEST_F(ProducersTest, RandomProducersDoNotExhaustTheModelAndResendsDoNotCountTwice) {
  // This many are remembered: 4 with a complete cursor and 16 that have expired.
  for (int i = 0; i < 20; ++i) {
    const std::string id = absl::StrCat("random-", i);
    clock_.Move(minutes(2));
    ASSERT_EQ(*Open(id), 1);
    for (int sequence = 1; sequence <= 3; ++sequence) {
      ASSERT_EQ(Send(id, sequence).kind, Kind::kAccepted);
    }
    EXPECT_LE(model_->producers(), 4U);
  }
  const std::int64_t counted = Counted();
  EXPECT_EQ(counted, 20 * 3 * static_cast<std::int64_t>(kProducersRows));
  AfterRestarts([&] {
    for (int i = 0; i < 20; ++i) {
      SCOPED_TRACE(i);
      clock_.Move(minutes(2));
      const std::string id = absl::StrCat("random-", i);
      EXPECT_EQ(*Open(id), 4);
      EXPECT_EQ(Send(id, 1).kind, Kind::kDuplicate);
      EXPECT_EQ(Send(id, 3).kind, Kind::kDuplicate);
    }
    EXPECT_EQ(Counted(), counted);
  });
  // An expired producer continues.
  EXPECT_EQ(Send("random-0", 4).kind, Kind::kAccepted);
}

TEST_F(ProducersTest, ProducersInUseAreNotReplaced) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Open(absl::StrCat("p", i)).ok());
  const absl::Status refused = Open("p4").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("--max-producers-per-model"));
  EXPECT_EQ(Send("p0", 1).kind, Kind::kAccepted);
  clock_.Move(minutes(2));
  EXPECT_TRUE(Open("p4").ok());
}

TEST_F(ProducersTest, IdleProducersExpireByTheTimeOfTheLog) {
  ASSERT_EQ(Send("old", 1).kind, Kind::kAccepted);
  clock_.Move(hours(24 * 29));
  // The age survives the restart, with and without a snapshot.
  Start();
  ASSERT_TRUE(Open("young").ok());
  EXPECT_EQ(model_->producers(), 2U);
  StoreSnapshot();
  Start();
  clock_.Move(hours(24 * 2));
  ASSERT_TRUE(Open("new").ok());
  EXPECT_EQ(model_->producers(), 2U);
  AfterRestarts([&] {
    EXPECT_EQ(*Open("old"), 2);
    EXPECT_EQ(Send("old", 1).kind, Kind::kDuplicate);
    EXPECT_EQ(Counted(), static_cast<std::int64_t>(kProducersRows));
  });
}

TEST_F(ProducersTest, BeyondTheBoundAnUnknownProducerHasToBeginWithNumberOne) {
  for (int i = 0; i < 40; ++i) {
    clock_.Move(minutes(2));
    const std::string id = absl::StrCat("p", i);
    ASSERT_EQ(Send(id, 1).kind, Kind::kAccepted);
    ASSERT_EQ(Send(id, 2).kind, Kind::kAccepted);
    ASSERT_TRUE(End(id, 2).ok());
  }
  // The second snapshot forgets the oldest ones, and the third one stores that.
  for (int i = 1; i <= 3; ++i) {
    ASSERT_EQ(Send("other", i).kind, Kind::kAccepted);
    StoreSnapshot();
    clock_.Move(minutes(2));
  }
  // The log still holds batches of producers that the store has forgotten.
  AfterRestarts([&] {
    const Settlement gap = Send("p0", 3);
    EXPECT_EQ(gap.status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(gap.status.message()),
                ::testing::HasSubstr("--max-expired-producers-per-model"));
    EXPECT_EQ(Send("p39", 2).kind, Kind::kDuplicate);
    EXPECT_EQ(Send("p39", 3).status.code(), absl::StatusCode::kFailedPrecondition);
    clock_.Move(minutes(2));
  });
}

TEST_F(ProducersTest, AnEndedProducerLeavesNoCursorAndOnlyRepeatsItself) {
  ASSERT_EQ(Send("p", 1).kind, Kind::kAccepted);
  EXPECT_EQ(End("p", 2).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(model_->producers(), 1U);
  ASSERT_TRUE(End("p", 1).ok());
  EXPECT_EQ(model_->producers(), 0U);
  AfterRestarts([&] {
    EXPECT_EQ(*Open("p"), 2);
    EXPECT_EQ(Send("p", 1).kind, Kind::kDuplicate);
    EXPECT_EQ(Send("p", 2).status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(End("p", 1).ok());
    EXPECT_EQ(model_->producers(), 0U);
    EXPECT_EQ(Send("p", 1, 7).status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_TRUE(Open("p").ok());
    EXPECT_TRUE(End("p", 1).ok());
    EXPECT_EQ(Counted(), static_cast<std::int64_t>(kProducersRows));
  });
  auto database = server::Database::Open((folder_.path() / "calibd.db").string());
  EXPECT_EQ(*database->QueryInteger("SELECT count(*) FROM cursors"), 1);
}

TEST_F(ProducersTest, ARequestCountsOnce) {
  EXPECT_EQ(Ask("a").kind, Kind::kAccepted);
  EXPECT_EQ(Ask("b").kind, Kind::kAccepted);
  AfterRestarts([&] {
    const Settlement again = Ask("a");
    EXPECT_EQ(again.kind, Kind::kDuplicate);
    EXPECT_EQ(again.duplicate_rows, static_cast<std::int64_t>(kProducersRows));
    const Settlement other = Ask("a", 2);
    EXPECT_EQ(other.kind, Kind::kRefused);
    EXPECT_EQ(other.status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(Counted(), 2 * static_cast<std::int64_t>(kProducersRows));
  });
  // Ids are forgotten by age.
  clock_.Move(hours(25));
  EXPECT_EQ(Ask("a", 2).kind, Kind::kAccepted);
  EXPECT_EQ(Ask("a", 2).kind, Kind::kDuplicate);
  // Ids are forgotten by number: the newest 16 are known.
  for (int i = 0; i < 40; ++i) {
    clock_.Move(std::chrono::seconds(1));
    const Settlement asked = Ask(absl::StrCat(i));
    EXPECT_EQ(asked.kind, Kind::kAccepted) << asked.status;
  }
  AfterRestarts([&] {
    for (int i = 24; i < 40; ++i) EXPECT_EQ(Ask(absl::StrCat(i)).kind, Kind::kDuplicate) << i;
  });
  EXPECT_EQ(Ask("0").kind, Kind::kAccepted);
}

TEST_F(ProducersTest, ARejectedRequestIsRejectedAgainAndCountedOnce) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ask("a", MakeInvalidBatch(*model_)).kind, Kind::kRejected);
  }
  EXPECT_EQ(model_->snapshot()->rejected_batches, 1);
}

TEST_F(ProducersTest, AFailedTransactionRemembersNothing) {
  ASSERT_EQ(Send("p", 1).kind, Kind::kAccepted);
  ASSERT_EQ(Send("q", 1).kind, Kind::kAccepted);
  ASSERT_TRUE(End("q", 1).ok());
  {
    const Blocker blocker(engine_->commits());
    engine_->ingestor().Submit(
        model_, server::ProducerPosition{.producer_id = "a", .sequence = 1, .request = true},
        MakeBatch(*model_, kProducersRows, 1), [](const Settlement&) {});
    engine_->ingestor().End(model_, {.producer_id = "p", .sequence = 1},
                            [](const absl::Status&) {});
    engine_->ingestor().Open(model_, "q", 5, [](const absl::StatusOr<std::int64_t>&) {});
    PostToLog(engine_->commits(),
              {.write = [](server::Store& /*store*/) { return absl::ResourceExhaustedError(""); }});
  }
  engine_->commits().Flush();
  EXPECT_EQ(Ask("a", 2).kind, Kind::kAccepted);
  EXPECT_EQ(Send("p", 2).kind, Kind::kAccepted);
  EXPECT_EQ(*Open("q"), 2);
}

}  // namespace
}  // namespace calibd::testing
