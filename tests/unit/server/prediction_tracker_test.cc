#include "server/rows/prediction_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <string>

namespace calibd::server {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

constexpr seconds kGrace{100};

std::vector<PredictionId> Ids(const std::vector<std::string>& names) {
  std::vector<PredictionId> ids;
  for (const std::string& name : names) ids.push_back(HashId(name));
  return ids;
}

// The class follows from the first letter.
std::vector<std::int32_t> PredictedClasses(const std::vector<std::string>& names) {
  std::vector<std::int32_t> classes;
  for (const std::string& name : names) classes.push_back(name.front() - 'a');
  return classes;
}

constexpr std::int32_t kNoLabel = -1;

class PredictionTrackerTest : public ::testing::Test {
 protected:
  void Add(std::int64_t log_id, seconds elapsed, const std::vector<std::string>& names,
           const std::vector<std::int32_t>& labels = {}) {
    tracker_.Add(log_id, elapsed, log_id * 1000, Ids(names), PredictedClasses(names),
                 TruthView{.labels = labels});
  }

  LabelCounts Label(seconds elapsed, const std::vector<std::string>& names,
                    const std::vector<std::int32_t>& labels) {
    return tracker_.Label(elapsed, Ids(names), TruthView{.labels = labels}).counts;
  }

  // Returns the labels of the runs that mature.
  std::vector<std::vector<std::int32_t>> Mature(seconds elapsed, std::size_t max_rows = 1000) {
    std::vector<std::vector<std::int32_t>> labels;
    for (const auto& run : tracker_.Mature(elapsed, max_rows).runs) {
      std::vector<std::int32_t>& of_run = labels.emplace_back(run.truths.labels);
      for (std::size_t i = 0; i < of_run.size(); ++i) {
        if (!run.labelled[i]) of_run[i] = kNoLabel;
      }
    }
    return labels;
  }

