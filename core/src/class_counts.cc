#include "class_counts.h"

namespace calibd {

ClassCounts::ClassCounts(std::size_t class_count)
    : class_count_(class_count),
      size_(Padded(class_count)),
      cells_(kBinCount * size_ * kCellSize) {}

OfPasts<ClassCountTerms> ClassCounts::Terms(const PredictionTerms& prediction, std::size_t label,
                                            const OfPasts<double>& weights) const noexcept {
  const OfPasts<HistogramSums> sums = SumClassHistograms(prediction, cells_.data(), weights);
  const double* const cell = &cells_[static_cast<std::size_t>(prediction.cells[label])];
  OfPasts<ClassCountTerms> terms;
  for (std::size_t past = 0; past < kPasts; ++past) {
    const double prior = 3 * weights[past];
    terms[past] = {.ratio = (cell[kObserved + past] + prior) / (cell[kExpected + past] + prior),
                   .sums = sums[past]};
  }
  return terms;
}

void ClassCounts::Add(const PredictionTerms& prediction, const double* g, std::size_t label,
                      const OfPasts<double>& weights) noexcept {
  AddClassExpectations(prediction, g, weights, cells_.data());
  double* const cell = &cells_[static_cast<std::size_t>(prediction.cells[label])];
  for (std::size_t past = 0; past < kPasts; ++past) cell[kObserved + past] += weights[past];
}

void ClassCounts::RescaleRecent(double scale) noexcept {
  for (std::size_t cell = 0; cell < cells_.size(); cell += kCellSize) {
    cells_[cell + kObserved + kRecent] *= scale;
    cells_[cell + kExpected + kRecent] *= scale;
  }
}

void ClassCounts::Save(PastState& all, PastState& recent) const {
  const OfPasts<PastState*> states = {&all, &recent};
  for (std::size_t b = 0; b < kBinCount; ++b) {
    for (std::size_t k = 0; k < class_count_; ++k) {
      const double* const cell = &cells_[kCellSize * (b * size_ + k)];
      for (std::size_t past = 0; past < kPasts; ++past) {
        states[past]->class_observed.push_back(cell[kObserved + past]);
        states[past]->class_expected.push_back(cell[kExpected + past]);
      }
    }
  }
}

void ClassCounts::Restore(const PastState& all, const PastState& recent) {
  const OfPasts<const PastState*> states = {&all, &recent};
  for (std::size_t b = 0; b < kBinCount; ++b) {
    for (std::size_t k = 0; k < class_count_; ++k) {
      double* const cell = &cells_[kCellSize * (b * size_ + k)];
      for (std::size_t past = 0; past < kPasts; ++past) {
        cell[kObserved + past] = states[past]->class_observed[b * class_count_ + k];
        cell[kExpected + past] = states[past]->class_expected[b * class_count_ + k];
      }
    }
  }
}

std::size_t ClassCounts::Memory(std::size_t class_count) noexcept {
  return sizeof(ClassCounts) + Padded(class_count) * kBinCount * kCellSize * sizeof(double);
}

}  // namespace calibd
