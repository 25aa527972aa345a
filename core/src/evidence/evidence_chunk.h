#ifndef CALIBD_CORE_SRC_EVIDENCE_EVIDENCE_CHUNK_H_
#define CALIBD_CORE_SRC_EVIDENCE_EVIDENCE_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "calibd/core/fourier_basis.h"
#include "calibd/core/line_vector.h"
#include "calibd/core/prediction_batch.h"
#include "evidence/class_counts.h"
#include "evidence/evidence_layout.h"

namespace calibd {

// The pending predictions of a chunk, in strips of rows.
class EvidenceChunk {
 public:
  explicit EvidenceChunk(std::size_t class_count);

  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  // Appends rows without their Fourier terms. There must be room.
  void Append(const PredictionBatch& batch) noexcept;
  // Computes the Fourier terms of rows of the newest batch. first: of the chunk.
  void MapFourier(const PredictionBatch& rows, std::size_t first,
                  const FourierBasis& basis) noexcept {
    basis.Map(rows.probabilities, rows.size(), std::span(fourier_).subspan(first * kFourierCount));
  }
  void Clear() noexcept {
    rows_ = squared_rows_ = 0;
    square_ = 0;
  }

  // class_count x kStripRows, and a line of -1.
  [[nodiscard]] const double* given(std::size_t strip) const noexcept {
    return &given_[strip * lines_ * kStripRows];
  }
  // For the bins of the probabilities: class_count x kStripRows.
  [[nodiscard]] std::uint8_t* bins(std::size_t strip) noexcept {
    return &bins_[strip * (lines_ - 1) * kStripRows];
  }
  // The labels of a strip: kStripRows, some of which may be unused.
  [[nodiscard]] const std::int32_t* labels(std::size_t strip) const noexcept {
    return &labels_[strip * kStripRows];
  }
  [[nodiscard]] double given_at_label(std::size_t row) const noexcept {
    return given_[IndexOf(row, static_cast<std::size_t>(labels_[row]))];
  }
  // All rows. The bins must be known.
  [[nodiscard]] ChunkRows All() const noexcept;
  // rows x kFourierCount.
  [[nodiscard]] const float* fourier() const noexcept { return fourier_.data(); }
  // Turns the predictions of classes first .. last - 1 into negated residuals, in strips of lines:
  // -1 in the last line.
  const double* Negate(std::size_t first, std::size_t last) noexcept;
  // The square of |sum_i phi_i d_i'| over the first rows, at least as many as in the call before.
  // Cost: O((m + D) rows) for each row since the last call.
  [[nodiscard]] double SquareOfSum(std::size_t rows) const noexcept;

  void Save(std::vector<double>& probabilities, std::vector<std::int32_t>& labels) const;
  [[nodiscard]] static std::size_t Memory(std::size_t class_count) noexcept;

 private:
  [[nodiscard]] std::size_t IndexOf(std::size_t row, std::size_t k) const noexcept {
    return (row / kStripRows * lines_ + k) * kStripRows + row % kStripRows;
  }

  std::size_t lines_;
  std::size_t rows_ = 0;
  // The rows in square_.
  mutable std::size_t squared_rows_ = 0;
  mutable double square_ = 0;
  LineVector given_;
  FloatLineVector fourier_;
  std::vector<std::uint8_t> bins_;
  std::vector<std::int32_t> labels_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_EVIDENCE_EVIDENCE_CHUNK_H_
