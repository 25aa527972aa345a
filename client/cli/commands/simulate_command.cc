#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "calibd/core/generator.h"
#include "calibd/core/generator_closed_forms.h"
#include "calibd/core/validation.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/forecast_simulation.h"
#include "client/cli/commands/progress_bar.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/reports/stream_report.h"

namespace calibd::cli {
namespace {

using Clock = std::chrono::steady_clock;

// With a rate, rows are sent in bursts with this distance in time.
constexpr std::chrono::milliseconds kTick{50};
constexpr std::int64_t kMaxRowsPerSend = 1024;

struct SimulateOptions {
  std::string model;
  std::int64_t n = 0;
  double rate = 0;
  std::uint64_t seed = 0;
  // The next five are for models of classes.
  std::optional<std::string> generator;
  std::optional<std::int32_t> class_count;
  // The generator has values for those that are not set.
  std::vector<double> alpha;
  std::optional<double> pi;
  std::string beta;
  // These are for models that forecast a number.
  ForecastErrorOptions errors;

  [[nodiscard]] std::int32_t classes() const { return class_count.value_or(10); }
  // The first option for classes that is set, or empty.
  [[nodiscard]] std::string SetClassOption() const {
    if (generator.has_value()) return "--generator";
    if (class_count.has_value()) return "--classes";
    if (!alpha.empty()) return "--alpha";
    if (pi.has_value()) return "--pi";
    return beta.empty() ? "" : "--beta";
  }
};

// Parses "uniform", "class:K", or m probabilities.
absl::StatusOr<std::vector<double>> ParseBeta(const std::string& text, std::size_t m) {
  absl::Status error = absl::InvalidArgumentError(
      absl::StrCat("--beta is '", text, "', expected uniform, class:K with K in [0, ", m, "), or ",
                   m, " probabilities with commas between them"));
  if (text == "uniform") return std::vector<double>(m, 1 / static_cast<double>(m));
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "class:")) {
    std::uint32_t k = 0;
    if (!absl::SimpleAtoi(rest, &k) || k >= m) return error;
    std::vector<double> beta(m, 0);
    beta[k] = 1;
    return beta;
  }
  std::vector<double> beta;
  for (const absl::string_view part : absl::StrSplit(rest, ',')) {
    if (!absl::SimpleAtod(part, &beta.emplace_back())) return error;
  }
  if (beta.size() != m) return error;
  return beta;
}

absl::StatusOr<GeneratorSpec> MakeSpec(const SimulateOptions& options) {
  const auto m = static_cast<std::size_t>(options.classes());
  const std::string generator = options.generator.value_or("M1");
  GeneratorSpec spec = generator == "M2"   ? GeneratorSpec::M2(m)
                       : generator == "M3" ? GeneratorSpec::M3(m)
                                           : GeneratorSpec::M1(m);
  if (options.alpha.size() == 1) {
    spec.alpha.assign(m, options.alpha.front());
  } else if (!options.alpha.empty()) {
    spec.alpha = options.alpha;
  }
  if (options.pi.has_value()) spec.pi = *options.pi;
  if (!options.beta.empty()) {
    CALIBD_ASSIGN_OR_RETURN(std::vector<double> beta, ParseBeta(options.beta, m));
    spec.beta = std::move(beta);
  }
  return spec;
}

// Exact properties of the generator, which calibd estimates.
SimulatedTruth TruthOf(const GeneratorSpec& spec) {
  SimulatedTruth truth;
  const absl::StatusOr<double> error = ExpectedCalibrationError(spec);
  if (error.ok()) truth.set_expected_calibration_error(*error);
  const absl::StatusOr<double> variation = MeanTotalVariation(spec.alpha);
  if (variation.ok()) truth.set_mean_total_variation(*variation);
  return truth;
}

