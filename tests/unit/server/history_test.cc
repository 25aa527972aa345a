#include "server/state/history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "calibd/core/generator.h"
#include "calibd/core/kernel.h"
#include "calibd/core/skce.h"
#include "server/state/model.h"
#include "support/log_rows.h"

namespace calibd::server {
namespace {

bool IsOfClasses(const HistoryBucket& bucket) { return bucket.forecasts.cells.empty(); }

using std::chrono::days;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using Entry = History::Entry;
using Time = History::Time;

constexpr std::size_t kHistoryClasses = 4;
constexpr double kBandwidth = 0.5;

ModelDeclaration Watched() {
  ModelDeclaration declaration;
  declaration.name = {"m", ""};
  auto& classes = declaration.kind.emplace<ClassesSpec>();
  classes.count = kHistoryClasses;
  classes.kernel.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
  classes.kernel.rule.bandwidth.fixed = kBandwidth;
  classes.block_sizes = {2, 5};
  declaration.window = 100;
  classes.row_sum_tolerance = 1e-3;
  declaration.label_grace = seconds(1);
  declaration.max_pending = 100;
  return declaration;
}

// A row of a log: counted observations, rejected rows, and missing labels.
struct Row {
  Time time;
  std::size_t first = 0;
  std::size_t count = 0;
  std::int64_t rejected = 0;
  std::int64_t missing = 0;
};

struct Stream {
  PredictionSet set;
  std::vector<Row> rows;
};

// Full and empty minutes, gaps of hours and of days, and a clock that is set back.
Stream DrawStream(std::size_t row_count) {
  Stream stream;
  std::mt19937 random(7);
  const auto below = [&random](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  Time time = sys_days(days(19000)) + hours(23) + minutes(58);
  std::size_t rows = 0;
  for (std::size_t i = 0; i < row_count; ++i) {
    Row row;
    switch (below(40)) {
      case 0:
        time += hours(1 + below(5));
        break;
      case 1:
        time += days(1 + below(9)) + seconds(below(7200));
        break;
      case 2:
      case 3:
        time -= minutes(below(90));
        break;
      default:
        time += microseconds(below(40000000));
    }
    row.time = time;
    row.first = rows;
    switch (below(8)) {
      case 0:
        row.rejected = 1 + below(20);
        break;
      case 1:
        row.missing = 1 + below(5);
        break;
      default:
        row.count = static_cast<std::size_t>(below(7));
    }
    rows += row.count;
    stream.rows.push_back(row);
  }
  Generator::Create(GeneratorSpec::M2(kHistoryClasses), 3)->Draw(rows, stream.set);
  return stream;
}

class Recorder {
 public:
  void Add(const Stream& stream, const Row& row) {
    LogRow logged;
    if (row.rejected > 0) {
      logged.kind = RejectedRow{.rows = row.rejected};
    } else if (row.missing > 0) {
      MaturedRow matured;
      matured.values.width = kHistoryClasses;
      matured.missing_predicted_classes.assign(static_cast<std::size_t>(row.missing), 1);
      logged.kind = matured;
    } else if (row.count > 0) {
      logged = testing::ObservedRow(stream.set.view().rows(row.first, row.count));
    }
    model_.strand_state().Apply(
        logged, 0,
        std::chrono::duration_cast<std::chrono::microseconds>(row.time.time_since_epoch()));
    // Sometimes, like snapshots.
    if (++rows_ % 3 != 0) return;
    const std::vector<Entry>& waiting = model_.strand_state().history().waiting();
    stored_.insert(stored_.end(), waiting.begin(), waiting.end());
    model_.strand_state().history().BeginStore(1);
    model_.strand_state().history().EndStore(true);
  }

  [[nodiscard]] RunningReliability AllTime() const {
    return model_.strand_state().history().AllTime().reliability;
  }
  // The buckets of the resolution, ascending.
  [[nodiscard]] std::vector<Entry> Buckets(HistoryResolution resolution) const {
    std::vector<Entry> all;
    std::copy_if(stored_.begin(), stored_.end(), std::back_inserter(all),
                 [resolution](const Entry& entry) { return entry.resolution == resolution; });
    for (Entry& entry : model_.strand_state().history().View(resolution, std::nullopt)) {
      all.push_back(std::move(entry));
    }
    return all;
  }

  // A recorder that continues in another process; a snapshot has stored the pending buckets.
  [[nodiscard]] std::unique_ptr<Recorder> Restart() const {
    auto next = std::make_unique<Recorder>();
    const absl::Status restored = next->model_.strand_state().Restore(model_.strand_state().Save());
    EXPECT_TRUE(restored.ok()) << restored;
    next->stored_ = stored_;
    const std::vector<Entry>& waiting = model_.strand_state().history().waiting();
    next->stored_.insert(next->stored_.end(), waiting.begin(), waiting.end());
    return next;
  }

 private:
  ThreadPool pool_{"test", 0};
  Model model_{1, Watched(), {}, {}, pool_, nullptr};
  std::vector<Entry> stored_;
  int rows_ = 0;
};

void ExpectSame(const std::vector<Entry>& a, const std::vector<Entry>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].start, b[i].start) << i;
    EXPECT_TRUE(a[i].bucket == b[i].bucket) << i;
  }
}

