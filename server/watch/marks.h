#ifndef CALIBD_SERVER_WATCH_MARKS_H_
#define CALIBD_SERVER_WATCH_MARKS_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "calibd/core/newest_stretch.h"
#include "calibd/store/v1/store.pb.h"
#include "server/watch/limit.h"
#include "server/watch/state_fields.h"

namespace calibd::server {

// The sums of a watch at every 1024th observation: all of the newest ones, and fewer of the older
// ones, see KeepsMark. Each is the start of a stretch of newest observations. Sums have
// first_observation and an optional start_time, those of the observation after the mark, count(),
// and Subtract(earlier). Not thread-safe.
template <typename Sums>
class Marks {
 public:
  using Values = std::vector<Sums>;
  using Time = std::chrono::system_clock::time_point;

  // Ascending; never null. A change replaces the vector, because snapshots share it.
  [[nodiscard]] const std::shared_ptr<const Values>& values() const noexcept { return values_; }

  // Keeps the sums if their count is a multiple of the spacing. observation: the newest one of the
  // sums, numbered within the model. most_age: marks that are older, in numbers of marks, are
  // dropped. May throw bad_alloc.
  void Keep(const Sums& sums, std::int64_t count, std::int64_t observation,
            std::int64_t most_age = std::numeric_limits<std::int64_t>::max()) {
    if (count % kStretchSpacing != 0) return;
    auto values = std::make_shared<Values>(*values_);
    values->push_back(sums);
    values->back().first_observation = observation + 1;
    values->back().start_time.reset();
    const std::int64_t newest = count / kStretchSpacing;
    std::erase_if(*values, [&](const Sums& mark) {
      const std::int64_t index = mark.count() / kStretchSpacing;
      return newest - index > most_age || !KeepsMark(index, newest);
    });
    values_ = std::move(values);
  }
  // Sets the time of the observations after the marks that lack it. count: of the sums.
  void SetTime(Time time, std::int64_t count) {
    const auto lacks_time = [count](const Sums& mark) {
      return !mark.start_time.has_value() && mark.count() < count;
    };
    if (std::ranges::none_of(*values_, lacks_time)) return;
    auto values = std::make_shared<Values>(*values_);
    for (Sums& mark : *values) {
      if (lacks_time(mark)) mark.start_time = time;
    }
    values_ = std::move(values);
  }
  void Clear() { values_ = std::make_shared<Values>(); }

  // Lists the fields of the marks. sums_fields: lists those of one.
  template <typename SumsFields>
  void Fields(StateFields& fields, const SumsFields& sums_fields) {
    Values values = *values_;
    fields.Each(store::v1::ErrorState::kMarksFieldNumber, values, sums_fields);
    values_ = std::make_shared<Values>(std::move(values));
  }

 private:
  std::shared_ptr<const Values> values_ = std::make_shared<Values>();
};

// The sums over the observations after `start`, which is 0 or the count of a mark.
template <typename Sums>
[[nodiscard]] Sums SumsSince(const Sums& sums, const std::vector<Sums>& marks, std::int64_t start) {
  Sums part = sums;
  const auto mark = std::ranges::find(marks, start, &Sums::count);
  if (mark == marks.end()) return part;
  part.Subtract(*mark);
  part.first_observation = mark->first_observation;
  part.start_time = mark->start_time;
  return part;
}

// RecoveredAfterChange over the marks. ends(part, level): the ErrorEnds of the sums of a stretch.
template <typename Sums, typename EndsOf>
[[nodiscard]] std::optional<std::int64_t> RecoveredAfterChange(const ErrorSnapshot& error,
                                                               const Sums& sums,
                                                               const std::vector<Sums>& marks,
                                                               const EndsOf& ends) {
  return RecoveredAfterChange(error, [&](std::int64_t observation) {
    std::vector<std::int64_t> starts;
    starts.reserve(marks.size());
    for (const Sums& mark : marks) {
      if (mark.first_observation > observation) starts.push_back(mark.count());
    }
    return RecoveredSince(starts, sums.count(), error.over_at, error.error_limit,
                          [&](std::int64_t start, double level) {
                            return ends(SumsSince(sums, marks, start), level);
                          });
  });
}

// OverAgainSince over the marks.
template <typename Sums, typename EndsOf>
[[nodiscard]] std::optional<std::int64_t> OverAgainSince(const Sums& sums,
                                                         const std::vector<Sums>& marks,
                                                         std::int64_t alarm, double error_limit,
                                                         const EndsOf& ends) {
  std::vector<std::int64_t> starts;
  starts.reserve(marks.size());
  for (const Sums& mark : marks) starts.push_back(mark.count());
  return calibd::OverAgainSince(
      starts, sums.count(), alarm, error_limit,
      [&](std::int64_t start, std::int64_t end, double level) {
        const auto mark = std::ranges::find(marks, end, &Sums::count);
        return ends(SumsSince(mark == marks.end() ? sums : *mark, marks, start), level);
      });
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_MARKS_H_
