#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "calibd/core/generator.h"
#include "calibd/core/validation.h"
#include "command.h"
#include "progress_bar.h"
#include "stream_report.h"

namespace calibd::cli {
namespace {

using Clock = std::chrono::steady_clock;

// With a rate, rows go out in bursts this far apart.
constexpr std::chrono::milliseconds kTick{50};
constexpr std::int64_t kMaxRowsPerSend = 1024;

struct SimulateOptions {
  std::string model;
  std::string generator;
  std::int64_t n = 0;
  double rate = 0;
  std::uint64_t seed = 0;
  std::int32_t class_count = 10;
};

absl::StatusOr<Generator> MakeGenerator(const SimulateOptions& options) {
  const auto m = static_cast<std::size_t>(options.class_count);
  GeneratorSpec spec = options.generator == "M1"   ? GeneratorSpec::M1(m)
                       : options.generator == "M2" ? GeneratorSpec::M2(m)
                                                   : GeneratorSpec::M3(m);
  return Generator::Create(std::move(spec), options.seed);
}

absl::Status EnsureModel(client::Client& client, const std::string& name,
                         std::int32_t class_count) {
  v1::Model model;
  model.set_name(name);
  model.set_class_count(class_count);
  auto existing = client.GetModel(name);
  if (absl::IsNotFound(existing.status())) existing = client.CreateModel(model);
  if (!existing.ok()) return existing.status();
  if (existing->class_count() == class_count) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(name, " has ", existing->class_count(),
                                                    " classes, the generator ", class_count,
                                                    ": say --classes"));
}

absl::Status SendAll(const Context& context, const SimulateOptions& options, Generator& generator,
                     ReportedStream& stream) {
  ProgressBar bar("simulating", "rows", static_cast<double>(options.n));
  // Nobody notifies: waits end by their time or by the stop.
  std::mutex mutex;
  std::condition_variable_any waiting;
  std::unique_lock lock(mutex);
  const Clock::time_point started = Clock::now();
  for (std::int64_t sent = 0; sent < options.n;) {
    std::int64_t due = options.n;
    if (options.rate > 0) {
      const std::chrono::duration<double> elapsed = Clock::now() - started;
      due = std::min(due, static_cast<std::int64_t>(elapsed.count() * options.rate));
    }
    if (due <= sent) {
      waiting.wait_for(lock, context.stop, kTick, [] { return false; });
      if (context.stop.stop_requested()) return absl::CancelledError("the stream was cancelled");
      continue;
    }
    PredictionSet set;
    const std::int64_t count = std::min(due - sent, kMaxRowsPerSend);
    generator.Draw(static_cast<std::size_t>(count), set);
    absl::Status status =
        stream.stream().Send(client::PredictionKind::kProbabilities, set.probabilities, set.labels);
    // At a chosen rate nothing waits for a batch to fill up.
    if (status.ok() && options.rate > 0) status = stream.stream().Flush();
    if (!status.ok()) return status;
    sent += count;
    bar.Update(static_cast<double>(sent));
    stream.TellRejected();
  }
  return absl::OkStatus();
}

ExitCode Run(const Context& context, const SimulateOptions& options) {
  auto generator = MakeGenerator(options);
  if (!generator.ok()) return Fail(generator.status());
  const auto client = ConnectTo(context);
  if (!client.ok()) return Fail(client.status());
  const std::string name = ModelArgument(options.model);
  if (absl::Status status = EnsureModel(**client, name, options.class_count); !status.ok()) {
    return Fail(status);
  }
  auto stream = ReportedStream::Open(context, **client, name, {});
  if (!stream.ok()) return Fail(stream.status());
  return stream->Finish(context, SendAll(context, options, *generator, *stream));
}

}  // namespace

void AddSimulateCommand(CLI::App& app, Context& context) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* const command = app.add_subcommand(
      "simulate", "Stream made-up predictions whose calibration is known, to try calibd out");
  command->footer(
      "Predictions are drawn from Dir(0.1, ..., 0.1). Labels: M1 from the prediction itself "
      "(calibrated); M2 half of them from it, half always the first class; M3 uniformly.\n"
      "The model is created with default settings if there is none.\n"
      "Example: calibctl simulate demo --generator M2 --n 5000");
  command->add_option("MODEL", options->model, "name, or NAME@VERSION")->required();
  command->add_option("--generator", options->generator, "M1 (calibrated), M2 or M3 (not)")
      ->required()
      ->check(CLI::IsMember({"M1", "M2", "M3"}));
  command->add_option("--n", options->n, "number of predictions")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000'000}));
  command
      ->add_option("--rate", options->rate, "predictions a second; default 0: as fast as it goes")
      ->check(CLI::Range(0.0, 1e9));
  command->add_option("--seed", options->seed, "seed of the generator; default 0");
  command->add_option("--classes", options->class_count, "number of classes; default 10")
      ->check(CLI::Range(static_cast<int>(kMinClassCount), static_cast<int>(kMaxClassCount)));
  command->callback([options, &context] { context.exit_code = Run(context, *options); });
}

}  // namespace calibd::cli
