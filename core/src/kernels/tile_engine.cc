#include "kernels/tile_engine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "kernels/tile_micro.h"

namespace calibd {
namespace {

// Finite, so that its product with a distance of 0 is 0 even in float.
template <typename T>
T ScaleOf(const Kernel& kernel) {
  return static_cast<T>(std::max(-std::numbers::log2e / kernel.bandwidth(), -1e30));
}

// Returns the rows sorted by label; those with the same label keep their order.
std::vector<std::uint32_t> SortByLabel(const PredictionBatch& batch) {
  // The number of rows with a smaller label, and then the next position of each label.
  std::vector<std::uint32_t> next(batch.class_count + 1);
  for (const std::int32_t label : batch.labels) ++next[static_cast<std::size_t>(label) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::uint32_t> order(batch.size());
  for (std::uint32_t row = 0; row < order.size(); ++row) {
    order[next[static_cast<std::size_t>(batch.labels[row])]++] = row;
  }
  return order;
}

}  // namespace

template <typename T>
TileEngine<T>::TileEngine(std::span<const double> predictions, std::size_t class_count,
                          Distance distance)
    : class_count_(class_count), distance_(distance) {
  order_.resize(predictions.size() / class_count);
  std::iota(order_.begin(), order_.end(), 0u);
  labels_.resize(order_.size());
  Pack(predictions);
}

template <typename T>
TileEngine<T>::TileEngine(std::span<const double> predictions, std::size_t class_count,
                          const Kernel& kernel)
    : TileEngine(predictions, class_count, kernel.distance()) {
  scale_ = ScaleOf<T>(kernel);
}

template <typename T>
TileEngine<T>::TileEngine(const PredictionBatch& batch, const Kernel& kernel)
    : class_count_(batch.class_count),
      distance_(kernel.distance()),
      scale_(ScaleOf<T>(kernel)),
      order_(SortByLabel(batch)) {
  labels_.reserve(order_.size() + kPanelWidth<T>);
  diagonal_.reserve(order_.size());
  for (const std::uint32_t row : order_) {
    labels_.push_back(batch.labels[row]);
    const double at_label = 1 - batch.row(row)[static_cast<std::size_t>(batch.labels[row])];
    diagonal_.push_back(at_label * at_label);
  }
  Pack(batch.probabilities);
}

// AllocateAligned returns nullptr when memory is exhausted.
template <typename T>
hwy::AlignedFreeUniquePtr<T[]> Allocate(std::size_t count) {
  hwy::AlignedFreeUniquePtr<T[]> memory = hwy::AllocateAligned<T>(count);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

template <typename T>
void TileEngine<T>::Pack(std::span<const double> predictions) {
  constexpr std::size_t kWidth = kPanelWidth<T>;
  const std::size_t n = order_.size();
  const std::size_t panels = (n + kWidth - 1) / kWidth;
  labels_.resize(panels * kWidth, labels_.empty() ? 0 : labels_.back());
  sums_.resize(panels * kWidth);
  panels_ = Allocate<T>(panels * class_count_ * kWidth);
  for (std::size_t begin = 0; begin < n; begin += kWidth) {
    const std::size_t count = std::min(kWidth, n - begin);
    std::array<const double*, kWidth> rows;
    std::transform(&order_[begin], &order_[begin] + count, rows.begin(),
                   [&](std::uint32_t row) { return &predictions[row * class_count_]; });
    const bool labelled = !diagonal_.empty();
    PackPanel({.class_count = class_count_,
               .rows = std::span(rows).first(count),
               .panel = &panels_[begin * class_count_],
               .sums = &sums_[begin],
               .labels = std::span(labels_).subspan(begin, labelled ? count : 0),
               .squares = labelled ? &diagonal_[begin] : nullptr});
  }
}

template <typename T>
double TileEngine<T>::Run(const Tile& tile, const std::function<bool()>& cancelled,
                          MicroOutput output, T* out, T* kernels) const {
  constexpr std::size_t kWidth = kPanelWidth<T>;
  MicroTask<T> task{};
  task.class_count = class_count_;
  task.panels = panels_.get();
  task.sums = sums_.data();
  task.labels = labels_.data();
  task.row_begin = tile.row_begin;
  task.row_count = tile.row_count;
  task.scale = scale_;
  task.distance = distance_;
  task.output = output;
  task.stride = kTileSize;
  double sum = 0;
  for (std::size_t column = 0; column < tile.column_count; column += kWidth) {
    if (cancelled && cancelled()) return 0;
    task.column_begin = tile.column_begin + column;
    task.column_count = std::min(kWidth, tile.column_count - column);
    task.out = out == nullptr ? nullptr : out + column;
    task.kernels = kernels == nullptr ? nullptr : kernels + column;
    sum += RunMicro(task);
  }
  return sum;
}

template <typename T>
double TileEngine<T>::SumTerms(const Tile& tile, Scratch& /*scratch*/,
                               const std::function<bool()>& cancelled) const {
  return Run(tile, cancelled, MicroOutput::kSum, nullptr);
}

template <typename T>
void TileEngine<T>::Terms(const Tile& tile, Scratch& /*scratch*/,
                          const std::function<bool()>& cancelled, T* out) const {
  Run(tile, cancelled, MicroOutput::kTerms, out);
}

template <typename T>
void TileEngine<T>::TermsAndKernels(const Tile& tile, const std::function<bool()>& cancelled,
                                    T* out, T* kernels) const {
  Run(tile, cancelled, MicroOutput::kTerms, out, kernels);
}

template <typename T>
void TileEngine<T>::Kernels(const Tile& tile, const std::function<bool()>& cancelled,
                            T* out) const {
  Run(tile, cancelled, MicroOutput::kKernels, out);
}

template <typename T>
void TileEngine<T>::Distances(const Tile& tile, const std::function<bool()>& cancelled,
                              T* out) const {
  Run(tile, cancelled, MicroOutput::kDistances, out);
}

template class TileEngine<float>;
template class TileEngine<double>;

}  // namespace calibd
