#include "server/state/observation_window.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "server/state/prediction_id.h"

namespace calibd::server {

template <typename Visit>
void WindowView::VisitNewest(std::size_t n, const Visit& visit) const {
  assert(n <= size_);
  for (std::size_t row = offset_ + size_ - n; n > 0;) {
    const std::size_t first = row % chunk_rows_;
    const std::size_t count = std::min(chunk_rows_ - first, n);
    visit(*chunks_[row / chunk_rows_], first, count);
    row += count;
    n -= count;
  }
}

PredictionSet WindowView::CopyNewest(std::size_t n) const {
  PredictionSet set;
  set.class_count = class_count_;
  set.probabilities.reserve(n * class_count_);
  set.labels.reserve(n);
  VisitNewest(n, [&](const WindowChunk& chunk, std::size_t first, std::size_t count) {
    const std::int32_t* labels = chunk.labels.get() + first;
    std::visit(
        [&](const auto& values) {
          const auto* const from = values.get() + first * class_count_;
          set.probabilities.insert(set.probabilities.end(), from, from + count * class_count_);
        },
        chunk.probabilities);
    set.labels.insert(set.labels.end(), labels, labels + count);
  });
  return set;
}

WindowView::Forecasts WindowView::CopyNewestForecasts(std::size_t n) const {
  Forecasts copy;
  copy.forecasts.reserve(n * class_count_);
  copy.outcomes.reserve(n);
  VisitNewest(n, [&](const WindowChunk& chunk, std::size_t first, std::size_t count) {
    std::visit(
        [&](const auto& values) {
          const auto* const from = values.get() + first * class_count_;
          copy.forecasts.insert(copy.forecasts.end(), from, from + count * class_count_);
        },
        chunk.probabilities);
    const double* const outcomes = chunk.outcomes.get() + first;
    copy.outcomes.insert(copy.outcomes.end(), outcomes, outcomes + count);
  });
  return copy;
}

std::vector<std::uint64_t> WindowView::CopyNewestIdHashes(std::size_t n) const {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(n);
  VisitNewest(n, [&](const WindowChunk& chunk, std::size_t first, std::size_t count) {
    if (chunk.id_hashes == nullptr) {
      hashes.resize(hashes.size() + count, kNoIdHash);
    } else {
      const std::uint64_t* from = chunk.id_hashes.get() + first;
      hashes.insert(hashes.end(), from, from + count);
    }
  });
  return hashes;
}

ObservationWindow::ObservationWindow(std::size_t class_count, std::size_t capacity,
                                     std::size_t chunk_rows, bool keeps_ids, bool has_outcomes)
    : class_count_(class_count),
      capacity_(capacity),
      chunk_rows_(chunk_rows),
      keeps_ids_(keeps_ids),
      has_outcomes_(has_outcomes) {}

std::shared_ptr<WindowChunk> ObservationWindow::NewChunk(bool single_precision) const {
  const std::size_t values = class_count_ * chunk_rows_;
  WindowChunk chunk;
  if (single_precision) {
    chunk.probabilities = std::make_unique_for_overwrite<float[]>(values);
  } else {
    chunk.probabilities = std::make_unique_for_overwrite<double[]>(values);
  }
  if (has_outcomes_) {
    chunk.outcomes = std::make_unique_for_overwrite<double[]>(chunk_rows_);
  } else {
    chunk.labels = std::make_unique_for_overwrite<std::int32_t[]>(chunk_rows_);
  }
  if (keeps_ids_) chunk.id_hashes = std::make_unique_for_overwrite<std::uint64_t[]>(chunk_rows_);
  return std::make_shared<WindowChunk>(std::move(chunk));
}

std::shared_ptr<WindowChunk> ObservationWindow::Widen(const WindowChunk& chunk,
                                                      std::size_t rows) const {
  std::shared_ptr<WindowChunk> wide = NewChunk(/*single_precision=*/false);
  std::copy_n(std::get<WindowChunk::Floats>(chunk.probabilities).get(), rows * class_count_,
              std::get<WindowChunk::Doubles>(wide->probabilities).get());
  if (has_outcomes_) {
    std::copy_n(chunk.outcomes.get(), rows, wide->outcomes.get());
  } else {
    std::copy_n(chunk.labels.get(), rows, wide->labels.get());
  }
  if (keeps_ids_) std::copy_n(chunk.id_hashes.get(), rows, wide->id_hashes.get());
  return wide;
}

void ObservationWindow::Reserve(std::size_t n, bool single_precision) {
  const std::size_t first = end_ / chunk_rows_;
  for (std::size_t i = first; i * chunk_rows_ < end_ + n; ++i) {
    if (i == chunks_.size()) {
      chunks_.push_back(NewChunk(single_precision));
    } else if (!single_precision && chunks_[i]->single_precision()) {
      // Views keep the former chunk.
      chunks_[i] = Widen(*chunks_[i], i == first ? end_ % chunk_rows_ : 0);
    }
  }
}

void ObservationWindow::AppendRows(std::span<const double> rows,
                                   std::span<const std::int32_t> labels,
                                   std::span<const double> outcomes,
                                   std::span<const std::uint64_t> id_hashes) noexcept {
  const std::size_t size = labels.size() + outcomes.size();
  for (std::size_t done = 0; done < size;) {
    WindowChunk& chunk = *chunks_[end_ / chunk_rows_];
    const std::size_t first = end_ % chunk_rows_;
    const std::size_t count = std::min(chunk_rows_ - first, size - done);
    std::visit(
        [&](const auto& values) {
          std::ranges::copy(rows.subspan(done * class_count_, count * class_count_),
                            values.get() + first * class_count_);
        },
        chunk.probabilities);
    if (has_outcomes_) {
      std::ranges::copy(outcomes.subspan(done, count), chunk.outcomes.get() + first);
    } else {
      std::ranges::copy(labels.subspan(done, count), chunk.labels.get() + first);
    }
    if (keeps_ids_ && id_hashes.empty()) {
      std::fill_n(chunk.id_hashes.get() + first, count, kNoIdHash);
    } else if (keeps_ids_) {
      std::ranges::copy(id_hashes.subspan(done, count), chunk.id_hashes.get() + first);
    }
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
