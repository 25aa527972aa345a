#ifndef CALIBD_CORE_SRC_EVIDENCE_CLASS_COUNTS_H_
#define CALIBD_CORE_SRC_EVIDENCE_CLASS_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "calibd/core/evidence_state.h"
#include "calibd/core/line_vector.h"
#include "evidence/evidence_layout.h"

namespace calibd {

// The rows of a chunk, in strips.
struct ChunkRows {
  std::size_t rows;
  // The distance between the strips of `given`, in lines of kStripRows values.
  std::size_t lines;
  // Predictions before smoothing.
  const double* given;
  // The bin of each probability: strips x class_count x kStripRows.
  const std::uint8_t* bins;
  const std::int32_t* labels;
};

// r = (O + 3) / (E + 3) of observed and expected numbers of labels, for each past, as sqrt(r) and
// r.
inline constexpr std::size_t kRoot = 0;
inline constexpr std::size_t kRatio = kPasts;
inline constexpr std::size_t kRatioValues = 2 * kPasts;

// The observed and the expected number of labels in each bin of a class's log odds, over the whole
// past and over the recent past, and the ratios from which experts bet.
class ClassCounts {
 public:
  explicit ClassCounts(std::size_t class_count);

  // Multiplies the numbers of the recent past by `retention`, and adds the rows, for classes first
  // .. last - 1. Call Refresh when it is done for all classes.
  void Add(const ChunkRows& chunk, double retention, std::size_t first, std::size_t last) noexcept;
  // Computes what follows from the cells of several classes or bins.
  void Refresh() noexcept;

  // The ratios of the bin of a class.
  [[nodiscard]] const double* OfCell(std::size_t bin, std::size_t k) const noexcept {
    return &ratios_[kRatioValues * (bin * size_ + k)];
  }
  // The ratios of a bin, all classes together.
  [[nodiscard]] const double* OfBin(std::size_t bin) const noexcept {
    return &bin_ratios_[kRatioValues * bin];
  }
  // The ratios of a class, all bins together.
  [[nodiscard]] const double* OfClass(std::size_t k) const noexcept {
    return &class_ratios_[kRatioValues * k];
  }
  // (c_k + 1/2) / (n + m/2) for each past.
  [[nodiscard]] const OfPasts<double>& ShareOf(std::size_t k) const noexcept { return shares_[k]; }

  // Writes class_observed and class_expected, which Restore reads.
  void Save(PastState& all, PastState& recent) const;
  void Restore(const PastState& all, const PastState& recent);
  [[nodiscard]] static std::size_t Memory(std::size_t class_count) noexcept;

 private:
  // For the classes of Add that are processed at a time, with their ratios. Returns the bins of the
  // rows.
  std::uint32_t AddSome(const ChunkRows& chunk, double retention, std::uint32_t used_bins,
                        std::size_t first, std::size_t last) noexcept;
  // Refresh, and the ratios of all cells.
  void RefreshAll() noexcept;

  std::size_t class_count_;
  std::size_t size_;
  // A bit for each bin that has had a probability. The cells of the others are 0. With many
  // classes, most bins are unused.
  std::uint32_t used_bins_ = 0;
  // kBinCount x size cells. Most classes are in the same few bins, and their cells are therefore
  // adjacent.
  LineVector cells_;
  LineVector ratios_;
  LineVector class_cells_;
  LineVector class_ratios_;
  LineVector bin_cells_;
  LineVector bin_ratios_;
  std::vector<OfPasts<double>> shares_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_EVIDENCE_CLASS_COUNTS_H_