  PredictionTracker tracker_{kGrace, 10};
};

TEST_F(PredictionTrackerTest, PredictionsMatureInOrderWithTheLabelsThatArrivedInTime) {
  Add(1, seconds(0), {"a", "b"});
  Add(2, seconds(10), {"c"}, {7});
  EXPECT_EQ(tracker_.pending(), 3U);
  EXPECT_EQ(tracker_.next_due(), kGrace);
  EXPECT_EQ(tracker_.oldest_pending_time_us(), 1000);
  EXPECT_EQ(Label(seconds(20), {"b"}, {4}).matched, 1);
  EXPECT_THAT(Mature(seconds(99)), IsEmpty());
  EXPECT_THAT(Mature(seconds(100)), ElementsAre(ElementsAre(kNoLabel, 4)));
  EXPECT_EQ(tracker_.pending(), 1U);
  EXPECT_EQ(tracker_.oldest_pending_time_us(), 2000);
  EXPECT_THAT(Mature(seconds(500)), ElementsAre(ElementsAre(7)));
  EXPECT_EQ(tracker_.oldest_pending_time_us(), 0);
  EXPECT_EQ(tracker_.next_due(), PredictionTracker::Elapsed::max());
}

TEST_F(PredictionTrackerTest, EachLabelHasOneOutcome) {
  Add(1, seconds(0), {"a", "b"});
  Add(2, seconds(50), {"c", "d"});
  const LabelCounts counts = Label(seconds(60), {"a", "a", "a", "c", "nobody"}, {1, 1, 2, 0, 1});
  EXPECT_EQ(counts.matched, 2);
  EXPECT_EQ(counts.repeated, 1);
  EXPECT_EQ(counts.conflicting, 1);
  EXPECT_EQ(counts.waiting, 1);
  EXPECT_EQ(counts.unknown, 0);
  EXPECT_EQ(counts.late, 0);
  // Late by its age, whether or not Mature was called.
  EXPECT_EQ(Label(seconds(100), {"b"}, {1}).late, 1);
  EXPECT_THAT(Mature(seconds(100)), ElementsAre(ElementsAre(1, kNoLabel)));
  EXPECT_EQ(Label(seconds(100), {"a", "d"}, {1, 1}).late, 1);
}

TEST_F(PredictionTrackerTest, LabelsHaveThePredictedClass) {
  Add(1, seconds(0), {"a", "b", "b2"}, {});
  Add(2, seconds(50), {"b3", "c"}, {0, 1});
  EXPECT_THAT(tracker_.PendingByClass(4), ElementsAre(PendingCounts{1, 0}, PendingCounts{3, 1},
                                                      PendingCounts{1, 1}, PendingCounts{0, 0}));
  const auto in_time = tracker_.Label(seconds(60), Ids({"c", "b2", "nobody", "b3", "a", "b2"}),
                                      Truths(std::vector<std::int32_t>{0, 1, 1, 0, 1, 2}));
  EXPECT_THAT(in_time.classes.matched, ElementsAre(1, 0));
  EXPECT_THAT(in_time.classes.conflicting, ElementsAre(2, 1));
  EXPECT_THAT(in_time.classes.late, IsEmpty());
  EXPECT_THAT(tracker_.PendingByClass(3),
              ElementsAre(PendingCounts{1, 1}, PendingCounts{3, 2}, PendingCounts{1, 1}));
  tracker_.UndoLabel(Ids({"b2", "a"}));
  EXPECT_THAT(tracker_.PendingByClass(3),
              ElementsAre(PendingCounts{1, 0}, PendingCounts{3, 1}, PendingCounts{1, 1}));
  static_cast<void>(Mature(seconds(100)));
  EXPECT_THAT(tracker_.PendingByClass(3),
              ElementsAre(PendingCounts{0, 0}, PendingCounts{1, 1}, PendingCounts{1, 1}));
  const auto late = tracker_.Label(seconds(100), Ids({"b", "a", "b"}),
                                   Truths(std::vector<std::int32_t>{0, 0, 0}));
  EXPECT_THAT(late.classes.late, ElementsAre(1, 0, 1));
  EXPECT_THAT(late.classes.matched, IsEmpty());
  EXPECT_THAT(late.classes.conflicting, IsEmpty());
}

TEST_F(PredictionTrackerTest, KnownIdsAreFoundOnce) {
  Add(1, seconds(0), {"a", "b"});
  EXPECT_THAT(tracker_.FindNew(Ids({"b", "c", "c", "d", "a"})), ElementsAre(1, 3));
}

TEST_F(PredictionTrackerTest, MaturesWholeRunsUpToTheLimit) {
  Add(1, seconds(0), {"a", "b"});
  Add(2, seconds(0), {"c"});
  Add(3, seconds(0), {"d"});
  EXPECT_EQ(Mature(seconds(100), 1).size(), 1U);
  EXPECT_EQ(Mature(seconds(100), 2).size(), 2U);
}

TEST_F(PredictionTrackerTest, MaturedIdsAreKnownForAboutAsLongAgain) {
  Add(1, seconds(0), {"a"});
  Add(2, seconds(1), {"b"});
  static_cast<void>(Mature(seconds(150)));
  tracker_.SetSnapshot(2);
  EXPECT_THAT(tracker_.FindUnneeded(seconds(199), 100).log_ids, IsEmpty());
  const auto unneeded = tracker_.FindUnneeded(seconds(200), 100);
  EXPECT_THAT(unneeded.log_ids, ElementsAre(1));
  tracker_.Forget(unneeded);
  EXPECT_EQ(Label(seconds(200), {"a", "b"}, {1, 1}).waiting, 1);
  EXPECT_THAT(tracker_.FindNew(Ids({"a", "b"})), ElementsAre(0));
  EXPECT_EQ(tracker_.next_due(), seconds(201));
}

TEST_F(PredictionTrackerTest, NothingIsReleasedThatNoSnapshotCovers) {
  Add(1, seconds(0), {"a"});
  EXPECT_EQ(Label(seconds(1), {"a"}, {1}).matched, 1);
  tracker_.KeepLabels(2, Ids({"a"}));
  static_cast<void>(Mature(seconds(150)));
  EXPECT_THAT(tracker_.FindUnneeded(seconds(999), 100).log_ids, IsEmpty());
  tracker_.SetSnapshot(1);
  EXPECT_THAT(tracker_.FindUnneeded(seconds(999), 100).log_ids, ElementsAre(1));
  tracker_.SetSnapshot(2);
  EXPECT_THAT(tracker_.FindUnneeded(seconds(999), 100).log_ids, ElementsAre(2, 1));
  EXPECT_THAT(tracker_.FindUnneeded(seconds(999), 1).log_ids, ElementsAre(2));
}

TEST_F(PredictionTrackerTest, LabelsAreKeptUntilAllTheirPredictionsMatured) {
  Add(1, seconds(0), {"a"});
  Add(2, seconds(50), {"b"});
  static_cast<void>(Label(seconds(60), {"a", "b"}, {1, 1}));
  tracker_.KeepLabels(3, Ids({"a", "b"}));
  tracker_.SetSnapshot(3);
  static_cast<void>(Mature(seconds(100)));
  EXPECT_THAT(tracker_.FindUnneeded(seconds(100), 100).log_ids, IsEmpty());
  static_cast<void>(Mature(seconds(150)));
  EXPECT_THAT(tracker_.FindUnneeded(seconds(150), 100).log_ids, ElementsAre(3));
}

TEST_F(PredictionTrackerTest, TooManyMaturedIdsAreForgottenEarly) {
  Add(1, seconds(0), {"a", "b", "c", "d", "e", "f"});
  Add(2, seconds(0), {"g", "h", "i", "j"});
  static_cast<void>(Mature(seconds(100)));
  tracker_.SetSnapshot(2);
  EXPECT_THAT(tracker_.FindUnneeded(seconds(100), 100).log_ids, IsEmpty());
  Add(3, seconds(100), {"k"});
  static_cast<void>(Mature(seconds(200)));
  tracker_.SetSnapshot(3);
  // Eleven matured ids, of which ten may stay; by age the first two could be forgotten.
  EXPECT_THAT(tracker_.FindUnneeded(seconds(199), 100).log_ids, ElementsAre(1));
}

// After each step, a tracker made from the log as the store has it must behave like the one that
// made all steps; so must one whose last step was undone.
TEST_F(PredictionTrackerTest, AStartRestoresIt) {
  struct Row {
    bool labels = false;
    seconds elapsed{};
    std::vector<PredictionId> ids;
    std::vector<std::int32_t> values;
    std::vector<PredictionId> waiting_ids;
    std::vector<std::int32_t> waiting_values;
  };
  const auto predicted = [](const std::vector<PredictionId>& ids) {
    std::vector<std::int32_t> classes;
    for (const PredictionId& id : ids) classes.push_back(static_cast<std::int32_t>(id.low % 4));
    return classes;
  };
  std::mt19937 random(3);
  std::map<std::int64_t, Row> log;
  std::int64_t next = 1;
  std::int64_t matured_log_id = 0;
  std::int64_t ended_waiting_log_id = 0;
  std::int64_t waited = 0;
  seconds now{0};
  const auto rebuilt = [&] {
    auto tracker = std::make_unique<PredictionTracker>(kGrace, 40);
    for (const auto& [id, row] : log) {
      if (row.labels) {
        tracker->RestoreLabels(id, row.ids, TruthView{.labels = row.values});
        tracker->RestoreWaiting(id, row.elapsed, row.waiting_ids,
                                TruthView{.labels = row.waiting_values});
      } else {
        tracker->Add(id, row.elapsed, 0, row.ids, predicted(row.ids),
                     TruthView{.labels = row.values});
        static_cast<void>(tracker->TakeWaiting(row.ids));
      }
    }
    tracker->RestoreEndOfWaiting(ended_waiting_log_id);
    tracker->RestoreMatured(matured_log_id);
    tracker->SetSnapshot(next - 1);
    return tracker;
  };
  auto live = std::make_unique<PredictionTracker>(kGrace, 40);
  const auto name = [&] { return HashId(std::to_string(random() % 60)); };
  for (int step = 0; step < 3000; ++step) {
    now += seconds(random() % 10);
    if (random() % 3 == 0) live = rebuilt();
    auto other = rebuilt();
    std::vector<PredictionId> ids;
    for (std::size_t i = 0; i < 1 + random() % 5; ++i) ids.push_back(name());
    std::vector<std::int32_t> values;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      values.push_back(static_cast<std::int32_t>(random() % 3));
    }
    ASSERT_EQ(live->pending(), other->pending());
    ASSERT_EQ(live->PendingByClass(4), other->PendingByClass(4));
    ASSERT_EQ(live->next_due(), other->next_due());
    ASSERT_EQ(live->waiting(), other->waiting());
    switch (random() % 5) {
      case 0: {
        const auto found = live->FindNew(ids);
        ASSERT_EQ(other->FindNew(ids), found);
        std::vector<PredictionId> fresh;
        for (const std::uint32_t i : found) fresh.push_back(ids[i]);
        if (fresh.empty() || live->pending() + fresh.size() > 40) break;
        live->Add(next, now, 0, fresh, predicted(fresh), {});
        live->UndoAdd();
        live->Add(next, now, 0, fresh, predicted(fresh), {});
        const auto undone = live->TakeWaiting(fresh);
        live->UndoTakeWaiting(undone);
        const auto taken = live->TakeWaiting(fresh);
        ASSERT_EQ(taken.ids, undone.ids);
        log[next++] = {.labels = false,
                       .elapsed = now,
                       .ids = fresh,
                       .values = {},
                       .waiting_ids = {},
                       .waiting_values = {}};
        if (taken.ids.empty()) break;
        ASSERT_EQ(live->Label(now, taken.ids, taken.truths).matched.size(), taken.ids.size());
        live->KeepLabels(next, taken.ids);
        waited += static_cast<std::int64_t>(taken.ids.size());
        log[next++] = {.labels = true,
                       .elapsed = now,
                       .ids = taken.ids,
                       .values = taken.truths.labels,
                       .waiting_ids = {},
                       .waiting_values = {}};
        break;
      }
      case 1: {
        const auto first = live->Label(now, ids, TruthView{.labels = values});
        std::vector<PredictionId> matched;
        std::vector<std::int32_t> labels;
        for (const std::uint32_t i : first.matched) {
          matched.push_back(ids[i]);
          labels.push_back(values[i]);
        }
        std::vector<PredictionId> waiting;
        std::vector<std::int32_t> waiting_labels;
        for (const std::uint32_t i : first.waiting) {
          waiting.push_back(ids[i]);
          waiting_labels.push_back(values[i]);
        }
        live->UndoLabel(matched);
        const auto labelling = live->Label(now, ids, TruthView{.labels = values});
        ASSERT_EQ(labelling.matched, first.matched);
        ASSERT_EQ(labelling.waiting, first.waiting);
        const auto expected = other->Label(now, ids, TruthView{.labels = values});
        ASSERT_EQ(labelling.matched, expected.matched);
        ASSERT_EQ(labelling.counts.late, expected.counts.late);
        ASSERT_EQ(labelling.counts.waiting, expected.counts.waiting);
        ASSERT_EQ(labelling.counts.unknown, expected.counts.unknown);
        ASSERT_EQ(labelling.counts.repeated, expected.counts.repeated);
        ASSERT_EQ(labelling.counts.conflicting, expected.counts.conflicting);
        ASSERT_EQ(labelling.classes.matched, expected.classes.matched);
        ASSERT_EQ(labelling.classes.late, expected.classes.late);
        ASSERT_EQ(labelling.classes.conflicting, expected.classes.conflicting);
        if (matched.empty() && waiting.empty()) break;
        live->KeepLabels(next, matched);
        live->UndoKeepLabels();
        live->KeepLabels(next, matched);
        log[next++] = {.labels = true,
                       .elapsed = now,
                       .ids = matched,
                       .values = labels,
                       .waiting_ids = waiting,
                       .waiting_values = waiting_labels};
        break;
      }
      case 2: {
        const auto undone = live->Mature(now, 8);
        live->UndoMature(undone);
        const auto matured = live->Mature(now, 8);
        const auto expected = other->Mature(now, 8);
        ASSERT_EQ(matured.runs.size(), expected.runs.size());
        for (std::size_t i = 0; i < matured.runs.size(); ++i) {
          ASSERT_EQ(matured.runs[i].log_id, expected.runs[i].log_id);
          ASSERT_EQ(matured.runs[i].labelled, expected.runs[i].labelled);
          ASSERT_EQ(matured.runs[i].truths.size(), expected.runs[i].truths.size());
          matured_log_id = matured.runs[i].log_id;
        }
        break;
      }
      case 3: {
        live->SetSnapshot(next - 1);
        const auto unneeded = live->FindUnneeded(now, 5);
        const auto expected = other->FindUnneeded(now, 5);
        ASSERT_EQ(unneeded.log_ids, expected.log_ids);
        live->Forget(unneeded);
        for (const std::int64_t id : unneeded.log_ids) log.erase(id);
        break;
      }
      case 4: {
        live->UndoEndWaiting(live->EndWaiting(now));
        const auto ended = live->EndWaiting(now);
        const auto expected = other->EndWaiting(now);
        ASSERT_THAT(ended.labels.ids, UnorderedElementsAreArray(expected.labels.ids));
        ASSERT_EQ(ended.batches.size(), expected.batches.size());
        if (!ended.batches.empty()) ended_waiting_log_id = ended.last_log_id();
        break;
      }
      default:
        break;
    }
  }
  EXPECT_GT(next, 500);
  EXPECT_GT(waited, 50);
  std::vector<std::int64_t> left;
  for (const auto& [id, row] : log) left.push_back(id);
  std::vector<std::int64_t> all = live->TakeAll();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, left);
  EXPECT_EQ(live->pending(), 0U);
}

