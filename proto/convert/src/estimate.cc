#include "calibd/convert/estimate.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/kernel.h"
#include "prefixed_error.h"

namespace calibd::convert {
namespace {

constexpr std::int32_t kDefaultFolds = 5;
constexpr std::int32_t kMaxFolds = 20;

// The values of the two enums have the same order.
v1::EstimatorOutcome::Estimator ToProto(EstimatorKind kind) {
  return static_cast<v1::EstimatorOutcome::Estimator>(static_cast<int>(kind) + 1);
}

}  // namespace

absl::StatusOr<SelectionOptions> FromProto(const v1::EstimateCalibrationErrorRequest& request,
                                           std::size_t class_count) {
  const absl::StatusOr<Lens> lens =
      request.has_lens() ? FromProto(request.lens(), class_count) : Lens::TopLabel();
  if (!lens.ok()) return PrefixedError("lens ", lens.status());
  SelectionOptions options;
  options.lens = *lens;
  options.estimators = DefaultEstimators(*lens);
  if (!HasEstimators(*lens)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lens is ", lens->name(), ", expected canonical, top_label, class_wise or one_class"));
  }
  std::vector<EstimatorGrid> wanted;
  for (int i = 0; i < request.estimators_size(); ++i) {
    const auto found = std::find_if(
        options.estimators.begin(), options.estimators.end(),
        [&](const EstimatorGrid& grid) { return ToProto(grid.kind) == request.estimators(i); });
    if (found == options.estimators.end()) {
      const std::string name = v1::EstimatorOutcome::Estimator_Name(request.estimators(i));
      return absl::InvalidArgumentError(absl::StrCat(
          "estimators[", i, "] is ", name.empty() ? absl::StrCat(request.estimators(i)) : name,
          ", expected each estimator that suits the lens ", lens->name(), " at most once"));
    }
    wanted.push_back(std::move(*found));
    options.estimators.erase(found);
  }
  if (!wanted.empty()) {
    std::sort(wanted.begin(), wanted.end(),
              [](const auto& a, const auto& b) { return a.kind < b.kind; });
    options.estimators = std::move(wanted);
  }
  const std::int32_t folds = request.folds() == 0 ? kDefaultFolds : request.folds();
  if (folds < 2 || folds > kMaxFolds) {
    return absl::InvalidArgumentError(
        absl::StrCat("folds is ", folds, ", expected 2..", kMaxFolds));
  }
  options.folds = static_cast<std::size_t>(folds);
  if (request.test_share() != 0) options.test_share = request.test_share();
  if (!(options.test_share > 0 && options.test_share < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("test_share is ", options.test_share, ", expected in (0, 1)"));
  }
  options.replicates = request.replicates();
  if (options.replicates != 0 &&
      (options.replicates < kMinReplicates || options.replicates > kMaxReplicates)) {
    return absl::InvalidArgumentError(absl::StrCat("replicates is ", options.replicates,
                                                   ", expected 0 or ", kMinReplicates, "..",
                                                   kMaxReplicates));
  }
  if (request.has_seed()) options.seed = request.seed();
  return options;
}

v1::CalibrationErrorEstimate ToProto(const SelectionOptions& options,
                                     const SelectionResult& selected) {
  v1::CalibrationErrorEstimate proto;
  for (const EstimatorResult& result : selected.estimators) {
    v1::EstimatorOutcome& outcome = *proto.add_estimators();
    outcome.set_estimator(ToProto(result.kind));
    outcome.set_parameter(result.grid[result.best]);
    outcome.set_at_end_of_grid(result.grid.size() > 1 &&
                               (result.best == 0 || result.best == result.grid.size() - 1));
    outcome.set_squared_error(result.squared_error);
    outcome.set_error(result.error);
    outcome.set_error_standard_error(result.error_standard_error);
    outcome.set_excess_risk(result.excess);
    outcome.set_excess_risk_standard_error(result.excess_standard_error);
    outcome.set_better_than_zero(result.better_than_zero());
    outcome.set_worse_than_zero(result.worse_than_zero());
    outcome.set_as_good_as_chosen(result.as_good_as_chosen);
  }
  proto.set_chosen(ToProto(selected.estimators[selected.chosen].kind));
  proto.set_any_better_than_zero(selected.any_better_than_zero);
  proto.set_tuning_observations(static_cast<std::int64_t>(selected.tuning_rows));
  proto.set_test_observations(static_cast<std::int64_t>(selected.test_rows));
  proto.set_folds(static_cast<std::int32_t>(options.folds));
  proto.set_seed(*options.seed);
  proto.mutable_provenance()->set_lens(options.lens.name());
  if (selected.simulation.has_value()) {
    ResamplingToProto(*selected.simulation, *proto.mutable_simulation());
  }
  return proto;
}

}  // namespace calibd::convert
