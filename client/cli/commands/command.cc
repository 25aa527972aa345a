#include "client/cli/commands/command.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

// These headers define what CLI11's other headers declare, for the whole library.
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "calibd/client/token.h"
#include "calibd/core/status_macros.h"
#include "client/cli/commands/http_probe.h"

namespace calibd::cli {
namespace {

// Marks usage faults.
constexpr char kUsageFaultUrl[] = "calibctl/usage-fault";

// Prefixes for the status codes whose messages need one.
std::string_view Prefix(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
      return "unavailable: ";
    case absl::StatusCode::kDeadlineExceeded:
      return "timeout: ";
    case absl::StatusCode::kInternal:
      return "internal error: ";
    case absl::StatusCode::kNotFound:
      return "not found: ";
    case absl::StatusCode::kAlreadyExists:
      return "already exists: ";
    default:
      return "";
  }
}

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = Formatter::make_option_opts(option);
    SortNames(option->get_needs(), text);
    SortNames(option->get_excludes(), text);
    return text;
  }

 private:
  // The text ends with the names, or they are before those of another list.
  static void SortNames(const std::set<CLI::Option*>& options, std::string& text) {
    if (options.size() < 2) return;
    std::vector<std::string> names;
    names.reserve(options.size());
    for (const CLI::Option* const option : options) names.push_back(option->get_name());
    const std::string listed = absl::StrJoin(names, " ");
    std::ranges::sort(names);
    text.replace(text.rfind(listed), listed.size(), absl::StrJoin(names, " "));
  }
};

// The least number of characters to insert, delete or replace (Levenshtein).
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

// The name that is meant by a misspelt one, at most two characters away; unset if none is.
std::optional<std::string> ClosestTo(std::string_view name, std::span<const std::string> names) {
  const auto meant = std::ranges::min_element(
      names, {}, [name](const std::string& known) { return EditDistance(name, known); });
  if (meant == names.end() || EditDistance(name, *meant) > 2) return std::nullopt;
  return *meant;
}

