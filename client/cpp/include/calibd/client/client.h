#ifndef CALIBD_CLIENT_CLIENT_H_
#define CALIBD_CLIENT_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/client/observation_stream.h"
#include "calibd/client/tls.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/model_service.pb.h"
#include "calibd/v1/store_service.pb.h"

namespace calibd::client {

struct ClientOptions {
  // How long Connect waits for the server to accept the connection; > 0.
  std::chrono::milliseconds connect_timeout{5000};
  // Deadline of one call, its retries included; > 0.
  std::chrono::milliseconds call_timeout{30000};
  // Attempts of one call, the first included; >= 1. Attempts that a starting or draining server
  // refuses are not counted: only the deadline limits them.
  int max_attempts = 4;
  // Ends Connect, OpenStream and every call without a stop of its own with CANCELLED, both running
  // and later calls, from any thread.
  std::stop_token stop{};
  TlsOptions tls{};
  // Returns the token of a call, or nothing. It is called for each call, on any thread, and may not
  // throw; see TokenOfFile. Without it, the token is in the file that the environment variable
  // CALIBD_TOKEN_FILE names, if there is one. A token needs TLS, except on loopback.
  std::function<std::string()> token{};
};

// Progress, cancellation and deadline of a long call.
struct LongCallOptions {
  // Called with the completed fraction, in [0, 1] and never decreasing, on the calling thread.
  // May be empty.
  std::function<void(double fraction)> on_progress;
  // Stops the call, and the server's work for it, from any thread.
  std::stop_token stop;
  // Deadline of the whole call, > 0.
  std::chrono::milliseconds timeout{std::chrono::minutes{10}};
};

// Options of a watch of a model.
struct WatchOptions {
  // Minimum time between two reported changes, 100 ms..1 h.
  std::chrono::milliseconds min_interval{1000};
  // Revision of the newest known change: the watch starts with the next one. With 0 it starts with
  // the current state.
  std::int64_t after_revision = 0;
  // Ends the watch, from any thread.
  std::stop_token stop;
  // Called on the calling thread with the error when the connection is lost or the server refuses
  // more watchers, and with OK when the watch continues. May be empty.
  std::function<void(const absl::Status& status)> on_connection;
};

// A client of one calibd server, with one connection for its calls and its first streams, and
// further ones for further streams.
//
// Errors of every function: the server's status code, its message and, appended,
// the fields that it found wrong; DEADLINE_EXCEEDED after the timeout;
// UNAVAILABLE when the server cannot be reached.
//
// UNAVAILABLE is retried, and RESOURCE_EXHAUSTED when the server says how long
// to wait, with growing, jittered delays; nothing else is. With the addresses of several servers,
// every call that none of them answers is retried until its timeout: one of them may be taking the
// store over.
//
// Thread-safe. The streams that it opens may outlive it.
class Client {
 public:
  // address: "HOST:PORT"; "dns:///NAME:PORT" or "ipv4:IP:PORT,IP:PORT" for several servers of one
  // store, of which the owner is found by the health service. Not encrypted without options.tls:
  // for loopback and trusted networks. Errors: INVALID_ARGUMENT for options that do not fit
  // together or name unusable files; UNAVAILABLE, with the reason if TLS is the cause.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Client>> Connect(
      const std::string& address, const ClientOptions& options = {});

  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Returns the declaration with its defaults filled in. Idempotent.
  [[nodiscard]] absl::StatusOr<v1::Model> CreateModel(const v1::Model& model);
  // name: the result of ModelName, here and below.
  [[nodiscard]] absl::StatusOr<v1::Model> GetModel(std::string_view name);
  // All models, ascending by name.
  [[nodiscard]] absl::StatusOr<std::vector<v1::Model>> ListModels();
  // Changes the fields of the declaration that update_mask names, see v1::UpdateModelRequest. When
  // an earlier attempt was cut off, the answer may show no change.
  [[nodiscard]] absl::StatusOr<v1::UpdateModelResponse> UpdateModel(
      const v1::UpdateModelRequest& request);
  // Deletes a model with all its state. confirmation: the name again, because a deletion cannot be
  // undone. When an earlier attempt was cut off, NOT_FOUND of a later one counts as done. Errors:
  // InvalidArgument if the confirmation differs from the name; those of the call.
  [[nodiscard]] absl::Status DeleteModel(std::string_view name, std::string_view confirmation);

