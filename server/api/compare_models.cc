#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/convert/comparison.h"
#include "calibd/core/comparison.h"
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
absl::Status CheckBaseline(const Model& model, const Model& baseline) {
  const std::shared_ptr<const ModelDeclaration> declaration = model.declaration();
  const std::shared_ptr<const ModelDeclaration> other = baseline.declaration();
  const std::string name = other->name.ToString();
  const ClassesSpec& of_model = *declaration->classes();
  const ClassesSpec& of_baseline = *other->classes();
  if (model.id() == baseline.id()) {
    return InvalidFieldError("baseline", absl::StrCat("is ", name, ", expected another model"));
  }
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

// features: of the baseline. Those of the model are counted with its observations.
JobCost CostOf(std::size_t n, std::size_t baseline_n, std::size_t m, std::size_t features) {
  // The baseline's rows, and the paired rows of the baseline in the order of the model.
  const std::size_t copied = baseline_n + std::min(n, baseline_n);
  // Two scores, the id hash, the table of hashes and the indices of the pairs.
  constexpr std::size_t kBytesPerRow = 80;
  // A logarithm and the bin of the top label take as long as some 50 multiplications.
  return {.memory_bytes = static_cast<double>(copied * (m * sizeof(double) + sizeof(std::int32_t)) +
                                              (n + baseline_n) * kBytesPerRow +
                                              // ReadWindow copies the features and groups.
                                              baseline_n * (features + 1) * sizeof(double)),
          .operations = static_cast<double>((n + baseline_n) * (2 * m + 50))};
}

WindowPairs PairSamples(const WindowSample& model, const WindowSample& baseline) {
  const auto hashes = [](const WindowSample& sample) {
    return sample.snapshot->window.CopyNewestIdHashes(sample.rows.truths.size());
  };
  const std::vector<std::uint64_t> of_model = hashes(model);
  const std::vector<std::uint64_t> of_baseline = hashes(baseline);
  return FindPairs({.id_hashes = of_model, .labels = model.rows.truths.labels},
                   {.id_hashes = of_baseline, .labels = baseline.rows.truths.labels});
}

PredictionSet CopyRows(const PredictionBatch& batch, const std::vector<std::uint32_t>& rows) {
  PredictionSet set;
  set.class_count = batch.class_count;
  set.probabilities.reserve(rows.size() * batch.class_count);
  set.labels.reserve(rows.size());
  for (const std::uint32_t row : rows) {
    const auto values = batch.row(row);
    set.probabilities.insert(set.probabilities.end(), values.begin(), values.end());
    set.labels.push_back(batch.labels[row]);
  }
  return set;
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

absl::Status Compare(const WindowSample& model, const WindowSample& baseline,
                     const RunControl& control, v1::ModelComparison& proto) {
  const PredictionBatch of_model = model.rows.view().classes();
  const PredictionBatch of_baseline = baseline.rows.view().classes();
  const WindowPairs pairs = PairSamples(model, baseline);
  CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
  control.progress(0.5);
  const bool paired = !pairs.model_rows.empty();
  absl::StatusOr<Comparison> compared = absl::UnknownError("");
  if (paired) {
    const PredictionSet model_rows = CopyRows(of_model, pairs.model_rows);
    const PredictionSet baseline_rows = CopyRows(of_baseline, pairs.baseline_rows);
    CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    compared = ComparePaired(model_rows.view(), baseline_rows.view());
  } else {
    compared = CompareUnpaired(of_model, of_baseline);
  }
  if (!compared.ok()) return compared.status();
  v1::Comparison& comparison = *proto.mutable_comparison();
  comparison = convert::ToProto(*compared);
  comparison.set_paired(paired);
  const auto rows = [&](const PredictionBatch& all) {
    return static_cast<std::int64_t>(paired ? pairs.model_rows.size() : all.size());
  };
  comparison.set_observations(rows(of_model));
  comparison.set_baseline_observations(rows(of_baseline));
  comparison.set_repeated_looks_valid(model.first_observation == 1 &&
                                      baseline.first_observation == 1 && pairs.in_same_order());
  *proto.mutable_pairing() = Describe(pairs, of_model.size(), of_baseline.size());
  proto.set_first_observation(model.first_observation);
  proto.set_baseline_first_observation(baseline.first_observation);
  *proto.mutable_compute_time() = ToTimestamp(model.compute_time);
  return absl::OkStatus();
}

}  // namespace

absl::Status Api::CompareModels(const v1::CompareModelsRequest& request,
                                const Reply<v1::CompareModelsResponse>& reply, NamedModel model) {
  CALIBD_RETURN_IF_ERROR(CheckCall(*model->declaration(), WindowCall::kComparison));
  CALIBD_RETURN_IF_ERROR(CheckWindow(request.window()));
  CALIBD_ASSIGN_OR_RETURN(const std::shared_ptr<Model> baseline,
                          FindModel(parts_.registry, "baseline", request.baseline()));
  CALIBD_RETURN_IF_ERROR(CheckCall(*baseline->declaration(), WindowCall::kComparison));
  CALIBD_RETURN_IF_ERROR(CheckBaseline(*model, *baseline));
  const auto observations = static_cast<std::size_t>(request.window());
  CALIBD_RETURN_IF_ERROR(CheckWindow(*baseline, observations, "baseline"));
  CALIBD_RETURN_IF_ERROR(
      CountWindowRows(*baseline->snapshot(), observations, 2, kBaselineWindow).status());
  const auto result = std::make_shared<v1::CompareModelsResponse>();
  WindowRequest job;
  job.model = model;
  job.observations = observations;
  job.needs_bandwidth = false;
  job.remedy = "a smaller window";
  job.cost = [baseline, observations, class_count = model->declaration()->class_count()](
                 std::size_t n, std::size_t /*threads*/) {
    const std::size_t all = baseline->snapshot()->window.size();
    return CostOf(n, observations == 0 ? all : observations, class_count,
                  baseline->declaration()->feature_names.size());
  };
  job.compute = [baseline, observations, result](const WindowSample& sample,
                                                 const RunControl& control) {
    std::shared_ptr<const ModelSnapshot> snapshot = baseline->snapshot();
    CALIBD_ASSIGN_OR_RETURN(const std::size_t n,
                            CountWindowRows(*snapshot, observations, 2, kBaselineWindow));
    return Compare(sample, ReadWindow(std::move(snapshot), n), control,
                   *result->mutable_comparison());
  };
  return SubmitWindowJob(parts_.jobs, std::move(job), reply, result);
}

}  // namespace calibd::server
