#ifndef CALIBD_SERVER_KINDS_PREDICTION_KIND_H_
#define CALIBD_SERVER_KINDS_PREDICTION_KIND_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/validation.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/ingest_service.pb.h"
#include "calibd/v1/model_service.pb.h"
#include "server/kinds/history_bucket.h"
#include "server/kinds/kind_snapshot.h"
#include "server/kinds/kind_state.h"
#include "server/model/model_declaration.h"
#include "server/rows/log_row.h"
#include "server/rows/truths.h"

namespace calibd::server {

// Maximum size of a snapshot in bytes. A store holds it as one value, which must be below 1e9
// bytes.
inline constexpr std::size_t kMaxSnapshotBytes = 900000000;

// Maximum numbers of bytes that depend on the kind of the predictions.
struct KindSizes {
  // The running estimators, in memory and in a snapshot.
  std::size_t estimators = 0;
  // All watches, in memory and in a snapshot; 0 if monitoring is disabled.
  std::size_t watches = 0;
  // What else is in memory: the spec, the screen of rows.
  std::size_t other = 0;
  // What a bucket of the history allocates, and what a stored one holds besides a bucket of
  // classes.
  std::size_t history_bucket = 0;
  std::size_t stored_bucket = 0;
  // The stored spec.
  std::size_t stored_spec = 0;
};

// The published state of a model that an answer describes.
struct DescribedModel {
  const ModelDeclaration& declaration;
  const KindSnapshot& snapshot;
  std::int64_t observations;
  std::chrono::system_clock::time_point now;
  // Its fields select optional parts of the answer.
  const v1::GetCalibrationRequest& request = v1::GetCalibrationRequest::default_instance();
};

// The calls that compute something from the window, and whose support depends on the kind.
enum class WindowCall {
  kTest,
  kRecalibration,
  kErrorEstimate,
  kComparison,
  kInferenceEvent,
  kEvaluation
};
// What an error calls it, such as "a test".
[[nodiscard]] const char* NameOf(WindowCall call) noexcept;

// How the values of a batch were sent.
struct ValueForm {
  bool logits = false;
  bool baseline_logits = false;
};

// Maximum number of labels of a bucket of the history in an answer, so that a page of 1000 buckets
// takes less than 4 MiB.
inline constexpr std::size_t kMostDescribedLabels = 20;

// What the check of a spec depends on besides the declaration.
struct SpecContext {
  // Limit of one model in bytes, to which defaults shrink.
  std::size_t memory_limit = 0;
};

// What the server asks about a kind of predictions. Each kind has one object without state, which
// the table in kind_table.cc lists. The functions that take a declaration require one of this
// kind, unless they say otherwise.
class PredictionKind {
 public:
  PredictionKind() = default;
  PredictionKind(const PredictionKind&) = delete;
  PredictionKind& operator=(const PredictionKind&) = delete;
  virtual ~PredictionKind() = default;

  // ---- The declaration

  // The field of v1.Model that declares such a model.
  [[nodiscard]] virtual v1::Model::KindCase field() const noexcept = 0;
  // Sets declaration.kind from the field of the model. The name, the description and the names of
  // the features are in the declaration; the rest is not yet. violations: receives the invalid
  // fields. Returns false if other fields cannot be checked with this spec.
  [[nodiscard]] virtual bool CheckSpec(const v1::Model& model, const SpecContext& context,
                                       ModelDeclaration& declaration,
                                       std::vector<Violation>& violations) const = 0;
  // Sets what an update may change of the spec: the fields of SettingsToProto.
  virtual void CheckSettings(const v1::Model& /*model*/, ModelDeclaration& /*declaration*/,
                             std::vector<Violation>& /*violations*/) const {}
  // Sets declaration.warmup if it is declared. window: the declared window, or the longest one.
  virtual void CheckWarmup(const v1::Model& /*model*/, std::size_t /*window*/,
                           ModelDeclaration& /*declaration*/,
                           std::vector<Violation>& /*violations*/) const {}
  // True if something is chosen from the first observations.
  [[nodiscard]] virtual bool NeedsWarmup(const ModelDeclaration& declaration) const = 0;
  // The longest warm-up by the work that it takes.
  [[nodiscard]] virtual std::size_t MostWarmup(const ModelDeclaration& declaration) const = 0;
  // Whether a call computes something from the window of such a model.
  [[nodiscard]] virtual bool uses_window() const noexcept { return true; }
  // Default of monitoring.error_limit.
  [[nodiscard]] virtual double default_error_limit() const noexcept = 0;
  // What a prediction consists of, such as "10 classes".
  [[nodiscard]] virtual std::string Predicts(const ModelDeclaration& declaration) const = 0;
  // Adds a sentence such as "classes.count is 2, declared 3" for each field of the spec in which
  // two declarations of this kind differ, except for those that an update may change.
  virtual void Compare(const ModelDeclaration& existing, const ModelDeclaration& declared,
                       std::vector<std::string>& differences) const = 0;
  // Fills in the unset fields of a declaration of an existing model whose defaults may have changed
  // since. existing: its declaration now, of the same kind.
  virtual void FillFrom(const v1::Model& /*existing*/, v1::Model& /*declared*/) const {}

