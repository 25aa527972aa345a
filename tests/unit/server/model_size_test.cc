// How much memory and how many bytes of a snapshot a model of each kind takes. A change that makes
// a model larger must say why, and then change the numbers here.
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/ingest/decode.h"
#include "server/state/check_declaration.h"
#include "server/state/declaration_size.h"
#include "server/state/model.h"

namespace calibd::server {
namespace {

constexpr std::size_t kSizedClasses = 10;
constexpr int kSizedRows = 1000;

v1::Model SizedModel(v1::Model::KindCase kind) {
  v1::Model model;
  model.set_name("models/size");
  switch (kind) {
    case v1::Model::kClasses:
      model.mutable_classes()->set_count(kSizedClasses);
      break;
    case v1::Model::kForecast:
      model.mutable_forecast()->mutable_normal();
      break;
    case v1::Model::kLabels:
      for (const char* const name : {"rain", "fog", "wind"}) {
        model.mutable_labels()->add_names(name);
      }
      break;
    default:
      ADD_FAILURE() << "a kind without a declaration here";
  }
  return model;
}

v1::Observations ObservationsOf(v1::Model::KindCase kind) {
  v1::Observations rows;
  for (int i = 0; i < kSizedRows; ++i) {
    if (kind == v1::Model::kClasses) {
      const double top = 0.3 + 0.05 * (i % 10);
      for (int k = 0; k < static_cast<int>(kSizedClasses); ++k) {
        rows.mutable_probabilities()->add_values(k == i % 10 ? top : (1 - top) / 9);
      }
      rows.add_labels(i % 3 == 0 ? i % 10 : i % 7);
    } else if (kind == v1::Model::kLabels) {
      for (int k = 0; k < 3; ++k) {
        rows.mutable_probabilities()->add_values(0.1 + 0.05 * ((i + k) % 17));
        rows.add_labels((i + k) % 4 == 0 ? -1 : (i * (k + 2)) % 2);
      }
    } else {
      rows.mutable_forecasts()->add_values(i % 13);
      rows.mutable_forecasts()->add_values(1 + i % 5);
      rows.add_outcomes(i % 13 + 2 * std::sin(i));
    }
  }
  return rows;
}

struct ModelSize {
  v1::Model::KindCase kind;
  // What the server reserves for a model.
  std::size_t memory;
  // A snapshot after 1000 rows.
  std::size_t snapshot;
};

constexpr ModelSize kSizes[] = {
    {.kind = v1::Model::kClasses, .memory = 2788220, .snapshot = 36625},
    {.kind = v1::Model::kForecast, .memory = 1576946, .snapshot = 6182},
    {.kind = v1::Model::kLabels, .memory = 489948, .snapshot = 4745},
};

TEST(ModelSizeTest, IsWhatItWas) {
  ThreadPool pool("test", 1);
  for (const ModelSize& size : kSizes) {
    SCOPED_TRACE(size.kind);
    const auto declaration = CheckDeclaration(SizedModel(size.kind), std::size_t{1} << 30);
    ASSERT_TRUE(declaration.ok()) << declaration.status();
    EXPECT_EQ(StateMemory(*declaration), size.memory);
    Model model(1, *declaration, {}, {}, pool, nullptr);
    model.strand_state().Apply(Decode(ObservationsOf(size.kind), *declaration), 1,
                               std::chrono::seconds(1));
    ASSERT_EQ(model.strand_state().Save().observations(), kSizedRows);
    EXPECT_EQ(model.strand_state().Save().ByteSizeLong(), size.snapshot);
  }
}

// Bytes that are allocated now.
std::size_t Allocated() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

v1::Model ModelOfLabels(std::size_t count) {
  v1::Model model;
  model.set_name("models/labels");
  for (std::size_t k = 0; k < count; ++k) model.mutable_labels()->add_names(std::to_string(k));
  return model;
}

class HistoryMemoryTest : public ::testing::Test {
 protected:
  using sys_seconds = std::chrono::sys_seconds;
  static constexpr std::size_t kLabels = 1000;

  void SetUp() override {
    const std::size_t before = Allocated();
    const std::vector<char> probe(1 << 20);
    // A sanitizer replaces the allocator.
    if (Allocated() < before + probe.size()) GTEST_SKIP() << "the allocator is not glibc's";
  }

