#ifndef CALIBD_CORE_CONSISTENCY_RESAMPLING_H_
#define CALIBD_CORE_CONSISTENCY_RESAMPLING_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "calibd/core/binned_error.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/resampling.h"
#include "calibd/core/run_control.h"

namespace calibd {

// The caveat that must be shown with every result of ConsistencyTest. Measured on the reference
// model M1 with n = 250, m = 10; see tests/statistical/anticonservative_level_test.cc.
inline constexpr std::string_view kConsistencyTestCaveat =
    "Consistency resampling of the ECE rejects calibrated models too often, the more so the finer "
    "the bins. At level .05 with 10 classes and n = 250 it rejected 6 % of them by the top label, "
    "9 % by median-variance bins, 13 % class-wise, and all of them by 10 uniform bins a class.";

// The caveat if the null hypothesis is kForecast.
inline constexpr std::string_view kSimulationCaveat =
    "The test is exact: at level .05 it rejects at most 5 % of the models whose labels are drawn "
    "from their predictions.";

// The statistic is the ECE; values that are equal within 1e-12 count as exceedances. The replicates
// estimate its distribution for a calibrated model with such predictions.
struct ConsistencyTestResult : ResamplingResult {
  // The binned error of the batch.
  BinnedError error;
};

// The test of calibration by consistency resampling: for each replicate draw n rows with
// replacement, a label for each from its prediction, and estimate the ECE again. With
// NullHypothesis::kForecast the rows are kept, which makes the test exact.
// Source: Broecker & Smith, Weather Forecast. 22 (2007) 651, Sec. 3; as a test
// Vaicenavicius et al., AISTATS 2019; Widmann, Lindsten & Zachariah, NeurIPS 2019,
// Sec. 7 and App. J. See kConsistencyTestCaveat.
//
// batch: valid. The result is a function of the seed, whatever the threads.
// Errors: those of EstimateBinnedError; InvalidArgument (replicates); Cancelled.
// Cost: replicates times that of EstimateBinnedError, which is also the memory of
// each thread, with O(n) for the rows that are drawn.
[[nodiscard]] absl::StatusOr<ConsistencyTestResult> ConsistencyTest(const PredictionBatch& batch,
                                                                    const BinnedErrorSpec& spec,
                                                                    const BootstrapOptions& options,
                                                                    const RunControl& control = {});

}  // namespace calibd

#endif  // CALIBD_CORE_CONSISTENCY_RESAMPLING_H_
