#include "calibd/core/serial_dependence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace calibd::testing {
namespace {

constexpr int kStreams = 40;

struct Stream {
  std::size_t class_count;
  std::vector<double> probabilities;
  std::vector<std::int32_t> labels;

  [[nodiscard]] std::span<const double> row(std::size_t i) const {
    return std::span(probabilities).subspan(i * class_count, class_count);
  }
  // In the order of `rows`. Returns the row of the warning; 0 without one.
  [[nodiscard]] std::int64_t WarnedAt(const std::vector<std::size_t>& rows) const {
    SerialDependence series;
    for (const std::size_t i : rows) {
      const std::span<const double> g = row(i);
      series.Add(g, labels[i], static_cast<std::size_t>(std::ranges::max_element(g) - g.begin()));
    }
    return series.reached_at();
  }
  [[nodiscard]] std::vector<std::size_t> InOrder() const {
    std::vector<std::size_t> rows(labels.size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    return rows;
  }
  [[nodiscard]] std::vector<std::size_t> SortedByLabel() const {
    std::vector<std::size_t> rows = InOrder();
    std::ranges::stable_sort(rows, {}, [this](std::size_t i) { return labels[i]; });
    return rows;
  }
};

// Softmax of Normal scores, whose labels are drawn with the scores divided by the temperature.
Stream Draw(std::size_t class_count, double temperature, std::size_t n, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal(0, 2);
  std::uniform_real_distribution<double> uniform;
  Stream stream{class_count, {}, {}};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> stated(class_count);
    std::vector<double> truth(class_count);
    double sum = 0;
    double true_sum = 0;
    for (std::size_t k = 0; k < class_count; ++k) {
      const double score = normal(rng);
      sum += stated[k] = std::exp(score);
      true_sum += truth[k] = std::exp(score / temperature);
    }
    double rest = uniform(rng) * true_sum;
    std::int32_t label = 0;
    while (label + 1 < static_cast<std::int32_t>(class_count) &&
           rest >= truth[static_cast<std::size_t>(label)]) {
      rest -= truth[static_cast<std::size_t>(label++)];
    }
    for (const double value : stated) stream.probabilities.push_back(value / sum);
    stream.labels.push_back(label);
  }
  return stream;
}

TEST(SerialDependenceTest, IndependentRowsAreNotWarnedOf) {
  int warned = 0;
  for (int s = 0; s < kStreams; ++s) {
    const auto seed = static_cast<std::uint64_t>(s);
    for (const double temperature : {1.0, 2.5, .4}) {
      const Stream stream = Draw(s % 2 == 0 ? 10 : 2, temperature, 6000, seed);
      warned += stream.WarnedAt(stream.InOrder()) > 0 ? 1 : 0;
    }
  }
  // The chance of each is at most .001: more than two of 120 have a probability of .0003.
  EXPECT_LE(warned, 2);
}

TEST(SerialDependenceTest, SortedAndRepeatedRowsAreWarnedOf) {
  for (int s = 0; s < kStreams / 4; ++s) {
    const Stream stream = Draw(s % 2 == 0 ? 10 : 2, 1, 8000, static_cast<std::uint64_t>(900 + s));
    EXPECT_GT(stream.WarnedAt(stream.SortedByLabel()), 0) << s;
    std::vector<std::size_t> twice;
    for (std::size_t i = 0; i < stream.labels.size() / 2; ++i) twice.insert(twice.end(), 2, i);
    EXPECT_GT(stream.WarnedAt(twice), 0) << s;
  }
}

}  // namespace
}  // namespace calibd::testing
