// Every instruction set of this CPU gives the bits of the scalar terms.
#include "kernels/pair_terms.h"

#include <gtest/gtest.h>

#include <vector>

#include "calibd/core/generator.h"
#include "calibd/core/running_lens.h"
#include "calibd/core/skce.h"
#include "property/simd_targets.h"

namespace calibd {
namespace {

using testing::ExpectBits;
using testing::ForEachTarget;

constexpr Distance kDistances[] = {Distance::kTotalVariation, Distance::kCityblock,
                                   Distance::kEuclidean, Distance::kSquaredEuclidean};

// Some predictions are certain, right or wrong, and one contains a negative zero.
PredictionSet Predictions(std::size_t n, std::size_t m) {
  PredictionSet set;
  Generator::Create(GeneratorSpec::M2(m), n + m)->Draw(n, set);
  for (std::size_t i = 0; i < n; i += 5) {
    for (std::size_t k = 0; k < m; ++k) set.probabilities[i * m + k] = k == i % m ? 1 : 0;
  }
  set.probabilities[(n - 1) / 5 * 5 * m + ((n - 1) / 5 * 5 + 1) % m] = -0.0;
  return set;
}

TEST(PairTermsTest, EqualTheScalarFunctionsBitForBit) {
  ForEachTarget([] {
    for (const std::size_t m : {2U, 3U, 4U, 5U, 7U, 8U, 10U, 31U, 32U, 33U, 101U, 400U}) {
      for (std::size_t n = 2; n <= kMaxPairs + 1; n += n < 11 ? 1 : 11) {
        const PredictionSet set = Predictions(n, m);
        const PredictionBatch batch = set.view();
        const PredictionBatch even = batch.rows(0, n / 2 * 2);
        for (const Distance distance : kDistances) {
          PairTerms neighbours;
          PairTerms separate;
          ComputeNeighbourTerms(batch, distance, neighbours);
          ComputeSeparateTerms(even, distance, separate);
          for (std::size_t i = 0; i + 1 < n; ++i) {
            const double distance_of_rows = DistanceOf(distance, batch.row(i), batch.row(i + 1));
            const double product = ResidualProduct(batch.row(i), batch.labels[i], batch.row(i + 1),
                                                   batch.labels[i + 1]);
            ExpectBits(neighbours.distances[i], distance_of_rows);
            ExpectBits(neighbours.residual_products[i], product);
            ExpectBits(neighbours.null_traces[i], NullTrace(batch.row(i), batch.row(i + 1)));
            if (i % 2 != 0) continue;
            ExpectBits(separate.distances[i / 2], distance_of_rows);
            ExpectBits(separate.residual_products[i / 2], product);
          }
        }
      }
    }
  });
}

// Small blocks have these bits. Tiles compute the others, whose values differ by rounding.
TEST(RunningLensTest, EqualsTermsAddedOneByOne) {
  constexpr std::size_t kRows = 150;
  constexpr std::size_t kClasses = 10;
  const PredictionSet set = Predictions(kRows, kClasses);
  const PredictionBatch batch = set.view();
  const std::vector<std::size_t> block_sizes{2, 3, 40};
  ForEachTarget([&] {
    for (const Distance distance : kDistances) {
      const Kernel kernel = *Kernel::Over(distance, 0.7);
      RunningMoments null_squares;
      for (std::size_t i = 1; i < kRows; ++i) {
        null_squares.Add(NullSquare(batch.row(i - 1), batch.row(i), 1, 1, kernel));
      }
      auto running = RunningLens::Create(Lens::Canonical(), kClasses, kernel, block_sizes);
      ASSERT_TRUE(running.ok()) << running.status();
      for (std::size_t done = 0, rows = 1; done < kRows; done += rows++) {
        running->Add(batch.rows(done, std::min(rows, kRows - done)));
      }
      const RunningLens::State state = running->Save();
      EXPECT_EQ(state.null_squares, null_squares);
      for (std::size_t b = 0; b < block_sizes.size(); ++b) {
        const std::size_t size = block_sizes[b];
        RunningMoments blocks;
        double sum = 0;
        for (std::size_t j = 0; j < kRows; ++j) {
          for (std::size_t i = j / size * size; i < j; ++i) {
            sum += SkceTerm(batch.row(i), batch.labels[i], batch.row(j), batch.labels[j], kernel);
          }
          if ((j + 1) % size != 0) continue;
          const auto n = static_cast<double>(size);
          blocks.Add(sum / (n * (n - 1) / 2));
          sum = 0;
        }
        if (size < 8) {
          EXPECT_EQ(state.blocks[b].moments, blocks);
        }
        EXPECT_EQ(state.blocks[b].moments.count, blocks.count);
        EXPECT_NEAR(state.blocks[b].moments.mean, blocks.mean, 1e-15);
        EXPECT_NEAR(state.blocks[b].moments.m2, blocks.m2, 1e-12 * blocks.m2);
        EXPECT_EQ(state.blocks[b].pending_labels.size(), kRows % size);
      }
    }
  });
}

}  // namespace
}  // namespace calibd
