#include "server/net/connection_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using SlotPtr = std::unique_ptr<ConnectionSlots::Slot>;

class ConnectionSlotsTest : public ::testing::Test {
 protected:
  SlotPtr Admit(const std::string& address, const std::string& name) {
    return slots_.Admit(address, [this, name] { closed_.push_back(name); });
  }
  SlotPtr AdmitBusy(const std::string& address) {
    SlotPtr slot = Admit(address, "busy");
    slot->SetIdle(false);
    return slot;
  }

  ConnectionSlots slots_{{.total = 4, .per_address = 3, .reserve = 2}};
  // Evicted connections, in order.
  std::vector<std::string> closed_;
};

TEST_F(ConnectionSlotsTest, AdmitsUpToTheTotalWithoutEviction) {
  const std::vector<SlotPtr> held = [this] {
    std::vector<SlotPtr> all;
    for (const char* address : {"a", "a", "a", "b"}) all.push_back(Admit(address, address));
    return all;
  }();
  for (const SlotPtr& slot : held) {
    EXPECT_FALSE(slot->restricted());
  }
  EXPECT_THAT(closed_, IsEmpty());
}

TEST_F(ConnectionSlotsTest, AnAddressAtItsLimitLosesItsLongestIdleConnection) {
  const SlotPtr a1 = Admit("a", "a1");
  const SlotPtr a2 = Admit("a", "a2");
  const SlotPtr a3 = Admit("a", "a3");
  // After a call, the connection is the one that became idle last.
  a1->SetIdle(false);
  a1->SetIdle(true);
  const SlotPtr a4 = Admit("a", "a4");
  EXPECT_FALSE(a4->restricted());
  EXPECT_THAT(closed_, ElementsAre("a2"));
}

TEST_F(ConnectionSlotsTest, EvictionDoesNotChangeWhichCallsAreServed) {
  // A call may begin before the connection learns that it is evicted.
  const SlotPtr a1 = AdmitBusy("a");
  const SlotPtr a2 = AdmitBusy("a");
  const SlotPtr a3 = Admit("a", "a3");
  const SlotPtr a4 = AdmitBusy("a");
  EXPECT_THAT(closed_, ElementsAre("a3"));
  EXPECT_FALSE(a3->restricted());
  a3->SetIdle(false);
  EXPECT_FALSE(a3->restricted());
  // A connection restricted to health checks continues with them even if there is room again.
  SlotPtr b1 = AdmitBusy("b");
  const SlotPtr r1 = Admit("c", "r1");
  const SlotPtr r2 = Admit("c", "r2");
  const SlotPtr r3 = Admit("c", "r3");
  EXPECT_THAT(closed_, ElementsAre("a3", "r1"));
  b1.reset();
  EXPECT_TRUE(r1->restricted());
  EXPECT_FALSE(r2->restricted());
}

TEST_F(ConnectionSlotsTest, TheAddressWithTheMostIdleConnectionsLosesOne) {
  const SlotPtr b1 = Admit("b", "b1");
  const SlotPtr a1 = Admit("a", "a1");
  const SlotPtr a2 = Admit("a", "a2");
  const SlotPtr c1 = Admit("c", "c1");
  const SlotPtr d1 = Admit("d", "d1");
  EXPECT_FALSE(d1->restricted());
  EXPECT_THAT(closed_, ElementsAre("a1"));
  // Now all addresses have one idle connection; that of b has been idle longest.
  const SlotPtr e1 = Admit("e", "e1");
  EXPECT_FALSE(e1->restricted());
  EXPECT_THAT(closed_, ElementsAre("a1", "b1"));
}

TEST_F(ConnectionSlotsTest, BusyConnectionsAreNotEvicted) {
  const SlotPtr a1 = AdmitBusy("a");
  const SlotPtr a2 = AdmitBusy("a");
  const SlotPtr a3 = AdmitBusy("a");
  const SlotPtr b1 = Admit("b", "b1");
  // At its own limit and with nothing idle, the idle connection of another address stays.
  const SlotPtr a4 = Admit("a", "a4");
  EXPECT_TRUE(a4->restricted());
  EXPECT_THAT(closed_, IsEmpty());
  b1->SetIdle(false);
  const SlotPtr c1 = Admit("c", "c1");
  EXPECT_TRUE(c1->restricted());
  EXPECT_THAT(closed_, IsEmpty());
}

