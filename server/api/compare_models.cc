#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/convert/comparison.h"
#include "calibd/core/comparison.h"
#include "calibd/core/forecast_comparison.h"
#include "calibd/core/status_macros.h"
#include "server/api/api.h"
#include "server/api/window_call.h"
#include "server/base/errors.h"
#include "server/base/proto_time.h"
#include "server/compute/window_pairs.h"
#include "server/kinds/kind_table.h"

namespace calibd::server {
namespace {

constexpr const char* kBaselineWindow = "the window of the baseline";

// The models have the same classes, in the same order if they are named.
absl::Status CheckClasses(const ClassesSpec& of_model, const ClassesSpec& of_baseline,
                          const std::string& name) {
  if (of_baseline.count != of_model.count) {
    return InvalidFieldError(
        "baseline", absl::StrCat("is ", name, " with ", of_baseline.count, " classes, expected ",
                                 of_model.count, " as the model has"));
  }
  if (!of_model.names.empty() && !of_baseline.names.empty() &&
      of_model.names != of_baseline.names) {
    return InvalidFieldError("baseline", absl::StrCat("is ", name,
                                                      " with other class names than the model, "
                                                      "expected the same names in the same order"));
  }
  return absl::OkStatus();
}

absl::Status CheckBaseline(const ModelDeclaration& model, const ModelDeclaration& baseline) {
  const std::string name = baseline.name.ToString();
  if (model.name == baseline.name) {
    return InvalidFieldError("baseline", absl::StrCat("is ", name, ", expected another model"));
  }
  if (model.kind.index() != baseline.kind.index()) {
    return InvalidFieldError(
        "baseline", absl::StrCat("is ", name, ", which ", KindOf(baseline).does(),
                                 ", expected a model that ", KindOf(model).does(), " as this one"));
  }
  if (model.numbers() == nullptr) return CheckClasses(*model.classes(), *baseline.classes(), name);
  const absl::Status comparable =
      CheckComparable(model.numbers()->forecast, baseline.numbers()->forecast);
  return comparable.ok()
             ? absl::OkStatus()
             : InvalidFieldError("baseline", absl::StrCat("is ", name, ", which ",
                                                          std::string(comparable.message())));
}

// features: of the baseline. Those of the model are counted with its observations.
JobCost CostOf(std::size_t n, std::size_t baseline_n, std::size_t width, std::size_t features) {
  // The baseline's rows, and the paired rows of the baseline in the order of the model.
  const std::size_t copied = baseline_n + std::min(n, baseline_n);
  // Two scores, the id hash, the table of hashes and the indices of the pairs; the truth, for which
  // an outcome takes most; and the description of a forecast.
  constexpr std::size_t kBytesPerRow = 80 + sizeof(double) + sizeof(ForecastRow);
  // A logarithm and the bin of the top label take as long as some 50 multiplications.
  return {.memory_bytes = static_cast<double>(copied * width * sizeof(double) +
                                              (n + baseline_n) * kBytesPerRow +
                                              // ReadWindow copies the features and groups.
                                              baseline_n * (features + 1) * sizeof(double)),
          .operations = static_cast<double>((n + baseline_n) * (2 * width + 50))};
}

WindowPairs PairSamples(const WindowSample& model, const WindowSample& baseline) {
  const auto hashes = [](const WindowSample& sample) {
    return sample.snapshot->window.CopyNewestIdHashes(sample.rows.truths.size());
  };
  const std::vector<std::uint64_t> of_model = hashes(model);
  const std::vector<std::uint64_t> of_baseline = hashes(baseline);
  return FindPairs({.id_hashes = of_model, .truths = model.rows.truths},
                   {.id_hashes = of_baseline, .truths = baseline.rows.truths});
}

WindowView::Rows CopyRows(const WindowView::Rows& all, const std::vector<std::uint32_t>& rows) {
  WindowView::Rows chosen;
  chosen.width = all.width;
  chosen.values.reserve(rows.size() * all.width);
  const TruthView truths = all.truths;
  for (const std::uint32_t row : rows) {
    const auto values = std::span(all.values).subspan(row * all.width, all.width);
    chosen.values.insert(chosen.values.end(), values.begin(), values.end());
    chosen.truths.Append(truths.rows(row, 1));
  }
  return chosen;
}

v1::Pairing Describe(const WindowPairs& pairs, std::size_t n, std::size_t baseline_n) {
  const auto matched = static_cast<std::int64_t>(pairs.model_rows.size()) + pairs.label_conflicts;
  v1::Pairing proto;
  proto.set_label_conflicts(pairs.label_conflicts);
  proto.set_only_in_model(static_cast<std::int64_t>(n) - matched - pairs.model_without_id);
  proto.set_only_in_baseline(static_cast<std::int64_t>(baseline_n) - matched -
                             pairs.baseline_without_id);
  proto.set_model_without_id(pairs.model_without_id);
  proto.set_baseline_without_id(pairs.baseline_without_id);
  return proto;
}

// The kinds of the forecasts of two models.
struct ComparedKinds {
  NumberForecastKind model;
  NumberForecastKind baseline;
};

// Compares the scores of the paired rows. Without pairs, it compares those of all rows.
absl::StatusOr<v1::Comparison> CompareClasses(const WindowView::Rows& model,
                                              const WindowView::Rows& baseline,
                                              const WindowPairs& pairs, const RunControl& control) {
  if (pairs.model_rows.empty()) {
    CALIBD_ASSIGN_OR_RETURN(const Comparison all,
                            CompareUnpaired(model.view().classes(), baseline.view().classes()));
    return convert::ToProto(all);
  }
  const WindowView::Rows model_rows = CopyRows(model, pairs.model_rows);
  const WindowView::Rows baseline_rows = CopyRows(baseline, pairs.baseline_rows);
  CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
  CALIBD_ASSIGN_OR_RETURN(const Comparison paired, ComparePaired(model_rows.view().classes(),
                                                                 baseline_rows.view().classes()));
  return convert::ToProto(paired);
}

absl::StatusOr<v1::Comparison> CompareNumbers(const ComparedKinds& kinds,
                                              const WindowView::Rows& model,
                                              const WindowView::Rows& baseline,
                                              const WindowPairs& pairs, const RunControl& control) {
  const auto view = [](const NumberForecastKind& kind, const WindowView::Rows& rows) {
    return KindForecasts{.kind = kind, .batch = rows.view().numbers()};
  };
  const std::size_t n = pairs.model_rows.size();
  if (n == 0) {
    CALIBD_ASSIGN_OR_RETURN(
        const ForecastComparison all,
        CompareForecastsUnpaired(view(kinds.model, model), view(kinds.baseline, baseline)));
    return convert::ToProto(all);
  }
  if (n < kLeastComparedForecasts) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "INSUFFICIENT_DATA",
                     absl::StrCat("not enough observations with the same ids in both windows: ", n,
                                  ", at least ", kLeastComparedForecasts, " are needed"));
  }
  const WindowView::Rows model_rows = CopyRows(model, pairs.model_rows);
  const WindowView::Rows baseline_rows = CopyRows(baseline, pairs.baseline_rows);
  CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
  CALIBD_ASSIGN_OR_RETURN(
      const ForecastComparison paired,
      CompareForecastsPaired(view(kinds.model, model_rows), view(kinds.baseline, baseline_rows)));
  return convert::ToProto(paired);
}