std::vector<Entry> BucketsOf(const Stream& stream, HistoryResolution resolution) {
  Recorder recorder;
  for (const Row& row : stream.rows) recorder.Add(stream, row);
  return recorder.Buckets(resolution);
}

// The expected numbers by their definition.
struct Expected {
  std::int64_t rejected = 0;
  std::int64_t missing = 0;
  // Indices of the observations in the stream.
  std::vector<std::size_t> observations;
};

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

void ExpectBucket(const HistoryBucket& bucket, const Expected& expected, const PredictionSet& set) {
  const Kernel kernel = *Kernel::ExponentialTotalVariation(kBandwidth);
  EXPECT_EQ(bucket.rejected_rows, expected.rejected);
  EXPECT_EQ(bucket.missing_labels, expected.missing);
  ASSERT_EQ(bucket.observations(), static_cast<std::int64_t>(expected.observations.size()));
  std::vector<double> terms;
  double confidence = 0;
  double brier = 0;
  double log_loss = 0;
  std::int64_t correct = 0;
  std::map<int, double> gap_of_bin;
  for (const std::size_t i : expected.observations) {
    const auto g = set.view().row(i);
    const auto y = static_cast<std::size_t>(set.labels[i]);
    const auto top = static_cast<std::size_t>(std::max_element(g.begin(), g.end()) - g.begin());
    confidence += g[top];
    correct += top == y ? 1 : 0;
    // Bins include their upper edge.
    gap_of_bin[static_cast<int>(std::ceil(g[top] * 15))] += g[top] - (top == y ? 1 : 0);
    for (std::size_t k = 0; k < g.size(); ++k) {
      brier += (g[k] - (k == y ? 1 : 0)) * (g[k] - (k == y ? 1 : 0));
    }
    // Each term is at most 36.04.
    log_loss -= std::log(std::max(g[y], std::ldexp(1, -52)));
    if (i % 2 == 1) {
      terms.push_back(SkceTerm(set.view().row(i - 1), set.labels[i - 1], g, set.labels[i], kernel));
    }
  }
  const auto n = static_cast<double>(expected.observations.size());
  const RunningReliability::Bin total = bucket.reliability.Total();
  EXPECT_NEAR(total.confidence, confidence, 1e-12 * (1 + n));
  EXPECT_EQ(total.correct, correct);
  EXPECT_NEAR(bucket.reliability.brier, brier, 1e-12 * (1 + n));
  EXPECT_NEAR(bucket.reliability.log_loss, log_loss, 1e-11 * (1 + n));
  if (n > 0) {
    double ece = 0;
    for (const auto& [bin, gap] : gap_of_bin) ece += std::abs(gap) / n;
    EXPECT_NEAR(bucket.reliability.ExpectedCalibrationError(), ece, 1e-12);
  }
  ASSERT_EQ(bucket.pairs.count, static_cast<std::int64_t>(terms.size()));
  if (!terms.empty()) {
    const double mean = Mean(terms);
    double squares = 0;
    for (const double term : terms) squares += (term - mean) * (term - mean);
    EXPECT_NEAR(bucket.pairs.mean, mean, 1e-12);
    EXPECT_NEAR(bucket.pairs.m2, squares, 1e-11);
  }
}

