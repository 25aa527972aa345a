#include "base/isotonic.h"

#include <algorithm>
#include <utility>

namespace calibd {

SortedPredictions::SortedPredictions(const BinaryPredictions& predictions) {
  std::vector<std::pair<double, double>> sorted;
  sorted.reserve(predictions.size());
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    sorted.emplace_back(predictions.probabilities[i], predictions.outcomes[i]);
  }
  std::ranges::sort(sorted);
  for (const auto& [probability, outcome] : sorted) {
    if (probabilities.empty() || probabilities.back() != probability) {
      probabilities.push_back(probability);
      counts.push_back(0);
      successes.push_back(0);
    }
    counts.back() += 1;
    successes.back() += outcome;
  }
}

void FitIsotonic(std::span<const double> counts, std::span<const double> successes,
                 std::vector<IsotonicBlock>& blocks) {
  blocks.clear();
  for (std::size_t g = 0; g < counts.size(); ++g) {
    IsotonicBlock block{g, g + 1, counts[g], successes[g]};
    // Cross-multiplied, which is exact for integers below 2^26.
    while (!blocks.empty() &&
           blocks.back().successes * block.count >= block.successes * blocks.back().count) {
      block.begin = blocks.back().begin;
      block.count += blocks.back().count;
      block.successes += blocks.back().successes;
      blocks.pop_back();
    }
    blocks.push_back(block);
  }
}

}  // namespace calibd
