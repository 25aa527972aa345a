#ifndef CALIBD_CORE_SRC_TILE_MICRO_H_
#define CALIBD_CORE_SRC_TILE_MICRO_H_

#include <cstddef>
#include <cstdint>

#include "calibd/core/kernel.h"

namespace calibd {

// The observations of a panel fill this many bytes on every CPU: two of the widest vectors.
inline constexpr std::size_t kPanelBytes = 128;
// Rows that are packed together: [class][kGroupRows of g, then kGroupRows of d].
inline constexpr std::size_t kGroupRows = 4;

enum class MicroOutput { kSum, kTerms, kKernels, kDistances };

// One panel of columns against consecutive rows.
template <typename T>
struct MicroTask {
  std::size_t class_count;
  // Whole groups of kGroupRows rows: 2 kGroupRows values a class, class_count classes.
  const T* rows;
  const T* row_sums;
  std::size_t row_count;
  // kPanelBytes / sizeof(T) values per class.
  const T* panel;
  const T* panel_sums;
  const std::int32_t* panel_labels;
  // True if all labels of the panel are the same.
  bool one_label;
  // Index of the first row minus the index of the panel's first column; only pairs with i < j are
  // summed.
  std::ptrdiff_t row_ahead;
  // Number of columns of the panel that exist.
  std::size_t column_count;
  // The kernel is exp2(scale distance).
  T scale;
  Distance distance;
  MicroOutput output;
  // Row-major with `stride` values per row; written up to the panel's full width.
  T* out;
  std::size_t stride;
};

// Returns the sum for MicroOutput::kSum, else 0. Uses the best instruction set of the CPU.
double RunMicro(const MicroTask<float>& task);
double RunMicro(const MicroTask<double>& task);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_TILE_MICRO_H_
