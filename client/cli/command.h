#ifndef CALIBD_CLI_COMMAND_H_
#define CALIBD_CLI_COMMAND_H_

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/client/client.h"
#include "report.h"

namespace calibd::cli {

class ProgressBar;

// Exit codes of calibctl. Scripts rely on the numbers.
enum class ExitCode : int {
  kOk = 0,
  kError = 1,
  kUsage = 2,
  // --fail-on found what it looks for.
  kMiscalibrated = 3,
};

// State shared by all commands. Lives as long as the run.
struct Context {
  std::string server = "127.0.0.1:8460";
  std::string output = "table";
  std::optional<double> timeout_seconds;
  // Stopped by Ctrl-C.
  std::stop_token stop;
  // Set by the command that ran.
  ExitCode exit_code = ExitCode::kOk;

  [[nodiscard]] bool json() const { return output == "json"; }
  // --timeout, or the command's own default.
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
void AddTestCommand(CLI::App& app, Context& context);
void AddEvaluateCommand(CLI::App& app, Context& context);
void AddSimulateCommand(CLI::App& app, Context& context);
void AddStoreCommands(CLI::App& app, Context& context);
void AddVerdictCommands(CLI::App& app, Context& context);
void AddWatchCommand(CLI::App& app, Context& context);

[[nodiscard]] absl::StatusOr<std::unique_ptr<client::Client>> ConnectTo(const Context& context);

// Options of a long call whose progress the bar, with a total of 1, shows, with the command's own
// timeout.
[[nodiscard]] client::LongCallOptions LongCall(const Context& context,
                                               std::chrono::milliseconds timeout, ProgressBar& bar);

// "NAME" or "NAME@VERSION" as the user writes a model, to the name that the
// server knows.
[[nodiscard]] std::string ModelArgument(std::string_view argument);

// Prints to standard output. JSON ends with a newline.
void PrintJson(const Json& json);
void Print(std::string_view text);

// Prints "calibctl: ..." to standard error and returns the code.
[[nodiscard]] ExitCode Fail(const absl::Status& status);
[[nodiscard]] ExitCode UsageFault(std::string_view fault);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_COMMAND_H_
