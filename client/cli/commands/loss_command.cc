#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "calibd/convert/loss.h"
#include "calibd/convert/text.h"
#include "calibd/core/calibration_loss.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/outcome_kernel_option.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/files/forecast_file.h"
#include "client/cli/files/prediction_file.h"
#include "client/cli/reports/report.h"
#include "client/offline/threads.h"
#include "google/protobuf/text_format.h"

namespace calibd::cli {
namespace {

// Limits the memory of a loss, as the server's --test-memory-bytes does.
constexpr double kMaxMemoryBytes = 4e9;

struct LossCommandOptions {
  InputOptions input;
  // If one is set, the file of Normal forecasts, samples or quantiles; else `input` has predictions
  // of classes.
  std::string normals;
  std::string samples;
  std::string quantiles;
  // The levels of the quantiles.
  std::vector<double> levels;
  std::string penalty = "mmd";
  // If it is empty, canonical or distribution, or top_label for MMCE.
  std::string form;
  // If it is empty, the form chooses it.
  std::string outcome_kernel;
  std::string kernel = "total_variation";
  std::optional<double> bandwidth;
  std::optional<double> gamma;
  // The form threshold needs it.
  std::optional<double> threshold;
  double threshold_alpha = 0.5;
  bool biased = false;
  std::optional<double> penalty_weight;
  // Where the gradient is written; empty: nowhere.
  std::string gradient_path;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  // The options that only predictions of classes have.
  std::vector<const CLI::Option*> of_classes;
};

// A form of calibration of numbers: its outcome kernels, the first of which is the default, and
// what it is conditioned on.
enum class NumberCondition { kForecast, kNone, kFeatures, kGroups, kThreshold };
struct NumberForm {
  const char* name;
  std::vector<std::string> kernels;
  NumberCondition condition;
};
const std::vector<NumberForm>& NumberForms() {
  static const std::vector<std::string> any = {"rbf",       "energy", "pit_rbf", "pit_min",
                                               "threshold", "tanh",   "moments"};
  static const std::vector<NumberForm> forms = {
      {"distribution", {"rbf", "energy"}, NumberCondition::kForecast},
      {"marginal", {"rbf", "energy"}, NumberCondition::kNone},
      {"quantile", {"pit_rbf", "pit_min"}, NumberCondition::kNone},
      {"threshold", {"pit_rbf", "pit_min"}, NumberCondition::kThreshold},
      {"decision", {"threshold", "tanh", "moments"}, NumberCondition::kNone},
      {"group", any, NumberCondition::kGroups},
      {"individual", any, NumberCondition::kFeatures},
      {"local", any, NumberCondition::kFeatures}};
  return forms;
}

// Sets the kind of the condition; its values follow from the file. Errors: a usage fault.
absl::Status SetNumberCondition(const NumberForm& form, const LossCommandOptions& options,
                                LossOptions& loss) {
  const NumberCondition condition = form.condition;
  const bool has_gamma =
      condition == NumberCondition::kForecast || condition == NumberCondition::kFeatures;
  if (!has_gamma && options.gamma.has_value()) {
    return UsageFault(absl::StrCat(
        "--gamma is for --form distribution, individual and local, not for ", form.name));
  }
  const std::pair<const char*, bool> needed[] = {
      {condition == NumberCondition::kFeatures ? "--feature-column" : "",
       options.input.columns.features.empty()},
      {condition == NumberCondition::kGroups ? "--group-column" : "",
       options.input.columns.group.empty()},
      {condition == NumberCondition::kThreshold ? "--threshold" : "",
       !options.threshold.has_value()}};
  for (const auto& [option, is_missing] : needed) {
    if (*option == '\0' || !is_missing) continue;
    return UsageFault(absl::StrCat("--form ", form.name, " needs ", option));
  }
  if (options.threshold.has_value() && condition != NumberCondition::kThreshold) {
    return UsageFault(absl::StrCat("--threshold is for --form threshold, not for ", form.name));
  }
  switch (condition) {
    case NumberCondition::kForecast:
      loss.condition = ForecastCondition{.bandwidth = {}, .gamma = options.gamma};
      break;
    case NumberCondition::kNone:
      loss.condition = NoCondition();
      break;
    case NumberCondition::kFeatures:
      loss.condition = FeatureCondition{{}, options.gamma};
      break;
    case NumberCondition::kGroups:
    case NumberCondition::kThreshold:
      loss.condition = GroupCondition();
      break;
  }
  return absl::OkStatus();
}

absl::Status SetNumberForm(const LossCommandOptions& options, LossOptions& loss) {
  const std::string name = options.form.empty() ? "distribution" : options.form;
  const auto form = std::find_if(NumberForms().begin(), NumberForms().end(),
                                 [&](const NumberForm& one) { return one.name == name; });
  if (form == NumberForms().end()) {
    return UsageFault(absl::StrCat(
        "--form is ", name,
        ", expected distribution, marginal, quantile, threshold, decision, group, individual or "
        "local for forecasts of a number"));
  }
  if (!options.quantiles.empty()) {
    if (name == "marginal" || name == "decision" || !options.outcome_kernel.empty()) {
      return UsageFault(
          "--quantiles are compared at their levels: leave out --outcome-kernel, and choose --form "
          "distribution, quantile, threshold, group, individual or local");
    }
    const std::vector<double>& levels = options.levels;
    if (options.threshold.has_value() &&
        std::ranges::find(levels, options.threshold_alpha) == levels.end()) {
      return UsageFault(absl::StrCat("--threshold-alpha is ", options.threshold_alpha,
                                     ", expected one of --levels for --quantiles"));
    }
    loss.outcome_kernel = LevelsKernel{levels};
    return SetNumberCondition(*form, options, loss);
  }
  if (name == "decision" && options.outcome_kernel.empty()) {
    return UsageFault(
        "--form decision needs --outcome-kernel threshold:C, tanh:C:WIDTH or moments:CENTER:SCALE");
  }
  const std::string text =
      options.outcome_kernel.empty() ? form->kernels.front() : options.outcome_kernel;
  if (std::find(form->kernels.begin(), form->kernels.end(), text.substr(0, text.find(':'))) ==
      form->kernels.end()) {
    return UsageFault(absl::StrCat("--outcome-kernel is '", text, "', expected one of ",
                                   absl::StrJoin(form->kernels, ", "), " for --form ", name));
  }
  CALIBD_ASSIGN_OR_RETURN(loss.outcome_kernel, ParseOutcomeKernel(text));
  return SetNumberCondition(*form, options, loss);
}

// Gives the condition the columns of the file, or the sides of the threshold.
void FillCondition(const NumberForecasts& forecasts, const LossCommandOptions& options,
                   LossOptions& loss) {
  if (auto* const features = std::get_if<FeatureCondition>(&loss.condition)) {
    features->values = forecasts.covariates.features;
  }
  auto* const groups = std::get_if<GroupCondition>(&loss.condition);
  if (groups == nullptr) return;
  groups->groups = forecasts.covariates.groups;
  if (!options.threshold.has_value()) return;
  *groups = ThresholdCondition(forecasts.view(), *options.threshold, options.threshold_alpha,
                               options.levels);
}

// The file of forecasts of a number, and their kind. Errors: a usage fault.
absl::StatusOr<std::pair<std::string, NumberForecastKind>> ChooseNumbers(
    const LossCommandOptions& options) {
  const std::pair<const char*, const std::string&> files[] = {{"--normals", options.normals},
                                                              {"--samples", options.samples},
                                                              {"--quantiles", options.quantiles}};
  if (std::ranges::count_if(files, [](const auto& file) { return !file.second.empty(); }) > 1) {
    return UsageFault("give one of --normals, --samples and --quantiles");
  }
  const auto& [name, path] =
      *std::ranges::find_if(files, [](const auto& file) { return !file.second.empty(); });
  for (const CLI::Option* const option : options.of_classes) {
    if (option->count() == 0) continue;
    return UsageFault(absl::StrCat(name, " excludes ", option->get_name()));
  }
  if (!options.normals.empty()) return std::pair(path, NormalForecasts());
  if (!options.samples.empty()) return std::pair(path, SampleForecasts());
  QuantileForecasts kind{options.levels};
  if (const absl::Status status = CheckForecastKind(kind); !status.ok()) {
    return UsageFault("--levels: " + std::string(status.message()));
  }
  return std::pair(path, std::move(kind));
}

constexpr Penalty kPenalties[] = {Penalty::kMmd, Penalty::kMmce, Penalty::kWeightedMmce,
                                  Penalty::kKernelDensityL1, Penalty::kKernelDensityL2};
const char* DescribePenalty(Penalty penalty) {
  switch (penalty) {
    case Penalty::kMmd:
      break;
    case Penalty::kMmce:
      return "maximum mean calibration error (MMCE)";
    case Penalty::kWeightedMmce:
      return "maximum mean calibration error (MMCE), correct and wrong rows weighted alike";
    case Penalty::kKernelDensityL1:
      return "absolute calibration error (ECE-KDE, p = 1)";
    case Penalty::kKernelDensityL2:
      return "squared calibration error (ECE-KDE, p = 2)";
  }
  return "squared discrepancy (MMD^2)";
}

absl::Status SetClassForm(const LossCommandOptions& options, LossOptions& loss) {
  for (const Penalty penalty : kPenalties) {
    if (options.penalty == PenaltyName(penalty)) loss.penalty = penalty;
  }
  if (options.form == "top_label" || (options.form.empty() && IsMmce(loss.penalty))) {
    loss.lens = Lens::TopLabel();
  } else if (options.form == "marginal") {
    loss.lens = Lens::ClassWise();
  } else if (!options.form.empty() && options.form != "canonical") {
    return UsageFault(absl::StrCat("--form is ", options.form,
                                   ", expected canonical, top_label or marginal for classes"));
  }
  constexpr std::pair<const char*, Distance> kDistances[] = {
      {"total_variation", Distance::kTotalVariation},
      {"cityblock", Distance::kCityblock},
      {"euclidean", Distance::kEuclidean},
      {"gaussian", Distance::kSquaredEuclidean}};
  if (options.gamma.has_value()) {
    return UsageFault(
        "--gamma is for forecasts of a number; predictions of classes have --bandwidth");
  }
  ForecastCondition condition{.bandwidth = options.bandwidth, .gamma = {}};
  for (const auto& [name, distance] : kDistances) {
    if (options.kernel == name) condition.distance = distance;
  }
  loss.condition = condition;
  if (options.outcome_kernel.empty()) return absl::OkStatus();
  CALIBD_ASSIGN_OR_RETURN(loss.outcome_kernel, ParseOutcomeKernel(options.outcome_kernel));
  return absl::OkStatus();
}

// Writes a matrix of doubles, row-major, as NumPy's format 1.0.
absl::Status WriteNpy(const std::string& path, std::span<const double> values, std::size_t width) {
  static_assert(std::endian::native == std::endian::little);
  std::string header =
      absl::StrFormat("{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }",
                      values.size() / width, width);
  // The data begin at a multiple of 64 bytes, after 10 bytes and the header with its line end.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size() % 256)
       << static_cast<char>(header.size() / 256) << header;
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
  if (file.close(); !file) return absl::UnknownError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

// The set fields of a message, such as "rbf, gamma 0.5". Chosen parameters have three digits, which
// are enough to judge them.
std::string DescribeFields(const google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  std::vector<std::string> parts;
  for (const google::protobuf::FieldDescriptor* const field : fields) {
    if (field->message_type() != nullptr) {
      parts.push_back(field->name());
      const std::string own = DescribeFields(reflection.GetMessage(message, field));
      if (!own.empty()) parts.push_back(own);
      continue;
    }
    const bool chosen = field->name() == "gamma" || field->name() == "bandwidth";
    std::vector<std::string> values(
        static_cast<std::size_t>(field->is_repeated() ? reflection.FieldSize(message, field) : 1));
    for (std::size_t i = 0; i < values.size(); ++i) {
      google::protobuf::TextFormat::PrintFieldValueToString(
          message, field, field->is_repeated() ? static_cast<int>(i) : -1, &values[i]);
    }
    parts.push_back(absl::StrCat(field->name(), " ",
                                 chosen ? Number(reflection.GetDouble(message, field))
                                        : absl::AsciiStrToLower(absl::StrJoin(values, " "))));
  }
  return absl::StrJoin(parts, ", ");
}

std::string Describe(const ForecastBatch& batch, const LossOptions& options,
                     const v1::CalibrationLoss& loss) {
  std::string text =
      absl::StrFormat("loss %.6g over %s\n", loss.value(), convert::CountText(batch.size(), "row"));
  if (loss.has_negative_log_likelihood()) {
    absl::StrAppendFormat(&text, "  negative log likelihood %.6g\n",
                          loss.negative_log_likelihood());
  }
  absl::StrAppendFormat(&text, "  %s %.6g", DescribePenalty(options.penalty), loss.penalty_value());
  text += options.penalty != Penalty::kMmd ? "\n" : options.biased ? ", biased\n" : ", unbiased\n";
  if (loss.has_outcome_kernel()) {
    absl::StrAppend(&text, "  outcome kernel: ", DescribeFields(loss.outcome_kernel()), "\n");
  }
  absl::StrAppend(&text, "  condition: ", DescribeFields(loss.condition()));
  const v1::Condition::Forecast& forecast = loss.condition().forecast();
  const bool has_scale = forecast.has_gamma() || forecast.has_bandwidth();
  if (loss.condition().has_forecast() && !has_scale) {
    text += ", without effect because all forecasts are equal";
  }
  return text + "\n";
}

// Names the options that set the fields of an error.
absl::Status WithOptionNames(const absl::Status& status) {
  const std::string message = absl::StrReplaceAll(
      status.message(), {{"outcome_kernel.rbf.gamma", "--outcome-kernel rbf:GAMMA"},
                         {"outcome_kernel.", "--outcome-kernel "},
                         {"outcome_kernel ", "--outcome-kernel "},
                         {"condition.forecast.", "--"},
                         {"condition.features.", "--"},
                         {"penalty_weight", "--penalty-weight"},
                         {"the penalty", "--penalty"},
                         {"lens is", "--form is"},
                         {"biased is", "--biased is"}});
  return {status.code(), message};
}

absl::StatusOr<ExitCode> ComputeAndReport(const Context& context, const LossCommandOptions& options,
                                          const ForecastBatch& batch, const LossOptions& loss,
                                          const FileChanges& changes) {
  if (const absl::Status status = CheckLossOptions(batch, loss); !status.ok()) {
    return UsageFault(std::string(WithOptionNames(status).message()));
  }
  if (const double bytes = LossMemory(batch, loss); bytes > kMaxMemoryBytes) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%d rows need %.1f GB of memory, at most %.0f GB are used: give fewer rows",
                        batch.size(), bytes / 1e9, kMaxMemoryBytes / 1e9));
  }
  const RunControl control = offline::ControlOf(options.threads, context.stop, nullptr);
  const absl::StatusOr<CalibrationLoss> result = ComputeLoss(batch, loss, control);
  if (!result.ok()) return WithOptionNames(result.status());
  const CalibrationLoss& computed = *result;
  if (!options.gradient_path.empty()) {
    CALIBD_RETURN_IF_ERROR(WriteNpy(options.gradient_path, computed.gradient, batch.width));
  }
  const v1::CalibrationLoss proto = convert::ToProto(computed);
  if (context.json()) {
    Json json = ToJson(proto);
    if (options.input.columns.drop_invalid || changes.rounded_probabilities > 0) {
      json["fileRows"] = ToJson(ToProto(changes));
    }
    PrintJson(json);
  } else {
    Print(Describe(batch, loss, proto));
    Print(Describe(changes));
  }
  return ExitCode::kOk;
}