TEST(HistoryTest, BucketsAreTheSumsOverTheirSpans) {
  const Stream stream = DrawStream(900);
  for (const HistoryResolution resolution : kHistoryResolutions) {
    // A row counts in the latest minute so far.
    std::map<sys_seconds, Expected> expected;
    sys_seconds latest = sys_seconds::min();
    for (const Row& row : stream.rows) {
      latest = std::max<sys_seconds>(latest, std::chrono::floor<minutes>(row.time));
      if (row.count == 0 && row.rejected == 0 && row.missing == 0) continue;
      const sys_seconds start =
          resolution == HistoryResolution::kDay    ? sys_seconds(std::chrono::floor<days>(latest))
          : resolution == HistoryResolution::kHour ? sys_seconds(std::chrono::floor<hours>(latest))
                                                   : latest;
      Expected& one = expected[start];
      one.rejected += row.rejected;
      one.missing += row.missing;
      for (std::size_t i = 0; i < row.count; ++i) one.observations.push_back(row.first + i);
    }
    const std::vector<Entry> buckets = BucketsOf(stream, resolution);
    ASSERT_EQ(buckets.size(), expected.size());
    ASSERT_GT(buckets.size(), 20U);
    auto one = expected.begin();
    for (const Entry& entry : buckets) {
      SCOPED_TRACE(one->first.time_since_epoch().count());
      EXPECT_EQ(entry.start, one->first);
      ExpectBucket(entry.bucket, one->second, stream.set);
      ++one;
    }
  }
}

TEST(HistoryTest, AllTimeCoversAllObservationsOfSeveralDays) {
  const Stream stream = DrawStream(900);
  Recorder recorder;
  RunningReliability expected;
  for (const Row& row : stream.rows) {
    recorder.Add(stream, row);
    expected.Add(stream.set.view().rows(row.first, row.count));
    const RunningReliability all = recorder.AllTime();
    ASSERT_EQ(all.Total().count, expected.Total().count);
    ASSERT_EQ(all.Total().correct, expected.Total().correct);
    ASSERT_NEAR(all.brier, expected.brier, 1e-9);
    ASSERT_NEAR(all.log_loss, expected.log_loss, 1e-9);
    for (std::size_t b = 0; b < kReliabilityBinCount; ++b) {
      ASSERT_EQ(all.bins[b].count, expected.bins[b].count);
      ASSERT_NEAR(all.bins[b].confidence, expected.bins[b].confidence, 1e-9);
    }
  }
  EXPECT_GT(recorder.Buckets(HistoryResolution::kDay).size(), 10U);
}

TEST(HistoryTest, AllTimeBeginsWithTheOpenDayOfAStateWithoutIt) {
  const Time evening = sys_days(days(20000)) + hours(23);
  const PredictionSet set = DrawStream(100).set;
  History history;
  history.Advance(evening, std::nullopt);
  history.counting().reliability.Add(set.view().rows(0, 10));
  history.Advance(evening + hours(1), std::nullopt);
  history.counting().reliability.Add(set.view().rows(10, 3));
  EXPECT_EQ(history.AllTime().reliability.Total().count, 13);
  store::v1::HistoryState state;
  history.Save(state);
  History same;
  ASSERT_TRUE(same.Restore(state, IsOfClasses).ok());
  EXPECT_TRUE(same.AllTime() == history.AllTime());
  store::v1::HistoryState damaged = state;
  damaged.mutable_earlier()->set_brier(-1);
  EXPECT_FALSE(History().Restore(damaged, IsOfClasses).ok());
  state.clear_earlier();
  History older;
  ASSERT_TRUE(older.Restore(state, IsOfClasses).ok());
  EXPECT_EQ(older.AllTime().reliability.Total().count, 3);
}

TEST(HistoryTest, AnHourIsTheSumOfItsMinutesAndADayOfItsHours) {
  const Stream stream = DrawStream(900);
  const std::pair<HistoryResolution, HistoryResolution> levels[] = {
      {HistoryResolution::kMinute, HistoryResolution::kHour},
      {HistoryResolution::kHour, HistoryResolution::kDay}};
  for (const auto& [fine, coarse] : levels) {
    std::vector<Entry> merged;
    for (const Entry& entry : BucketsOf(stream, fine)) {
      const auto since = entry.start.time_since_epoch() % SpanOf(coarse);
      if (merged.empty() || merged.back().start != entry.start - since) {
        merged.push_back({.resolution = coarse, .start = entry.start - since, .bucket = {}});
      }
      merged.back().bucket.Merge(entry.bucket);
    }
    ExpectSame(BucketsOf(stream, coarse), merged);
  }
}

