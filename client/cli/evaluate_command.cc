#include <memory>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "calibd/core/validation.h"
#include "command.h"
#include "fail_on.h"
#include "lens_option.h"
#include "offline_evaluation.h"
#include "prediction_file.h"
#include "progress_bar.h"

namespace calibd::cli {
namespace {

// Of the summary's tests together.
constexpr double kSummaryLevel = 0.05;

struct EvaluateOptions {
  InputOptions input;
  EvaluationOptions evaluation;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> lenses = {"top_label", "class_wise"};
  double row_sum_tolerance = kDefaultRowSumTolerance;
  FailOnOptions fail_on;
};

// Leaves the valid rows in `input` and returns how many it dropped.
std::size_t DropInvalidRows(Input& input, double row_sum_tolerance) {
  const std::size_t m = input.class_count;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < input.labels.size(); ++i) {
    const PredictionBatch all{input.values, input.labels, m};
    if (!FindViolations(all.rows(i, 1), row_sum_tolerance).empty()) continue;
    std::copy_n(input.values.begin() + static_cast<std::ptrdiff_t>(i * m), m,
                input.values.begin() + static_cast<std::ptrdiff_t>(kept * m));
    input.labels[kept++] = input.labels[i];
  }
  const std::size_t dropped = input.labels.size() - kept;
  input.values.resize(kept * m);
  input.labels.resize(kept);
  return dropped;
}

// Applies the softmax; a row that it cannot be applied to stays as it is, which
// is no valid row of probabilities.
absl::Status ApplySoftmax(Input& input, bool drop_invalid) {
  const std::size_t m = input.class_count;
  if (!drop_invalid) {
    const auto violations = SoftmaxRows(input.values, m);
    if (violations.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(DescribeViolations(violations));
  }
  const std::span<double> values(input.values);
  for (std::size_t i = 0; i < input.labels.size(); ++i) {
    if (!SoftmaxRows(values.subspan(i * m, m), m).empty()) input.labels[i] = -1;
  }
  return absl::OkStatus();
}

// Reads, checks and cleans. Returns the rows dropped.
absl::StatusOr<std::size_t> Load(const EvaluateOptions& options, Input& input) {
  auto read = ReadInput(options.input);
  if (!read.ok()) return read.status();
  input = *std::move(read);
  absl::Status status =
      options.input.logits ? ApplySoftmax(input, options.input.drop_invalid) : absl::OkStatus();
  std::size_t dropped = 0;
  if (options.input.drop_invalid) {
    dropped = DropInvalidRows(input, options.row_sum_tolerance);
  } else if (status.ok()) {
    status =
        ValidateBatch({input.values, input.labels, input.class_count}, options.row_sum_tolerance);
  }
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.input.predictions, ": ", std::string(status.message()),
                     " (rows are counted from 0; --drop-invalid leaves such rows out)"));
  }
  return dropped;
}

void PrintEvaluation(const Context& context, const Evaluation& evaluation, std::size_t dropped,
                     const std::optional<Decision>& decision) {
  const auto& provenance = evaluation.quadratic.provenance();
  const google::protobuf::RepeatedPtrField<v1::BlockEstimate> estimates(
      evaluation.estimates.begin(), evaluation.estimates.end());
  if (context.json()) {
    Json json;
    json["observations"] = provenance.observations();
    json["dropped_rows"] = dropped;
    json["quadratic"] = ToJson(evaluation.quadratic);
    json["lenses"] = Json::array();
    for (const auto& lens : evaluation.lenses) {
      Json lens_json = ToJson(lens);
      lens_json["provenance"] = ToJson(lens.provenance());
      json["lenses"].push_back(std::move(lens_json));
    }
    json["scores"] = ToJson(evaluation.scores);
    json["top_label_brier"] = ToJson(evaluation.top_label_brier);
    json["top_label_error"] = ToJson(evaluation.top_label_error);
    json["class_wise_error"] = ToJson(evaluation.class_wise_error);
    json["estimates"] = Json::array();
    for (const auto& estimate : estimates) json["estimates"].push_back(ToJson(estimate));
    json["provenance"] = ToJson(provenance);
    if (decision.has_value()) json["decision"] = ToJson(*decision);
    PrintJson(json);
    return;
  }
  Print(DescribeProvenance(provenance));
  if (dropped > 0) Print(absl::StrCat(dropped, " invalid rows were left out\n"));
  std::vector<v1::QuadraticTestResult> lenses = {evaluation.quadratic};
  lenses.insert(lenses.end(), evaluation.lenses.begin(), evaluation.lenses.end());
  Print("\n" + DescribeQuadratic(evaluation.quadratic) + "\n" + DescribeLenses(lenses) + "\n" +
        DescribeEstimates(estimates) + "\n" + DescribeScores(evaluation) + "\n" +
        Summarize(evaluation, kSummaryLevel));
  if (decision.has_value()) Print(decision->sentence);
}