// Leaves out the rows with a logit that is not finite, or without a valid label.
void DropInvalidLogits(Input& input) {
  const std::span<const double> logits(input.values);
  DropInvalidRows(
      [&](std::size_t row) {
        return input.labels[row] >= 0 &&
               std::ranges::all_of(logits.subspan(row * input.class_count, input.class_count),
                                   [](double logit) { return std::isfinite(logit); });
      },
      input);
  input.labels = ClassesOf(input.truths);
}

absl::StatusOr<ExitCode> Run(const Context& context, const LossCommandOptions& options) {
  LossOptions loss;
  loss.biased = options.biased;
  loss.penalty_weight = options.penalty_weight;
  loss.gradient = !options.gradient_path.empty();
  if (!options.normals.empty() || !options.samples.empty() || !options.quantiles.empty()) {
    CALIBD_ASSIGN_OR_RETURN(auto chosen, ChooseNumbers(options));
    CALIBD_RETURN_IF_ERROR(SetNumberForm(options, loss));
    InputOptions input;
    input.predictions = chosen.first;
    input.columns = options.input.columns;
    CALIBD_ASSIGN_OR_RETURN(const NumberForecasts forecasts,
                            ReadNumberForecasts(input, std::move(chosen.second)));
    FillCondition(forecasts, options, loss);
    return ComputeAndReport(context, options, forecasts.view(), loss, forecasts.changes);
  }
  if (options.threshold.has_value() || !options.input.columns.features.empty()) {
    return UsageFault("--threshold and --feature-column need --normals, --samples or --quantiles");
  }
  if (const auto fault = FindUsageFault(options.input)) {
    return UsageFault(absl::StrCat(*fault, ", or use --normals, --samples or --quantiles"));
  }
  CALIBD_RETURN_IF_ERROR(SetClassForm(options, loss));
  Input input;
  // The loss of logits is that of their exact softmax, whose gradient refers to the logits.
  if (options.input.logits) {
    CALIBD_ASSIGN_OR_RETURN(input, ReadInput(options.input));
    TellNotes(input, false);
    if (options.input.columns.drop_invalid) DropInvalidLogits(input);
  } else {
    CALIBD_ASSIGN_OR_RETURN(input, ReadObservations(options.input, 0));
  }
  const ForecastBatch batch{
      options.input.logits ? ForecastKind::kLogits : ForecastKind::kProbabilities,
      input.values,
      input.class_count,
      input.labels,
      {}};
  if (const auto violations = FindViolations(batch); !violations.empty()) {
    return DescribeFaults(input, violations);
  }
  return ComputeAndReport(context, options, batch, loss, input.changes);
}

}  // namespace

void AddLossCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<LossCommandOptions>(
      app, context, "loss",
      "Compute the calibration loss of forecasts in a file and its gradient, as training code does "
      "(no server needed)",
      Run);
  command->footer(
      "Examples: calibctl loss predictions.csv labels.csv --label-base 0\n"
      "          calibctl loss logits.npy labels.npy --logits --penalty-weight 100 --gradient "
      "g.npy\n"
      "          calibctl loss logits.npy labels.npy --logits --penalty weighted_mmce --gradient "
      "g.npy\n"
      "          calibctl loss --normals demand.csv --form quantile\n"
      "          calibctl loss --normals demand.csv --form decision --outcome-kernel tanh:20:5\n"
      "Normal forecasts have the columns mean, standard_deviation and outcome; samples have a "
      "column for each draw, and then the outcome.");
  AddInputOptions(*command, options->input);
  const std::vector<CLI::Option*> of_classes =
      command->get_options([help = command->get_help_ptr()](const CLI::Option* option) {
        return option != help &&
               std::ranges::find(kTableOptions, option->get_name()) == std::end(kTableOptions);
      });
  command->add_option(
      "--normals", options->normals,
      "CSV, JSON Lines or NPY file of Normal forecasts of a number, instead of PREDICTIONS");
  command->add_option("--samples", options->samples,
                      "the same for samples: 2..1000 draws from each forecast");
  auto* const quantiles = command->add_option(
      "--quantiles", options->quantiles,
      "the same for quantiles, in the order of --levels; the loss has no gradient");
  command
      ->add_option("--levels", options->levels,
                   "levels of the quantiles, increasing, between 0 and 1, such as 0.1,0.5,0.9")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(quantiles);
  command->add_option("--form", options->form,
                      "form of calibration: canonical (default), top_label or marginal of classes; "
                      "distribution (default), marginal, quantile, threshold, decision, group, "
                      "individual or local of numbers; samples have no quantile and no threshold");
  command
      ->add_option("--feature-column", options->input.columns.features,
                   "columns with the features of --form individual or local, in units in which "
                   "their distances can be compared; may be repeated, or list several: a,b")
      ->delimiter(',')
      ->allow_extra_args(false);
  auto* const threshold = command->add_option(
      "--threshold", options->threshold,
      "with --form threshold: divide the forecasts by whether their probability "
      "of an outcome up to this is at most --threshold-alpha");
  command
      ->add_option("--threshold-alpha", options->threshold_alpha,
                   "this probability; default 0.5; for quantiles one of the levels")
      ->transform(ProbabilityRange(1e-9, 1 - 1e-9))
      ->needs(threshold);
  command->add_option(
      "--outcome-kernel", options->outcome_kernel,
      absl::StrCat("kernel of the outcomes: ", kOutcomeKernelHelp,
                   "; default: rbf, or pit_rbf for --form quantile; for classes only rbf:GAMMA, "
                   "default: whether the classes are equal"));
  auto* const kernel =
      command
          ->add_option(
              "--kernel", options->kernel,
              "kernel of the predictions of classes: total_variation (default), cityblock, "
              "euclidean or gaussian")
          ->check(CLI::IsMember({"total_variation", "cityblock", "euclidean", "gaussian"}));
  auto* const bandwidth = command->add_option(
      "--bandwidth", options->bandwidth,
      "its bandwidth, > 0; default: the median, or 0.4 (gaussian 0.16) for one probability; of a "
      "kernel density the likeliest");
  command->add_option(
      "--gamma", options->gamma,
      "gamma of the kernel of the forecasts or features of a number, > 0; default: by the "
      "median of their distances");
  auto* const penalty =
      command
          ->add_option("--penalty", options->penalty,
                       "what is measured, of classes: mmd (default), mmce or weighted_mmce of the "
                       "largest probability, kernel_density_l1 or kernel_density_l2 (ECE-KDE)")
          ->check(CLI::IsMember(
              {"mmd", "mmce", "weighted_mmce", "kernel_density_l1", "kernel_density_l2"}));
  command->add_flag("--biased", options->biased,
                    "average over all pairs of rows, instead of the pairs of different rows");
  command->add_option("--penalty-weight", options->penalty_weight,
                      "add this times the penalty to the mean negative log likelihood");
  command->add_option("--gradient", options->gradient_path,
                      "write the gradient to this file (NPY), in the shape of the forecasts");
  AddThreadsOption(*command, options->threads);
  options->of_classes.assign(of_classes.begin(), of_classes.end());
  options->of_classes.insert(options->of_classes.end(), {kernel, bandwidth, penalty});
}

}  // namespace calibd::cli