TEST(HistoryTest, DoesNotDependOnTheRowsOfAMinute) {
  const Stream stream = DrawStream(900);
  Stream single = stream;
  single.rows.clear();
  for (const Row& row : stream.rows) {
    if (row.count == 0) single.rows.push_back(row);
    for (std::size_t i = 0; i < row.count; ++i) {
      single.rows.push_back({.time = row.time, .first = row.first + i, .count = 1});
    }
  }
  // Merges consecutive rows of the same minute.
  Stream merged = stream;
  merged.rows.clear();
  for (const Row& row : stream.rows) {
    const bool follows = !merged.rows.empty() && merged.rows.back().count > 0 && row.count > 0 &&
                         std::chrono::floor<minutes>(merged.rows.back().time) ==
                             std::chrono::floor<minutes>(row.time);
    if (follows) {
      merged.rows.back().count += row.count;
    } else {
      merged.rows.push_back(row);
    }
  }
  ASSERT_LT(merged.rows.size(), stream.rows.size());
  for (const HistoryResolution resolution : kHistoryResolutions) {
    const std::vector<Entry> buckets = BucketsOf(stream, resolution);
    ExpectSame(BucketsOf(single, resolution), buckets);
    ExpectSame(BucketsOf(merged, resolution), buckets);
  }
}

TEST(HistoryTest, ContinuesASavedState) {
  const Stream stream = DrawStream(300);
  auto recorder = std::make_unique<Recorder>();
  Recorder straight;
  for (const Row& row : stream.rows) {
    recorder->Add(stream, row);
    recorder = recorder->Restart();
    straight.Add(stream, row);
  }
  EXPECT_TRUE(recorder->AllTime() == straight.AllTime());
  for (const HistoryResolution resolution : kHistoryResolutions) {
    ExpectSame(recorder->Buckets(resolution), BucketsOf(stream, resolution));
  }
}

TEST(HistoryTest, AClosedMinuteStaysClosedWhenTheClockIsSetBack) {
  const Time noon = sys_days(days(20000)) + hours(12);
  History history;
  history.Advance(noon, std::nullopt);
  history.CountRejected(1);
  history.Advance(noon + minutes(1), std::nullopt);
  history.CountRejected(2);
  ASSERT_EQ(history.waiting().size(), 1U);
  for (const seconds back : {seconds(1), seconds(3600), seconds(400 * 86400)}) {
    history.Advance(noon - back, std::nullopt);
    history.CountRejected(10);
    EXPECT_FALSE(history.EndsMinute(noon - back));
  }
  ASSERT_EQ(history.waiting().size(), 1U);
  EXPECT_EQ(history.waiting().front().bucket.rejected_rows, 1);
  const std::vector<Entry> minutes_now = history.View(HistoryResolution::kMinute, std::nullopt);
  ASSERT_EQ(minutes_now.size(), 2U);
  EXPECT_EQ(minutes_now[1].start, noon + minutes(1));
  EXPECT_EQ(minutes_now[1].bucket.rejected_rows, 32);
}

TEST(HistoryTest, MinutesBefore1970AreRoundedDown) {
  const Time time = Time(-microseconds(1));
  History history;
  history.Advance(time, std::nullopt);
  history.CountMissing(1);
  EXPECT_EQ(history.View(HistoryResolution::kMinute, std::nullopt)[0].start,
            sys_seconds(-minutes(1)));
  EXPECT_EQ(history.View(HistoryResolution::kHour, std::nullopt)[0].start, sys_seconds(-hours(1)));
  EXPECT_EQ(history.View(HistoryResolution::kDay, std::nullopt)[0].start, sys_seconds(-days(1)));
}