TEST(PredictionIdTest, SurvivesARoundTrip) {
  const std::vector<PredictionId> ids = Ids({"a", "b", ""});
  EXPECT_EQ(DecodeIds(EncodeIds(ids)), ids);
  EXPECT_THAT(DecodeIds("123456789012345"), IsEmpty());
  EXPECT_THAT(DecodeIds(""), IsEmpty());
  EXPECT_FALSE(ids[0] == ids[1]);
}

// A start may read rows again that were forgotten before.
TEST_F(PredictionTrackerTest, ARepeatedIdRefersToItsNewestPrediction) {
  Add(1, seconds(0), {"a", "b"});
  tracker_.RestoreLabels(2, Ids({"a"}), Truths(std::vector<std::int32_t>{3}));
  Add(5, seconds(400), {"a"});
  tracker_.RestoreMatured(1);
  tracker_.SetSnapshot(4);
  EXPECT_EQ(tracker_.first_log_id(), 1);
  EXPECT_EQ(tracker_.matured_log_id(), 1);
  const auto unneeded = tracker_.FindUnneeded(seconds(400), 1000);
  EXPECT_THAT(unneeded.log_ids, ElementsAre(2, 1));
  tracker_.Forget(unneeded);
  EXPECT_EQ(tracker_.first_log_id(), 5);
  EXPECT_EQ(Label(seconds(410), {"a", "b"}, {1, 1}).matched, 1);
  EXPECT_THAT(Mature(seconds(500)), ElementsAre(ElementsAre(1)));
  EXPECT_EQ(tracker_.matured_log_id(), 5);
}

