// float32 compared with float64, as a fraction of the standard deviation of the estimate under the
// null hypothesis. This is what matters for a decision, also for estimates near 0.
#include <gtest/gtest.h>

#include <cmath>

#include "calibd/core/generator.h"
#include "calibd/core/noise_floor.h"
#include "calibd/core/skce.h"

namespace calibd {
namespace {

TEST(PrecisionTest, Float32ErrorIsAThousandthOfTheNullDeviation) {
  for (const std::size_t n : {250u, 4000u}) {
    for (const std::size_t m : {3u, 10u, 200u}) {
      for (const GeneratorSpec& spec : {GeneratorSpec::M1(m), GeneratorSpec::M3(m)}) {
        PredictionSet set;
        Generator::Create(spec, n + m)->Draw(n, set);
        const Kernel kernel = *Kernel::ExponentialTotalVariation(0.8);
        const double deviation =
            EstimateNullMoments(set.view(), kernel)->Unbiased().standard_deviation;
        const auto exact = EstimateQuadraticSkce(set.view(), kernel);
        const auto fast = EstimateQuadraticSkce(set.view(), kernel, {}, Precision::kFloat32);
        EXPECT_LE(std::abs(fast->unbiased - exact->unbiased), 1e-3 * deviation)
            << "n=" << n << " m=" << m << " pi=" << spec.pi;
      }
    }
  }
}

}  // namespace
}  // namespace calibd
