#include "command.h"

#include <condition_variable>
#include <iostream>
#include <mutex>
#include <utility>

// These headers define what CLI11's other headers declare, for the whole library.
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/cord.h"
#include "absl/strings/str_replace.h"

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
    case absl::StatusCode::kUnimplemented:
      return "the server does not know this call: ";
    case absl::StatusCode::kAlreadyExists:
      return "already exists: ";
    default:
      return "";
  }
}

}  // namespace

std::chrono::milliseconds Context::Timeout(std::chrono::milliseconds otherwise) const {
  if (!timeout_seconds.has_value()) return otherwise;
  return std::chrono::milliseconds(static_cast<std::int64_t>(*timeout_seconds * 1000));
}

absl::StatusOr<std::unique_ptr<client::Client>> ConnectTo(const Context& context) {
  client::ClientOptions options;
  options.call_timeout = context.Timeout(kCallTimeout);
  options.connect_timeout = std::min(options.connect_timeout, options.call_timeout);
  options.stop = context.stop;
  return client::Client::Connect(context.server, options);
}

std::string ModelArgument(std::string_view argument) {
  constexpr std::string_view kPrefix = "models/";
  if (argument.starts_with(kPrefix)) return std::string(argument);
  const std::size_t at = argument.find('@');
  if (at == std::string_view::npos) return client::ModelName(argument);
  return client::ModelName(argument.substr(0, at), argument.substr(at + 1));
}

std::string ShortName(std::string_view model) {
  constexpr std::string_view kPrefix = "models/";
  if (model.starts_with(kPrefix)) model.remove_prefix(kPrefix.size());
  return absl::StrReplaceAll(absl::string_view(model.data(), model.size()), {{"/versions/", "@"}});
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

void PrintJson(const Json& json) { std::cout << json.dump(2) << '\n'; }

void Print(std::string_view text) { std::cout << text; }

ExitCode Fail(const absl::Status& status) {
  std::cerr << "calibctl: " << Prefix(status.code()) << std::string(status.message()) << '\n';
  return status.GetPayload(kUsageFaultUrl).has_value() ? ExitCode::kUsage : ExitCode::kError;
}

absl::Status UsageFault(std::string_view fault) {
  absl::Status status = absl::InvalidArgumentError(std::string(fault));
  status.SetPayload(kUsageFaultUrl, absl::Cord());
  return status;
}

void SetRun(CLI::App& command, Context& context, std::function<absl::StatusOr<ExitCode>()> run) {
  command.callback([&context, run = std::move(run)] {
    const absl::StatusOr<ExitCode> code = run();
    context.exit_code = code.ok() ? *code : Fail(code.status());
  });
}

}  // namespace calibd::cli