absl::Status Compare(const WindowSample& model, const WindowSample& baseline,
                     const std::optional<ComparedKinds>& kinds, const RunControl& control,
                     v1::ModelComparison& proto) {
  const WindowPairs pairs = PairSamples(model, baseline);
  CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
  control.progress(0.5);
  const std::size_t n = model.rows.truths.size();
  const std::size_t baseline_n = baseline.rows.truths.size();
  v1::Comparison& comparison = *proto.mutable_comparison();
  CALIBD_ASSIGN_OR_RETURN(comparison,
                          kinds.has_value()
                              ? CompareNumbers(*kinds, model.rows, baseline.rows, pairs, control)
                              : CompareClasses(model.rows, baseline.rows, pairs, control));
  const bool paired = !pairs.model_rows.empty();
  comparison.set_paired(paired);
  const auto rows = [&](std::size_t all) {
    return static_cast<std::int64_t>(paired ? pairs.model_rows.size() : all);
  };
  comparison.set_observations(rows(n));
  comparison.set_baseline_observations(rows(baseline_n));
  comparison.set_repeated_looks_valid(model.first_observation == 1 &&
                                      baseline.first_observation == 1 && pairs.in_same_order());
  *proto.mutable_pairing() = Describe(pairs, n, baseline_n);
  proto.set_first_observation(model.first_observation);
  proto.set_baseline_first_observation(baseline.first_observation);
  *proto.mutable_compute_time() = ToTimestamp(model.compute_time);
  return absl::OkStatus();
}

}  // namespace