// A client may send labels without predictions for ever.
TEST(WaitingLabelsTest, TheirMemoryIsBounded) {
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
    const TruthShape shape{.labels = k};
    WaitingLabels waiting(shape);
    const std::vector<std::int32_t> labels(k);
    const std::vector<double> outcome{1.5};
    const TruthView truth = k == 0 ? TruthView{.outcomes = outcome}
                                   : TruthView{.labels = labels, .outcomes = {}, .each = k};
    const std::size_t capacity = WaitingLabels::Capacity(1U << 30U, shape);
    EXPECT_LE(capacity * (24 + k * sizeof(std::int32_t)), WaitingLabels::kMaxBytes);
    std::size_t added = 0;
    while (waiting.Add(seconds(1), HashId(std::to_string(added)), truth, 1U << 30U)) {
      waiting.Close(static_cast<std::int64_t>(++added));
    }
    EXPECT_EQ(added, capacity);
    EXPECT_EQ(waiting.size(), capacity);
    // A label that was taken frees its memory at once.
    const WaitingLabels::Taken taken = waiting.Take(Ids({"0"}));
    EXPECT_EQ(taken.truths.view().size(), 1U);
    EXPECT_TRUE(waiting.Add(seconds(2), HashId("new"), truth, 1U << 30U));
    waiting.Close(static_cast<std::int64_t>(capacity + 1));
    EXPECT_FALSE(waiting.Add(seconds(2), HashId("newer"), truth, 1U << 30U));
    EXPECT_EQ(waiting.EndUntil(seconds(1)).labels.ids.size(), capacity - 1);
    EXPECT_EQ(waiting.size(), 1U);
    EXPECT_TRUE(waiting.Add(seconds(2), HashId("newer"), truth, 1U << 30U));
  }
}

TEST_F(PredictionTrackerTest, LabelsWithoutAKnownPredictionAreNotNeeded) {
  tracker_.RestoreLabels(2, Ids({"gone"}), Truths(std::vector<std::int32_t>{3}));
  Add(3, seconds(0), {"a"});
  EXPECT_THAT(tracker_.FindUnneeded(seconds(0), 1000).log_ids, IsEmpty());
  tracker_.SetSnapshot(2);
  EXPECT_THAT(tracker_.FindUnneeded(seconds(0), 1000).log_ids, ElementsAre(2));
}

}  // namespace
}  // namespace calibd::server
