#include "server/api/history_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace calibd::server {
namespace {

using std::chrono::seconds;
using std::chrono::sys_seconds;
using ::testing::HasSubstr;

class HistoryCallsTest : public ::testing::Test {
 protected:
  static std::vector<History::Entry> Minutes(int count) {
    std::vector<History::Entry> buckets;
    for (int i = 0; i < count; ++i) {
      History::Entry entry{.resolution = HistoryResolution::kMinute,
                           .start = sys_seconds(seconds(60 * (1000 + i))),
                           .bucket = {}};
      entry.bucket.rejected_rows = i + 1;
      buckets.push_back(entry);
    }
    return buckets;
  }

  absl::StatusOr<HistoryQuery> Check() {
    return CheckHistoryRequest(request_, *snapshot_.declaration);
  }
  // The page of the request.
  v1::GetHistoryResponse PageOf(const std::vector<History::Entry>& buckets) {
    auto query = Check();
    EXPECT_TRUE(query.ok()) << query.status();
    if (!query.ok()) return {};
    HistoryPage page(*std::move(query));
    for (const History::Entry& entry : buckets) page.Add(entry, snapshot_);
    return page.Finish(snapshot_);
  }

  const ModelSnapshot snapshot_ = [] {
    ModelSnapshot snapshot;
    // Of classes.
    snapshot.declaration = std::make_shared<ModelDeclaration>();
    return snapshot;
  }();
  v1::GetHistoryRequest request_ = [] {
    v1::GetHistoryRequest request;
    request.set_model("models/m");
    request.set_resolution(v1::GetHistoryRequest::MINUTE);
    return request;
  }();
};

TEST_F(HistoryCallsTest, PagesContainEachBucketOnceAndTheTotalOfAll) {
  for (const int count : {0, 1, 6, 7, 8, 20, 21}) {
    SCOPED_TRACE(count);
    const std::vector<History::Entry> buckets = Minutes(count);
    request_.set_page_size(7);
    request_.clear_page_token();
    std::int64_t next = 1;
    int pages = 0;
    do {
      const v1::GetHistoryResponse response = PageOf(buckets);
      EXPECT_LE(response.buckets_size(), 7);
      for (const v1::HistoryBucket& bucket : response.buckets()) {
        EXPECT_EQ(bucket.rejected_rows(), next);
        EXPECT_EQ(bucket.start_time().seconds(), 60 * (999 + next));
        EXPECT_EQ(bucket.end_time().seconds(), 60 * (1000 + next));
        EXPECT_FALSE(bucket.has_skce() || bucket.has_mean_confidence() || bucket.has_ece() ||
                     bucket.has_log10_e_value());
        ++next;
      }
      EXPECT_EQ(response.has_total(), count > 0);
      EXPECT_EQ(response.total().rejected_rows(), count * (count + 1) / 2);
      request_.set_page_token(response.next_page_token());
      ++pages;
    } while (!request_.page_token().empty());
    EXPECT_EQ(next, count + 1);
    EXPECT_EQ(pages, std::max(1, (count + 6) / 7));
  }
}

TEST_F(HistoryCallsTest, TheErrorOfClass1CoversAllObservationsOrIsUnset) {
  std::vector<History::Entry> buckets = Minutes(2);
  for (History::Entry& entry : buckets) {
    // Right with .5, and class 1 with .25.
    for (int i = 0; i < 100; ++i) {
      entry.bucket.reliability.ReliabilitySums::Add(0.75, i % 2 == 0);
      entry.bucket.class_1.Add(0.25, i % 4 == 0);
    }
  }
  v1::GetHistoryResponse response = PageOf(buckets);
  EXPECT_NEAR(response.total().error().estimate(), 0.25, 1e-12);
  EXPECT_NEAR(response.total().class_1_error().estimate(), 0, 1e-12);
  const double shared = response.buckets(1).error().upper();
  // An earlier version counted the first bucket.
  buckets[0].bucket.class_1 = {};
  response = PageOf(buckets);
  EXPECT_FALSE(response.buckets(0).has_class_1_error());
  EXPECT_TRUE(response.buckets(1).has_class_1_error());
  EXPECT_FALSE(response.total().has_class_1_error());
  EXPECT_LT(response.buckets(0).error().upper(), shared) << "at the whole level";
}

TEST_F(HistoryCallsTest, OffByIsTheWorseError) {
  const auto off_by = [&](bool top_label_is_right, bool is_class_1) {
    std::vector<History::Entry> buckets = Minutes(1);
    for (int i = 0; i < 1000; ++i) {
      buckets[0].bucket.reliability.ReliabilitySums::Add(0.75, top_label_is_right);
      buckets[0].bucket.class_1.Add(0.75, is_class_1);
    }
    return PageOf(buckets).buckets(0);
  };
  const v1::HistoryBucket top_label = off_by(false, true);
  EXPECT_FALSE(top_label.class_1_is_worse());
  EXPECT_THAT(top_label.off_by(), ::testing::StartsWith("75 ("));
  const v1::HistoryBucket class_1 = off_by(true, false);
  EXPECT_TRUE(class_1.class_1_is_worse());
  EXPECT_THAT(class_1.off_by(), ::testing::StartsWith("75 ("));
  // The top label is always class 0: both errors are those of one event.
  std::vector<History::Entry> same = Minutes(1);
  for (int i = 0; i < 1000; ++i) {
    same[0].bucket.reliability.ReliabilitySums::Add(0.75, i % 2 == 0);
    same[0].bucket.class_1.Add(0.25, i % 2 != 0);
  }
  EXPECT_TRUE(PageOf(same).buckets(0).class_1_is_worse());
}

TEST_F(HistoryCallsTest, APageContinuesAfterADeletedBucket) {
  request_.set_page_size(2);
  request_.set_page_token(PageOf(Minutes(10)).next_page_token());
  std::vector<History::Entry> buckets = Minutes(10);
  buckets.erase(buckets.begin(), buckets.begin() + 5);
  EXPECT_EQ(PageOf(buckets).buckets(0).rejected_rows(), 6);
}

TEST_F(HistoryCallsTest, ATokenIsValidOnlyForItsResolution) {
  request_.set_page_size(1);
  request_.set_page_token(PageOf(Minutes(2)).next_page_token());
  EXPECT_TRUE(Check().ok());
  request_.set_resolution(v1::GetHistoryRequest::DAY);
  EXPECT_THAT(std::string(Check().status().message()), HasSubstr("page_token"));
}

TEST_F(HistoryCallsTest, APageOfThousandLabelsTakesLessThanAMessage) {
  constexpr std::size_t kLabels = 1000;
  auto declaration = std::make_shared<ModelDeclaration>();
  LabelsSpec& spec = declaration->kind.emplace<LabelsSpec>();
  // The longest names.
  for (std::size_t k = 0; k < kLabels; ++k) {
    const std::string number = std::to_string(k);
    spec.names.push_back(number + std::string(64 - number.size(), 'x'));
  }
  ModelSnapshot snapshot;
  snapshot.declaration = declaration;
  // All labels are off, and the last ones most.
  std::vector<double> probabilities(kLabels);
  for (std::size_t k = 0; k < kLabels; ++k) {
    probabilities[k] = 0.5 + 0.4 * static_cast<double>(k) / kLabels;
  }
  const std::vector<std::int8_t> truths(kLabels);
  History::Entry entry = Minutes(1)[0];
  for (int i = 0; i < 100; ++i) {
    entry.bucket.labels.Add(
        {.probabilities = probabilities, .truths = truths, .label_count = kLabels});
  }
  entry.bucket.watch =
      WatchMark{.log10_e_value = 1.1, .max_log10_e_value = 2.2, .drift_log10_statistic = 3.3};
  HistoryPage page(*Check());
  for (int i = 0; i < 1000; ++i) {
    page.Add(entry, snapshot);
    entry.start += seconds(60);
  }
  const v1::GetHistoryResponse response = page.Finish(snapshot);
  ASSERT_EQ(response.buckets_size(), 1000);
  EXPECT_EQ(response.label_count(), 1000);
  ASSERT_EQ(response.buckets(0).labels_size(), 20);
  EXPECT_EQ(response.buckets(0).labels(0).index(), 999);
  EXPECT_EQ(response.buckets(0).labels(0).truths(), 100);
  EXPECT_EQ(response.total().observations(), 100000);
  EXPECT_LT(response.ByteSizeLong(), std::size_t{4} << 20);
}

TEST_F(HistoryCallsTest, ShowsTheLabelsOfTheRequest) {
  ModelDeclaration declaration;
  declaration.kind = LabelsSpec{.names = {"rain", "fog", "wind"}};
  ModelSnapshot snapshot;
  snapshot.declaration = std::make_shared<const ModelDeclaration>(declaration);
  const std::vector<double> probabilities{0.125, 0.25, 0.75};
  // The truth of wind is missing.
  const std::vector<std::int8_t> truths{0, 1, -1};
  History::Entry entry = Minutes(1)[0];
  entry.bucket.labels.Add({.probabilities = probabilities, .truths = truths, .label_count = 3});
  const auto names = [&] {
    auto query = CheckHistoryRequest(request_, declaration);
    EXPECT_TRUE(query.ok()) << query.status();
    HistoryPage page(*std::move(query));
    page.Add(entry, snapshot);
    const v1::GetHistoryResponse response = page.Finish(snapshot);
    std::vector<std::string> shown;
    for (const auto* const bucket : {&response.buckets(0), &response.total()}) {
      for (const v1::LabelSpan& label : bucket->labels()) shown.push_back(label.name());
    }
    return shown;
  };
  EXPECT_THAT(names(), ::testing::ElementsAre("fog", "rain", "fog", "rain"));
  request_.add_labels("wind");
  request_.add_labels("rain");
  EXPECT_THAT(names(), ::testing::ElementsAre("rain", "rain"));
  const auto refusal = [&](const ModelDeclaration& of) {
    return std::string(CheckHistoryRequest(request_, of).status().message());
  };
  EXPECT_THAT(refusal(*snapshot_.declaration), HasSubstr("labels has 2 names, but the model"));
  request_.add_labels("snow");
  EXPECT_THAT(refusal(declaration), HasSubstr("labels[2] is \"snow\", expected one of the 3"));
}

TEST_F(HistoryCallsTest, ARangeContainsItsSeconds) {
  EXPECT_EQ(Check()->range.start, sys_seconds::min());
  EXPECT_EQ(Check()->range.end, sys_seconds::max());
  EXPECT_EQ(Check()->page_size, 1000U);
  request_.mutable_start_time()->set_seconds(60);
  request_.mutable_end_time()->set_seconds(120);
  EXPECT_EQ(Check()->range.start, sys_seconds(seconds(60)));
  EXPECT_EQ(Check()->range.end, sys_seconds(seconds(120)));
  // A bucket that begins at 60 s is before the range, one that begins at 120 s is in it.
  request_.mutable_start_time()->set_nanos(1);
  request_.mutable_end_time()->set_nanos(1);
  EXPECT_EQ(Check()->range.start, sys_seconds(seconds(61)));
  EXPECT_EQ(Check()->range.end, sys_seconds(seconds(121)));
  request_.clear_resolution();
  EXPECT_EQ(Check()->range.resolution, HistoryResolution::kHour);
}

}  // namespace
}  // namespace calibd::server