TEST_F(ConnectionSlotsTest, TheOldestRestrictedConnectionIsEvicted) {
  std::vector<SlotPtr> busy;
  for (const char* address : {"a", "a", "a", "b"}) busy.push_back(AdmitBusy(address));
  const SlotPtr r1 = Admit("a", "r1");
  const SlotPtr r2 = Admit("a", "r2");
  // Restricted connections are evicted whether they are idle or not.
  r1->SetIdle(false);
  const SlotPtr r3 = Admit("c", "r3");
  ASSERT_NE(r3, nullptr);
  EXPECT_THAT(closed_, ElementsAre("r1"));
}

TEST_F(ConnectionSlotsTest, ARestrictedConnectionBecomesRegularWhenThereIsRoom) {
  std::vector<SlotPtr> busy;
  for (const char* address : {"a", "a", "a", "b"}) busy.push_back(AdmitBusy(address));
  const SlotPtr restricted = Admit("c", "restricted");
  EXPECT_TRUE(restricted->restricted());
  busy.pop_back();
  EXPECT_FALSE(restricted->restricted());
  // It is regular and idle, so it can be evicted, but only once.
  const SlotPtr d1 = AdmitBusy("d");
  EXPECT_FALSE(d1->restricted());
  EXPECT_THAT(closed_, ElementsAre("restricted"));
}

TEST_F(ConnectionSlotsTest, EvictedConnectionsThatAreNotClosedAreBounded) {
  std::vector<SlotPtr> held;
  // 4 regular connections, 3 of them for address a, and as many evicted ones as regular slots.
  held.push_back(Admit("b", "b"));
  for (int i = 0; i < 7; ++i) {
    held.push_back(Admit("a", "a"));
    ASSERT_NE(held.back(), nullptr);
  }
  EXPECT_EQ(closed_.size(), 4U);
  // 2 restricted connections.
  for (int i = 0; i < 2; ++i) {
    held.push_back(Admit("a", "a"));
    ASSERT_NE(held.back(), nullptr);
    EXPECT_TRUE(held.back()->restricted());
  }
  EXPECT_EQ(Admit("a", "a"), nullptr);
  EXPECT_EQ(closed_.size(), 4U);
  // One of the evicted connections was closed.
  held.erase(held.begin() + 1);
  EXPECT_NE(Admit("a", "a"), nullptr);
}

TEST_F(ConnectionSlotsTest, WithoutReserveNobodyReplacesBusyConnections) {
  ConnectionSlots slots({.total = 1, .per_address = 1, .reserve = 0});
  const SlotPtr busy = slots.Admit("a", [] {});
  busy->SetIdle(false);
  EXPECT_EQ(slots.Admit("b", [] {}), nullptr);
}

TEST_F(ConnectionSlotsTest, DestroyedSlotsAreFree) {
  for (int round = 0; round < 100; ++round) {
    std::vector<SlotPtr> held;
    for (const char* address : {"a", "a", "a", "b"}) {
      held.push_back(AdmitBusy(address));
      EXPECT_FALSE(held.back()->restricted());
    }
    held.push_back(Admit("c", "c"));
    EXPECT_TRUE(held.back()->restricted());
  }
  EXPECT_THAT(closed_, IsEmpty());
}

// For the thread sanitizer. Also checks that every evicted connection is told so.
TEST_F(ConnectionSlotsTest, ThreadsMayShareThem) {
  ConnectionSlots slots({.total = 8, .per_address = 4, .reserve = 4});
  std::atomic<int> evicted = 0;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&slots, &evicted, seed] {
      std::mt19937 random(seed);
      std::vector<SlotPtr> held;
      for (int i = 0; i < 2000; ++i) {
        SlotPtr slot = slots.Admit(std::to_string(random() % 3), [&evicted] { ++evicted; });
        if (slot != nullptr) {
          slot->SetIdle(random() % 2 == 0);
          held.push_back(std::move(slot));
        }
        while (held.size() > 4) {
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(random() % held.size()));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(evicted.load(), 0);
  // All slots are free again.
  std::vector<SlotPtr> held;
  for (int i = 0; i < 8; ++i) {
    held.push_back(slots.Admit(std::to_string(i / 4), [] { ADD_FAILURE() << "evicted"; }));
    ASSERT_NE(held.back(), nullptr);
    EXPECT_FALSE(held.back()->restricted());
  }
}

}  // namespace
}  // namespace calibd::server
