#ifndef CALIBD_CORE_SRC_LOSS_NUMBER_PAIRS_H_
#define CALIBD_CORE_SRC_LOSS_NUMBER_PAIRS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/condition.h"
#include "calibd/core/forecast.h"
#include "calibd/core/outcome_kernel.h"
#include "calibd/core/run_control.h"
#include "loss/distribution_matching.h"

namespace calibd {

using ConditionPtr = std::unique_ptr<const ConditionTerms>;

// A condition other than the prediction of classes. Chooses a gamma that is unset, and moves
// features and groups away. A gamma stays unset if all points are equal. batch: draws ascend.
// Errors: FailedPrecondition if a gamma cannot be chosen; Cancelled.
[[nodiscard]] absl::StatusOr<ConditionPtr> MakeCondition(const ForecastBatch& batch,
                                                         const RunControl& control,
                                                         Condition& condition);

// The terms of the pairs of forecasts of a number.
struct NumberPairs {
  std::unique_ptr<const OutcomeTerms> terms;
  ConditionPtr condition;
  // The products of both, faster where a special case exists.
  std::unique_ptr<const PairProducts> products;
};
// kernel: set to RbfKernel if unset. Otherwise as MakeCondition.
[[nodiscard]] absl::StatusOr<NumberPairs> MakeNumberPairs(const ForecastBatch& batch,
                                                          const RunControl& control,
                                                          std::optional<OutcomeKernel>& kernel,
                                                          Condition& condition);

// Forecasts of a number, with the draws of samples in ascending order.
class AscendingForecasts {
 public:
  // batch: a view that outlives this. Copies the draws of samples.
  explicit AscendingForecasts(const ForecastBatch& batch);
  AscendingForecasts(const AscendingForecasts&) = delete;
  AscendingForecasts& operator=(const AscendingForecasts&) = delete;

  [[nodiscard]] const ForecastBatch& batch() const noexcept { return batch_; }
  // Brings n x width values, or none, from the ascending order to that of the original batch.
  void RestoreOrder(std::vector<double>& values) const;

 private:
  // For samples, the position of each draw in the original batch.
  std::vector<std::size_t> order_;
  std::vector<double> sorted_;
  ForecastBatch batch_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_LOSS_NUMBER_PAIRS_H_
