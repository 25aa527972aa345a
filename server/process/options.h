#ifndef CALIBD_SERVER_PROCESS_OPTIONS_H_
#define CALIBD_SERVER_PROCESS_OPTIONS_H_

#include <cstdint>
#include <string>
#include <variant>

namespace calibd::server {

struct TlsFiles;

// All settings of calibd. Each has a flag, an environment variable (CALIBD_ and the flag in upper
// snake case), and a key in the TOML file that --config names. A flag takes precedence over the
// environment, the environment over the file, and the file over the defaults below. `calibd --help`
// describes all settings.
struct Options {
  std::string listen = "127.0.0.1:8460";
  std::string http_listen = "127.0.0.1:8461";
  std::string http_hosts;
  // Empty: no encryption.
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;
  std::string tls_peer_ca = "/etc/ssl/certs/ca-certificates.crt";
  std::string tls_client_auth = "required";
  bool insecure_allow_remote = false;
  // Empty: every caller may do everything.
  std::string access_file;
  // Empty: none.
  std::string audit_log;
  std::int64_t audit_log_bytes = std::int64_t{64} << 20;
  std::string config;
  std::string log_format = "text";
  std::string log_level = "info";
  // The default is whether `listen` is loopback.
  bool reflection = false;
  std::string ready_file;
  // Where the store is: local, in data_dir, or postgres.
  std::string store = "local";
  // A connection string of libpq; empty for its conventions.
  std::string postgres;
  // Where clients reach this process; empty for the bound address or the name of the host.
  std::string advertise;
  std::string data_dir = "calibd-data";
  // Empty: no archive.
  std::string archive_command;

  std::int64_t max_message_bytes = std::int64_t{1} << 20;
  std::int64_t call_memory_bytes = std::int64_t{256} << 20;
  std::int64_t max_connections = 512;
  // 0 means half of max_connections.
  std::int64_t max_connections_per_address = 0;
  std::int64_t max_concurrent_streams = 100;
  std::int64_t max_ingest_streams = 1000;
  std::int64_t max_watchers = 1000;
  std::int64_t max_http_connections = 64;

  std::int64_t max_models = 1000;
  std::int64_t state_memory_bytes = std::int64_t{4} << 30;
  std::int64_t model_memory_bytes = std::int64_t{256} << 20;
  std::int64_t disk_bytes = std::int64_t{64} << 30;
  std::int64_t model_disk_bytes = std::int64_t{4} << 30;
  std::int64_t max_producers_per_model = 10000;
  std::int64_t producer_idle_seconds = std::int64_t{30} * 86400;
  std::int64_t max_expired_producers_per_model = 5000;
  std::int64_t max_request_ids_per_model = 5000;
  std::int64_t request_id_seconds = 86400;
  std::int64_t ingest_queue_bytes = std::int64_t{32} << 20;
  std::int64_t max_batches_in_flight = 256;
  // 0 means one per CPU.
  std::int64_t writer_threads = 0;
  std::int64_t compute_threads = 0;
  std::int64_t max_queued_tests = 16;
  std::int64_t test_memory_bytes = std::int64_t{1} << 30;
  double max_test_operations = 1e13;

  std::int64_t max_series = 200000;
  std::int64_t drain_seconds = 10;
};

// The files of TLS. Requires that options.tls_certificate is set.
[[nodiscard]] TlsFiles TlsFilesOf(const Options& options);

enum class Command { kServe, kHealthcheck, kRestore, kMigrate };

// The arguments of `calibd restore`.
struct RestoreArguments {
  std::string archive;
  std::string folder;
  // Empty if the archive has the files of one store.
  std::string store_id;
};

struct Invocation {
  Command command = Command::kServe;
  Options options;
  RestoreArguments restore;
  // The role to which `calibd migrate` gives the rights of a serving calibd; empty for none.
  std::string grant;
};

// The process must exit with this code; all messages are already printed.
struct Exit {
  int code = 0;
};

// Reads the command line, the environment and the configuration file. Prints help, version or an
// error. Exit code 2 for wrong usage: an unknown flag or key, a value out of range, a non-loopback
// address without --insecure-allow-remote, unless TLS is on and each caller needs a certificate or
// --access-file.
[[nodiscard]] std::variant<Invocation, Exit> ParseOptions(int argc, const char* const* argv);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_PROCESS_OPTIONS_H_
