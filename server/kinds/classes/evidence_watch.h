#ifndef CALIBD_SERVER_KINDS_CLASSES_EVIDENCE_WATCH_H_
#define CALIBD_SERVER_KINDS_CLASSES_EVIDENCE_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/class_evidence.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/evidence.h"
#include "calibd/core/forecast_discrepancy.h"
#include "calibd/core/forecast_evidence.h"
#include "calibd/core/fourier_basis.h"
#include "calibd/core/fourier_null_squares.h"
#include "calibd/core/noise_floor.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/running_reliability.h"
#include "calibd/core/running_skce.h"
#include "calibd/store/v1/store.pb.h"
#include "server/watch/monitor_snapshot.h"

namespace calibd::server {

// A class whose frequency deviates, or whose probabilities are rejected.
struct DeviatingClass {
  std::size_t index = 0;
  RunningClassFrequencies::Class frequencies;
  // The e-value of the class from ClassEvidence.
  double log10_e_value = 0;
  // True if e-BH over all classes rejects the class.
  bool rejected = false;
};

// What the evidence of classes says besides its reading.
struct ClassWatchDetails final : WatchDetails {
  // Reliability diagram of the top label.
  RunningReliability reliability;
  // At most kShownClasses classes by the absolute value of Z, descending, followed by at most
  // kShownClasses other classes that e-BH rejects, by descending e-value.
  std::vector<DeviatingClass> deviating_classes;
  // Number of rejected classes among all classes.
  std::int64_t rejected_classes = 0;
  // Moments of the SKCE of the reading under the null hypothesis.
  NullMoments null_moments;

  void Describe(const WatchSnapshot& watch, double significance_level,
                v1::Watch& out) const override;
  void DescribeVerdict(const ModelDeclaration& declaration, const WatchSnapshot& watch,
                       v1::Verdict& out) const override;
  void DescribeGroup(const WatchSnapshot& watch, v1::GroupWatch& out) const override;
};

// The evidence of one stream of observations, and statistics of its predictions. Not thread-safe.
class EvidenceWatch {
 public:
  // Maximum number of classes that are shown for each of the two reasons.
  static constexpr std::size_t kShownClasses = 5;

  // tolerance, marks: as for EvidenceProcess::Create, already checked. first_observation: its
  // number within the model, from 1. May throw bad_alloc.
  EvidenceWatch(std::shared_ptr<const FourierBasis> basis, double tolerance,
                const EvidenceMarks& marks, std::int64_t first_observation);

  // Adds the first rows of `ahead`, whose other rows follow in the next calls; see
  // EvidenceProcess::AddFirst. The bits do not depend on how a sequence is split into calls.
  void Add(const PredictionBatch& ahead, std::size_t rows) {
    AddStatistics(ahead.rows(0, rows));
    AddEvidence(ahead, rows, nullptr);
  }
  // The two halves of Add, which may run at the same time on different threads: the evidence
  // against the classes with the statistics, and the evidence against the model.
  void AddStatistics(const PredictionBatch& batch) noexcept;
  // With `parallel`, AddEvidence may throw bad_alloc.
  void AddEvidence(const PredictionBatch& ahead, std::size_t rows, const ParallelLoop& parallel) {
    process_.AddFirst(ahead, rows, parallel);
  }
  // Logarithm of the mean e-value of the classes, which is a result of AddStatistics.
  [[nodiscard]] double LogClassMean() const noexcept { return class_evidence_.LogMean(); }
  // A part of AddEvidence: includes the evidence against the classes and groups, both over all
  // observations so far; see EvidenceProcess::Consider.
  void Consider(const PartsEvidence& parts) noexcept { process_.Consider(parts); }
  // See EvidenceProcess::RecordMaximum.
  void RecordMaximum() noexcept { process_.RecordMaximum(); }
  void RestartDrift(const EvidenceMarks& marks) noexcept {
    process_.RestartDrift(marks.log_shiryaev_roberts);
  }

  [[nodiscard]] EvidenceReading Read() const { return process_.Read(); }
  [[nodiscard]] EvidenceMarks maxima() const noexcept { return process_.maxima(); }
  // The natural logarithm of its e-value.
  [[nodiscard]] double LogEValue() noexcept { return process_.LogEValue(); }
  [[nodiscard]] const RunningReliability& reliability() const noexcept { return reliability_; }
  [[nodiscard]] const std::shared_ptr<const FourierBasis>& basis() const noexcept { return basis_; }
  [[nodiscard]] std::int64_t first_observation() const noexcept { return first_observation_; }
  // Number of observations, which AddStatistics counts.
  [[nodiscard]] std::int64_t count() const noexcept { return class_evidence_.count(); }
  // significance_level: the level of e-BH over the classes.
  [[nodiscard]] WatchSnapshot Snapshot(double significance_level) const;

  void Save(store::v1::WatchState& out) const;
  // Restores a saved state. groups: the evidence of the groups, for states of versions that did not
  // include it. Errors: InvalidArgument; this object must not be used then.
  [[nodiscard]] absl::Status Restore(const store::v1::WatchState& stored, PartsEvidence groups);

  // Maximum number of bytes that a watch holds, without its basis.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t class_count) noexcept;

 private:
  std::shared_ptr<const FourierBasis> basis_;
  EvidenceProcess process_;
  RunningReliability reliability_;
  RunningClassFrequencies frequencies_;
  ClassEvidence class_evidence_;
  FourierNullSquares null_squares_;
  std::int64_t first_observation_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_CLASSES_EVIDENCE_WATCH_H_
