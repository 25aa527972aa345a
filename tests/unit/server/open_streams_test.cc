#include "server/ingest/open_streams.h"

#include <gtest/gtest.h>

namespace calibd::server {
namespace {

// Number of batches that two CPUs read before they are settled.
constexpr int kMostUnsettled = 1024;

TEST(OpenStreamsTest, StreamsReadAheadTogetherAndAFewBatchesEach) {
  OpenStreams streams(/*max_streams=*/10, /*cpus=*/2);
  for (int i = 0; i < kMostUnsettled - 1; ++i) streams.BatchRead();
  EXPECT_TRUE(streams.MayRead(100));
  streams.BatchRead();
  EXPECT_FALSE(streams.MayRead(100));
  EXPECT_FALSE(streams.MayRead(8));
  EXPECT_TRUE(streams.MayRead(7));
  streams.BatchSettled();
  EXPECT_TRUE(streams.MayRead(100));
}

}  // namespace
}  // namespace calibd::server
