#ifndef CALIBD_SERVER_WATCH_ROWS_BY_GROUP_H_
#define CALIBD_SERVER_WATCH_ROWS_BY_GROUP_H_

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace calibd::server {

// The rows of a batch, gathered by group: a group computes all of its rows together, although they
// are added in several steps. The general template is that of kinds without groups.
template <typename Kind>
class RowsByGroup {
 public:
  RowsByGroup(const typename Kind::Batch& /*batch*/, std::span<const std::size_t> /*group_of*/) {}
  template <typename Add>
  void Next(std::size_t /*rows*/, const Add& /*add*/) {}
};

template <typename Kind>
requires requires { typename Kind::Gathered; }
class RowsByGroup<Kind> {
 public:
  using Batch = typename Kind::Batch;

  // group_of: the group of each row; empty without groups. May throw bad_alloc.
  RowsByGroup(const Batch& batch, std::span<const std::size_t> group_of)
      : gathered_(batch, group_of.size()), range_of_row_(group_of.size()) {
    std::vector<std::size_t> order(group_of.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::size_t row) { return group_of[row]; });
    for (const std::size_t row : order) {
      if (ranges_.empty() || ranges_.back().group != group_of[row]) {
        const std::size_t begin = ranges_.empty() ? 0 : ranges_.back().end;
        ranges_.push_back({.group = group_of[row], .next = begin, .end = begin, .due = 0});
      }
      ++ranges_.back().end;
      range_of_row_[row] = ranges_.size() - 1;
      gathered_.Add(batch, row);
    }
  }

  // Calls add(group, ahead, count) for each group of the next rows of the batch. These are the
  // first `count` rows of `ahead`, which ends with the last row of the group in the batch.
  template <typename Add>
  void Next(std::size_t rows, const Add& add) {
    if (ranges_.empty()) return;
    for (const std::size_t range : std::span(range_of_row_).subspan(row_, rows)) {
      ++ranges_[range].due;
    }
    row_ += rows;
    for (Range& range : ranges_) {
      if (range.due == 0) continue;
      add(range.group, gathered_.view().rows(range.next, range.end - range.next), range.due);
      range.next += range.due;
      range.due = 0;
    }
  }

 private:
  // The gathered rows of a group that are not added yet, and how many of them are added next.
  struct Range {
    std::size_t group = 0;
    std::size_t next = 0;
    std::size_t end = 0;
    std::size_t due = 0;
  };

  typename Kind::Gathered gathered_;
  std::vector<Range> ranges_;
  // Index in ranges_ of the group of each row of the batch.
  std::vector<std::size_t> range_of_row_;
  // Number of rows of the batch that were added.
  std::size_t row_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_ROWS_BY_GROUP_H_