TEST(HistoryTest, EmptySpansAreNotBuckets) {
  const Time noon = sys_days(days(20000)) + hours(12);
  History history;
  EXPECT_TRUE(history.View(HistoryResolution::kDay, WatchMark{}).empty());
  history.Advance(noon, WatchMark{});
  EXPECT_TRUE(history.View(HistoryResolution::kMinute, WatchMark{}).empty());
  history.Advance(noon + days(3), WatchMark{});
  EXPECT_TRUE(history.waiting().empty());
  history.CountMissing(1);
  history.Advance(noon + days(9), WatchMark{});
  ASSERT_EQ(history.waiting().size(), 3U);
  EXPECT_TRUE(history.View(HistoryResolution::kMinute, std::nullopt).size() == 1);
}

TEST(HistoryTest, RecordsTheEvidenceAtTheEndOfEachSpan) {
  const auto mark = [](double value) {
    return WatchMark{
        .log10_e_value = value, .max_log10_e_value = value + 1, .drift_log10_statistic = value + 2};
  };
  const Time noon = sys_days(days(20000)) + hours(12);
  History history;
  history.Advance(noon, mark(-1));
  history.CountRejected(1);
  history.Advance(noon + minutes(1), mark(0.5));
  history.CountRejected(1);
  // The end of the span, although much later; nothing was counted in between.
  history.Advance(noon + minutes(70), mark(0.75));
  EXPECT_EQ(history.waiting()[0].bucket.watch, mark(0.5));
  EXPECT_EQ(history.waiting()[1].bucket.watch, mark(0.75));
  EXPECT_EQ(history.waiting()[2].resolution, HistoryResolution::kHour);
  EXPECT_EQ(history.waiting()[2].bucket.watch, mark(0.75));
  EXPECT_TRUE(history.View(HistoryResolution::kHour, mark(3)).back().start == noon);
  EXPECT_EQ(history.View(HistoryResolution::kDay, mark(3)).back().bucket.watch, mark(0.75));
  history.CountRejected(1);
  EXPECT_EQ(history.View(HistoryResolution::kMinute, mark(3)).back().bucket.watch, mark(3));
  EXPECT_EQ(history.View(HistoryResolution::kDay, mark(3)).back().bucket.watch, mark(3));
  // The model was not monitored any more, or not yet.
  EXPECT_EQ(history.View(HistoryResolution::kDay, std::nullopt).back().bucket.watch, std::nullopt);
}

TEST(HistoryTest, ThePairsOfTheWarmUpCountWhenItIsComplete) {
  PredictionSet set;
  Generator::Create(GeneratorSpec::M2(kHistoryClasses), 5)->Draw(60, set);
  ModelDeclaration declaration = Watched();
  std::get<ClassesSpec>(declaration.kind).kernel.rule.bandwidth.kind = BandwidthRule::Kind::kMedian;
  declaration.warmup = 50;
  ThreadPool pool("test", 0);
  Model model(1, declaration, {}, {}, pool, nullptr);
  const Time noon = sys_days(days(20000)) + hours(12);
  for (int minute = 0; minute < 6; ++minute) {
    model.strand_state().Apply(
        testing::ObservedRow(set.view().rows(static_cast<std::size_t>(minute) * 10, 10)), 0,
        std::chrono::duration_cast<std::chrono::microseconds>(
            (noon + minutes(minute)).time_since_epoch()));
  }
  const auto buckets =
      model.strand_state().history().View(HistoryResolution::kMinute, std::nullopt);
  ASSERT_EQ(buckets.size(), 6U);
  const std::int64_t pairs[] = {0, 0, 0, 0, 25, 5};
  HistoryBucket all;
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(buckets[i].bucket.observations(), 10);
    EXPECT_EQ(buckets[i].bucket.pairs.count, pairs[i]);
    all.Merge(buckets[i].bucket);
  }
  model.Publish();
  const RunningMoments running = model.snapshot()->lenses[0].blocks[0].moments;
  EXPECT_EQ(all.pairs.count, running.count);
  EXPECT_NEAR(all.pairs.mean, running.mean, 1e-14);
  EXPECT_NEAR(all.pairs.m2, running.m2, 1e-13);
}

