#include "server/ingest/log_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibd/store/v1/store.pb.h"

namespace calibd::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string DataOf(const std::string& producer) {
  store::v1::LogRow row;
  row.mutable_producer()->set_producer_id(producer);
  row.mutable_values()->add_values(0.25);
  row.set_elapsed_us(123456);
  return row.SerializeAsString();
}

std::string Describe(const LostTail& tail) {
  return DescribeTail(tail, [](std::int64_t id) { return id == 7 ? "models/m" : ""; });
}

TEST(DescribeTailTest, NamesTheBatchesAndTheirProducers) {
  LostTail tail{.description = "/data/log-1 at byte 64, batches 40 to 43 of the log"};
  const std::string second = DataOf("second\n");
  tail.batches = {{.model_id = 7, .data = DataOf("first")},
                  {.model_id = 7, .data = DataOf("first")},
                  // The data ends within the field after the producer.
                  {.model_id = 8, .data = second.substr(0, second.size() - 1)},
                  {.model_id = 7, .data = "\xff\xff"}};
  const std::string text = Describe(tail);
  EXPECT_THAT(text, StartsWith("the end of the log cannot be read and is discarded: /data/log-1 at "
                               "byte 64, batches 40 to 43 of the log (producer \"first\" of "
                               "models/m, producer \"second\\n\", models/m); either the server "
                               "ended during the write"));
  tail.was_durable = true;
  EXPECT_THAT(Describe(tail),
              HasSubstr("; all of it had been stored, so the file was damaged later"));
}

TEST(DescribeTailTest, NamesAFewProducersOfMany) {
  LostTail tail;
  for (int i = 0; i < 30; ++i) {
    tail.batches.push_back({.model_id = 7, .data = DataOf(std::to_string(i))});
  }
  EXPECT_THAT(Describe(tail), HasSubstr("producer \"19\" of models/m and 10 more)"));
  EXPECT_THAT(Describe(tail), Not(HasSubstr("\"20\"")));
}

}  // namespace
}  // namespace calibd::server