// Empty if there is no closed form.
std::string TruthText(const SimulatedTruth& truth) {
  if (!truth.has_expected_calibration_error() || !truth.has_mean_total_variation()) return "";
  const double error = truth.expected_calibration_error();
  return absl::StrFormat(
      "The generator's expected calibration error by total variation is %.3g%s; the total "
      "variation between two of its predictions is %.3g on average.\n",
      error, error == 0 ? " (calibrated)" : "", truth.mean_total_variation());
}

absl::StatusOr<v1::Model> EnsureModel(client::Client& client, const std::string& name,
                                      std::int32_t class_count) {
  v1::Model model;
  model.set_name(name);
  model.mutable_classes()->set_count(class_count);
  CALIBD_ASSIGN_OR_RETURN(v1::Model existing, GetOrCreateModel(client, model));
  if (existing.classes().count() == class_count) return existing;
  return absl::FailedPreconditionError(absl::StrCat(name, " has ", existing.classes().count(),
                                                    " classes, the generator ", class_count,
                                                    ": set --classes"));
}

// Warns if the model may already have the same rows: a second run with the same seed sends the same
// rows. They have no ids, so the server counts them as new observations.
void TellRepetition(const std::string& name, std::int64_t observations_before,
                    const v1::GetCalibrationResponse& after) {
  for (const std::string& warning : after.warnings()) {
    std::cerr << "calibctl: warning: " << warning << '\n';
  }
  if (observations_before > 0 && !after.warnings().empty()) {
    std::cerr
        << "calibctl: " << name << " had " << observations_before
        << " observations before this run. A run with the same generator and --seed sends the "
           "same rows, and they count twice: use another --seed or a new model\n";
  }
}

// Puts the prediction of the baseline behind each row: the distribution from which its label was
// drawn, which is calibrated.
std::vector<double> WithBaseline(const std::vector<double>& predictions,
                                 const GeneratorSpec& spec) {
  const std::size_t m = spec.beta.size();
  std::vector<double> both;
  both.reserve(2 * predictions.size());
  for (std::size_t first = 0; first < predictions.size(); first += m) {
    const auto row = std::span(predictions).subspan(first, m);
    both.insert(both.end(), row.begin(), row.end());
    for (std::size_t k = 0; k < m; ++k) {
      both.push_back((1 - spec.pi) * row[k] + spec.pi * spec.beta[k]);
    }
  }
  return both;
}

// send: draws and sends a number of rows.
absl::Status SendAll(const Context& context, const SimulateOptions& options,
                     const std::function<absl::Status(std::size_t)>& send, ReportedStream& stream) {
  ProgressBar bar("simulating", "rows", static_cast<double>(options.n));
  const Clock::time_point started = Clock::now();
  for (std::int64_t sent = 0; sent < options.n;) {
    std::int64_t due = options.n;
    if (options.rate > 0) {
      const std::chrono::duration<double> elapsed = Clock::now() - started;
      due = std::min(due, static_cast<std::int64_t>(elapsed.count() * options.rate));
    }
    if (due <= sent) {
      if (!WaitUnlessStopped(kTick, context.stop)) {
        return absl::CancelledError("the stream was cancelled");
      }
      continue;
    }
    const std::int64_t count = std::min(due - sent, kMaxRowsPerSend);
    absl::Status status = send(static_cast<std::size_t>(count));
    // With a rate, rows are sent at once, even if a batch is not full.
    if (status.ok() && options.rate > 0) status = stream.stream().Flush();
    if (!status.ok()) return status;
    sent += count;
    bar.Update(static_cast<double>(sent));
    stream.TellRejected();
  }
  return absl::OkStatus();
}

// Streams rows of the model and prints the exact properties of their generator. send: draws and
// sends a number of rows to `stream`.
absl::StatusOr<ExitCode> Simulate(const Context& context, const SimulateOptions& options,
                                  client::Client& client, const std::string& name,
                                  ReportedStream& stream,
                                  const std::function<absl::Status(std::size_t)>& send,
                                  const SimulatedTruth& truth, const std::string& truth_text) {
  CALIBD_ASSIGN_OR_RETURN(const auto before, client.GetCalibration(name));
  const ExitCode code = stream.Finish(context, SendAll(context, options, send, stream),
                                      {{"generator", ToJson(truth)}});
  if (code != ExitCode::kOk) return code;
  if (!context.json()) Print(truth_text);
  CALIBD_ASSIGN_OR_RETURN(const auto after, client.GetCalibration(name));
  TellRepetition(name, before.observations(), after);
  return code;
}

