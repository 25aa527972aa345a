#include <algorithm>
#include <functional>
#include <iostream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/terminal.h"
#include "client/cli/commands/time_option.h"
#include "client/cli/output.pb.h"
#include "client/cli/reports/color.h"
#include "client/cli/reports/list_report.h"
#include "client/cli/reports/reading_report.h"
#include "client/cli/reports/verdict_report.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {
namespace {

using google::protobuf::util::TimeUtil;
using ModelVerdict = v1::ListVerdictsResponse::ModelVerdict;

constexpr std::int64_t kShortestMs = 100;
constexpr std::int64_t kLongestMs = 3'600'000;

struct WatchCommandOptions {
  std::string model;
  std::string interval = "1s";
};

std::string TimeNow() {
  google::protobuf::Timestamp now = TimeUtil::GetCurrentTime();
  now.set_nanos(0);
  return TimeUtil::ToString(now);
}

// The output of a watch: a redrawn screen on a terminal, otherwise one line for each change.
class WatchView {
 public:
  WatchView(const Context& context, bool of_one_model)
      : json_(context.json()),
        server_(context.server),
        screen_(!json_ && StandardOutputSize().has_value()),
        has_colors_(!json_ && HasColors()),
        has_titles_(of_one_model) {}
  // Moves the cursor below the screen.
  ~WatchView() {
    if (drawn_) std::cout << std::endl;
  }
  WatchView(const WatchView&) = delete;
  WatchView& operator=(const WatchView&) = delete;

  [[nodiscard]] bool json() const { return json_; }
  [[nodiscard]] bool screen() const { return screen_; }

  void ShowLine(const std::string& line) {
    std::cout << (json_ ? "" : TimeNow() + " ") << (has_colors_ ? PaintStatuses(line) : line)
              << std::endl;
  }

  // Draws the text, which describe(width) makes for the terminal as it is now.
  void ShowScreen(const std::function<std::string(std::size_t width)>& describe) {
    text_ = describe(StandardOutputSize().value_or(TerminalSize()).columns);
    Draw();
  }

  // status: the error that ended the connection, or OK when the connection is restored.
  void TellConnection(const absl::Status& status) {
    connection_ = status.ok() ? ""
                              : absl::StrCat("LOST ", server_, ": ", status.message(),
                                             "; it is asked again until it is back");
    if (screen_) {
      Draw();
    } else {
      std::cerr << TimeNow()
                << " calibctl: " << (status.ok() ? absl::StrCat(server_, " is back") : connection_)
                << std::endl;
    }
  }

 private:
  void Draw() {
    const TerminalSize size = StandardOutputSize().value_or(TerminalSize());
    std::string page = FitScreen(
        text_, (connection_.empty() ? "as of " + TimeNow() : connection_) + "; Ctrl-C ends",
        size.columns, size.lines);
    if (has_colors_) page = has_titles_ ? PaintReading(page) : PaintStatuses(page);
    // Overwrites the old screen instead of clearing it, to avoid flicker.
    std::cout << (drawn_ ? "\x1b[H" : "\x1b[2J\x1b[H")
              << absl::StrReplaceAll(page, {{"\n", "\x1b[K\r\n"}}) << "\x1b[K\x1b[J" << std::flush;
    drawn_ = true;
  }