ExitCode Run(const Context& context, EvaluateOptions& options) {
  if (const auto fault = FindUsageFault(options.input)) return UsageFault(*fault);
  if (const auto fault = FindUsageFault(options.fail_on, options.evaluation.replicates)) {
    return UsageFault(*fault);
  }
  for (const std::string& text : options.lenses) {
    const auto lens = ParseLens(text);
    if (!lens.ok()) return UsageFault(std::string(lens.status().message()));
    // Always there.
    if (lens->kind_case() != v1::Lens::kCanonical) options.evaluation.lenses.push_back(*lens);
  }
  Input input;
  const auto dropped = Load(options, input);
  if (!dropped.ok()) return Fail(dropped.status());
  if (input.labels.size() < 2) {
    return Fail(absl::FailedPreconditionError(
        absl::StrCat("not enough data: ", input.labels.size(), " valid observations, 2 needed")));
  }

  EvaluationOptions& evaluation_options = options.evaluation;
  evaluation_options.seed = options.seed.has_value() ? *options.seed : std::random_device{}();
  evaluation_options.stop = context.stop;
  std::string stage;
  std::optional<ProgressBar> bar;
  evaluation_options.on_progress = [&](const std::string& name, double fraction) {
    if (name != stage) bar.emplace(stage = name, "", 1);
    bar->Update(fraction);
  };
  const auto evaluation =
      EvaluateOffline({input.values, input.labels, input.class_count}, evaluation_options);
  bar.reset();
  if (!evaluation.ok()) return Fail(evaluation.status());
  std::optional<Decision> decision;
  if (options.fail_on.active()) decision = Decide(evaluation->quadratic, options.fail_on);
  PrintEvaluation(context, *evaluation, *dropped, decision);
  return decision.has_value() ? decision->exit_code() : ExitCode::kOk;
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, Context& context) {
  auto options = std::make_shared<EvaluateOptions>();
  EvaluationOptions& evaluation = options->evaluation;
  evaluation.threads = std::max(1U, std::thread::hardware_concurrency());
  CLI::App* const command = app.add_subcommand(
      "evaluate", "Estimate and test the calibration of predictions in files, without a server");
  command->footer(
      "Example: calibctl evaluate predictions.csv labels.csv --label-base 0\n"
      "The numbers equal those of a server that was sent the same rows in the same order with the "
      "same bandwidth.");
  AddInputOptions(*command, options->input);
  command
      ->add_option("--bandwidth", evaluation.bandwidth,
                   "nu of the kernel exp(-TV/nu); default: the median of all pairwise distances")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--block-sizes", evaluation.block_sizes,
                   "sizes of the block estimators, 2..1000; default 2,10,100")
      ->delimiter(',')
      ->check(CLI::Range(2, 1000));
  command
      ->add_option("--lens", options->lenses,
                   absl::StrCat("lenses beside the canonical one: ", kLensSyntax,
                                "; default top_label,class_wise"))
      ->delimiter(',');
  command
      ->add_option("--replicates", evaluation.replicates,
                   "bootstrap replicates, 99..100000, or 0 for no bootstrap test; default 1000")
      ->check(CLI::Range(99, 100000) | CLI::IsMember({0}));
  command->add_option("--seed", options->seed,
                      "seed of the bootstrap; default: random, and shown with the result");
  command
      ->add_option("--threads", evaluation.threads,
                   "threads to compute with; default: one for each processor. No number depends "
                   "on it")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--row-sum-tolerance", options->row_sum_tolerance,
                   "a row is valid when |sum - 1| is at most this; default 0.001")
      ->check(CLI::Range(1e-12, 0.1));
  AddFailOnOptions(*command, options->fail_on, "the p-value of the bootstrap test");
  command->callback([options, &context] { context.exit_code = Run(context, *options); });
}

}  // namespace calibd::cli