  static sys_seconds Minute(int number) {
    return sys_seconds(std::chrono::days(20000) + std::chrono::minutes(number));
  }
  // Counts an observation in the bucket that is open for counting.
  void CountOne() {
    history_.counting().labels.Add(
        {.probabilities = probabilities_, .truths = truths_, .label_count = kLabels});
  }
  void CountLate(int minute) {
    history_.BeginEarlier(Minute(minute));
    CountOne();
    history_.EndEarlier(std::nullopt);
  }

  const ModelDeclaration declaration_ =
      CheckDeclaration(ModelOfLabels(kLabels), std::size_t{1} << 30).value();
  const std::vector<double> probabilities_ = std::vector<double>(kLabels, 0.25);
  const std::vector<std::int8_t> truths_ = std::vector<std::int8_t>(kLabels);
  History history_;
};

TEST_F(HistoryMemoryTest, TheChargeIsWhatAFullHistoryTakes) {
  history_.Advance(Minute(0), std::nullopt);
  const std::size_t before = Allocated();
  // An observation in every minute, until as many buckets wait as may.
  int minute = 1;
  for (; history_.waiting().size() < History::kMostWaiting; ++minute) {
    CountOne();
    history_.Advance(Minute(minute), std::nullopt);
  }
  CountOne();
  // Late additions, which a snapshot stores while as many are added. The hour and the day are those
  // of the first additions.
  const auto add_late = [&] {
    for (int i = 1; history_.late().size() < History::kMostWaiting; ++i) CountLate(-i);
  };
  add_late();
  std::vector<std::string> encoded;
  for (const History::Entry& entry : history_.waiting()) {
    encoded.push_back(EncodeHistoryBucket(entry.bucket));
  }
  const History::Late stored = history_.late();
  history_.BeginStore(1);
  add_late();
  const std::size_t taken = Allocated() - before;
  EXPECT_LE(taken, HistoryMemory(declaration_));
  EXPECT_GE(taken, HistoryMemory(declaration_) * 8 / 10);
}

TEST_F(HistoryMemoryTest, TheChargeOfARowIsWhatItsLateAdditionsTake) {
  constexpr int kRows = 200;
  history_.Advance(Minute(0), std::nullopt);
  RowValues values;
  for (int i = 1; i <= kRows; ++i) values.times_s.push_back(Minute(-i).time_since_epoch().count());
  const std::size_t before = Allocated();
  for (int i = 1; i <= kRows; ++i) CountLate(-i);
  const History::Late stored = history_.late();
  history_.BeginStore(1);
  for (int i = 1; i <= kRows; ++i) CountLate(-i);
  const std::size_t taken = Allocated() - before;
  const std::size_t charged = LateHistoryMemory(declaration_, values, Minute(0));
  EXPECT_LE(taken, charged);
  EXPECT_GE(taken, charged * 9 / 10);
}

TEST(LateBucketsTest, AreTheClosedBucketsThatAreKept) {
  const std::chrono::sys_seconds now(std::chrono::days(20000) + std::chrono::hours(12));
  const auto late = [&](std::vector<std::chrono::seconds> ages) {
    std::vector<std::int64_t> times;
    for (const std::chrono::seconds age : ages) {
      times.push_back((now - age).time_since_epoch().count());
    }
    return History::LateBuckets(times, now);
  };
  using std::chrono::days;
  using std::chrono::hours;
  using std::chrono::minutes;
  EXPECT_EQ(late({}), 0U);
  EXPECT_EQ(late({minutes(0)}), 0U);
  EXPECT_EQ(late({-minutes(5)}), 0U) << "a later time is that of the row";
  EXPECT_EQ(late({minutes(1)}), 2U) << "a minute of the hour before";
  EXPECT_EQ(late({minutes(1), minutes(2), minutes(1)}), 3U);
  EXPECT_EQ(late({days(1)}), 3U);
  EXPECT_EQ(late({days(3)}), 2U) << "minutes are kept for two days";
  EXPECT_EQ(late({days(100)}), 1U);
  EXPECT_EQ(late({days(2000)}), 0U);
}

}  // namespace
}  // namespace calibd::server
