#include "server/net/call_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "server/base/errors.h"
#include "server/net/peer_name.h"

namespace calibd::server {
namespace {

CallMemory::Owner Owner(std::uint64_t connection, const std::string& address) {
  return CallMemory::Owner("unix-abstract:" + MakePeerName(connection, address));
}

TEST(CallMemoryTest, OneConnectionGetsAnEighthAndOneAddressAQuarter) {
  ByteBudget budget(8000);
  CallMemory memory(budget);
  EXPECT_TRUE(memory.Reserve(Owner(1, "192.0.2.1:1"), 500).ok());
  EXPECT_TRUE(memory.Reserve(Owner(1, "192.0.2.1:1"), 500).ok());
  const absl::Status refused = memory.Reserve(Owner(1, "192.0.2.1:1"), 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(refused)->reason(), "CALL_MEMORY_EXHAUSTED");
  EXPECT_TRUE(memory.Reserve(Owner(2, "192.0.2.1:2"), 1000).ok());
  EXPECT_FALSE(memory.Reserve(Owner(3, "192.0.2.1:3"), 1).ok());
  EXPECT_TRUE(memory.Reserve(Owner(4, "[2001:db8::1]:1"), 1000).ok());
  EXPECT_EQ(budget.reserved(), 3000U);
  memory.Release(Owner(1, "192.0.2.1:1"), 1000);
  EXPECT_TRUE(memory.Reserve(Owner(3, "192.0.2.1:3"), 1000).ok());
}

TEST(CallMemoryTest, TwoLargeResponsesAlwaysFit) {
  ByteBudget budget(8000);
  CallMemory memory(budget);
  EXPECT_TRUE(memory.Reserve(Owner(1, "192.0.2.1:1"), 3000).ok());
  EXPECT_TRUE(memory.Reserve(Owner(1, "192.0.2.1:1"), 3000).ok());
  EXPECT_FALSE(memory.Reserve(Owner(1, "192.0.2.1:1"), 3000).ok());
  // Nothing is left for others either, and the refused reservation took nothing.
  EXPECT_FALSE(memory.Reserve(Owner(2, "192.0.2.2:1"), 3000).ok());
  EXPECT_EQ(budget.reserved(), 6000U);
}

TEST(CallReservationTest, ReleasesWhatItHas) {
  ByteBudget budget(8000);
  CallMemory memory(budget);
  {
    CallReservation reservation(memory, "ipv4:127.0.0.1:1");
    EXPECT_TRUE(reservation.Add(300).ok());
    EXPECT_TRUE(reservation.Add(400).ok());
    reservation.Release(300);
    EXPECT_EQ(reservation.bytes(), 400U);
    EXPECT_EQ(budget.reserved(), 400U);
  }
  EXPECT_EQ(budget.reserved(), 0U);
}

}  // namespace
}  // namespace calibd::server
