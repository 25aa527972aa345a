// How often a stretch of newest observations is wrongly said to be within the limit again, how
// often its interval is wrong, and how soon a true recovery is seen. Seeds are fixed; a bound is 3
// standard deviations of the binomial share above the promised probability.
#include "calibd/core/newest_stretch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/dated_change.h"
#include "error_streams.h"
#include "evidence_streams.h"
#include "server/watch/limit.h"

namespace calibd {
namespace {

using testing::ErrorBound;
using testing::Repeated;

// Sums at the starts that a watch keeps.
class KeptStarts {
 public:
  void Add(double stated, bool happened) {
    sums_.Add(stated, happened);
    ++count_;
    if (count_ % kStretchSpacing != 0) return;
    starts_.push_back(count_);
    at_.push_back(sums_);
    for (std::size_t i = starts_.size(); i-- > 0;) {
      if (server::KeepsMark(starts_[i] / kStretchSpacing, count_ / kStretchSpacing)) continue;
      starts_.erase(starts_.begin() + static_cast<std::ptrdiff_t>(i));
      at_.erase(at_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  [[nodiscard]] ReliabilitySums Since(std::int64_t start) const {
    ReliabilitySums part = sums_;
    const auto found = std::ranges::find(starts_, start);
    if (found != starts_.end()) {
      part.Subtract(at_[static_cast<std::size_t>(found - starts_.begin())]);
    }
    return part;
  }
  // changed_until: the earliest start.
  [[nodiscard]] std::optional<std::int64_t> Recovered(std::int64_t alarm, double limit,
                                                      std::int64_t changed_until = 0) const {
    const auto first = std::ranges::lower_bound(starts_, changed_until);
    return RecoveredSince(std::span(first, starts_.end()), count_, alarm, limit,
                          [&](std::int64_t start, double level) {
                            const auto interval =
                                *BinnedErrorInterval(Since(start), RecoveryLevels(level));
                            return ErrorEnds{.lower = interval.lower, .upper = interval.upper};
                          });
  }
  [[nodiscard]] std::optional<std::int64_t> OverAgain(std::int64_t alarm, double limit) const {
    return OverAgainSince(starts_, count_, alarm, limit,
                          [&](std::int64_t start, std::int64_t end, double level) {
                            ReliabilitySums part = Since(start);
                            if (end < count_) part.Subtract(Since(end));
                            const auto interval = *BinnedErrorInterval(part, RecoveryLevels(level));
                            return ErrorEnds{.lower = interval.lower, .upper = interval.upper};
                          });
  }
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  ReliabilitySums sums_;
  std::int64_t count_ = 0;
  std::vector<std::int64_t> starts_;
  std::vector<ReliabilitySums> at_;
};

// Stated probabilities, Beta(20, 1) or uniform on [.5, .95].
double Stated(bool sharp, double u) {
  return sharp ? std::max(0.1, std::pow(u, 0.05)) : 0.5 + 0.45 * u;
}

constexpr std::int64_t kAlarm = 300;
constexpr int kLook = 512;

// The error is the limit, which the interval must not exclude from above.
TEST(RecoveredStretchTest, IsRarelySaidOfAnErrorAtTheLimit) {
  const int streams = Repeated(60);
  for (const bool sharp : {true, false}) {
    for (const double limit : {0.02, 0.05}) {
      int recovered = 0;
      int missed = 0;
      for (int i = 0; i < streams; ++i) {
        std::mt19937_64 rng(static_cast<std::uint64_t>(i) + 1);
        std::uniform_real_distribution<double> uniform(0, 1);
        KeptStarts kept;
        bool was_recovered = false;
        bool held = true;
        for (int t = 1; t <= 20000; ++t) {
          const double c = Stated(sharp, uniform(rng));
          kept.Add(c, uniform(rng) < c - limit);
          if (t % kLook != 0) continue;
          was_recovered = was_recovered || kept.Recovered(kAlarm, limit).has_value();
          // One stretch, at all of its times.
          if (NewestStart(t) != 8 * kStretchSpacing) continue;
          const ErrorInterval shown =
              *BinnedErrorInterval(kept.Since(8 * kStretchSpacing), kSingleErrorLevels);
          held = held && shown.lower <= limit && limit <= shown.upper;
        }
        recovered += was_recovered ? 1 : 0;
        missed += held ? 0 : 1;
      }
      const double bound = ErrorBound(kSingleErrorLevels.total(), streams);
      const std::string setting = absl::StrCat(sharp ? "sharp" : "vague", "_", 100 * limit);
      RecordProperty("recovered_" + setting, recovered);
      RecordProperty("missed_" + setting, missed);
      EXPECT_LE(static_cast<double>(recovered) / streams, bound) << setting;
      EXPECT_LE(static_cast<double>(missed) / streams, bound) << setting;
    }
  }
}

// 10 points off for 2000 observations, then calibrated. The known delays are medians of 100 streams
// that were simulated with another program.
TEST(RecoveredStretchTest, IsSaidAsSoonAsTheReference) {
  struct Known {
    bool sharp;
    double limit;
    double median_delay;
  };
  constexpr int kStreams = 40;
  constexpr int kBad = 2000;
  for (const Known& known :
       {Known{true, 0.02, 4900}, Known{true, 0.05, 1500}, Known{false, 0.05, 4600}}) {
    std::vector<double> delays;
    for (int i = 0; i < kStreams; ++i) {
      std::mt19937_64 rng(static_cast<std::uint64_t>(i) + 1);
      std::uniform_real_distribution<double> uniform(0, 1);
      KeptStarts kept;
      std::optional<std::int64_t> since;
      while (!since.has_value() && kept.count() < 40000) {
        const double c = Stated(known.sharp, uniform(rng));
        kept.Add(c, uniform(rng) < c - (kept.count() < kBad ? 0.1 : 0));
        if (kept.count() % 128 == 0) since = kept.Recovered(kAlarm, known.limit);
      }
      delays.push_back(static_cast<double>(kept.count() - kBad));
    }
    std::ranges::nth_element(delays, delays.begin() + kStreams / 2);
    EXPECT_LE(delays[kStreams / 2], 1.3 * known.median_delay) << known.sharp << known.limit;
    EXPECT_GE(delays[kStreams / 2], 0.7 * known.median_delay) << known.sharp << known.limit;
    RecordProperty(
        absl::StrCat("median_delay_", known.sharp ? "sharp" : "vague", "_", 100 * known.limit),
        static_cast<int>(delays[kStreams / 2]));
  }
}

// 15 points off for 2000 observations. A recovery begins after the range of the newest change that
// can be dated, as a watch has it. Which starts are left out depends on the data, and all levels
// hold together: so it is as rarely said of an error at the limit.
TEST(RecoveredStretchTest, BeginsAfterTheDatedChange) {
  const int streams = Repeated(60);
  constexpr int kBad = 2000;
  constexpr double kLimit = 0.05;
  for (const bool recovers : {true, false}) {
    int recovered = 0;
    int without_change = 0;
    int early = 0;
    for (int i = 0; i < streams; ++i) {
      std::mt19937_64 rng(static_cast<std::uint64_t>(i) + 201);
      std::uniform_real_distribution<double> uniform(0, 1);
      KeptStarts kept;
      DeviationBlocks blocks;
      bool was_recovered = false;
      bool was_without_change = false;
      bool was_early = false;
      for (int t = 1; t <= 8000; ++t) {
        const double c = Stated(/*sharp=*/true, uniform(rng));
        const bool is_right = uniform(rng) < c - (t <= kBad ? 0.15 : recovers ? 0 : kLimit);
        kept.Add(c, is_right);
        blocks.Add(c - (is_right ? 1 : 0));
        if (t % kLook != 0) continue;
        std::optional<std::int64_t> since = kept.Recovered(kAlarm, kLimit);
        if (!since.has_value()) continue;
        was_without_change = was_without_change || *since < kBad;
        if (const auto change = blocks.Find(kChangeLevel)) {
          since = kept.Recovered(kAlarm, kLimit, change->to);
        }
        was_recovered = was_recovered || since.has_value();
        was_early = was_early || (since.has_value() && *since < kBad);
      }
      recovered += was_recovered ? 1 : 0;
      without_change += was_without_change ? 1 : 0;
      early += was_early ? 1 : 0;
    }
    RecordProperty(absl::StrCat("recovered_", recovers), recovered);
    RecordProperty(absl::StrCat("without_change_", recovers), without_change);
    RecordProperty(absl::StrCat("early_", recovers), early);
    // The range fails to contain the change in at most a tenth of streams.
    EXPECT_LE(static_cast<double>(early) / streams, ErrorBound(0.1, streams));
    if (recovers) {
      EXPECT_EQ(recovered, streams);
      EXPECT_GE(without_change, streams / 2) << "what the change prevents";
    } else {
      EXPECT_LE(static_cast<double>(recovered) / streams,
                ErrorBound(kSingleErrorLevels.total(), streams));
    }
  }
}

// Neither an error that never recovered nor one that stays recovered is said to be over the limit
// again: at the limit, each of the two statements is as easily wrong as it can be.
TEST(OverAgainTest, IsRarelySaidOfAnErrorThatDidNotComeBack) {
  const int streams = Repeated(60);
  for (const bool sharp : {true, false}) {
    for (const bool recovers : {true, false}) {
      constexpr double kLimit = 0.05;
      int said = 0;
      for (int i = 0; i < streams; ++i) {
        std::mt19937_64 rng(static_cast<std::uint64_t>(i) + 101);
        std::uniform_real_distribution<double> uniform(0, 1);
        KeptStarts kept;
        bool was_said = false;
        for (int t = 1; t <= 20000; ++t) {
          const double c = Stated(sharp, uniform(rng));
          const double off = t <= 2000 ? 0.1 : recovers && t <= 12000 ? 0 : kLimit;
          kept.Add(c, uniform(rng) < c - off);
          if (t % kLook == 0) was_said = was_said || kept.OverAgain(kAlarm, kLimit).has_value();
        }
        said += was_said ? 1 : 0;
      }
      RecordProperty(absl::StrCat("said_", sharp, recovers), said);
      EXPECT_LE(static_cast<double>(said) / streams,
                ErrorBound(kSingleErrorLevels.total(), streams))
          << sharp << recovers;
    }
  }
}

// 10 points off, calibrated from row 2001 on, and off again after row 13000. It is said within some
// 2000 rows, and the row is that of the change but for the distance of two starts.
TEST(OverAgainTest, IsSaidSoonAndOfTheRightRow) {
  constexpr int kStreams = 40;
  constexpr int kBack = 13000;
  for (const bool sharp : {true, false}) {
    std::vector<double> delays;
    int near = 0;
    for (int i = 0; i < kStreams; ++i) {
      std::mt19937_64 rng(static_cast<std::uint64_t>(i) + 1);
      std::uniform_real_distribution<double> uniform(0, 1);
      KeptStarts kept;
      std::optional<std::int64_t> since;
      while (!since.has_value() && kept.count() < 40000) {
        const double c = Stated(sharp, uniform(rng));
        const bool is_off = kept.count() < 2000 || kept.count() >= kBack;
        kept.Add(c, uniform(rng) < c - (is_off ? 0.15 : 0));
        if (kept.count() % 128 == 0) since = kept.OverAgain(kAlarm, 0.05);
      }
      delays.push_back(static_cast<double>(kept.count() - kBack));
      near += std::abs(since.value_or(0) - kBack) <= 2 * kStretchSpacing ? 1 : 0;
    }
    std::ranges::nth_element(delays, delays.begin() + kStreams / 2);
    RecordProperty(absl::StrCat("median_delay_", sharp ? "sharp" : "vague"),
                   static_cast<int>(delays[kStreams / 2]));
    RecordProperty(absl::StrCat("near_", sharp ? "sharp" : "vague"), near);
    EXPECT_LE(delays[kStreams / 2], sharp ? 2100 : 4000) << sharp;
    EXPECT_GE(near, 36) << sharp;
  }
}

}  // namespace
}  // namespace calibd