absl::StatusOr<ExitCode> RunForecasts(const Context& context, const SimulateOptions& options,
                                      client::Client& client, const v1::Model& model) {
  const ForecastGeneratorSpec spec = ForecastSpec(model.forecast(), options.errors);
  CALIBD_ASSIGN_OR_RETURN(ForecastGenerator generator,
                          OrUsageFault(ForecastGenerator::Create(spec, options.seed)));
  CALIBD_ASSIGN_OR_RETURN(
      auto stream, ReportedStream::Open(context, client, model.name(), {}, StreamContent::kRows));
  const auto send = [&](std::size_t count) {
    std::vector<double> forecasts;
    std::vector<double> outcomes;
    generator.Draw(count, forecasts, outcomes);
    return stream.stream().SendForecasts(forecasts, outcomes);
  };
  return Simulate(context, options, client, model.name(), stream, send,
                  ForecastTruth(spec, options.n), ForecastTruthText(spec));
}

absl::StatusOr<ExitCode> RunClasses(const Context& context, const SimulateOptions& options,
                                    client::Client& client, const std::string& name) {
  CALIBD_ASSIGN_OR_RETURN(const GeneratorSpec spec, OrUsageFault(MakeSpec(options)));
  CALIBD_ASSIGN_OR_RETURN(Generator generator, OrUsageFault(Generator::Create(spec, options.seed)));
  CALIBD_ASSIGN_OR_RETURN(const v1::Model model, EnsureModel(client, name, options.classes()));
  const bool with_baseline = !model.classes().baseline().empty();
  CALIBD_ASSIGN_OR_RETURN(
      auto stream, ReportedStream::Open(context, client, name, {.with_baseline = with_baseline},
                                        StreamContent::kRows));
  const auto send = [&](std::size_t count) {
    PredictionSet set;
    generator.Draw(count, set);
    if (with_baseline) set.probabilities = WithBaseline(set.probabilities, spec);
    return stream.stream().Send(client::PredictionKind::kProbabilities, set.probabilities,
                                set.labels);
  };
  const SimulatedTruth truth = TruthOf(spec);
  return Simulate(context, options, client, name, stream, send, truth, TruthText(truth));
}

absl::StatusOr<ExitCode> Run(const Context& context, const SimulateOptions& options) {
  const std::string for_classes = options.SetClassOption();
  const std::string for_forecasts = options.errors.SetOption();
  if (!for_classes.empty() && !for_forecasts.empty()) {
    return UsageFault(absl::StrCat(for_classes, " is for models of classes, ", for_forecasts,
                                   " for models that forecast a number"));
  }
  // A wrong value is told without a server.
  CALIBD_ASSIGN_OR_RETURN(const GeneratorSpec spec, OrUsageFault(MakeSpec(options)));
  CALIBD_RETURN_IF_ERROR(OrUsageFault(Generator::Create(spec, options.seed)).status());
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  const std::string name = ModelArgument(options.model);
  const absl::StatusOr<v1::Model> model = client->GetModel(name);
  if (!model.ok() && !absl::IsNotFound(model.status())) return model.status();
  if (model.ok() && !model->feature_names().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " declares features, which simulated ",
                     model->has_forecast() ? "forecasts" : "predictions",
                     " do not have: use a model without --feature-names"));
  }
  if (model.ok() && model->has_labels()) {
    return UsageFault(absl::StrCat(name,
                                   " predicts several labels, which cannot be simulated: use "
                                   "a model of classes or of a number"));
  }
  if (model.ok() && model->has_forecast()) {
    if (for_classes.empty()) return RunForecasts(context, options, *client, *model);
    return UsageFault(
        absl::StrCat(for_classes, " is for models of classes, and ", name, " forecasts a number"));
  }
  if (for_forecasts.empty()) {
    SimulateOptions of_model = options;
    if (model.ok() && !options.class_count.has_value()) {
      of_model.class_count = model->classes().count();
    }
    return RunClasses(context, of_model, *client, name);
  }
  return UsageFault(absl::StrCat(
      for_forecasts, " is for models that forecast a number, and ", name,
      model.ok() ? " predicts classes"
                 : absl::StrCat(" does not exist: create it first, with `calibctl model create ",
                                options.model, " --forecast normal`")));
}

