#include "server/options.h"

#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/http/http_hosts.h"
#include "server/listen_address.h"
#include "server/state/disk_use.h"
#include "server/version.h"

namespace calibd::server {
namespace {

constexpr int kUsageError = 2;

std::string EnvironmentName(const std::string& flag) {
  std::string name = "CALIBD_";
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

// Declares one setting as flag, environment variable and key.
template <typename T>
CLI::Option* AddOption(CLI::App& app, const std::string& flag, T& value, const std::string& help) {
  CLI::Option* option = nullptr;
  if constexpr (std::is_same_v<T, bool>) {
    option = app.add_flag("--" + flag, value, help);
  } else {
    option = app.add_option("--" + flag, value, help)->capture_default_str();
  }
  return option->envname(EnvironmentName(flag));
}

void AddAmount(CLI::App& app, const std::string& flag, std::int64_t& value, std::int64_t min,
               std::int64_t max, const std::string& help) {
  AddOption(app, flag, value, help)->check(CLI::Range(min, max));
}

constexpr std::int64_t kTiB = std::int64_t{1} << 40;

// A limit of disk. least: the smallest one that is of use.
void AddDisk(CLI::App& app, const std::string& flag, std::int64_t& value, std::size_t least,
             const std::string& help) {
  const auto min = static_cast<std::int64_t>(least);
  AddOption(app, flag, value, help)
      ->check([min](const std::string& text) {
        std::int64_t bytes = min;
        return absl::SimpleAtoi(text, &bytes) && bytes < min
                   ? absl::StrCat("is ", text, ", expected at least ", min,
                                  ": less fits no model, not even one of 2 classes")
                   : std::string();
      })
      ->check(CLI::Range(min, 1024 * kTiB));
}

void DeclareOptions(CLI::App& app, Options& options) {
  AddOption(app, "listen", options.listen, "Address and port of the gRPC services; port 0: any");
  AddOption(app, "http-listen", options.http_listen,
            "Address and port of /metrics, /healthz and /readyz; port 0: any");
  AddOption(
      app, "http-hosts", options.http_hosts,
      "Names by which HTTP clients reach this server, separated by commas. A request is refused "
      "with 403 unless its Host header is one of these names, an IP address or localhost");
  AddOption(app, "insecure-allow-remote", options.insecure_allow_remote,
            "Allow an address that is not loopback, unencrypted and open to everyone who reaches "
            "it; without this calibd refuses to start there (default: off)");
  AddOption(app, "config", options.config, "TOML file with these settings, named as the flags");
  AddOption(app, "log-format", options.log_format, "Log lines as text or json, on stderr")
      ->check(CLI::IsMember({"text", "json"}));
  AddOption(app, "log-level", options.log_level, "Least severity that is logged")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  AddOption(app, "reflection", options.reflection,
            "Serve gRPC server reflection, for tools such as grpcurl (default: off)");
  AddOption(app, "data-dir", options.data_dir,
            "Folder of the store, made if missing; one calibd at a time may use it");
  AddOption(app, "ready-file", options.ready_file,
            "Write {\"grpc\": ADDRESS, \"http\": ADDRESS, \"pid\": PID} here once serving");

  AddAmount(app, "max-message-bytes", options.max_message_bytes, 1 << 10, 64 << 20,
            "Largest gRPC message accepted, in bytes");
  AddAmount(app, "call-memory-bytes", options.call_memory_bytes, 16 << 20, kTiB,
            "Memory that the messages of all calls together may occupy, in both directions; a call "
            "that would exceed it is refused");
  AddAmount(app, "max-connections", options.max_connections, 1, 100000,
            "gRPC connections at a time; when there are more, an idle one is closed, or the new "
            "one may only check the health");
  AddAmount(app, "max-connections-per-address", options.max_connections_per_address, 0, 100000,
            "gRPC connections at a time from one address, of IPv6 from one network of 64 bits; 0: "
            "half of max-connections");
  AddAmount(app, "max-concurrent-streams", options.max_concurrent_streams, 1, 10000,
            "Calls at a time on one gRPC connection");
  AddAmount(app, "max-ingest-streams", options.max_ingest_streams, 1, 100000,
            "Observation streams open at a time, over all connections");
  AddAmount(app, "max-watchers", options.max_watchers, 1, 100000,
            "Calls of WatchCalibration at a time, over all connections");
  AddAmount(app, "max-http-connections", options.max_http_connections, 1, 10000,
            "HTTP connections at a time, half of them from one address; an idle one is closed for "
            "another, and health checks always get in");

  AddAmount(app, "max-models", options.max_models, 1, 1000000, "Models at a time");
  AddAmount(app, "state-memory-bytes", options.state_memory_bytes, 1 << 20, kTiB,
            "Memory that the declarations of all models together may reserve, with a new one; the "
            "models of the store come back in any case");
  AddAmount(app, "model-memory-bytes", options.model_memory_bytes, 1 << 16, kTiB,
            "Memory that the declaration of a new model may reserve");
  AddDisk(app, "disk-bytes", options.disk_bytes, kSharedDiskBytes + LeastModelDisk(),
          "Disk that the store may come to need with a new model: what the declarations of all "
          "models reserve, and 512 MiB that they share; the models of the store are recovered in "
          "any case. A deleted model gives back what it reserved, but calibd.db does not shrink: "
          "its room is used again, so that the files may take up to twice as much");
  AddDisk(app, "model-disk-bytes", options.model_disk_bytes, LeastModelDisk(),
          "Disk that the declaration of a new model may reserve; a max_pending that is not "
          "declared takes a quarter of it at most");
  AddAmount(app, "max-producers-per-model", options.max_producers_per_model, 1, 1000000,
            "Producers remembered for one model");
  AddAmount(app, "ingest-queue-bytes", options.ingest_queue_bytes, 1 << 16, kTiB,
            "Accepted observations that may wait to be counted; at this size streams are read "
            "no further");
  AddAmount(app, "max-batches-in-flight", options.max_batches_in_flight, 1, 1000,
            "Unacknowledged batches on one stream; with as many it is read no further");
  AddAmount(app, "writer-threads", options.writer_threads, 1, 64,
            "Threads that count observations; one model uses one at a time");

  AddAmount(app, "compute-threads", options.compute_threads, 0, 1024,
            "Threads that run tests and evaluations; 0: as many as the machine has");
  AddAmount(app, "max-queued-tests", options.max_queued_tests, 0, 10000,
            "Tests and evaluations that may wait for a thread");
  AddAmount(app, "test-memory-bytes", options.test_memory_bytes, 1 << 20, kTiB,
            "Memory that one test or evaluation may take");
  AddOption(app, "max-test-operations", options.max_test_operations,
            "Rough number of multiplications of one test or evaluation; a quadratic test takes "
            "some n^2 (6 m + replicates)")
      ->check(CLI::Range(1.0, 1e18));

  AddAmount(app, "max-series", options.max_series, 1, 10000000,
            "Series of models in one /metrics answer; more are dropped and counted");
  AddAmount(app, "drain-seconds", options.drain_seconds, 1, 3600,
            "Time from SIGTERM to the end of the process at the latest");
}

// One scalar of the file as the text a flag would carry.
std::optional<std::string> ScalarText(const toml::node& node) {
  if (auto text = node.value_exact<std::string>()) {
    return text;
  }
  if (const auto flag = node.value_exact<bool>()) {
    return *flag ? "true" : "false";
  }
  if (const auto integer = node.value_exact<std::int64_t>()) {
    return absl::StrCat(*integer);
  }
  if (const auto number = node.value_exact<double>()) {
    std::ostringstream text;
    text.precision(17);
    text << *number;
    return text.str();
  }
  return std::nullopt;
}

// Sets what neither flag nor environment has set. Throws CLI::ConfigError.
void ApplyFile(CLI::App& app, const std::string& path) {
  toml::table table;
  try {
    table = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw CLI::ConfigError(absl::StrCat("--config ", path, ", line ", error.source().begin.line,
                                        ": ", std::string(error.description())),
                           kUsageError);
  }
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    CLI::Option* option = app.get_option_no_throw("--" + name);
    if (option == nullptr || option->get_envname().empty() || name == "config") {
      throw CLI::ConfigError(absl::StrCat("--config ", path, ": unknown key ", name), kUsageError);
    }
    const std::optional<std::string> text = ScalarText(node);
    if (!text.has_value()) {
      throw CLI::ConfigError(absl::StrCat("--config ", path, ": ", name, " must be one value"),
                             kUsageError);
    }
    if (option->count() > 0) {
      continue;
    }
    option->add_result(*text);
    option->run_callback();
  }
}

// Throws CLI::ValidationError.
void CheckAddress(const char* flag, const std::string& text, bool allow_remote) {
  const auto endpoint = ParseListenAddress(text);
  if (!endpoint.ok()) {
    throw CLI::ValidationError(flag, std::string(endpoint.status().message()));
  }
  if (!endpoint->address().is_loopback() && !allow_remote) {
    throw CLI::ValidationError(
        flag, absl::StrCat(text,
                           " is not loopback: calibd has no encryption and no access "
                           "control, so this needs --insecure-allow-remote"));
  }
}

// Throws CLI::ValidationError.
void CheckHttpHosts(const std::string& list) {
  if (const auto hosts = ParseHttpHosts(list); !hosts.ok()) {
    throw CLI::ValidationError("--http-hosts", std::string(hosts.status().message()));
  }
}

}  // namespace

std::variant<Invocation, Exit> ParseOptions(int argc, const char* const* argv) {
  Invocation invocation;
  CLI::App app{"calibd watches whether the probabilities that classifiers report can be trusted.",
               "calibd"};
  app.set_version_flag("--version", std::string("calibd ") + kVersion);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.footer("Exit codes: 0 after SIGTERM or SIGINT, 1 when it cannot serve, 2 for wrong usage.");
  DeclareOptions(app, invocation.options);
  bool check_config = false;
  app.add_flag(
      "--check-config", check_config,
      "Check these settings, those of the environment and of --config, and end; exit 0 or 2");
  CLI::App* healthcheck = app.add_subcommand(
      "healthcheck", "Ask the calibd on this machine, at --listen, for its health; exit 0 or 1");
  healthcheck->fallthrough();
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
    Options& options = invocation.options;
    if (!options.config.empty()) {
      ApplyFile(app, options.config);
    }
    if (healthcheck->parsed()) {
      invocation.command = Command::kHealthcheck;
    }
    const bool allow_remote =
        options.insecure_allow_remote || invocation.command == Command::kHealthcheck;
    CheckAddress("--listen", options.listen, allow_remote);
    CheckAddress("--http-listen", options.http_listen, allow_remote);
    CheckHttpHosts(options.http_hosts);
    if (check_config) {
      std::cout << "the settings are valid\n";
      return Exit{0};
    }
  } catch (const CLI::Success& success) {
    return Exit{app.exit(success)};
  } catch (const CLI::Error& error) {
    std::cerr << "calibd: " << error.what() << "\nSee calibd --help.\n";
    return Exit{kUsageError};
  }
  return invocation;
}

}  // namespace calibd::server
