#ifndef CALIBD_CORE_SRC_KERNELS_TILE_MICRO_H_
#define CALIBD_CORE_SRC_KERNELS_TILE_MICRO_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "calibd/core/kernel.h"

namespace calibd {

// The observations of a panel fill this many bytes on every CPU: four of the widest vectors.
inline constexpr std::size_t kPanelBytes = 256;
template <typename T>
inline constexpr std::size_t kPanelWidth = kPanelBytes / sizeof(T);

// The observations of one panel.
template <typename T>
struct PanelTask {
  std::size_t class_count;
  // The predictions, at most kPanelWidth.
  std::span<const double* const> rows;
  // [class][observation]; zero for the observations that the panel lacks.
  T* panel;
  // By observation: the sum of the probabilities, added in the order of the classes, as a tile adds
  // the minima, so that equal rows cancel exactly.
  T* sums;
  // Empty, or the label of each observation, and in double the squares of its residuals: those of
  // the other classes are added to that of the label, in the order of the classes.
  std::span<const std::int32_t> labels;
  double* squares;
};

// Uses the best instruction set of the CPU. The results have the same bits on every CPU.
void PackPanel(const PanelTask<float>& task);
void PackPanel(const PanelTask<double>& task);

enum class MicroOutput { kSum, kTerms, kKernels, kDistances };

// Consecutive rows against the columns of one panel.
template <typename T>
struct MicroTask {
  std::size_t class_count;
  // All observations, kPanelWidth in a panel: [panel][class][observation].
  const T* panels;
  // By observation: the sums of the probabilities, and the labels, which ascend.
  const T* sums;
  const std::int32_t* labels;
  // Observations. column_begin is the first of a panel.
  std::size_t row_begin;
  std::size_t row_count;
  std::size_t column_begin;
  std::size_t column_count;
  // The kernel is exp2(scale distance).
  T scale;
  Distance distance;
  MicroOutput output;
  // Row-major with `stride` values per row; may be written up to the panel's full width.
  T* out;
  // For kTerms: the kernels, in the same layout; null if they are not needed.
  T* kernels;
  std::size_t stride;
};

// Returns the sum over the pairs i < j for MicroOutput::kSum, else 0. Uses the best instruction set
// of the CPU.
double RunMicro(const MicroTask<float>& task);
double RunMicro(const MicroTask<double>& task);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_KERNELS_TILE_MICRO_H_
