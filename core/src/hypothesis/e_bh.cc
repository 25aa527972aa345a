#include "calibd/core/e_bh.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>

namespace calibd {

std::vector<bool> RejectedByEbh(std::span<const double> log10_e_values, double alpha) {
  const std::size_t count = log10_e_values.size();
  const auto threshold = [&](std::size_t k) {
    return std::log10(static_cast<double>(count) / (alpha * static_cast<double>(k)));
  };
  // Most e-values are below the threshold of all K hypotheses, which is the smallest one.
  std::vector<double> sorted;
  std::copy_if(log10_e_values.begin(), log10_e_values.end(), std::back_inserter(sorted),
               [least = threshold(count)](double value) { return value >= least; });
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  std::size_t rejected = sorted.size();
  while (rejected > 0 && sorted[rejected - 1] < threshold(rejected)) --rejected;
  std::vector<bool> result(count, false);
  if (rejected == 0) return result;
  // Equal e-values are rejected together: if the k-th were equal to the next one, the next one
  // would satisfy the condition too.
  const double least = sorted[rejected - 1];
  std::transform(log10_e_values.begin(), log10_e_values.end(), result.begin(),
                 [least](double value) { return value >= least; });
  return result;
}

}  // namespace calibd
