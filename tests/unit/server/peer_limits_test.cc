#include "server/net/peer_limits.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace calibd::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class PeerLimitsTest : public ::testing::Test {
 protected:
  PeerLimits peer_{"192.0.2.1", 1};
  PeerLimits::Time now_{std::chrono::hours(1)};

  // Exceeds the rate, and returns how long the address is refused.
  seconds Exceed() {
    while (peer_.TakeResets(100, now_)) {
    }
    seconds refused{0};
    while (peer_.refused(now_ + refused)) ++refused;
    return refused;
  }
};

TEST_F(PeerLimitsTest, ABurstAndTheRateAreAllowed) {
  EXPECT_TRUE(peer_.TakeResets(2000, now_));
  for (int i = 0; i < 100; ++i) {
    now_ += milliseconds(100);
    EXPECT_TRUE(peer_.TakeResets(100, now_)) << i;
  }
  EXPECT_FALSE(peer_.refused(now_));
  EXPECT_FALSE(peer_.TakeResets(1, now_));
  EXPECT_TRUE(peer_.refused(now_));
}

TEST_F(PeerLimitsTest, ARefusalLastsTwiceAsLongEachTimeUpToAMinute) {
  for (const int expected : {1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_EQ(Exceed(), seconds(expected));
    EXPECT_FALSE(peer_.TakeResets(1, now_));
    now_ += seconds(expected);
    EXPECT_TRUE(peer_.TakeResets(1, now_));
  }
  // A minute without an excess.
  EXPECT_FALSE(peer_.fresh(now_ + seconds(59)));
  EXPECT_TRUE(peer_.fresh(now_ + seconds(60)));
  now_ += seconds(60);
  EXPECT_EQ(Exceed(), seconds(1));
}

TEST_F(PeerLimitsTest, AnExcessDuringARefusalDoesNotExtendIt) {
  EXPECT_EQ(Exceed(), seconds(1));
  peer_.Refuse(now_ + milliseconds(500));
  EXPECT_FALSE(peer_.refused(now_ + seconds(1)));
  peer_.Refuse(now_ + seconds(1));
  EXPECT_TRUE(peer_.refused(now_ + milliseconds(2999)));
  EXPECT_FALSE(peer_.refused(now_ + seconds(3)));
}

TEST_F(PeerLimitsTest, ARefusalGoesOnForAMinuteWhileManyCallsEnd) {
  EXPECT_FALSE(peer_.refused(now_, /*many_end=*/true));
  EXPECT_TRUE(peer_.TakeResets(1, now_, /*many_end=*/true));
  EXPECT_EQ(Exceed(), seconds(1));
  EXPECT_FALSE(peer_.refused(now_ + seconds(1)));
  EXPECT_TRUE(peer_.refused(now_ + milliseconds(60999), /*many_end=*/true));
  EXPECT_FALSE(peer_.refused(now_ + seconds(61), /*many_end=*/true));
  EXPECT_FALSE(peer_.TakeResets(1, now_ + seconds(2), /*many_end=*/true));
  EXPECT_TRUE(peer_.TakeResets(1, now_ + seconds(2)));
  EXPECT_TRUE(peer_.TakeResets(1, now_ + seconds(61), /*many_end=*/true));
}

TEST_F(PeerLimitsTest, AProxyIsNotRefused) {
  PeerLimits proxy("192.0.2.2", 1, /*refusable=*/false);
  EXPECT_FALSE(proxy.TakeResets(2001, now_));
  EXPECT_FALSE(proxy.refused(now_, /*many_end=*/true));
  EXPECT_TRUE(proxy.TakeResets(2000, now_));
}

TEST(PeerTableTest, TheBudgetSurvivesTheConnections) {
  PeerTable peers(1, /*refusable=*/true);
  const auto now = std::chrono::steady_clock::now();
  EXPECT_TRUE(peers.Find("192.0.2.1")->TakeResets(2000, now));
  for (int i = 0; i < 1000; ++i) static_cast<void>(peers.Find(std::to_string(i)));
  EXPECT_FALSE(peers.Find("192.0.2.1")->TakeResets(2000, now));
  EXPECT_TRUE(peers.Find("192.0.2.2")->TakeResets(2000, now));
}

}  // namespace
}  // namespace calibd::server
