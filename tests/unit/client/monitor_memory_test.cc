// A Monitor whose thread has no memory for a moment. It is a program of its own, because it
// replaces the allocation functions.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "calibd/client/monitor.h"
#include "scripted_server.h"
#include "support/wait_for.h"

namespace {

// True for the thread of the monitor, which calls on_warning.
thread_local bool is_delivery = false;
// How many further allocations of that thread succeed before one fails; negative: none fails.
std::atomic<int> successes = -1;

}  // namespace

void* operator new(std::size_t size) {
  if (is_delivery && successes >= 0 && successes-- == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace calibd::client {
namespace {

using ::calibd::testing::WaitFor;
using std::chrono::minutes;

TEST(MonitorMemoryTest, AThreadWithoutMemoryCountsEachRowOnceOrDropsIt) {
  std::atomic<std::int64_t> accepted = 0;
  std::atomic<std::int64_t> reported = 0;
  ScriptedServer server([&](int, ScriptedServer::Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    v1::StreamObservationsRequest request;
    std::int64_t rows = 0;
    while (stream.Read(&request) && request.has_batch()) {
      const v1::Observations& observations = request.batch().observations();
      rows += observations.labels_size();
      accepted += observations.labels_size();
      reported += observations.dropped_rows();
      ScriptedServer::Ack(stream, request.batch().sequence());
    }
    if (!request.has_finish()) return grpc::Status::CANCELLED;
    ScriptedServer::Finished(stream, request.finish().last_sequence(), rows);
    return grpc::Status::OK;
  });
  const auto monitor = Monitor::Create(
      "models/m",
      {.address = server.address(), .on_warning = [](const std::string&) { is_delivery = true; }});
  ASSERT_TRUE(monitor.ok()) << monitor.status();
  // The warning about an invalid row shows which thread it is.
  const std::vector<double> invalid = {0.9, 0.9};
  EXPECT_TRUE((*monitor)->Observe({.values = invalid, .label = 1}));
  ASSERT_TRUE((*monitor)->Flush(minutes(1)).ok());
  const std::vector<double> row = {0.25, 0.75};
  constexpr int kRounds = 20;
  int failed = 0;
  for (int round = 0; round < kRounds; ++round) {
    // gRPC itself ends the process without memory, so one allocation fails, and not the next ones.
    successes = round;
    EXPECT_TRUE((*monitor)->Observe({.values = row, .label = 1}));
    EXPECT_TRUE(WaitFor(
        [&] {
          const StreamCounts counts = (*monitor)->counts();
          return counts.accepted_rows + counts.dropped_rows == round + 2;
        },
        minutes(1)))
        << "round " << round;
    failed += successes.exchange(-1) < 0 ? 1 : 0;
  }
  EXPECT_GT(failed, 0);
  ASSERT_TRUE((*monitor)->Flush(minutes(1)).ok());
  const StreamCounts counts = (*monitor)->Close();
  EXPECT_EQ(counts.rows, kRounds + 1);
  EXPECT_EQ(counts.accepted_rows + counts.dropped_rows, counts.rows);
  // A row whose stream failed after it was sent is dropped, and may be counted.
  EXPECT_LE(counts.accepted_rows, accepted);
  EXPECT_EQ(counts.dropped_rows, reported);
  EXPECT_GT(counts.accepted_rows, 0);
}

}  // namespace
}  // namespace calibd::client