std::vector<std::string> CommandNames(const CLI::App& parent) {
  std::vector<std::string> names;
  for (const CLI::App* const command :
       parent.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// Finds options of numbers with an empty value, such as that of an unset variable of a script.
// CLI11 takes it for 0.
absl::Status CheckNumbers(const CLI::App& command) {
  for (const CLI::Option* const option : command.get_options()) {
    const std::string type = option->get_type_name();
    const bool is_number =
        type.starts_with("FLOAT") || type.starts_with("INT") || type.starts_with("UINT");
    if (is_number && std::ranges::find(option->results(), "") != option->results().end()) {
      return UsageFault(absl::StrCat(option->get_name(), " is empty, expected a number"));
    }
  }
  return absl::OkStatus();
}

// The token of a file. It is read for each call, so that it can be renewed; that of a pipe, which
// can be read once, is kept. Errors: a usage fault if there is none.
absl::StatusOr<std::function<std::string()>> ReadToken(const std::string& path) {
  const std::function<std::string()> source = client::TokenOfFile(path);
  std::string token = source();
  if (token.empty()) {
    return UsageFault(
        absl::StrCat("the token file ", path,
                     " (--token-file or CALIBD_TOKEN_FILE) cannot be read, is empty, "
                     "or begins with something else than a token of printable ASCII"));
  }
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return source;
  return [token = std::move(token)] { return token; };
}

}  // namespace

std::chrono::milliseconds Context::Timeout(std::chrono::milliseconds otherwise) const {
  if (!timeout_seconds.has_value()) return otherwise;
  return std::chrono::milliseconds(static_cast<std::int64_t>(*timeout_seconds * 1000));
}

absl::StatusOr<std::unique_ptr<client::Client>> ConnectTo(const Context& context) {
  if (context.server.find("://") != std::string::npos) {
    return UsageFault(absl::StrCat(
        "--server is ", context.server,
        ", expected HOST:PORT of gRPC, such as 127.0.0.1:8460. HTTP has a port of its own, for "
        "browsers, curl and Prometheus"));
  }
  client::ClientOptions options;
  options.call_timeout = context.Timeout(kCallTimeout);
  options.connect_timeout = std::min(options.connect_timeout, options.call_timeout);
  options.stop = context.stop;
  options.tls = context.tls;
  if (!context.token_file.empty()) {
    CALIBD_ASSIGN_OR_RETURN(options.token, ReadToken(context.token_file));
  }
  auto client = client::Client::Connect(context.server, options);
  if (absl::IsUnavailable(client.status()) && AnswersHttp(context.server)) {
    return absl::UnavailableError(absl::StrCat(
        context.server,
        " answers HTTP, not gRPC: give the address of calibd's option --listen, by default port "
        "8460"));
  }
  return client;
}

std::string ModelArgument(std::string_view argument) {
  constexpr std::string_view kPrefix = "models/";
  if (argument.starts_with(kPrefix)) return std::string(argument);
  const std::size_t at = argument.find('@');
  if (at == std::string_view::npos) return client::ModelName(argument);
  return client::ModelName(argument.substr(0, at), argument.substr(at + 1));
}

double ErrorLimitOf(const v1::Model& model, double otherwise) {
  const double declared = model.monitoring().error_limit();
  return declared > 0 ? declared : otherwise;
}

absl::StatusOr<v1::Model> GetOrCreateModel(client::Client& client, const v1::Model& model) {
  auto existing = client.GetModel(model.name());
  return absl::IsNotFound(existing.status()) ? client.CreateModel(model) : existing;
}

bool WaitUnlessStopped(std::chrono::milliseconds time, const std::stop_token& stop) {
  // Nobody notifies: the wait ends by its time or by the stop.
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

std::optional<double> SecondsOf(const std::function<bool()>& body) {
  const auto start = std::chrono::steady_clock::now();
  if (!body()) return std::nullopt;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::optional<double> ExtrapolateSeconds(const RowWork& work) {
  // The rough number may be wrong by a factor of 5.
  constexpr double kShort = 2;
  constexpr double kFirstPart = 0.2;
  constexpr double kLeastMeasured = 0.2;
  constexpr std::size_t kFewestRows = 100;
  const double all = work.seconds(work.rows);
  if (work.scale * all < kShort) return std::nullopt;
  std::size_t part = work.rows;
  while (part / 2 >= kFewestRows && work.seconds(part) > kFirstPart) part /= 2;
  while (true) {
    const std::optional<double> measured = work.measure(part);
    if (!measured.has_value()) return std::nullopt;
    // A larger part would take too much of the whole time.
    const bool is_large =
        static_cast<double>(part) > work.scale * static_cast<double>(work.rows) / 8;
    if (*measured >= kLeastMeasured || is_large || part == work.rows) {
      return work.scale * *measured * all / work.seconds(part);
    }
    part = std::min(2 * part, work.rows);
  }
}

void TellDuration(const RowWork& work, std::string_view remedy) {
  constexpr double kLong = 10;
  const double seconds = ExtrapolateSeconds(work).value_or(0);
  if (seconds < kLong) return;
  std::cerr << absl::StrFormat(
      "calibctl: %d rows: this takes about %s, as measured with a part of the rows. For a faster "
      "answer, use fewer rows, or %s\n",
      work.rows,
      seconds < 120    ? absl::StrFormat("%.0f seconds", seconds)
      : seconds < 7200 ? absl::StrFormat("%.0f minutes", seconds / 60)
                       : absl::StrFormat("%.0f hours", seconds / 3600),
      remedy);
}

void PrintJson(const Json& json) { std::cout << json.dump(2) << '\n'; }

void Print(std::string_view text) { std::cout << text; }

ExitCode Fail(const absl::Status& status) {
  // gRPC has no message for a call that the server lacks.
  const bool is_unknown = absl::IsUnimplemented(status) && status.message().empty();
  std::cerr << "calibctl: " << Prefix(status.code())
            << (is_unknown ? "the server does not know this call, perhaps because it is older"
                           : std::string(status.message()))
            << '\n';
  return status.GetPayload(kUsageFaultUrl).has_value() ? ExitCode::kUsage : ExitCode::kError;
}

absl::Status UsageFault(std::string_view fault) {
  absl::Status status = absl::InvalidArgumentError(std::string(fault));
  status.SetPayload(kUsageFaultUrl, absl::Cord());
  return status;
}

CLI::Validator ProbabilityRange(double min, double max) {
  // 1 - 1e-9 would be written as 1.
  const std::string range = max < 1 && absl::StrCat(max) == "1"
                                ? "above 0 and below 1"
                                : absl::StrCat("in ", min, "..", max);
  const std::string expected = absl::StrCat("a probability ", range, " or a percentage such as 2%");
  const auto convert = [=](std::string& text) {
    absl::string_view number(text);
    const bool percent = absl::ConsumeSuffix(&number, "%");
    double value = 0;
    const bool valid = absl::SimpleAtod(number, &value);
    if (percent) value /= 100;
    // Written so that NaN is refused.
    if (!valid || !(value >= min && value <= max)) {
      return absl::StrCat("expected ", expected, ", found ", text);
    }
    if (percent) text = absl::StrFormat("%.17g", value);
    return std::string();
  };
  return CLI::Validator(convert, range, "probability");
}

CLI::Validator SeedRange() {
  const auto check = [](std::string& text) {
    std::uint64_t value = 0;
    return absl::SimpleAtoi(text, &value)
               ? std::string()
               : absl::StrCat("expected a whole number in 0..18446744073709551615, found ", text);
  };
  return CLI::Validator(check, "0..2^64-1", "seed");
}

std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter() {
  return std::make_shared<HelpFormatter>();
}

void RequireCommand(CLI::App& parent, Context& context) {
  // An unknown command is an extra argument, which DescribeExtras can name.
  parent.require_subcommand(0, 1);
  parent.final_callback([&parent, &context] {
    if (!parent.get_subcommands().empty()) return;
    std::cerr << parent.help(parent.get_parent() == nullptr ? "" : "calibctl");
    context.exit_code = ExitCode::kUsage;
  });
}

std::string DescribeUnknown(std::string_view name, const CLI::App& parent) {
  const std::vector<std::string> names = CommandNames(parent);
  if (names.empty()) return absl::StrCat(parent.get_name(), " has no commands");
  const std::optional<std::string> meant = ClosestTo(name, names);
  return absl::StrCat("unknown command \"", absl::string_view(name.data(), name.size()), "\"",
                      meant.has_value() ? absl::StrCat("; did you mean \"", *meant, "\"?")
                                        : absl::StrCat(", expected ", absl::StrJoin(names, ", ")));
}

std::string DescribeExtras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  const CLI::App* parent = &app;
  while (!parent->get_subcommands().empty()) parent = parent->get_subcommands().front();
  if (!extras[0].starts_with("-")) {
    if (!CommandNames(*parent).empty()) return DescribeUnknown(extras[0], *parent);
    return absl::StrCat("not expected: ", absl::StrJoin(extras, " "));
  }
  std::vector<std::string> options;
  for (const CLI::App* owner = parent; owner != nullptr; owner = owner->get_parent()) {
    for (const CLI::Option* const option : owner->get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
  }
  const std::string name = extras[0].substr(0, extras[0].find('='));
  const std::optional<std::string> meant = ClosestTo(name, options);
  return absl::StrCat("unknown option ", name,
                      meant.has_value() ? absl::StrCat("; did you mean ", *meant, "?") : "");
}

void SetRun(CLI::App& command, Context& context, std::function<absl::StatusOr<ExitCode>()> run) {
  command.callback([&command, &context, run = std::move(run)] {
    const absl::Status empty = CheckNumbers(command);
    const absl::StatusOr<ExitCode> code = empty.ok() ? run() : empty;
    context.exit_code = code.ok() ? *code : Fail(code.status());
  });
}

}  // namespace calibd::cli