  // The running estimates. request: says what else the answer has.
  [[nodiscard]] absl::StatusOr<v1::GetCalibrationResponse> GetCalibration(std::string_view name);
  [[nodiscard]] absl::StatusOr<v1::GetCalibrationResponse> GetCalibration(
      const v1::GetCalibrationRequest& request);

  // The verdicts of all models, ascending by name, with the models that e-BH rejects.
  // false_discovery_rate: in [1e-9, 0.25], or 0 for 0.05.
  [[nodiscard]] absl::StatusOr<v1::ListVerdictsResponse> ListVerdicts(
      double false_discovery_rate = 0);

  // Acknowledges an alarm. note: the action taken or its author, at most 500 bytes.
  // Idempotent.
  [[nodiscard]] absl::StatusOr<v1::AcknowledgeAlarmResponse> AcknowledgeAlarm(
      std::string_view name, std::int64_t alarm_id, std::string_view note);

  // Calls on_change on the calling thread for every change of a model's calibration, with only the
  // newest of several changes within min_interval, until on_change returns false (OK), a stop
  // (CANCELLED) or an error. Retries a lost connection, and a server that refuses more watchers,
  // without limit and with growing, jittered delays; no change is reported twice. Errors also:
  // DEADLINE_EXCEEDED if the server sends no first message within call_timeout; DATA_LOSS if it
  // ends five calls in a row without a message that can be read.
  [[nodiscard]] absl::Status Watch(
      std::string_view name,
      const std::function<bool(const v1::WatchCalibrationResponse& change)>& on_change,
      const WatchOptions& options = {});
  // The calibration over time: all buckets of the request's range, from all pages; page_size and
  // page_token are ignored.
  [[nodiscard]] absl::StatusOr<v1::GetHistoryResponse> GetHistory(
      const v1::GetHistoryRequest& request);

  // The quadratic test on the newest window. CANCELLED after a stop.
  [[nodiscard]] absl::StatusOr<v1::QuadraticTestResult> RunTest(
      const v1::RunTestRequest& request, const LongCallOptions& options = {});

  // The complete evaluation of the newest window. CANCELLED after a stop.
  [[nodiscard]] absl::StatusOr<v1::Evaluation> Evaluate(const v1::EvaluateRequest& request,
                                                        const LongCallOptions& options = {});

  // A recalibration map for the newest window and what it gains; see recalibration.h for its use.
  // CANCELLED after a stop.
  [[nodiscard]] absl::StatusOr<v1::Recalibration> Recalibrate(const v1::RecalibrateRequest& request,
                                                              const LongCallOptions& options = {});

  // How large the squared calibration error of the newest window is. CANCELLED after a stop.
  [[nodiscard]] absl::StatusOr<v1::CalibrationErrorEstimate> EstimateCalibrationError(
      const v1::EstimateCalibrationErrorRequest& request, const LongCallOptions& options = {});

  // The newest windows of two models, compared. CANCELLED after a stop.
  [[nodiscard]] absl::StatusOr<v1::ModelComparison> CompareModels(
      const v1::CompareModelsRequest& request, const LongCallOptions& options = {});

  // Writes a consistent copy of the server's store to the new file `path`, and returns its size in
  // bytes. A copy that fails leaves no file. Errors: CANCELLED after a stop; ALREADY_EXISTS if the
  // file exists; RESOURCE_EXHAUSTED if it would leave less than 100 MiB of the disk free; the
  // status of the system's error if it cannot be written, such as NOT_FOUND.
  [[nodiscard]] absl::StatusOr<std::int64_t> Backup(const std::string& path,
                                                    const LongCallOptions& options = {});

  // Makes the server read and verify its whole store. The result lists the problems found.
  [[nodiscard]] absl::StatusOr<v1::Verification> Verify(const LongCallOptions& options = {});

  // Opens a stream of predictions to a model and waits, at most for the call timeout, until the
  // server is ready for it.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<ObservationStream>> OpenStream(
      std::string_view name, const StreamOptions& options = {});

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Returns an id of a model or version for any text: the text itself if it matches
// ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$ and does not begin with "x--"; otherwise its escaped form,
// from which the text can be recovered, see Model.name in model_service.proto. The server refuses
// an id of more than 128 bytes.
[[nodiscard]] std::string EscapeId(std::string_view text);

// "models/{model}" or, with a version, "models/{model}/versions/{version}". model, version: ids.
[[nodiscard]] std::string ModelName(std::string_view model, std::string_view version = {});

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_CLIENT_H_