void AddForecastErrorOptions(CLI::App& command, ForecastErrorOptions& errors) {
  command.add_option("--shift", errors.shift,
                     "forecasts of a number: how much higher outcomes are than forecast, in "
                     "standard deviations of the forecast; default 0");
  command.add_option("--scale", errors.scale,
                     "forecasts of a number: how many times as wide as forecast outcomes are; "
                     "default 1. Above 1, the forecasts are too narrow");
  command
      .add_option("--drift-at", errors.drift_at,
                  "forecasts of a number: the first row of this run with these errors, from 1; "
                  "default 1. The rows before it are calibrated")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000'000}));
}

}  // namespace

void AddSimulateCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<SimulateOptions>(
      app, context, "simulate",
      "Stream simulated predictions whose calibration is known, to try calibd", Run);
  command->footer(
      "A prediction is drawn from Dirichlet(alpha); its label from beta with probability pi, else "
      "from the prediction itself. M1: pi = 0 (calibrated); M2: pi = 0.5, always the first class; "
      "M3: pi = 1, uniform; alpha = 0.1 for every class.\n"
      "The model is created with default settings if it does not exist. If it declares a baseline, "
      "the baseline predicts the distribution from which the label is drawn, and is calibrated.\n"
      "To a model that was created with --forecast, forecasts are sent: Normal with a mean from "
      "N(0, 1) and a standard deviation exp(0.35 N(0, 1)), stated as the model declares. In units "
      "in which the forecast has 0 and 1, outcomes are Normal with the mean --shift and the "
      "standard deviation --scale.\n"
      "Examples: calibctl simulate demo --generator M2 --n 5000\n"
      "          calibctl simulate skewed --classes 3 --alpha 1,2,5 --pi 0.1 --beta class:2 "
      "--n 5000\n"
      "          calibctl simulate demand --n 30000 --scale 1.5 --drift-at 20001");
  AddModelArgument(*command, options->model);
  command
      ->add_option(
          "--generator", options->generator,
          "M1 (calibrated; the default), M2 or M3 (both miscalibrated); --alpha, --pi and --beta "
          "change it")
      ->check(CLI::IsMember({"M1", "M2", "M3"}));
  command
      ->add_option("--alpha", options->alpha,
                   "concentration of the predictions: one number > 0, or one per class")
      ->delimiter(',');
  command->add_option("--pi", options->pi, "share of labels that ignore the prediction, in [0, 1]")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option(
      "--beta", options->beta,
      "distribution of those labels: uniform, class:K (from 0), or one probability per "
      "class, separated by commas");
  command->add_option("--n", options->n, "number of predictions")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000'000}));
  command
      ->add_option("--rate", options->rate,
                   "predictions per second; default 0: as fast as possible")
      ->check(CLI::Range(0.0, 1e9));
  command
      ->add_option("--seed", options->seed,
                   "seed of the generator; default 0. The same seed sends the same rows, which "
                   "a model counts again")
      ->check(SeedRange());
  command
      ->add_option("--classes", options->class_count,
                   "number of classes; default: those of the model, or 10 for a new one")
      ->check(CLI::Range(static_cast<int>(kMinClassCount), static_cast<int>(kMaxClassCount)));
  AddForecastErrorOptions(*command, options->errors);
}

}  // namespace calibd::cli