TEST(HistoryTest, DamagedBucketsAreNotRead) {
  const Stream stream = DrawStream(200);
  const HistoryBucket bucket = BucketsOf(stream, HistoryResolution::kDay)[0].bucket;
  const std::string good = EncodeHistoryBucket(bucket);
  const auto read = DecodeHistoryBucket(good);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == bucket);

  const auto expect_damaged = [&good](const auto& damage) {
    store::v1::HistoryBucket stored;
    ASSERT_TRUE(stored.ParseFromString(good));
    damage(stored);
    EXPECT_EQ(DecodeHistoryBucket(stored.SerializeAsString()).status().code(),
              absl::StatusCode::kDataLoss)
        << stored.ShortDebugString();
  };
  expect_damaged([](auto& stored) { stored.set_rejected_rows(-1); });
  expect_damaged([](auto& stored) { stored.set_class_1_square_sum(-1); });
  expect_damaged([](auto& stored) { stored.add_class_1_bins()->set_index(15); });
  expect_damaged([](auto& stored) { stored.set_missing_labels(-1); });
  expect_damaged([](auto& stored) { stored.mutable_pairs()->set_m2(-1); });
  expect_damaged([](auto& stored) { stored.mutable_pairs()->set_mean(std::nan("")); });
  expect_damaged([](auto& stored) { stored.mutable_bins(0)->set_index(15); });
  expect_damaged([](auto& stored) { stored.mutable_bins(0)->set_index(-1); });
  expect_damaged([](auto& stored) { stored.mutable_bins(0)->set_count(0); });
  expect_damaged([](auto& stored) { stored.mutable_bins(0)->set_correct(1000000); });
  expect_damaged([](auto& stored) { stored.mutable_bins(0)->set_confidence(-0.5); });
  expect_damaged([](auto& stored) { stored.set_brier(std::nan("")); });
  expect_damaged([](auto& stored) { stored.mutable_watch()->set_log10_e_value(HUGE_VAL); });
  EXPECT_FALSE(DecodeHistoryBucket(good.substr(0, good.size() - 3)).ok());

  store::v1::HistoryState state;
  state.set_minute_start_s(60);
  state.add_open();
  EXPECT_FALSE(History().Restore(state, IsOfClasses).ok());
  state.add_open();
  state.add_open();
  EXPECT_TRUE(History().Restore(state, IsOfClasses).ok());
  state.set_minute_start_s(61);
  EXPECT_FALSE(History().Restore(state, IsOfClasses).ok());
}

// Counts `count` rows of this time of their own, or of the open minute.
void CountAt(sys_seconds time, std::size_t count, History& history) {
  PredictionSet set;
  Generator::Create(GeneratorSpec::M2(kHistoryClasses), 5)->Draw(count, set);
  history.BeginEarlier(time);
  history.counting().reliability.Add(set.view());
  if (history.counts_earlier()) history.EndEarlier(WatchMark{.log10_e_value = 1});
}

std::map<sys_seconds, std::int64_t> Counts(const std::vector<Entry>& entries) {
  std::map<sys_seconds, std::int64_t> counts;
  for (const Entry& entry : entries) counts[entry.start] += entry.bucket.observations();
  return counts;
}

TEST(HistoryTest, ObservationsOfAnEarlierTimeAreAddedToTheBucketsOfThatTime) {
  const sys_seconds day = sys_days(days(20000));
  const sys_seconds noon = day + hours(12);
  using Starts = std::map<sys_seconds, std::int64_t>;
  History history;
  history.Advance(noon, std::nullopt);
  CountAt(noon + seconds(30), 1, history);
  // Another minute of the hour, another hour of the day, another day; days before the minutes and
  // before the hours that are kept.
  CountAt(noon - hours(1) + seconds(59), 2, history);
  CountAt(day - days(1), 4, history);
  CountAt(day - days(20), 8, history);
  CountAt(day - days(900), 16, history);
  // This is later than the server's time.
  CountAt(noon + hours(1), 32, history);
  EXPECT_EQ(Counts(history.View(HistoryResolution::kMinute, {})), (Starts{{noon, 33}}));
  EXPECT_EQ(Counts(history.View(HistoryResolution::kHour, {})), (Starts{{noon, 33}}));
  EXPECT_EQ(Counts(history.View(HistoryResolution::kDay, {})), (Starts{{day, 35}}));
  EXPECT_EQ(Counts(history.ViewLate(HistoryResolution::kMinute)),
            (Starts{{noon - hours(1), 2}, {day - days(1), 4}}));
  EXPECT_EQ(Counts(history.ViewLate(HistoryResolution::kHour)),
            (Starts{{noon - hours(1), 2}, {day - days(1), 4}, {day - days(20), 8}}));
  EXPECT_EQ(Counts(history.ViewLate(HistoryResolution::kDay)),
            (Starts{{day - days(1), 4}, {day - days(20), 8}, {day - days(900), 16}}));
  EXPECT_EQ(history.AllTime().reliability.Total().count, 63);
  EXPECT_EQ(history.ViewLate(HistoryResolution::kDay)[0].bucket.watch->log10_e_value, 1);
}

