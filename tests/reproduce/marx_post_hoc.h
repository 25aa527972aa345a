#ifndef CALIBD_TESTS_REPRODUCE_MARX_POST_HOC_H_
#define CALIBD_TESTS_REPRODUCE_MARX_POST_HOC_H_

#include <cstddef>
#include <string>

#include "training_numbers.h"

// The rows "+ Post-hoc" of Table 3: the validation rows fit a map of levels, by which the forecasts
// of the test rows are recalibrated.
namespace calibd::reproduce {

// What a row of the table has, with the standard errors over the seeds.
struct PublishedRow {
  Mean log_score;
  Mean decision_error;
};

// Of the recalibrated forecasts. Targets are centred: decisions are about their sign.
[[nodiscard]] Metrics MeasurePostHoc(const HeldOutForecasts& forecasts, const DataSplit& split);

// Checks the networks without the discrepancy against the row, and the quantile error of all
// networks against what it is for any forecasts.
void CheckPostHoc(const std::string& name, const PairedRuns& runs, const DataSplit& split,
                  const PublishedRow& published);
// The same for the quantile error alone.
void CheckPostHocQuantiles(const std::string& name, const PairedRuns& runs, const DataSplit& split);

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_MARX_POST_HOC_H_