  const bool json_;
  const std::string server_;
  const bool screen_;
  const bool has_colors_;
  // The screen shows one model.
  const bool has_titles_;
  bool drawn_ = false;
  std::string text_;
  // The reason why the connection was lost; empty while connected.
  std::string connection_;
};

absl::StatusOr<ExitCode> WatchModel(const Context& context, const std::string& model,
                                    std::chrono::milliseconds interval) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  WatchView view(context, /*of_one_model=*/true);
  client::WatchOptions options;
  options.min_interval = interval;
  options.stop = context.stop;
  options.on_connection = [&view](const absl::Status& status) { view.TellConnection(status); };
  const absl::Status status = client->Watch(
      model,
      [&view](const v1::WatchCalibrationResponse& change) {
        if (view.json()) {
          view.ShowLine(ToJsonText(change));
        } else if (view.screen()) {
          view.ShowScreen([&change](std::size_t width) {
            return DescribeShow(change.calibration(), std::min(width, kReadingWidth));
          });
        } else {
          view.ShowLine(ChangeLine(change.calibration()));
        }
        return static_cast<bool>(std::cout);
      },
      options);
  // The status is OK if the output was closed, which main reports.
  const bool stopped = absl::IsCancelled(status) && context.stop.stop_requested();
  if (!status.ok() && !stopped) return status;
  return ExitCode::kOk;
}

// Shows the changes of all models since `shown`, and updates `shown`.
void ShowChanges(const v1::ListVerdictsResponse& verdicts,
                 std::map<std::string, std::string>& shown, WatchView& view) {
  std::map<std::string, std::string> now;
  for (const ModelVerdict& one : verdicts.models()) {
    now[one.model()] = one.SerializeAsString();
    const auto before = shown.find(one.model());
    if (before != shown.end() && before->second == now[one.model()]) continue;
    view.ShowLine(view.json() ? ToJsonText(one) : ChangeLine(one));
  }
  for (const auto& [model, state] : shown) {
    if (now.find(model) != now.end()) continue;
    DeletedModel deletion;
    deletion.set_deleted(model);
    view.ShowLine(view.json() ? ToJsonText(deletion) : model + " is deleted");
  }
  shown = std::move(now);
}

absl::StatusOr<ExitCode> WatchAll(const Context& context, std::chrono::milliseconds interval) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  WatchView view(context, /*of_one_model=*/false);
  std::map<std::string, std::string> shown;
  bool lost = false;
  do {
    const auto verdicts = client->ListVerdicts();
    if (context.stop.stop_requested()) break;
    if (!verdicts.ok()) {
      if (!absl::IsUnavailable(verdicts.status()) && !absl::IsDeadlineExceeded(verdicts.status())) {
        return verdicts.status();
      }
      if (!lost) view.TellConnection(verdicts.status());
      lost = true;
      continue;
    }
    if (lost) view.TellConnection(absl::OkStatus());
    lost = false;
    if (view.screen()) {
      constexpr double kDefaultRate = 0.05;
      view.ShowScreen([&verdicts](std::size_t width) {
        return DescribeVerdictsWithin(width, *verdicts, kDefaultRate);
      });
    } else {
      ShowChanges(*verdicts, shown, view);
    }
  } while (std::cout && WaitUnlessStopped(interval, context.stop));
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Run(const Context& context, const WatchCommandOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const auto interval,
                          OrUsageFault(ParseDuration(options.interval), "--interval: "));
  const std::int64_t milliseconds = TimeUtil::DurationToMilliseconds(interval);
  if (milliseconds < kShortestMs || milliseconds > kLongestMs) {
    return UsageFault(absl::StrCat("--interval is ", options.interval, ", expected 0.1s to 1h"));
  }
  return options.model.empty() ? WatchAll(context, std::chrono::milliseconds(milliseconds))
                               : WatchModel(context, ModelArgument(options.model),
                                            std::chrono::milliseconds(milliseconds));
}

}  // namespace

void AddWatchCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<WatchCommandOptions>(
      app, context, "watch", "Show the state of a model, or of all models, and every change", Run);
  command->footer(
      "On a terminal the screen is redrawn at each change. Otherwise each change is a line; with "
      "--output json it is an object on one line.\n"
      "Ctrl-C ends the command. If the connection is lost, the command waits for the server.\n"
      "Example: calibctl watch resnet18");
  command->add_option("MODEL", options->model, "name, or NAME@VERSION; default: all models");
  command->add_option(
      "--interval", options->interval,
      "shortest time between two updates: a number and a unit, 0.1s to 1h; default 1s");
}

}  // namespace calibd::cli