TEST(HistoryTest, LateAdditionsAreKeptUntilTheyAreStored) {
  const sys_seconds noon = sys_days(days(20000)) + hours(12);
  using Starts = std::map<sys_seconds, std::int64_t>;
  History history;
  history.Advance(noon, std::nullopt);
  CountAt(noon, 1, history);
  history.Advance(noon + minutes(1), std::nullopt);
  // The minute waits to be stored.
  CountAt(noon, 2, history);
  EXPECT_EQ(Counts(history.waiting()), (Starts{{noon, 3}}));
  EXPECT_TRUE(history.late().empty());
  CountAt(noon - minutes(1), 4, history);
  history.BeginStore(7);
  // While it is being stored, and another minute.
  CountAt(noon, 8, history);
  CountAt(noon - minutes(1), 16, history);
  EXPECT_EQ(Counts(history.View(HistoryResolution::kMinute, {})), (Starts{{noon, 3}}));
  EXPECT_EQ(Counts(history.ViewLate(HistoryResolution::kMinute)),
            (Starts{{noon - minutes(1), 20}, {noon, 8}}));
  for (const Entry& entry : history.ViewLate(HistoryResolution::kMinute)) {
    EXPECT_EQ(entry.bucket.late_log_id,
              entry.bucket.observations() == 4 ? 7 : std::numeric_limits<std::int64_t>::max());
  }
  history.EndStore(false);
  EXPECT_EQ(Counts(history.waiting()), (Starts{{noon, 11}}));
  EXPECT_EQ(Counts(history.ViewLate(HistoryResolution::kMinute)),
            (Starts{{noon - minutes(1), 20}}));
  history.BeginStore(8);
  CountAt(noon, 32, history);
  history.EndStore(true);
  EXPECT_TRUE(history.waiting().empty());
  EXPECT_EQ(Counts(history.ViewLate(HistoryResolution::kMinute)), (Starts{{noon, 32}}));
  EXPECT_EQ(history.AllTime().reliability.Total().count, 63);
}

TEST(HistoryTest, BucketsOfTwoClassesKeepTheErrorOfClass1) {
  PredictionSet set;
  Generator::Create(GeneratorSpec::M2(2), 5)->Draw(60, set);
  History history;
  const Time time{hours(1)};
  history.Advance(time, std::nullopt);
  history.counting().reliability.Add(set.view().rows(0, 40));
  history.counting().class_1.AddClass(set.view().rows(0, 40), 1);
  history.Advance(time + minutes(1), std::nullopt);
  history.counting().reliability.Add(set.view().rows(40, 20));
  history.counting().class_1.AddClass(set.view().rows(40, 20), 1);
  ReliabilitySums expected;
  for (std::size_t i = 0; i < 60; ++i) expected.Add(set.view().row(i)[1], set.labels[i] == 1);
  const HistoryBucket hour = history.View(HistoryResolution::kHour, std::nullopt)[0].bucket;
  for (std::size_t b = 0; b < expected.bins.size(); ++b) {
    EXPECT_EQ(hour.class_1.bins[b].count, expected.bins[b].count);
    EXPECT_EQ(hour.class_1.bins[b].correct, expected.bins[b].correct);
    EXPECT_NEAR(hour.class_1.bins[b].confidence, expected.bins[b].confidence, 1e-12);
  }
  EXPECT_NEAR(hour.class_1.square_sum, expected.square_sum, 1e-12);
  const auto read = DecodeHistoryBucket(EncodeHistoryBucket(hour));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == hour);
}

}  // namespace
}  // namespace calibd::server
