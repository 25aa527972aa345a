#include "evidence/evidence_chunk.h"

#include <algorithm>

#include "evidence/witness_simd.h"

namespace calibd {

EvidenceChunk::EvidenceChunk(std::size_t class_count)
    : lines_(class_count + 1),
      given_(kMostChunkRows * lines_),
      fourier_(kMostChunkRows * kFourierCount),
      bins_(kMostChunkRows * class_count),
      labels_(kMostChunkRows) {
  for (std::size_t row = 0; row < kMostChunkRows; ++row) given_[IndexOf(row, class_count)] = -1;
}

void EvidenceChunk::Append(const PredictionBatch& batch) noexcept {
  const std::size_t m = batch.class_count;
  // The rows of a strip together, because they share cache lines.
  for (std::size_t first = 0; first < batch.size();) {
    const std::size_t count = std::min(kStripRows - rows_ % kStripRows, batch.size() - first);
    double* const given = &given_[IndexOf(rows_, 0)];
    const double* const g = batch.row(first).data();
    for (std::size_t k = 0; k < m; ++k) {
      for (std::size_t row = 0; row < count; ++row) given[k * kStripRows + row] = g[row * m + k];
    }
    std::copy_n(&batch.labels[first], count, &labels_[rows_]);
    rows_ += count;
    first += count;
  }
}

ChunkRows EvidenceChunk::All() const noexcept {
  return {.rows = rows_,
          .lines = lines_,
          .given = given_.data(),
          .bins = bins_.data(),
          .labels = labels_.data()};
}

const double* EvidenceChunk::Negate(std::size_t first, std::size_t last) noexcept {
  for (std::size_t row = 0; row < rows_; ++row) {
    const auto label = static_cast<std::size_t>(labels_[row]);
    if (label >= first && label < last) given_[IndexOf(row, label)] -= 1;
  }
  return given_.data();
}

double EvidenceChunk::SquareOfSum(std::size_t rows) const noexcept {
  for (; squared_rows_ < rows; ++squared_rows_) {
    square_ += SquareGrowth({.row = squared_rows_,
                             .class_count = lines_ - 1,
                             .lines = lines_,
                             .fourier = fourier_.data(),
                             .given = given_.data(),
                             .labels = labels_.data()});
  }
  return square_;
}

void EvidenceChunk::Save(std::vector<double>& probabilities,
                         std::vector<std::int32_t>& labels) const {
  for (std::size_t row = 0; row < rows_; ++row) {
    for (std::size_t k = 0; k + 1 < lines_; ++k) probabilities.push_back(given_[IndexOf(row, k)]);
    labels.push_back(labels_[row]);
  }
}

std::size_t EvidenceChunk::Memory(std::size_t class_count) noexcept {
  return sizeof(EvidenceChunk) +
         kMostChunkRows * ((class_count + 1) * sizeof(double) + kFourierCount * sizeof(float) +
                           class_count * sizeof(std::uint8_t) + sizeof(std::int32_t));
}

}  // namespace calibd
