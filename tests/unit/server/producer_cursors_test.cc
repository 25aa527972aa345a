#include "server/rows/producer_cursors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Standing = ProducerCursors::Standing;

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kDay = 86400 * kSecond;
constexpr std::int64_t kStart = 20000 * kDay;

ProducerPosition PositionAt(std::int64_t sequence, std::int64_t epoch = 0, const char* id = "p") {
  return {.producer_id = id, .epoch = epoch, .sequence = sequence};
}
ProducerPosition Request(const std::string& id) {
  return {.producer_id = id, .sequence = 1, .request = true};
}

class ProducerCursorsTest : public ::testing::Test {
 protected:
  ProducerCursorsTest() { EXPECT_EQ(Open("p"), 1); }

  std::int64_t Open(const std::string& id, std::int64_t epoch = 0) {
    const auto next = cursors_.Open(id, epoch, time_us_);
    EXPECT_TRUE(next.ok()) << next.status();
    return next.value_or(-1);
  }
  auto Check(const ProducerPosition& position, std::uint64_t hash) {
    return cursors_.Check(position, hash, time_us_);
  }
  void Advance(const ProducerPosition& position, std::uint64_t hash) {
    cursors_.Advance(position, hash, time_us_);
  }
  // Sends batches 1 to n with the hashes 1 to n times `factor`. Returns the first error.
  absl::Status Send(const std::string& id, std::int64_t n, std::uint64_t factor = 1) {
    for (std::int64_t i = 1; i <= n; ++i) {
      const auto standing =
          Check(PositionAt(i, 0, id.c_str()), static_cast<std::uint64_t>(i) * factor);
      if (!standing.ok()) return standing.status();
      if (*standing == Standing::kNext) {
        Advance(PositionAt(i, 0, id.c_str()), static_cast<std::uint64_t>(i) * factor);
      }
    }
    return absl::OkStatus();
  }
  void End(const std::string& id, std::int64_t last) {
    ASSERT_EQ(*cursors_.CheckEnd(PositionAt(last, 0, id.c_str()), time_us_), Standing::kNext);
    cursors_.End(PositionAt(last, 0, id.c_str()), time_us_);
  }

  std::int64_t time_us_ = kStart;
  ProducerCursors cursors_{{.producers = 2, .expired = 16, .requests = 16}};
};

TEST_F(ProducerCursorsTest, NumbersAreUsedUpOneAfterAnother) {
  for (std::int64_t sequence = 1; sequence <= 200; ++sequence) {
    ASSERT_EQ(*Check(PositionAt(sequence), 7), Standing::kNext);
    Advance(PositionAt(sequence), 7);
    ASSERT_EQ(*Check(PositionAt(sequence), 7), Standing::kSettledBefore);
  }
  EXPECT_EQ(Open("p"), 201);
}

TEST_F(ProducerCursorsTest, GapNamesTheExpectedNumber) {
  const absl::Status unknown = Check(PositionAt(3), 7).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("expected 1: no batch of this producer"));
  Advance(PositionAt(1), 7);
  const absl::Status gap = Check(PositionAt(3), 7).status();
  EXPECT_EQ(gap.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(gap.message()), ::testing::EndsWith("expected 2"));
}

TEST_F(ProducerCursorsTest, SameNumberWithOtherContentIsRefusedWhileItIsRemembered) {
  constexpr auto kRemembered = static_cast<std::int64_t>(ProducerCursors::kRememberedContents);
  for (std::int64_t sequence = 1; sequence <= kRemembered + 1; ++sequence) {
    Advance(PositionAt(sequence), static_cast<std::uint64_t>(sequence));
  }
  EXPECT_EQ(Check(PositionAt(2), 99).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*Check(PositionAt(2), 2), Standing::kSettledBefore);
  EXPECT_EQ(*Check(PositionAt(1), 99), Standing::kSettledBefore);
}

