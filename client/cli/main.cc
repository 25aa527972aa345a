#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <thread>

#include "client/cli/commands/command.h"

namespace {

constexpr char kFooter[] =
    "Exit codes: 0 success; 1 error; 2 wrong usage; 3 --fail-on failed.\n"
    "--output json prints the messages of the API in the JSON of HTTP.\n"
    "Statuses have colours on a terminal, unless the environment variable NO_COLOR is set.\n"
    "\n"
    "Start with:\n"
    "  calibctl evaluate predictions.csv labels.csv --label-base 0      (no server needed)\n"
    "  calibctl model create resnet18 --classes 10\n"
    "  calibctl send resnet18 predictions.csv labels.csv --label-base 0\n"
    "  calibctl show resnet18\n"
    "  calibctl watch resnet18\n"
    "  calibctl test resnet18\n"
    "`calibctl help COMMAND` documents each command.";

// Converts the first SIGINT or SIGTERM to a stop request; the second one ends the process. Call it
// once, before any thread starts: all threads inherit the blocked signals.
std::stop_token StopOnInterrupt() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::stop_source source;
  // Runs until the process ends, and owns everything that it uses.
  std::thread([signals, source]() mutable {
    int signal = 0;
    sigwait(&signals, &signal);
    source.request_stop();
    sigwait(&signals, &signal);
    std::_Exit(128 + signal);
  }).detach();
  return source.get_token();
}

int Run(int argc, char** argv) {
  using calibd::cli::Context;
  using calibd::cli::ExitCode;

  // calibctl explains why a connection fails; lines of gRPC before would hide it.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  Context context;
  context.stop = StopOnInterrupt();

  CLI::App app("calibctl tells whether predicted probabilities and forecasts can be trusted.",
               "calibctl");
  app.set_version_flag("--version", std::string("calibctl ") + CALIBD_VERSION);
  app.formatter(calibd::cli::MakeHelpFormatter());
  RequireCommand(app, context);
  // Global options such as --server may follow the command.
  app.fallthrough();
  app.add_option("--server", context.server, "HOST:PORT of calibd; default 127.0.0.1:8460")
      ->envname("CALIBD_SERVER");
  app.add_option("--tls-ca", context.tls.ca, "file with the CAs of the server in PEM; turns on TLS")
      ->envname("CALIBD_CLIENT_TLS_CA");
  app.add_option("--tls-certificate", context.tls.certificate,
                 "file with the certificate of this client in PEM, if the server wants one")
      ->envname("CALIBD_CLIENT_TLS_CERTIFICATE");
  app.add_option("--tls-key", context.tls.key, "file with the key of --tls-certificate in PEM")
      ->envname("CALIBD_CLIENT_TLS_KEY");
  app.add_option("--tls-server-name", context.tls.server_name,
                 "name in the certificate of the server; default: the host of --server")
      ->envname("CALIBD_CLIENT_TLS_SERVER_NAME");
  app.add_option("--token-file", context.token_file,
                 "file with the token for calibd, if it asks for one")
      ->envname("CALIBD_TOKEN_FILE")
      ->check(CLI::ExistingFile);
  app.add_option("--output", context.output, "table (for people) or json; default table")
      ->check(CLI::IsMember({"table", "json"}));
  app.add_option("--timeout", context.timeout_seconds,
                 "seconds to wait for a response; default 30, for `test` 600, for `backup` and "
                 "`verify` 3600")
      ->check(CLI::Range(0.001, 1e6));
  AddModelCommand(app, context);
  AddSendCommand(app, context);
  AddLabelCommand(app, context);
  AddShowCommand(app, context);
  AddWatchCommand(app, context);
  AddVerdictCommands(app, context);
  AddHistoryCommand(app, context);
  AddReportCommand(app, context);
  AddTestCommand(app, context);
  AddEvaluateCommand(app, context);
  AddEvaluateForecastsCommand(app, context);
  AddEvaluateLabelsCommand(app, context);
  AddRecalibrateCommand(app, context);
  AddLossCommand(app, context);
  AddEstimateCommand(app, context);
  AddCompareCommand(app, context);
  AddSimulateCommand(app, context);
  AddStoreCommands(app, context);
  AddTokenCommand(app, context);
  AddHelpCommands(app, context);
  // Commands that are added later inherit the footer.
  app.footer(kFooter);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    std::cerr << "calibctl: " << calibd::cli::DescribeExtras(app)
              << "\nRun with --help for more information.\n";
    return static_cast<int>(ExitCode::kUsage);
  } catch (const CLI::ParseError& error) {
    // Help and version are not errors; everything else is wrong usage.
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk)
                                : static_cast<int>(ExitCode::kUsage);
  }
  if (!std::cout.flush()) {
    std::cerr << "calibctl: cannot write the result to standard output\n";
    return static_cast<int>(ExitCode::kError);
  }
  return static_cast<int>(context.exit_code);
}

}  // namespace

int main(int argc, char** argv) {
  // Catches unexpected exceptions only, e.g. for a file that is larger than the memory.
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "calibctl: %s\n", error.what());
  } catch (...) {
    std::fputs("calibctl: unknown error\n", stderr);
  }
  return static_cast<int>(calibd::cli::ExitCode::kError);
}
