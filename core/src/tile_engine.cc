#include "tile_engine.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "tile_micro.h"

namespace calibd {
namespace {

// Finite, so that its product with a distance of 0 is 0 even in float.
template <typename T>
T ScaleOf(const Kernel& kernel) {
  return static_cast<T>(std::max(-std::numbers::log2e / kernel.bandwidth(), -1e30));
}

template <typename T>
constexpr std::size_t kPanelWidth = kPanelBytes / sizeof(T);

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
    : class_count_(batch.class_count), distance_(kernel.distance()), scale_(ScaleOf<T>(kernel)) {
  order_.resize(batch.size());
  std::iota(order_.begin(), order_.end(), 0u);
  std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return batch.labels[a] < batch.labels[b];
  });
  labels_.reserve(order_.size() + kPanelWidth<T>);
  diagonal_.reserve(order_.size());
  for (const std::uint32_t row : order_) {
    labels_.push_back(batch.labels[row]);
    const std::span<const double> g = batch.row(row);
    const auto y = static_cast<std::size_t>(batch.labels[row]);
    double square = (1 - g[y]) * (1 - g[y]);
    for (std::size_t k = 0; k < g.size(); ++k) square += k == y ? 0 : g[k] * g[k];
    diagonal_.push_back(square);
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
  std::fill_n(panels_.get(), panels * class_count_ * kWidth, T{0});
  for (std::size_t i = 0; i < n; ++i) {
    const double* row = &predictions[order_[i] * class_count_];
    T* column = &panels_[i / kWidth * class_count_ * kWidth + i % kWidth];
    // In the order in which a tile adds the minima, so that equal rows cancel exactly.
    T sum = 0;
    for (std::size_t k = 0; k < class_count_; ++k) {
      const T value = static_cast<T>(row[k]);
      column[k * kWidth] = value;
      sum += value;
    }
    sums_[i] = sum;
  }
}

template <typename T>
void TileEngine<T>::PackRows(const Tile& tile, Scratch& scratch) const {
  constexpr std::size_t kWidth = kPanelWidth<T>;
  if (!scratch.rows) {
    const std::size_t rows =
        std::min(kTileSize, (size() + kGroupRows - 1) / kGroupRows * kGroupRows);
    scratch.rows = Allocate<T>(2 * rows * class_count_);
  }
  scratch.row_begin = tile.row_begin;
  for (std::size_t i = 0; i < tile.row_count; ++i) {
    const std::size_t position = tile.row_begin + i;
    const T* column = &panels_[position / kWidth * class_count_ * kWidth + position % kWidth];
    T* row = &scratch.rows[i / kGroupRows * class_count_ * 2 * kGroupRows + i % kGroupRows];
    const auto y = static_cast<std::size_t>(labels_[position]);
    for (std::size_t k = 0; k < class_count_; ++k) {
      const T g = column[k * kWidth];
      row[k * 2 * kGroupRows] = g;
      row[k * 2 * kGroupRows + kGroupRows] = (k == y ? T{1} : T{0}) - g;
    }
  }
  // Padding rows must not contain values that a multiplication could turn into NaN.
  for (std::size_t i = tile.row_count; i % kGroupRows != 0; ++i) {
    T* row = &scratch.rows[i / kGroupRows * class_count_ * 2 * kGroupRows + i % kGroupRows];
    for (std::size_t k = 0; k < class_count_; ++k) {
      row[k * 2 * kGroupRows] = row[k * 2 * kGroupRows + kGroupRows] = 0;
    }
  }
}

template <typename T>
double TileEngine<T>::Run(const Tile& tile, Scratch& scratch,
                          const std::function<bool()>& cancelled, MicroOutput output,
                          T* out) const {
  constexpr std::size_t kWidth = kPanelWidth<T>;
  if (scratch.row_begin != tile.row_begin) PackRows(tile, scratch);
  MicroTask<T> task{};
  task.class_count = class_count_;
  task.scale = scale_;
  task.distance = distance_;
  task.output = output;
  task.stride = kTileSize;
  task.rows = scratch.rows.get();
  task.row_sums = &sums_[tile.row_begin];
  task.row_count = tile.row_count;
  double sum = 0;
  for (std::size_t column = 0; column < tile.column_count; column += kWidth) {
    if (cancelled && cancelled()) return 0;
    const std::size_t position = tile.column_begin + column;
    task.panel = &panels_[position / kWidth * class_count_ * kWidth];
    task.panel_sums = &sums_[position];
    task.panel_labels = &labels_[position];
    // Labels are sorted.
    task.one_label = labels_[position] == labels_[position + kWidth - 1];
    task.column_count = std::min(kWidth, tile.column_count - column);
    task.row_ahead =
        static_cast<std::ptrdiff_t>(tile.row_begin) - static_cast<std::ptrdiff_t>(position);
    task.out = out == nullptr ? nullptr : out + column;
    sum += RunMicro(task);
  }
  return sum;
}

template <typename T>
double TileEngine<T>::SumTerms(const Tile& tile, Scratch& scratch,
                               const std::function<bool()>& cancelled) const {
  return Run(tile, scratch, cancelled, MicroOutput::kSum, nullptr);
}

template <typename T>
void TileEngine<T>::Terms(const Tile& tile, Scratch& scratch,
                          const std::function<bool()>& cancelled, T* out) const {
  Run(tile, scratch, cancelled, MicroOutput::kTerms, out);
}

template <typename T>
void TileEngine<T>::Kernels(const Tile& tile, Scratch& scratch,
                            const std::function<bool()>& cancelled, T* out) const {
  Run(tile, scratch, cancelled, MicroOutput::kKernels, out);
}

template <typename T>
void TileEngine<T>::Distances(const Tile& tile, Scratch& scratch,
                              const std::function<bool()>& cancelled, T* out) const {
  Run(tile, scratch, cancelled, MicroOutput::kDistances, out);
}

template class TileEngine<float>;
template class TileEngine<double>;

}  // namespace calibd