  // ---- Batches

  // What such a model does, for errors: "predicts classes".
  [[nodiscard]] virtual const char* does() const noexcept = 0;
  // Converts the predictions of rows [first, first + count) of a batch from this form, and checks
  // them and their truths, if there are any. Numbers of values and truths are right. Returns the
  // violations of the first invalid rows, at most one for each row; their fields are of the batch.
  [[nodiscard]] virtual std::vector<Violation> ConvertRows(const ValueForm& form,
                                                           const ModelDeclaration& declaration,
                                                           std::size_t first, std::size_t count,
                                                           RowValues& values) const = 0;
  // Clears labelled[i] if the truth i, which came later, makes no observation with its prediction.
  virtual void LeaveOut(const ModelDeclaration& /*declaration*/, const RowValues& /*predictions*/,
                        const TruthView& /*truths*/, std::vector<bool>& /*labelled*/) const {}

  // ---- Sizes

  [[nodiscard]] virtual KindSizes Sizes(const ModelDeclaration& declaration) const noexcept = 0;
  // The number of observations after which a snapshot is due, if there is no watch.
  [[nodiscard]] virtual std::size_t SnapshotRows(
      const ModelDeclaration& declaration) const noexcept = 0;

  // ---- Answers

  // The names of the families of experts, in the order of the shares of an EvidenceReading.
  [[nodiscard]] virtual std::span<const char* const> families() const noexcept = 0;
  // Writes the scores and estimates of the model. The details of the monitor write the rest.
  virtual void Describe(const DescribedModel& model, v1::GetCalibrationResponse& out) const = 0;
  // Why a monitored model has no watch yet.
  [[nodiscard]] virtual std::string NoWatchReason(const ModelDeclaration& declaration,
                                                  const KindSnapshot& snapshot) const = 0;
  // Writes the scores and the error of a bucket of the history. snapshot: of the model now. labels:
  // names of at most kMostDescribedLabels labels that are described; empty: those that are furthest
  // off. Kinds without several labels ignore them.
  virtual void DescribeBucket(const ModelDeclaration& declaration, const KindSnapshot& snapshot,
                              const HistoryBucket& bucket, std::span<const std::string> labels,
                              v1::HistoryBucket& out) const = 0;
  // Names of the labels, of which a bucket describes some; empty for kinds without several labels.
  [[nodiscard]] virtual std::span<const std::string> label_names(
      const ModelDeclaration& /*declaration*/) const noexcept {
    return {};
  }
  // Writes what the producer of a stream must know of the spec.
  virtual void DescribeOpened(const ModelDeclaration& declaration,
                              v1::StreamObservationsResponse::Opened& out) const = 0;
  // The kernel of the estimators, for a metric; "none" without one.
  [[nodiscard]] virtual const char* kernel_name(const ModelDeclaration& declaration) const = 0;
  // OK if the model supports the call. Errors: FailedPrecondition, with what it offers instead.
  [[nodiscard]] virtual absl::Status CheckCall(const ModelDeclaration& /*declaration*/,
                                               WindowCall /*call*/) const {
    return absl::OkStatus();
  }

  // ---- The state

  [[nodiscard]] virtual std::unique_ptr<KindState> NewState(
      std::shared_ptr<const ModelDeclaration> declaration) const = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_PREDICTION_KIND_H_
