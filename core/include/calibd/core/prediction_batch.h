#ifndef CALIBD_CORE_PREDICTION_BATCH_H_
#define CALIBD_CORE_PREDICTION_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace calibd {

// A non-owning view of n labelled predictions over m classes. Views never
// outlive the call they are passed to.
struct PredictionBatch {
  // n x m, row-major; each row on the simplex (see validation.h).
  std::span<const double> probabilities;
  // n true classes, 0-based, each in [0, m).
  std::span<const std::int32_t> labels;
  // m >= 2.
  std::size_t class_count = 0;

  [[nodiscard]] std::size_t size() const noexcept { return labels.size(); }
  [[nodiscard]] std::span<const double> row(std::size_t i) const noexcept {
    return probabilities.subspan(i * class_count, class_count);
  }
  // Rows first .. first + count - 1.
  [[nodiscard]] PredictionBatch rows(std::size_t first, std::size_t count) const noexcept {
    return {probabilities.subspan(first * class_count, count * class_count),
            labels.subspan(first, count), class_count};
  }
};

// n labelled predictions that own their memory; layout as PredictionBatch.
struct PredictionSet {
  std::vector<double> probabilities;
  std::vector<std::int32_t> labels;
  std::size_t class_count = 0;

  [[nodiscard]] PredictionBatch view() const noexcept {
    return {probabilities, labels, class_count};
  }
};

}  // namespace calibd

#endif  // CALIBD_CORE_PREDICTION_BATCH_H_
