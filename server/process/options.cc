#include "server/process/options.h"

#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <system_error>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/access/access_control.h"
#include "server/archive/archive_command.h"
#include "server/base/errors.h"
#include "server/base/listen_address.h"
#include "server/http/http_hosts.h"
#include "server/http/open_api.h"
#include "server/net/tls_certificates.h"
#include "server/state/check_declaration.h"
#include "server/state/disk_use.h"
#include "server/store/postgres/connection_string.h"
#include "server/version.h"

namespace calibd::server {
namespace {

constexpr int kUsageError = 2;

// Declares one setting as flag, environment variable and key.
template <typename T>
CLI::Option* AddOption(CLI::App& app, const std::string& flag, T& value, const std::string& help) {
  CLI::Option* option = nullptr;
  if constexpr (std::is_same_v<T, bool>) {
    option = app.add_flag("--" + flag, value, help);
  } else {
    option = app.add_option("--" + flag, value, help)->capture_default_str();
  }
  if constexpr (std::is_same_v<T, std::string>) {
    // CLI11 treats the next option as the value of an option without one.
    option->check([](const std::string& text) {
      return absl::StartsWith(text, "--")
                 ? absl::StrCat(Quoted(text), " is not a value; write ./", text, " for a file")
                 : "";
    });
  }
  return option->envname(
      absl::StrCat("CALIBD_", absl::AsciiStrToUpper(absl::StrReplaceAll(flag, {{"-", "_"}}))));
}

template <typename T>
void AddAmount(CLI::App& app, const std::string& flag, T& value, std::type_identity_t<T> min,
               std::type_identity_t<T> max, const std::string& help) {
  // CLI::Range would accept NaN.
  const auto find_fault = [min, max](const std::string& text) -> std::string {
    T number = 0;
    bool parsed = false;
    if constexpr (std::is_integral_v<T>) {
      parsed = absl::SimpleAtoi(text, &number);
    } else {
      parsed = absl::SimpleAtod(text, &number);
    }
    return parsed && number >= min && number <= max
               ? ""
               : absl::StrCat(Quoted(text), " is not ",
                              std::is_integral_v<T> ? "an integer" : "a number", " from ", min,
                              " to ", max);
  };
  AddOption(app, flag, value, help)
      ->check(CLI::Validator(find_fault, absl::StrCat("[", min, " to ", max, "]")));
}

// Ten years.
constexpr std::int64_t kLongestSeconds = std::int64_t{3650} * 86400;
constexpr std::int64_t kTiB = std::int64_t{1} << 40;

// A limit on disk space. least: the smallest useful value.
void AddDisk(CLI::App& app, const std::string& flag, std::int64_t& value, std::size_t least,
             const std::string& help) {
  const auto min = static_cast<std::int64_t>(least);
  AddOption(app, flag, value, help)
      ->check([min](const std::string& text) {
        std::int64_t bytes = min;
        return absl::SimpleAtoi(text, &bytes) && bytes < min
                   ? absl::StrCat("is ", text, ", expected at least ", min,
                                  ": a smaller limit is too small even for a model of 2 classes")
                   : std::string();
      })
      ->check(CLI::Range(min, 1024 * kTiB));
}

void AddProcessOptions(CLI::App& app, Options& options) {
  AddOption(app, "listen", options.listen, "Address and port of the gRPC services; port 0: any");
  AddOption(app, "http-listen", options.http_listen,
            "Address and port of /metrics, /healthz, /readyz and the API in JSON; port 0: any");
  AddOption(
      app, "http-hosts", options.http_hosts,
      "Names by which HTTP clients reach this server, separated by commas. A request is refused "
      "with 403 unless its Host header is one of these names, an IP address or localhost")
      ->check([](const std::string& list) {
        return std::string(ParseHttpHosts(list).status().message());
      });
  AddOption(
      app, "insecure-allow-remote", options.insecure_allow_remote,
      "Allow addresses other than loopback without TLS, or with TLS but without a way to know "
      "clients (--access-file, or --tls-client-ca with --tls-client-auth required); calibd "
      "otherwise refuses to start on them. "
      "Without TLS, everyone on the way may read and change what is sent (default: off)");
  AddOption(app, "access-file", options.access_file,
            "TOML file that says who may do what. It is read again when its content changes. "
            "Without it, every caller may do everything");
  AddOption(
      app, "audit-log", options.audit_log,
      "File for a line of JSON about each change of a model, backup, reload of the access file "
      "and refused call");
  AddAmount(app, "audit-log-bytes", options.audit_log_bytes, 1 << 12, kTiB,
            "Size at which the audit log is rotated; the nine former files are kept");
  AddOption(app, "config", options.config,
            "TOML file with these settings; each key is the name of a flag without --");
  AddOption(app, "log-format", options.log_format, "Log lines as text or json, on stderr")
      ->check(CLI::IsMember({"text", "json"}));
  AddOption(app, "log-level", options.log_level, "Lowest severity that is logged")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  AddOption(app, "reflection", options.reflection,
            "Serve gRPC server reflection, for tools such as grpcurl (default: only on loopback)");
  AddOption(app, "store", options.store,
            "Where the store is: local, in the folder --data-dir, or postgres, in the database of "
            "--postgres, in which `calibd migrate` has made it")
      ->check(CLI::IsMember({"local", "postgres"}));
  AddOption(app, "postgres", options.postgres,
            "Connection string of libpq for --store postgres, without a password: service=NAME, "
            "postgresql://USER@HOST/DATABASE or other. Without it, the variables of libpq such as "
            "PGSERVICE and PGHOST count. A server on another machine must prove its name by TLS")
      ->check([](const std::string& text) {
        return std::string(CheckConnectionString(text).message());
      });
  AddOption(app, "advertise", options.advertise,
            "HOST:PORT where clients reach this calibd, for --store postgres: standbys name it to "
            "clients while this one is the owner (default: --listen, or the name of the host if "
            "that is any address)");
  AddOption(app, "data-dir", options.data_dir,
            "Folder of the store, created if missing; only one calibd at a time may use it")
      ->check([](const std::string& folder) {
        return folder.empty() ? "the value is empty, expected the folder of the store" : "";
      });
  AddOption(app, "archive-command", options.archive_command,
            "Shell command that copies a file to an archive from which `calibd restore` makes the "
            "store again after its disk is lost. %p is the path of the file and %f its name in the "
            "archive: rclone copyto %p remote:calibd/%f");
  AddOption(app, "ready-file", options.ready_file,
            "File to which calibd writes {\"grpc\": ADDRESS, \"http\": ADDRESS, \"pid\": PID} once "
            "it serves");
}

void AddTlsOptions(CLI::App& app, Options& options) {
  AddOption(app, "tls-certificate", options.tls_certificate,
            "File with the certificate of this server in PEM, followed by those of intermediate "
            "CAs. Turns on TLS 1.2 and 1.3 for both ports. Read again when it changes");
  AddOption(app, "tls-key", options.tls_key,
            "File with the private key of --tls-certificate in PEM, without a passphrase");
  AddOption(
      app, "tls-client-ca", options.tls_client_ca,
      "File with the CAs of client certificates in PEM. The certificate of a client must be of "
      "one of them, with a URI or DNS name as subject alternative name; --tls-client-auth says "
      "whether each client needs one");
  AddOption(app, "tls-client-auth", options.tls_client_auth,
            "Whether every client needs a certificate, or may do without one: required or optional")
      ->check(CLI::IsMember({"required", "optional"}));
  AddOption(app, "tls-peer-ca", options.tls_peer_ca,
            "File with the CAs of the certificates of other calibds on the same database in PEM: a "
            "standby forwards calls to the owner over TLS, and shows --tls-certificate");
}

void AddCallLimits(CLI::App& app, Options& options) {
  AddAmount(app, "max-message-bytes", options.max_message_bytes, 1 << 10, 64 << 20,
            "Largest gRPC message accepted, in bytes");
  AddAmount(app, "call-memory-bytes", options.call_memory_bytes, 16 << 20, kTiB,
            "Memory that the messages of all calls together may occupy, in both directions; a call "
            "that would exceed it is refused");
  AddAmount(
      app, "max-connections", options.max_connections, 1, 100000,
      "gRPC connections at a time. A further connection replaces an idle one; if none is idle, "
      "it may only make health checks");
  AddAmount(app, "max-connections-per-address", options.max_connections_per_address, 0, 100000,
            "gRPC connections at a time from one IPv4 address or one IPv6 /64 network; 0: half of "
            "max-connections");
  AddAmount(app, "max-concurrent-streams", options.max_concurrent_streams, 1, 10000,
            "Calls at a time on one gRPC connection; further ones are refused");
  AddAmount(app, "max-ingest-streams", options.max_ingest_streams, 1, 100000,
            "Open observation streams at a time, over all connections");
  AddAmount(
      app, "max-watchers", options.max_watchers, 1, 100000,
      "Calls of WatchCalibration at a time, over all connections; one caller alone gets about "
      "half of them");
  AddAmount(
      app, "max-http-connections", options.max_http_connections, 1, 10000,
      "HTTP connections at a time, at most half of them from one address. A further connection "
      "replaces an idle one, and health checks are always answered");
}

void AddModelLimits(CLI::App& app, Options& options) {
  AddAmount(app, "max-models", options.max_models, 1, 1000000,
            "Models at a time. Models with a label grace, groups or many classes reach "
            "--state-memory-bytes or --disk-bytes before");
  AddAmount(app, "state-memory-bytes", options.state_memory_bytes, 1 << 20, kTiB,
            "Memory that all models together may reserve. A new model that exceeds it is refused; "
            "models in the store are always recovered");
  AddAmount(app, "model-memory-bytes", options.model_memory_bytes, 1 << 16, kTiB,
            "Memory that a new model may reserve");
  AddDisk(
      app, "disk-bytes", options.disk_bytes, kSharedDiskBytes + LeastModelDisk(),
      "Disk space that the store may need: what all models reserve, and 512 MiB that they "
      "share. A new model that exceeds it is refused; models in the store are always recovered. "
      "A deleted model returns its part, but the database does not shrink: its space is reused, so "
      "that the files may take up to twice as much");
  AddDisk(app, "model-disk-bytes", options.model_disk_bytes, LeastModelDisk(),
          "Disk space that a new model may reserve. The default of max_pending takes at most a "
          "quarter of it");
}

void AddIngestLimits(CLI::App& app, Options& options) {
  AddAmount(
      app, "max-producers-per-model", options.max_producers_per_model, 1, 1000000,
      "Producers of a model with a complete cursor. When there are more, those that were used "
      "least recently expire; a new one is refused if all were used within the last minute");
  AddAmount(
      app, "producer-idle-seconds", options.producer_idle_seconds, 60, kLongestSeconds,
      "Time after which an unused producer expires, when a new one opens. An expired producer "
      "may continue its numbering");
  AddAmount(app, "max-expired-producers-per-model", options.max_expired_producers_per_model, 0,
            1000000,
            "Expired producers of a model that are remembered. If a forgotten one sends its "
            "batches again from number 1, they are counted twice");
  AddAmount(app, "max-request-ids-per-model", options.max_request_ids_per_model, 0, 1000000,
            "Newest values of request_id of a model that are remembered. If a call is repeated "
            "after its id was forgotten, it is counted twice");
  AddAmount(app, "request-id-seconds", options.request_id_seconds, 1, kLongestSeconds,
            "Time for which values of request_id are remembered");
  AddAmount(app, "ingest-queue-bytes", options.ingest_queue_bytes, 1 << 16, kTiB,
            "Size of the queue of received observations that are not counted yet. Models share it; "
            "calibd "
            "stops reading the streams of a model that has used up its share");
  AddAmount(app, "max-batches-in-flight", options.max_batches_in_flight, 1, 1000,
            "Unacknowledged batches per stream; calibd stops reading a stream that has as many");
  AddAmount(app, "writer-threads", options.writer_threads, 0, 64,
            "Threads that count observations; 0: one per CPU that calibd may use. Idle ones help "
            "to count the large batches of a model");
}

void AddComputationLimits(CLI::App& app, Options& options) {
  AddAmount(app, "compute-threads", options.compute_threads, 0, 1024,
            "Threads that run tests and evaluations; 0: one per CPU that calibd may use");
  AddAmount(app, "max-queued-tests", options.max_queued_tests, 0, 10000,
            "Tests and evaluations that may be queued for a thread, and as many small ones beside "
            "them; one caller alone gets about half of them");
  AddAmount(app, "test-memory-bytes", options.test_memory_bytes, 1 << 20, kTiB,
            "Memory that one test or evaluation may use");
  AddAmount(app, "max-test-operations", options.max_test_operations, 1, 1e18,
            "Approximate number of multiplications that one test or evaluation may take; a "
            "quadratic test takes about n^2 (6 m + replicates)");
}

void DeclareOptions(CLI::App& app, Options& options) {
  AddProcessOptions(app, options);
  AddTlsOptions(app, options);
  AddCallLimits(app, options);
  AddModelLimits(app, options);
  AddIngestLimits(app, options);
  AddComputationLimits(app, options);
  AddAmount(
      app, "max-series", options.max_series, 1, 10000000,
      "Time series of models in one /metrics response; further ones are left out and counted");
  AddAmount(app, "drain-seconds", options.drain_seconds, 1, 3600,
            "Longest time from SIGTERM to the end of the process");
}

// Converts a scalar of the file to the text that a flag would have.
std::optional<std::string> ScalarText(const toml::node& node) {
  if (auto text = node.value_exact<std::string>()) return text;
  if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  if (const auto integer = node.value_exact<std::int64_t>()) return absl::StrCat(*integer);
  if (const auto number = node.value_exact<double>()) {
    std::ostringstream text;
    text.precision(17);
    text << *number;
    return text.str();
  }
  return std::nullopt;
}

// Sets the options that neither a flag nor the environment sets. Throws CLI::ConfigError.
void ApplyFile(CLI::App& app, const std::string& path) {
  std::ifstream file(path);
  std::error_code error;
  if (!file || std::filesystem::is_directory(path, error)) {
    throw CLI::ConfigError(absl::StrCat("--config ", path, " cannot be read: ",
                                        std::strerror(file ? EISDIR : errno), "; name a TOML file"),
                           kUsageError);
  }
  toml::table table;
  try {
    table = toml::parse(file, path);
  } catch (const toml::parse_error& failure) {
    throw CLI::ConfigError(absl::StrCat("--config ", path, ", line ", failure.source().begin.line,
                                        ": ", std::string(failure.description())),
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
    if (option->count() > 0) continue;
    option->add_result(*text);
    option->run_callback();
  }
}

// CLI11 would use the argument after "--option=" as its value. Throws CLI::ValidationError.
void CheckValuesAreGiven(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (absl::StartsWith(argument, "--") && absl::EndsWith(argument, "=")) {
      throw CLI::ValidationError(argument.substr(0, argument.size() - 1),
                                 "there is no value after =; give one, or leave the option out");
    }
  }
}

// Throws CLI::ValidationError.
void CheckAddress(const char* flag, const std::string& text, bool allow_remote) {
  const auto endpoint = ParseListenAddress(text);
  if (!endpoint.ok()) throw CLI::ValidationError(flag, std::string(endpoint.status().message()));
  if (!endpoint->address().is_loopback() && !allow_remote) {
    throw CLI::ValidationError(
        flag, absl::StrCat(
                  text,
                  " is not loopback: this needs TLS (--tls-certificate, --tls-key) and a way to "
                  "know clients (--access-file, or --tls-client-ca with --tls-client-auth "
                  "required), or --insecure-allow-remote if the network itself protects the port"));
  }
}

// Throws CLI::ValidationError.
void CheckAccessFile(const std::string& path) {
  const auto policy = ReadPolicy(path);
  if (!policy.ok()) {
    throw CLI::ValidationError("--access-file", std::string(policy.status().message()));
  }
}

// True if the ports are encrypted, and only clients with a certificate or a token may call.
bool IsProtected(const Options& options) {
  const bool needs_certificate =
      !options.tls_client_ca.empty() && options.tls_client_auth == "required";
  return !options.tls_certificate.empty() && (needs_certificate || !options.access_file.empty());
}

// Throws CLI::ValidationError.
void CheckTls(const CLI::App& app, const Options& options) {
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    const bool key_missing = options.tls_key.empty();
    throw CLI::ValidationError(key_missing ? "--tls-certificate" : "--tls-key",
                               absl::StrCat("TLS needs both files; add ",
                                            key_missing ? "--tls-key" : "--tls-certificate"));
  }
  if (!options.tls_client_ca.empty() && options.tls_certificate.empty()) {
    throw CLI::ValidationError("--tls-client-ca", "needs --tls-certificate and --tls-key");
  }
  if (options.tls_client_ca.empty() && app.get_option("--tls-client-auth")->count() > 0) {
    throw CLI::ValidationError("--tls-client-auth", "needs --tls-client-ca");
  }
}

// Reads the files of TLS. Throws CLI::ValidationError.
void CheckTlsFiles(const Options& options) {
  if (options.tls_certificate.empty()) return;
  const auto loaded = TlsCertificates::Load(TlsFilesOf(options));
  // The message begins with the flag.
  if (!loaded.ok()) throw CLI::ValidationError(std::string(loaded.status().message()));
  if (options.store == "local") return;
  // Other calibds may be on this database.
  if (const std::ifstream file(options.tls_peer_ca); !file) {
    throw CLI::ValidationError(
        "--tls-peer-ca",
        absl::StrCat(options.tls_peer_ca, " cannot be read: ", std::strerror(errno),
                     "; give the CA of the "
                     "certificates of all calibds on this database"));
  }
}

// Requires that both addresses are valid. Throws CLI::ValidationError.
void CheckAddressesDiffer(const Options& options) {
  const auto grpc = *ParseListenAddress(options.listen);
  const auto http = *ParseListenAddress(options.http_listen);
  const bool overlap = grpc.address() == http.address() || grpc.address().is_unspecified() ||
                       http.address().is_unspecified();
  if (overlap && grpc.port() == http.port() && grpc.port() != 0) {
    throw CLI::ValidationError("--http-listen",
                               absl::StrCat(options.http_listen, " and --listen ", options.listen,
                                            " overlap; choose another port for one of them"));
  }
}

// An explicit limit must not exceed the limit that includes it. A default may: then the smaller
// limit applies. Throws CLI::ValidationError.
void CheckShares(const CLI::App& app, const Options& options) {
  struct Share {
    const char* part;
    std::int64_t part_limit;
    const char* whole;
    std::int64_t whole_limit;
  };
  for (const Share& share : {
           Share{"--max-connections-per-address", options.max_connections_per_address,
                 "--max-connections", options.max_connections},
           Share{"--max-message-bytes", options.max_message_bytes, "--call-memory-bytes",
                 options.call_memory_bytes},
           Share{"--model-memory-bytes", options.model_memory_bytes, "--state-memory-bytes",
                 options.state_memory_bytes},
           Share{"--model-disk-bytes", options.model_disk_bytes, "--disk-bytes",
                 options.disk_bytes},
       }) {
    if (share.part_limit > share.whole_limit && app.get_option(share.part)->count() > 0) {
      throw CLI::ValidationError(
          share.part, absl::StrCat(share.part_limit, " is more than ", share.whole, " ",
                                   share.whole_limit, "; lower the first or raise the second"));
    }
  }
}

// Throws CLI::ValidationError.
void CheckStore(const CLI::App& app, const Options& options) {
  if (options.store == "local") {
    for (const char* const flag : {"--postgres", "--advertise", "--tls-peer-ca"}) {
      if (app.get_option(flag)->count() == 0) continue;
      throw CLI::ValidationError(
          flag, "has no effect on a store in a folder; add --store postgres, or leave it out");
    }
    return;
  }
  if (app.get_option("--tls-peer-ca")->count() > 0 && options.tls_certificate.empty()) {
    throw CLI::ValidationError("--tls-peer-ca", "needs --tls-certificate and --tls-key");
  }
  if (!options.archive_command.empty()) {
    throw CLI::ValidationError("--archive-command",
                               "needs --store local; archive the log of PostgreSQL instead");
  }
}

// Throws CLI::ValidationError.
void CheckArchive(const Options& options) {
  if (options.archive_command.empty()) return;
  const absl::Status status = CheckArchiveCommand(
      options.archive_command, std::filesystem::absolute(options.data_dir).string());
  // The message begins with the flag.
  if (!status.ok()) throw CLI::ValidationError(std::string(status.message()));
}

}  // namespace