absl::Status Api::CompareModels(const v1::CompareModelsRequest& request,
                                const Reply<v1::CompareModelsResponse>& reply, NamedModel model) {
  const std::shared_ptr<const ModelDeclaration> declaration = model->declaration();
  CALIBD_RETURN_IF_ERROR(CheckCall(*declaration, WindowCall::kComparison));
  CALIBD_RETURN_IF_ERROR(
      CheckAccess(reply->context(), kCompareModels.right.role, "baseline", request.baseline()));
  CALIBD_ASSIGN_OR_RETURN(const std::shared_ptr<Model> baseline,
                          FindModel(parts_.registry, "baseline", request.baseline()));
  const std::shared_ptr<const ModelDeclaration> of_baseline = baseline->declaration();
  CALIBD_RETURN_IF_ERROR(CheckBaseline(*declaration, *of_baseline));
  const auto observations = static_cast<std::size_t>(request.window());
  CALIBD_RETURN_IF_ERROR(CheckWindow(*baseline, observations, "baseline"));
  std::optional<ComparedKinds> kinds;
  std::size_t least = 2;
  if (declaration->numbers() != nullptr) {
    kinds = {.model = declaration->numbers()->forecast,
             .baseline = of_baseline->numbers()->forecast};
    least = kLeastComparedForecasts;
  }
  CALIBD_RETURN_IF_ERROR(
      CountWindowRows(*baseline->snapshot(), observations, least, kBaselineWindow).status());
  const auto result = std::make_shared<v1::CompareModelsResponse>();
  WindowRequest job;
  job.model = model;
  job.observations = observations;
  job.min_observations = least;
  job.needs_bandwidth = false;
  job.remedy = "a smaller window";
  job.cost = [baseline, observations, width = declaration->row_width(),
              baseline_width = of_baseline->row_width(),
              features = of_baseline->feature_names.size()](std::size_t n,
                                                            std::size_t /*threads*/) {
    const std::size_t all = baseline->snapshot()->window.size();
    return CostOf(n, observations == 0 ? all : observations, std::max(width, baseline_width),
                  features);
  };
  job.compute = [baseline, observations, kinds, least, result](const WindowSample& sample,
                                                               const RunControl& control) {
    std::shared_ptr<const ModelSnapshot> snapshot = baseline->snapshot();
    CALIBD_ASSIGN_OR_RETURN(const std::size_t n,
                            CountWindowRows(*snapshot, observations, least, kBaselineWindow));
    return Compare(sample, ReadWindow(std::move(snapshot), n), kinds, control,
                   *result->mutable_comparison());
  };
  return SubmitWindowJob(parts_, std::move(job), reply, result);
}

}  // namespace calibd::server
