#include "server/executor/fair_shares.h"

#include <gtest/gtest.h>

#include <string>

namespace calibd::server {
namespace {

// Returns how many places the owner gets.
std::size_t TakeAll(FairShares& shares, const std::string& owner) {
  std::size_t taken = 0;
  while (shares.Take(owner)) ++taken;
  return taken;
}

TEST(FairSharesTest, EachOwnerLeavesRoomForTheNext) {
  FairShares shares(1000);
  EXPECT_EQ(TakeAll(shares, "a"), 501);
  EXPECT_EQ(TakeAll(shares, "b"), 250);
  EXPECT_EQ(TakeAll(shares, "c"), 125);
  EXPECT_EQ(shares.taken(), 876);
  EXPECT_EQ(shares.TakenBy("b"), 250);
}

TEST(FairSharesTest, AReturnedPlaceIsFree) {
  FairShares shares(2);
  EXPECT_EQ(TakeAll(shares, "a"), 2);
  EXPECT_FALSE(shares.Take("b"));
  shares.Return("a");
  EXPECT_TRUE(shares.Take("b"));
  EXPECT_FALSE(shares.Take("a"));
  shares.Return("a");
  shares.Return("b");
  EXPECT_EQ(shares.taken(), 0);
  EXPECT_EQ(TakeAll(shares, "b"), 2);
}

TEST(FairSharesTest, ThereMayBeNoPlace) {
  FairShares shares(0);
  EXPECT_FALSE(shares.Take("a"));
}

}  // namespace
}  // namespace calibd::server