TlsFiles TlsFilesOf(const Options& options) {
  return {.certificate = options.tls_certificate,
          .key = options.tls_key,
          .client_ca = options.tls_client_ca,
          .client_certificate_required = options.tls_client_auth == "required"};
}

std::variant<Invocation, Exit> ParseOptions(int argc, const char* const* argv) {
  Invocation invocation;
  CLI::App app{"calibd monitors whether predicted probabilities and forecasts can be trusted.",
               "calibd"};
  app.set_version_flag("--version", std::string("calibd ") + kVersion);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.footer("Exit codes: 0 after SIGTERM or SIGINT, 1 when it cannot serve, 2 for wrong usage.");
  DeclareOptions(app, invocation.options);
  bool check_config = false;
  app.add_flag(
      "--check-config", check_config,
      "Check the settings of the command line, the environment and --config, and exit with 0 or 2");
  CLI::App* healthcheck = app.add_subcommand(
      "healthcheck",
      "Check the health of the calibd that listens on --listen on this machine; exit 0 or 1");
  healthcheck->fallthrough();
  healthcheck->footer("Exit codes: 0 healthy, 1 not healthy, 2 for wrong usage.");
  CLI::App* restore = app.add_subcommand(
      "restore",
      "Make a store in a new folder from the files of an archive: see --archive-command");
  RestoreArguments& from = invocation.restore;
  restore->add_option("archive", from.archive, "Folder with the files that calibd handed over")
      ->required();
  restore->add_option("folder", from.folder, "Empty or new folder, the next --data-dir")
      ->required();
  restore->add_option(
      "--store-id", from.store_id,
      "Id of the store to restore, as the names of its files have it; needed if the "
      "folder has files of several stores");
  restore->footer("Exit codes: 0 restored, 1 not restored, 2 for wrong usage.");
  CLI::App* migrate = app.add_subcommand(
      "migrate",
      "Make the store in the database of --postgres, unless it has one, and bring it up to date; "
      "the role of the connection owns it");
  migrate->fallthrough();
  migrate->add_option("--grant", invocation.grant,
                      "Role that may serve from the store: it may read and write rows, but change "
                      "no table");
  migrate->footer("Exit codes: 0 done, 1 not done, 2 for wrong usage.");
  CLI::App* openapi =
      app.add_subcommand("openapi", "Print the OpenAPI description of the HTTP API and exit");
  app.require_subcommand(0, 1);
  try {
    CheckValuesAreGiven(argc, argv);
    app.parse(argc, argv);
    Options& options = invocation.options;
    if (!options.config.empty()) ApplyFile(app, options.config);
    if (migrate->parsed()) {
      invocation.command = Command::kMigrate;
      return invocation;
    }
    if (healthcheck->parsed()) invocation.command = Command::kHealthcheck;
    if (restore->parsed()) {
      invocation.command = Command::kRestore;
      return invocation;
    }
    CheckTls(app, options);
    const bool allow_remote = options.insecure_allow_remote || IsProtected(options) ||
                              invocation.command == Command::kHealthcheck;
    CheckAddress("--listen", options.listen, allow_remote);
    CheckAddress("--http-listen", options.http_listen, allow_remote);
    if (app.get_option("--reflection")->count() == 0) {
      options.reflection = ParseListenAddress(options.listen)->address().is_loopback();
    }
    if (invocation.command == Command::kServe) {
      CheckAddressesDiffer(options);
      CheckShares(app, options);
      CheckStore(app, options);
      CheckArchive(options);
    }
    if (openapi->parsed()) {
      std::cout << OpenApiText();
      return Exit{0};
    }
    // A container whose health check fails is restarted, which would not mend the file.
    if (invocation.command == Command::kServe && !options.access_file.empty()) {
      CheckAccessFile(options.access_file);
    }
    if (check_config) {
      CheckTlsFiles(options);
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
