// Repeated rows of models whose outputs are few or coarse, without and with rows that are counted
// twice. The seeds are fixed; the rule reports data without duplicates with a probability of at
// most 1e-4 for each of the 1000 streams.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/prediction_batch.h"
#include "server/watch/row_screen.h"

namespace calibd::server {
namespace {

using Random = std::mt19937_64;
// Returns a prediction.
using Draw = std::function<std::vector<double>(Random&)>;

double Uniform(Random& random) { return std::uniform_real_distribution<double>()(random); }

std::vector<double> Dirichlet(Random& random, std::size_t m, double alpha) {
  std::vector<double> g(m);
  double sum = 0;
  for (double& value : g) sum += value = std::gamma_distribution<double>(alpha)(random) + 1e-300;
  for (double& value : g) value /= sum;
  return g;
}

std::size_t Categorical(const std::vector<double>& g, Random& random) {
  return std::discrete_distribution<std::size_t>(g.begin(), g.end())(random);
}

// The shares of `votes` votes, each for a class drawn from a Dirichlet distribution.
Draw Votes(std::size_t m, double alpha, int votes) {
  return [=](Random& random) {
    const std::vector<double> p = Dirichlet(random, m, alpha);
    std::vector<int> counts(m);
    for (int i = 0; i < votes; ++i) ++counts[Categorical(p, random)];
    std::vector<double> g(m);
    for (std::size_t k = 0; k < m; ++k) g[k] = static_cast<double>(counts[k]) / votes;
    return g;
  };
}

Draw Binary(const std::function<double(Random&)>& draw) {
  return [draw](Random& random) {
    const double p = draw(random);
    return std::vector<double>{1 - p, p};
  };
}

double Sigmoid(Random& random, double low, double high) {
  const double logit = std::normal_distribution<double>(0, 3)(random);
  return std::clamp(1 / (1 + std::exp(-logit)), low, high);
}

// The labels are drawn from g^sharpness: above 1, the model is under-confident.
PredictionSet Sample(const Draw& draw, std::size_t n, Random& random, double sharpness = 1) {
  PredictionSet set;
  for (std::size_t i = 0; i < n; ++i) {
    const std::vector<double> g = draw(random);
    std::vector<double> truth = g;
    for (double& value : truth) value = std::pow(value, sharpness);
    set.class_count = g.size();
    set.probabilities.insert(set.probabilities.end(), g.begin(), g.end());
    set.labels.push_back(static_cast<std::int32_t>(Categorical(truth, random)));
  }
  return set;
}

double DuplicateShare(const PredictionSet& set, const std::vector<std::size_t>& order) {
  RowScreen screen(order.size());
  for (const std::size_t i : order) screen.Add(set.view().rows(i, 1));
  return static_cast<double>(screen.counts().Duplicates(1)) / static_cast<double>(order.size());
}

std::vector<std::size_t> InOrder(std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

struct Kind {
  std::string name;
  Draw draw;
};

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kinds{
      {"isotonic calibration, 15 levels",
       Binary([](Random& random) { return std::floor(15 * Uniform(random)) / 15 + 1. / 31; })},
      {"nearest neighbours, k = 5", Votes(10, 0.1, 5)},
      {"nearest neighbours, k = 15", Votes(3, 0.3, 15)},
      {"nearest neighbours, k = 50, m = 2", Votes(2, 0.5, 50)},
      {"forest, m = 2", Votes(2, 0.5, 100)},
      {"forest, m = 3", Votes(3, 0.3, 100)},
      {"forest, m = 10", Votes(10, 0.1, 100)},
      {"clipped sigmoid", Binary([](Random& random) { return Sigmoid(random, 0.02, 0.98); })},
      {"tightly clipped sigmoid",
       Binary([](Random& random) { return Sigmoid(random, 1e-6, 1 - 1e-6); })},
      {"sigmoid with three digits",
       Binary([](Random& random) { return std::round(1e3 * Sigmoid(random, 0, 1)) / 1e3; })},
      {"hard predictions", Votes(4, 0.2, 1)},
      {"two hard predictions in turn",
       [turn = 0](Random&) mutable {
         turn = 1 - turn;
         return std::vector<double>{static_cast<double>(turn), static_cast<double>(1 - turn)};
       }},
  };
  return kinds;
}

TEST(DuplicateWarningTest, ModelsWithFewOutputsHaveNoDuplicates) {
  Random random(20);
  for (const auto& [name, draw] : Kinds()) {
    for (const std::size_t n : {200U, 1000U, 10000U}) {
      for (int stream = 0; stream < (n < 10000 ? 5 : 3); ++stream) {
        PredictionSet set = Sample(draw, n, random);
        EXPECT_LT(DuplicateShare(set, InOrder(n)), 0.01) << name << ", n = " << n;
        // Sorted by the prediction: equal rows follow each other.
        std::vector<std::size_t> order = InOrder(n);
        std::stable_sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
          return set.view().row(i)[0] < set.view().row(j)[0];
        });
        EXPECT_LT(DuplicateShare(set, order), 0.01) << name << ", sorted, n = " << n;
      }
    }
  }
}

TEST(DuplicateWarningTest, MiscalibratedModelsHaveNoDuplicates) {
  Random random(22);
  for (const auto& [name, draw] : Kinds()) {
    for (const double sharpness : {0.5, 2.0}) {
      for (const std::size_t n : {1000U, 10000U}) {
        const PredictionSet set = Sample(draw, n, random, sharpness);
        EXPECT_LT(DuplicateShare(set, InOrder(n)), 0.01) << name << ", " << sharpness << ", " << n;
      }
    }
  }
}

TEST(DuplicateWarningTest, DoubleDeliveryOfFivePercentIsReported) {
  Random random(21);
  const std::vector<Kind> kinds{
      {"Dirichlet, m = 10", [](Random& r) { return Dirichlet(r, 10, 0.1); }},
      {"confident, m = 10", [](Random& r) { return Dirichlet(r, 10, 0.01); }},
      {"sigmoid", Binary([](Random& r) { return Sigmoid(r, 0, 1); })},
      {"clipped sigmoid", Binary([](Random& r) { return Sigmoid(r, 0.02, 0.98); })},
  };
  for (const auto& [name, draw] : kinds) {
    for (const std::size_t n : {1000U, 10000U}) {
      const PredictionSet set = Sample(draw, n, random);
      // The last batch is sent twice.
      std::vector<std::size_t> batch = InOrder(n);
      for (std::size_t i = n - n / 20; i < n; ++i) batch.push_back(i);
      EXPECT_GE(DuplicateShare(set, batch), 0.03) << name << ", a batch, n = " << n;
      // Single rows of a confident model need more observations.
      if (name == "confident, m = 10" && n < 10000) continue;
      // Every twentieth row is sent twice, at once.
      std::vector<std::size_t> rows;
      for (std::size_t i = 0; i < n; ++i) rows.insert(rows.end(), i % 20 == 0 ? 2 : 1, i);
      EXPECT_GE(DuplicateShare(set, rows), 0.03) << name << ", rows, n = " << n;
      if (n < 10000) continue;
      // Random rows are sent twice, in random order.
      std::vector<std::size_t> shuffled = batch;
      std::shuffle(shuffled.begin(), shuffled.end(), random);
      EXPECT_GE(DuplicateShare(set, shuffled), 0.03) << name << ", in random order, n = " << n;
    }
  }
}

}  // namespace
}  // namespace calibd::server
