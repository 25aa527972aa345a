#include "server/state/producer_cursors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calibd::server {
namespace {

using ::testing::HasSubstr;
using Standing = ProducerCursors::Standing;

ProducerPosition At(std::int64_t sequence, std::int64_t epoch = 0) {
  return {.producer_id = "p", .epoch = epoch, .sequence = sequence};
}

class ProducerCursorsTest : public ::testing::Test {
 protected:
  ProducerCursorsTest() { EXPECT_EQ(*cursors_.Open("p", 0), 1); }

  ProducerCursors cursors_{2};
};

TEST_F(ProducerCursorsTest, NumbersAreUsedUpOneAfterAnother) {
  for (std::int64_t sequence = 1; sequence <= 200; ++sequence) {
    ASSERT_EQ(*cursors_.Check(At(sequence), 7), Standing::kNext);
    cursors_.Advance(At(sequence), 7);
    ASSERT_EQ(*cursors_.Check(At(sequence), 7), Standing::kSettledBefore);
  }
  EXPECT_EQ(*cursors_.Open("p", 0), 201);
}

TEST_F(ProducerCursorsTest, GapNamesTheExpectedNumber) {
  const absl::Status status = cursors_.Check(At(3), 7).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected 1"));
}

TEST_F(ProducerCursorsTest, SameNumberWithOtherContentIsRefusedWhileItIsRemembered) {
  constexpr auto kRemembered = static_cast<std::int64_t>(ProducerCursors::kRememberedContents);
  for (std::int64_t sequence = 1; sequence <= kRemembered + 1; ++sequence) {
    cursors_.Advance(At(sequence), static_cast<std::uint64_t>(sequence));
  }
  EXPECT_EQ(cursors_.Check(At(2), 99).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*cursors_.Check(At(2), 2), Standing::kSettledBefore);
  EXPECT_EQ(*cursors_.Check(At(1), 99), Standing::kSettledBefore);
}

TEST_F(ProducerCursorsTest, AHigherEpochFencesLowerOnesAndTheNumberingContinues) {
  cursors_.Advance(At(1), 7);
  EXPECT_EQ(*cursors_.Open("p", 3), 2);
  EXPECT_EQ(cursors_.Check(At(2, 0), 7).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(cursors_.Open("p", 2).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(*cursors_.Check(At(2, 3), 7), Standing::kNext);
}

TEST_F(ProducerCursorsTest, ProducersAreCapped) {
  EXPECT_TRUE(cursors_.Open("q", 0).ok());
  EXPECT_EQ(cursors_.Open("r", 0).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(cursors_.Open("p", 0).ok());
  EXPECT_EQ(cursors_.size(), 2U);
}

TEST_F(ProducerCursorsTest, AReplayAdvancesThemWithoutAGap) {
  for (std::int64_t sequence = 1; sequence <= 100; ++sequence) {
    cursors_.Advance(At(sequence, 0), static_cast<std::uint64_t>(sequence * 3));
  }
  EXPECT_EQ(*cursors_.Open("p", 4), 101);
  // From the cursor at any time, including some rows that it already covers.
  for (const std::int64_t stored : {0, 1, 50, 99, 100}) {
    ProducerCursors replayed(1);
    ProducerCursors before(1);
    EXPECT_TRUE(before.Open("p", 0).ok());
    for (std::int64_t sequence = 1; sequence <= stored; ++sequence) {
      before.Advance(At(sequence), static_cast<std::uint64_t>(sequence * 3));
    }
    if (stored > 0) replayed.Set("p", before.Get("p"));
    for (std::int64_t sequence = std::max<std::int64_t>(1, stored - 5); sequence <= 100;
         ++sequence) {
      EXPECT_TRUE(replayed.Replay(At(sequence), static_cast<std::uint64_t>(sequence * 3)));
    }
    EXPECT_TRUE(replayed.Replay(At(0, 4), std::nullopt));
    EXPECT_EQ(EncodeContents(*replayed.Get("p")), EncodeContents(*cursors_.Get("p")));
    EXPECT_EQ(replayed.Get("p")->last_sequence, 100);
    EXPECT_EQ(replayed.Get("p")->epoch, 4);
    EXPECT_FALSE(replayed.Replay(At(102, 4), 7));
  }
}

TEST_F(ProducerCursorsTest, AdvancedCursorsAreStored) {
  const auto moved = [&] {
    std::vector<std::string> names;
    cursors_.VisitMoved([&](const std::string& name, const ProducerCursors::Cursor& /*cursor*/) {
      names.push_back(name);
    });
    return names;
  };
  EXPECT_THAT(moved(), ::testing::ElementsAre("p"));
  cursors_.SetStored();
  EXPECT_TRUE(cursors_.Open("p", 0).ok());
  EXPECT_THAT(moved(), ::testing::IsEmpty());
  EXPECT_TRUE(cursors_.Open("p", 1).ok());
  EXPECT_THAT(moved(), ::testing::ElementsAre("p"));
  cursors_.SetStored();
  cursors_.Advance(At(1, 1), 7);
  EXPECT_THAT(moved(), ::testing::ElementsAre("p"));
  cursors_.SetStored();
  EXPECT_TRUE(cursors_.Replay({.producer_id = "new", .epoch = 0, .sequence = 0}, std::nullopt));
  EXPECT_THAT(moved(), ::testing::ElementsAre("new"));
}

}  // namespace
}  // namespace calibd::server
