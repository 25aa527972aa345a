#ifndef CALIBD_CLIENT_CLI_COMMANDS_COMMAND_H_
#define CALIBD_CLIENT_CLI_COMMANDS_COMMAND_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/client/client.h"
#include "calibd/client/tls.h"
#include "calibd/core/status_macros.h"
#include "client/cli/commands/progress_bar.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {

// Exit codes of calibctl. Scripts rely on the numbers.
enum class ExitCode : int {
  kOk = 0,
  kError = 1,
  kUsage = 2,
  // --fail-on failed.
  kFailOn = 3,
};

// State shared by all commands. Exists for the whole run.
struct Context {
  std::string server = "127.0.0.1:8460";
  client::TlsOptions tls;
  std::string output = "table";
  // Empty: see ClientOptions::token.
  std::string token_file;
  std::optional<double> timeout_seconds;
  // Stopped by Ctrl-C.
  std::stop_token stop;
  // Set by the command that ran.
  ExitCode exit_code = ExitCode::kOk;

  [[nodiscard]] bool json() const { return output == "json"; }
  // Returns --timeout, or the command's own default.
  [[nodiscard]] std::chrono::milliseconds Timeout(std::chrono::milliseconds otherwise) const;
};

inline constexpr std::chrono::seconds kCallTimeout{30};
inline constexpr std::chrono::minutes kTestTimeout{10};
inline constexpr std::chrono::hours kStoreTimeout{1};

// Adds a command with its options to the program.
void AddModelCommand(CLI::App& app, Context& context);
void AddSendCommand(CLI::App& app, Context& context);
void AddLabelCommand(CLI::App& app, Context& context);
void AddShowCommand(CLI::App& app, Context& context);
void AddHistoryCommand(CLI::App& app, Context& context);
void AddReportCommand(CLI::App& app, Context& context);
void AddTestCommand(CLI::App& app, Context& context);
void AddEvaluateCommand(CLI::App& app, Context& context);
void AddEvaluateForecastsCommand(CLI::App& app, Context& context);
void AddEvaluateLabelsCommand(CLI::App& app, Context& context);
void AddRecalibrateCommand(CLI::App& app, Context& context);
void AddLossCommand(CLI::App& app, Context& context);
void AddEstimateCommand(CLI::App& app, Context& context);
void AddCompareCommand(CLI::App& app, Context& context);
void AddSimulateCommand(CLI::App& app, Context& context);
void AddStoreCommands(CLI::App& app, Context& context);
void AddTokenCommand(CLI::App& app, Context& context);
// Add it last: it describes the other commands.
void AddHelpCommands(CLI::App& app, Context& context);
void AddVerdictCommands(CLI::App& app, Context& context);
void AddWatchCommand(CLI::App& app, Context& context);

[[nodiscard]] absl::StatusOr<std::unique_ptr<client::Client>> ConnectTo(const Context& context);

// Makes a long call and shows its progress. label: names the task. timeout: the command's own.
// call(options): makes the call and returns its result.
template <typename Call>
[[nodiscard]] auto CallWithProgress(const Context& context, const char* label,
                                    std::chrono::milliseconds timeout, const Call& call) {
  ProgressBar bar(label, "", 1);
  return call(client::LongCallOptions{.on_progress = [&bar](double done) { bar.Update(done); },
                                      .stop = context.stop,
                                      .timeout = context.Timeout(timeout)});
}

// Converts "NAME" or "NAME@VERSION" of the command line to the name of the model on the server.
[[nodiscard]] std::string ModelArgument(std::string_view argument);

// The reverse.
using convert::ShortName;

// The acceptable error that the model declares. otherwise: that of a model without monitoring.
[[nodiscard]] double ErrorLimitOf(const v1::Model& model, double otherwise);

// Returns the model; creates it with default settings if it does not exist.
[[nodiscard]] absl::StatusOr<v1::Model> GetOrCreateModel(client::Client& client,
                                                         const v1::Model& model);

// Waits for a time. False if a stop was requested before its end.
bool WaitUnlessStopped(std::chrono::milliseconds time, const std::stop_token& stop);

// Work on the rows of a file, of which a part can be done first to measure the time.
struct RowWork {
  std::size_t rows = 0;
  // A rough number of seconds for the first `rows` rows. Only ratios matter for the result.
  std::function<double(std::size_t rows)> seconds;
  // Does the work on the first `rows` rows, and returns how many seconds that took; unset if it is
  // not possible with so few rows, or was cancelled.
  std::function<std::optional<double>(std::size_t rows)> measure;
  // How many times as long the whole work takes as what `seconds` and `measure` say about all rows,
  // if they are about a part of it also with all rows, such as fewer replicates.
  double scale = 1;
};
// The seconds that all rows take, extrapolated from a part of the rows that takes at least 0.2 s.
// Unset if the work is short by the rough number, or cannot be measured.
[[nodiscard]] std::optional<double> ExtrapolateSeconds(const RowWork& work);
// Runs body() and returns its seconds; unset unless it returns true.
[[nodiscard]] std::optional<double> SecondsOf(const std::function<bool()>& body);
// Announces work that takes at least 10 seconds on standard error, before it begins. remedy: what
// makes it faster, besides fewer rows.
void TellDuration(const RowWork& work, std::string_view remedy);

// Prints to standard output. JSON ends with a newline.
void PrintJson(const Json& json);
void Print(std::string_view text);

// Prints "calibctl: ..." to standard error and returns the exit code: kUsage for a UsageFault, else
// kError.
[[nodiscard]] ExitCode Fail(const absl::Status& status);

// Returns the error of a command that was used wrongly.
[[nodiscard]] absl::Status UsageFault(std::string_view fault);
// Returns the value, or its error as a usage fault. prefix: names the option, such as "--from: ".
template <typename T>
[[nodiscard]] absl::StatusOr<T> OrUsageFault(absl::StatusOr<T> value, const char* prefix = "") {
  if (value.ok()) return value;
  return UsageFault(prefix + std::string(value.status().message()));
}

// Converts a percentage such as 2% to a probability, and checks that it is in [min, max]. For
// Option::transform.
[[nodiscard]] CLI::Validator ProbabilityRange(double min, double max);

// Refuses what is not a whole number in 0..2^64 - 1, such as -1, which CLI11 would convert.
[[nodiscard]] CLI::Validator SeedRange();

// Requires one of the parent's commands. Without one, prints the help as for wrong usage.
void RequireCommand(CLI::App& parent, Context& context);

// Lists the options that an option needs or excludes by name. CLI11 lists them in the order of
// their addresses, which differs between runs.
[[nodiscard]] std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter();

// Says which arguments were not expected, and which command or option was meant by an unknown one.
[[nodiscard]] std::string DescribeExtras(const CLI::App& app);
// Says that `name` is no command of `parent`, and which one was meant.
[[nodiscard]] std::string DescribeUnknown(std::string_view name, const CLI::App& parent);

// Makes `run` the action of the command. run: returns the exit code, or the error for Fail.
void SetRun(CLI::App& command, Context& context, std::function<absl::StatusOr<ExitCode>()> run);

// Adds a command that runs with the returned options, which it owns.
template <typename Options>
std::pair<CLI::App*, Options*> AddCommand(CLI::App& app, Context& context, const char* name,
                                          const char* description,
                                          absl::StatusOr<ExitCode> (*run)(const Context& context,
                                                                          const Options& options)) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand(name, description);
  SetRun(*command, context, [run, &context, options] { return run(context, *options); });
  return {command, options.get()};
}

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_COMMAND_H_
