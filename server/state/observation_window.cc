#include "server/state/observation_window.h"

#include <algorithm>
#include <cassert>

namespace calibd::server {

PredictionSet WindowView::CopyNewest(std::size_t n) const {
  assert(n <= size_);
  PredictionSet set;
  set.class_count = class_count_;
  set.probabilities.reserve(n * class_count_);
  set.labels.reserve(n);
  for (std::size_t row = offset_ + size_ - n; set.labels.size() < n;) {
    const WindowChunk& chunk = *chunks_[row / chunk_rows_];
    const std::size_t first = row % chunk_rows_;
    const std::size_t count = std::min(chunk_rows_ - first, n - set.labels.size());
    const double* probabilities = chunk.probabilities.get() + first * class_count_;
    const std::int32_t* labels = chunk.labels.get() + first;
    set.probabilities.insert(set.probabilities.end(), probabilities,
                             probabilities + count * class_count_);
    set.labels.insert(set.labels.end(), labels, labels + count);
    row += count;
  }
  return set;
}

ObservationWindow::ObservationWindow(std::size_t class_count, std::size_t capacity,
                                     std::size_t chunk_rows)
    : class_count_(class_count), capacity_(capacity), chunk_rows_(chunk_rows) {}

void ObservationWindow::Reserve(std::size_t n) {
  const std::size_t chunks = (end_ + n + chunk_rows_ - 1) / chunk_rows_;
  const std::size_t before = chunks_.size();
  try {
    while (chunks_.size() < chunks) {
      chunks_.push_back(std::make_shared<WindowChunk>(class_count_, chunk_rows_));
    }
  } catch (...) {
    chunks_.resize(before);
    throw;
  }
}

void ObservationWindow::Append(const PredictionBatch& batch) noexcept {
  for (std::size_t done = 0; done < batch.size();) {
    WindowChunk& chunk = *chunks_[end_ / chunk_rows_];
    const std::size_t first = end_ % chunk_rows_;
    const std::size_t count = std::min(chunk_rows_ - first, batch.size() - done);
    const PredictionBatch rows = batch.rows(done, count);
    std::copy(rows.probabilities.begin(), rows.probabilities.end(),
              chunk.probabilities.get() + first * class_count_);
    std::copy(rows.labels.begin(), rows.labels.end(), chunk.labels.get() + first);
    end_ += count;
    done += count;
  }
  begin_ = std::max(begin_, end_ - std::min(end_, capacity_));
  for (; begin_ >= chunk_rows_; begin_ -= chunk_rows_, end_ -= chunk_rows_) chunks_.pop_front();
}

WindowView ObservationWindow::View() const {
  WindowView view;
  const std::size_t used = (end_ + chunk_rows_ - 1) / chunk_rows_;
  view.chunks_.reserve(used);
  for (std::size_t i = 0; i < used; ++i) view.chunks_.push_back(chunks_[i]);
  view.class_count_ = class_count_;
  view.chunk_rows_ = chunk_rows_;
  view.offset_ = begin_;
  view.size_ = end_ - begin_;
  return view;
}

}  // namespace calibd::server