TEST_F(ProducerCursorsTest, AfterOtherContentNothingNewIsAcceptedUntilTheNextOpening) {
  ASSERT_TRUE(Send("p", 3).ok());
  EXPECT_EQ(Check(PositionAt(3), 99).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Check(PositionAt(4), 4).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Open("p"), 4);
  EXPECT_EQ(*Check(PositionAt(4), 4), Standing::kNext);
}

TEST_F(ProducerCursorsTest, AllContentsAreComparedIfAllBatchesComeAgain) {
  ASSERT_TRUE(Send("p", 200).ok());
  EXPECT_TRUE(Send("p", 200).ok());
  // Another first batch, of which only the hash of all contents knows, and then a new one.
  EXPECT_EQ(*Check(PositionAt(1), 99), Standing::kSettledBefore);
  for (std::int64_t i = 2; i < 200; ++i) {
    ASSERT_EQ(*Check(PositionAt(i), static_cast<std::uint64_t>(i)), Standing::kSettledBefore);
  }
  EXPECT_EQ(Check(PositionAt(200), 200).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Check(PositionAt(201), 201).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ProducerCursorsTest, AHigherEpochFencesLowerOnesAndTheNumberingContinues) {
  Advance(PositionAt(1), 7);
  EXPECT_EQ(Open("p", 3), 2);
  EXPECT_EQ(Check(PositionAt(2, 0), 7).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(cursors_.Open("p", 2, time_us_).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(*Check(PositionAt(2, 3), 7), Standing::kNext);
}

TEST_F(ProducerCursorsTest, ProducersInUseAreCapped) {
  Open("q");
  const absl::Status full = cursors_.Open("r", 0, time_us_).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("the limit is 2 (calibd --max-producers"));
  EXPECT_EQ(Open("p"), 1);
  EXPECT_EQ(cursors_.size(), 2U);
}

TEST_F(ProducerCursorsTest, TheLeastRecentlyUsedProducerMakesRoomAndMayContinue) {
  ASSERT_TRUE(Send("p", 100).ok());
  Open("q");
  time_us_ += 61 * kSecond;
  ASSERT_TRUE(Send("q", 5).ok());
  // p makes room: q was used just now.
  Open("r");
  EXPECT_EQ(cursors_.size(), 2U);
  time_us_ += 61 * kSecond;
  // It sends without being opened, as on a stream that is still open.
  EXPECT_EQ(*Check(PositionAt(40), 40), Standing::kSettledBefore);
  EXPECT_EQ(*Check(PositionAt(101), 101), Standing::kNext);
  EXPECT_EQ(Open("p"), 101);
  EXPECT_TRUE(Send("p", 101).ok());
  // Both others expired together or one after the other; nothing is counted twice.
  time_us_ += 61 * kSecond;
  EXPECT_EQ(Open("q"), 6);
  EXPECT_EQ(cursors_.size(), 2U);
}

TEST_F(ProducerCursorsTest, AExpiredProducerKeepsItsEpochAndItsContents) {
  ASSERT_TRUE(Send("p", 10).ok());
  Open("p", 4);
  time_us_ += 31 * kDay;
  Open("q");
  EXPECT_EQ(cursors_.size(), 1U);
  EXPECT_EQ(cursors_.Open("p", 3, time_us_).status().code(), absl::StatusCode::kAborted);
  Open("p", 4);
  for (std::int64_t i = 1; i < 10; ++i) ASSERT_TRUE(Check(PositionAt(i, 4), 5).ok());
  EXPECT_EQ(Check(PositionAt(10, 4), 5).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ProducerCursorsTest, IdleProducersExpireByAge) {
  ASSERT_TRUE(Send("p", 1).ok());
  time_us_ += 29 * kDay;
  Open("q");
  EXPECT_EQ(cursors_.size(), 2U);
  time_us_ += 2 * kDay;
  // An opening of a known producer looks for nothing.
  Open("q");
  EXPECT_EQ(cursors_.size(), 2U);
  Open("r");
  EXPECT_EQ(cursors_.size(), 2U);
  EXPECT_EQ(cursors_.Get("p")->last_sequence, 1);
}

TEST_F(ProducerCursorsTest, AnEndedProducerOnlyRepeatsItself) {
  ASSERT_TRUE(Send("p", 3).ok());
  End("p", 3);
  EXPECT_EQ(cursors_.size(), 0U);
  EXPECT_EQ(Open("p"), 4);
  EXPECT_TRUE(Send("p", 3).ok());
  const absl::Status more = Check(PositionAt(4), 4).status();
  EXPECT_EQ(more.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(more.message()), HasSubstr("ended after batch 3"));
  EXPECT_EQ(cursors_.CheckEnd(PositionAt(2), time_us_).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*cursors_.CheckEnd(PositionAt(3), time_us_), Standing::kSettledBefore);
  EXPECT_EQ(cursors_.size(), 0U);
}

TEST_F(ProducerCursorsTest, AsManyExpiredProducersAreKnownAsPromised) {
  for (int i = 1; i <= 100; ++i) {
    time_us_ += kSecond;
    const std::string id = absl::StrCat("q", i);
    Open(id);
    ASSERT_TRUE(Send(id, 2).ok());
    End(id, 2);
    cursors_.SetStored(time_us_ + 1);
    for (int j = std::max(1, i - 15); j <= i; ++j) {
      EXPECT_TRUE(cursors_.Get(absl::StrCat("q", j)).has_value()) << i << " " << j;
    }
    for (int j = 1; j <= i - 17; ++j) {
      EXPECT_FALSE(cursors_.Get(absl::StrCat("q", j)).has_value()) << i << " " << j;
    }
  }
  EXPECT_EQ(Open("q1"), 1);
}

TEST_F(ProducerCursorsTest, ARequestCountsOnceWithinItsWindow) {
  EXPECT_EQ(*Check(Request("a"), 7), Standing::kNext);
  Advance(Request("a"), 7);
  EXPECT_EQ(*Check(Request("a"), 7), Standing::kSettledBefore);
  const absl::Status other = Check(Request("a"), 8).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(other.message()), HasSubstr("request_id \"a\" was used before"));
  // A producer of the same name is another one.
  EXPECT_EQ(Open("a"), 1);
  time_us_ += kDay;
  EXPECT_EQ(*Check(Request("a"), 7), Standing::kSettledBefore);
  time_us_ += 1;
  EXPECT_EQ(*Check(Request("a"), 8), Standing::kNext);
  Advance(Request("a"), 8);
  EXPECT_EQ(*Check(Request("a"), 8), Standing::kSettledBefore);
  cursors_.ForgetRequest("a");
  EXPECT_EQ(*Check(Request("a"), 7), Standing::kNext);
}

TEST_F(ProducerCursorsTest, AsManyRequestsAreKnownAsPromised) {
  for (int i = 1; i <= 100; ++i) {
    time_us_ += 1;
    Advance(Request(absl::StrCat(i)), 7);
    for (int j = 1; j <= i; ++j) {
      const auto standing = Check(Request(absl::StrCat(j)), 7);
      if (j > i - 16) {
        EXPECT_EQ(*standing, Standing::kSettledBefore) << i << " " << j;
      } else if (j <= i - 17) {
        EXPECT_EQ(*standing, Standing::kNext) << i << " " << j;
      }
    }
  }
}

TEST_F(ProducerCursorsTest, AReplayAdvancesThemWithoutAGap) {
  for (std::int64_t sequence = 1; sequence <= 100; ++sequence) {
    Advance(PositionAt(sequence, 0), static_cast<std::uint64_t>(sequence * 3));
  }
  EXPECT_EQ(Open("p", 4), 101);
  // The replay starts from the cursor at any time, including some rows that it already covers.
  for (const std::int64_t stored : {0, 1, 50, 99, 100}) {
    ProducerCursors replayed({});
    ProducerCursors before({});
    EXPECT_TRUE(before.Open("p", 0, kStart).ok());
    for (std::int64_t sequence = 1; sequence <= stored; ++sequence) {
      before.Advance(PositionAt(sequence), static_cast<std::uint64_t>(sequence * 3), kStart);
    }
    if (stored > 0) replayed.Set("p", before.Get("p"));
    for (std::int64_t sequence = std::max<std::int64_t>(1, stored - 5); sequence <= 100;
         ++sequence) {
      EXPECT_TRUE(
          replayed.Replay(PositionAt(sequence), static_cast<std::uint64_t>(sequence * 3), kStart));
    }
    EXPECT_TRUE(replayed.Replay(PositionAt(0, 4), std::nullopt, kStart));
    EXPECT_EQ(EncodeContents(*replayed.Get("p")), EncodeContents(*cursors_.Get("p")));
    EXPECT_EQ(replayed.Get("p")->last_sequence, 100);
    EXPECT_EQ(replayed.Get("p")->epoch, 4);
    EXPECT_FALSE(replayed.Replay(PositionAt(102, 4), 7, kStart));
  }
}

// Rows of the store by their keys.
using Rows = std::map<std::string, ProducerCursors::StoredForm>;

void Store(ProducerCursors& cursors, Rows& rows) {
  cursors.VisitChanged(
      [&](const std::string& key, const std::optional<ProducerCursors::StoredForm>& row) {
        if (row.has_value()) {
          rows[key] = *row;
        } else {
          rows.erase(key);
        }
      });
  cursors.SetStored(0);
}

TEST_F(ProducerCursorsTest, TheStoredRowsAndTheLogRestoreThem) {
  struct LogEntry {
    ProducerPosition position;
    std::optional<std::uint64_t> hash;
    bool ends = false;
  };
  std::vector<LogEntry> log;
  const auto send = [&](const std::string& id, std::int64_t first, std::int64_t last) {
    Open(id);
    for (std::int64_t i = first; i <= last; ++i) {
      Advance(PositionAt(i, 0, id.c_str()), static_cast<std::uint64_t>(i));
      log.push_back({PositionAt(i, 0, id.c_str()), static_cast<std::uint64_t>(i)});
    }
    time_us_ += 61 * kSecond;
  };
  send("p", 1, 70);
  const std::size_t snapshot = log.size();
  send("q", 1, 3);
  // Expires p, then q; both continue later.
  send("r", 1, 2);
  Open("r");
  End("r", 2);
  log.push_back({PositionAt(2, 0, "r"), std::nullopt, true});
  send("p", 71, 72);
  Advance(Request("a"), 5);
  log.push_back({Request("a"), 5});
  // The rows are stored with the snapshot, which is older than they are.
  Rows rows;
  Store(cursors_, rows);
  send("q", 4, 4);
  Advance(Request("b"), 6);
  log.push_back({Request("b"), 6});

  ProducerCursors restored({.producers = 2, .expired = 16, .requests = 16});
  for (const auto& [key, row] : rows) ASSERT_TRUE(restored.Restore(key, row));
  for (std::size_t i = snapshot; i < log.size(); ++i) {
    if (log[i].ends) {
      restored.End(log[i].position, time_us_);
    } else {
      ASSERT_TRUE(restored.Replay(log[i].position, log[i].hash, time_us_)) << i;
    }
  }
  for (const char* const id : {"p", "q", "r"}) {
    SCOPED_TRACE(id);
    const auto expected = cursors_.Get(id);
    const auto read = restored.Get(id);
    ASSERT_TRUE(expected.has_value() && read.has_value());
    EXPECT_EQ(read->last_sequence, expected->last_sequence);
    EXPECT_EQ(read->all_contents, expected->all_contents);
    EXPECT_EQ(read->ended, expected->ended);
  }
  for (const auto& [id, hash] : {std::pair("a", 5), std::pair("b", 6)}) {
    EXPECT_EQ(*restored.Check(Request(id), static_cast<std::uint64_t>(hash), time_us_),
              Standing::kSettledBefore);
    EXPECT_FALSE(restored.Check(Request(id), 99, time_us_).ok());
  }
  EXPECT_FALSE(restored.Check(PositionAt(73, 0, "r"), 1, time_us_).ok());
}

TEST_F(ProducerCursorsTest, AProducerIsForgottenOnlyIfItsRowsAreNotReplayed) {
  ASSERT_TRUE(Send("p", 3).ok());
  const std::int64_t snapshot_us = time_us_;
  for (int i = 0; i < 40; ++i) {
    time_us_ += kSecond;
    const std::string id = absl::StrCat("q", i);
    Open(id);
    End(id, 0);
  }
  End("p", 3);
  cursors_.SetStored(snapshot_us);
  EXPECT_TRUE(cursors_.Get("q0").has_value());
  cursors_.SetStored(time_us_ + 1);
  EXPECT_FALSE(cursors_.Get("q0").has_value());
  EXPECT_TRUE(cursors_.Get("q39").has_value());
  EXPECT_TRUE(cursors_.Get("p").has_value());
}

TEST_F(ProducerCursorsTest, ChangedRowsAreStored) {
  Rows rows;
  const auto changed = [&] {
    std::vector<std::string> keys;
    cursors_.VisitChanged(
        [&](const std::string& key, const std::optional<ProducerCursors::StoredForm>& /*row*/) {
          keys.push_back(key);
        });
    Store(cursors_, rows);
    return keys;
  };
  EXPECT_THAT(changed(), ElementsAre("p"));
  EXPECT_THAT(changed(), IsEmpty());
  EXPECT_EQ(Open("p", 1), 1);
  EXPECT_THAT(changed(), ElementsAre("p"));
  Advance(PositionAt(1, 1), 7);
  EXPECT_THAT(changed(), ElementsAre("p"));
  EXPECT_TRUE(cursors_.Replay({.producer_id = "new", .epoch = 0, .sequence = 0}, std::nullopt, 0));
  EXPECT_THAT(changed(), ElementsAre("new"));
  EXPECT_EQ(rows.size(), 2U);
  ASSERT_EQ(*cursors_.CheckEnd(PositionAt(1, 1), kStart), Standing::kNext);
  cursors_.End(PositionAt(1, 1), kStart);
  EXPECT_THAT(changed(), ::testing::SizeIs(2));
  EXPECT_EQ(rows.size(), 2U);
  EXPECT_FALSE(rows.contains("p"));
  // Forgotten rows are deleted.
  for (int i = 0; i < 40; ++i) Advance(Request(absl::StrCat(i)), 7);
  Store(cursors_, rows);
  EXPECT_THAT(rows, ::testing::SizeIs(::testing::Le(2U + 17U)));
}

TEST_F(ProducerCursorsTest, InvalidStoredRowsAreRefused) {
  const auto restore = [](const std::string& key, const std::string& contents) {
    ProducerCursors cursors({});
    return cursors.Restore(key, {.contents = contents});
  };
  EXPECT_TRUE(restore("p", std::string(536, '\0')));
  EXPECT_TRUE(restore(std::string(17, '\0'), std::string(24, '\0')));
  EXPECT_FALSE(restore("", std::string(536, '\0')));
  EXPECT_FALSE(restore(std::string(16, '\0'), std::string(24, '\0')));
  EXPECT_FALSE(restore("p", std::string(512, '\0')));
  EXPECT_FALSE(restore("p", std::string(535, '\0')));
  EXPECT_FALSE(restore("p", std::string(536, '\1')));
}

}  // namespace
}  // namespace calibd::server
