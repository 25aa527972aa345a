#include "server/rows/observation_window.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <unordered_map>
#include <utility>

#include "server/base/xxh3.h"
#include "server/rows/prediction_id.h"

namespace calibd::server {

TruthArray::TruthArray(const TruthShape& shape, std::size_t rows)
    : each_(std::max<std::size_t>(1, shape.labels)) {
  if (shape.labels == 0) {
    outcomes_ = std::make_unique_for_overwrite<double[]>(rows);
  } else {
    labels_ = std::make_unique_for_overwrite<std::int32_t[]>(rows * each_);
  }
}

void TruthArray::Set(std::size_t first, const TruthView& truths) noexcept {
  if (outcomes_ != nullptr) {
    std::ranges::copy(truths.outcomes, outcomes_.get() + first);
  } else {
    std::ranges::copy(truths.labels, labels_.get() + first * each_);
  }
}

TruthView TruthArray::view(std::size_t first, std::size_t count) const noexcept {
  if (outcomes_ != nullptr) return {.outcomes = {outcomes_.get() + first, count}};
  return {.labels = {labels_.get() + first * each_, count * each_}, .outcomes = {}, .each = each_};
}

template <typename Visit>
void WindowView::VisitNewest(std::size_t n, const Visit& visit) const {
  assert(n <= size_);
  for (std::size_t row = offset_ + size_ - n; n > 0;) {
    const std::size_t first = row % shape_.chunk_rows;
    const std::size_t count = std::min(shape_.chunk_rows - first, n);
    visit(*chunks_[row / shape_.chunk_rows], first, count);
    row += count;
    n -= count;
  }
}

WindowView::Rows WindowView::CopyNewestRows(std::size_t n) const {
  Rows copy;
  copy.width = shape_.width;
  copy.values.reserve(n * shape_.width);
  copy.truths.Reserve(n, shape_.truths);
  VisitNewest(n, [&](const WindowChunk& chunk, std::size_t first, std::size_t count) {
    std::visit(
        [&](const auto& values) {
          const auto* const from = values.get() + first * shape_.width;
          copy.values.insert(copy.values.end(), from, from + count * shape_.width);
        },
        chunk.probabilities);
    copy.truths.Append(chunk.truths.view(first, count));
  });
  return copy;
}

PredictionSet WindowView::CopyNewest(std::size_t n) const {
  Rows rows = CopyNewestRows(n);
  return {.probabilities = std::move(rows.values),
          .labels = std::move(rows.truths.labels),
          .class_count = rows.width};
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

std::vector<double> WindowView::CopyNewestFeatures(std::size_t n) const {
  std::vector<double> features;
  if (shape_.feature_count == 0) return features;
  features.reserve(n * shape_.feature_count);
  VisitNewest(n, [&](const WindowChunk& chunk, std::size_t first, std::size_t count) {
    const double* const from = chunk.features.get() + first * shape_.feature_count;
    features.insert(features.end(), from, from + count * shape_.feature_count);
  });
  return features;
}

WindowView::Groups WindowView::CopyNewestGroups(std::size_t n) const {
  Groups groups;
  if (!shape_.keeps_groups) return groups;
  groups.numbers.reserve(n);
  std::unordered_map<std::uint64_t, std::int32_t> numbers;
  VisitNewest(n, [&](const WindowChunk& chunk, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      const auto next = static_cast<std::int32_t>(numbers.size());
      const auto [place, is_new] = numbers.try_emplace(chunk.group_hashes[i], next);
      if (is_new) groups.hashes.push_back(place->first);
      groups.numbers.push_back(place->second);
    }
  });
  return groups;
}

std::shared_ptr<WindowChunk> ObservationWindow::NewChunk(bool single_precision) const {
  const std::size_t values = shape_.width * shape_.chunk_rows;
  WindowChunk chunk(TruthArray(shape_.truths, shape_.chunk_rows));
  if (single_precision) {
    chunk.probabilities = std::make_unique_for_overwrite<float[]>(values);
  } else {
    chunk.probabilities = std::make_unique_for_overwrite<double[]>(values);
  }
  const auto hashes = [this](bool kept) {
    return kept ? std::make_unique_for_overwrite<std::uint64_t[]>(shape_.chunk_rows) : nullptr;
  };
  chunk.id_hashes = hashes(shape_.keeps_ids);
  chunk.group_hashes = hashes(shape_.keeps_groups);
  if (shape_.feature_count > 0) {
    chunk.features =
        std::make_unique_for_overwrite<double[]>(shape_.feature_count * shape_.chunk_rows);
  }
  return std::make_shared<WindowChunk>(std::move(chunk));
}

std::shared_ptr<WindowChunk> ObservationWindow::Widen(const WindowChunk& chunk,
                                                      std::size_t rows) const {
  std::shared_ptr<WindowChunk> wide = NewChunk(/*single_precision=*/false);
  std::copy_n(std::get<WindowChunk::Floats>(chunk.probabilities).get(), rows * shape_.width,
              std::get<WindowChunk::Doubles>(wide->probabilities).get());
  wide->truths.Set(0, chunk.truths.view(0, rows));
  if (shape_.keeps_ids) std::copy_n(chunk.id_hashes.get(), rows, wide->id_hashes.get());
  if (shape_.keeps_groups) std::copy_n(chunk.group_hashes.get(), rows, wide->group_hashes.get());
  std::copy_n(chunk.features.get(), rows * shape_.feature_count, wide->features.get());
  return wide;
}

void ObservationWindow::Reserve(std::size_t n, bool single_precision) {
  const std::size_t first = end_ / shape_.chunk_rows;
  for (std::size_t i = first; i * shape_.chunk_rows < end_ + n; ++i) {
    if (i == chunks_.size()) {
      chunks_.push_back(NewChunk(single_precision));
    } else if (!single_precision && chunks_[i]->single_precision()) {
      // Views keep the former chunk.
      chunks_[i] = Widen(*chunks_[i], i == first ? end_ % shape_.chunk_rows : 0);
    }
  }
}

void ObservationWindow::AppendExtras(const RowExtras& extras, std::size_t first, std::size_t count,
                                     WindowChunk& chunk) const noexcept {
  if (shape_.keeps_ids && extras.id_hashes.empty()) {
    std::fill_n(chunk.id_hashes.get() + first, count, kNoIdHash);
  } else if (shape_.keeps_ids) {
    std::ranges::copy(extras.id_hashes, chunk.id_hashes.get() + first);
  }
  std::ranges::copy(extras.features, chunk.features.get() + first * shape_.feature_count);
  if (!shape_.keeps_groups) return;
  for (std::size_t i = 0; i < count; ++i) {
    chunk.group_hashes[first + i] = HashOfGroup(extras.groups[i]);
  }
}

void ObservationWindow::Append(const RowView& rows) noexcept {
  const std::size_t size = rows.size();
  for (std::size_t done = 0; done < size;) {
    WindowChunk& chunk = *chunks_[end_ / shape_.chunk_rows];
    const std::size_t first = end_ % shape_.chunk_rows;
    const std::size_t count = std::min(shape_.chunk_rows - first, size - done);
    const RowView part = rows.rows(done, count);
    std::visit(
        [&](const auto& values) {
          std::ranges::copy(part.values, values.get() + first * shape_.width);
        },
        chunk.probabilities);
    chunk.truths.Set(first, part.truths);
    AppendExtras(part.extras, first, count, chunk);
    end_ += count;
    done += count;
  }
  begin_ = std::max(begin_, end_ - std::min(end_, shape_.capacity));
  while (begin_ >= shape_.chunk_rows) {
    chunks_.pop_front();
    begin_ -= shape_.chunk_rows;
    end_ -= shape_.chunk_rows;
  }
}

WindowView ObservationWindow::View() const {
  WindowView view;
  const std::size_t used = (end_ + shape_.chunk_rows - 1) / shape_.chunk_rows;
  view.chunks_.reserve(used);
  for (std::size_t i = 0; i < used; ++i) view.chunks_.push_back(chunks_[i]);
  view.shape_ = shape_;
  view.offset_ = begin_;
  view.size_ = end_ - begin_;
  return view;
}

}  // namespace calibd::server
