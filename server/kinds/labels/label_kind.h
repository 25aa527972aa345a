#ifndef CALIBD_SERVER_KINDS_LABELS_LABEL_KIND_H_
#define CALIBD_SERVER_KINDS_LABELS_LABEL_KIND_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "calibd/core/label_evidence.h"
#include "calibd/core/multilabel.h"
#include "calibd/core/serial_dependence.h"
#include "calibd/store/v1/store.pb.h"
#include "server/kinds/labels/label_measure.h"
#include "server/model/monitoring.h"
#include "server/watch/dependence_state.h"
#include "server/watch/monitor.h"

namespace calibd::server {

// The evidence of a model of K labels at one moment.
struct LabelWatchDetails final : WatchDetails {
  LabelEvidenceReading reading;

  // The evidence of labels has no effect size, and the answer says elsewhere where they deviate.
  void Describe(const WatchSnapshot& /*watch*/, double /*significance_level*/,
                v1::Watch& /*out*/) const override {}
  void DescribeVerdict(const ModelDeclaration& /*declaration*/, const WatchSnapshot& /*watch*/,
                       v1::Verdict& /*out*/) const override {}
  // There are no groups.
  void DescribeGroup(const WatchSnapshot& /*watch*/, v1::GroupWatch& /*out*/) const override {}
};

// The evidence of a stream of predictions of labels since an observation of the model.
class LabelWatch {
 public:
  LabelWatch(std::size_t label_count, double tolerance, const EvidenceMarks& marks,
             std::int64_t first_observation)
      : evidence_(label_count, tolerance, marks), first_observation_(first_observation) {}

  void Add(const MultilabelBatch& ahead, std::size_t rows) noexcept {
    evidence_.Add(ahead.rows(0, rows));
  }
  void AddEvidence(const MultilabelBatch& ahead, std::size_t rows,
                   const ParallelLoop& /*parallel*/) noexcept {
    Add(ahead, rows);
  }
  void RestartDrift(const EvidenceMarks& marks) noexcept {
    evidence_.RestartDrift(marks.log_shiryaev_roberts);
  }
  [[nodiscard]] EvidenceReading Read() const;
  [[nodiscard]] EvidenceMarks maxima() const noexcept { return evidence_.maxima(); }
  [[nodiscard]] const LabelEvidence& evidence() const noexcept { return evidence_; }
  [[nodiscard]] std::int64_t first_observation() const noexcept { return first_observation_; }
  [[nodiscard]] std::int64_t count() const noexcept { return evidence_.count(); }

  void Save(store::v1::WatchState& out) const;
  // Errors: InvalidArgument; this object must not be used then.
  [[nodiscard]] absl::Status Restore(const store::v1::WatchState& stored);

 private:
  LabelEvidence evidence_;
  std::int64_t first_observation_;
};

// Predictions of K labels, for Monitor. Each label has a limit of its own. There are no groups.
class LabelKind {
 public:
  using Batch = MultilabelBatch;
  using Watch = LabelWatch;
  using Measure = LabelMeasure;
  struct Stop {};
  static constexpr std::int64_t kConsiderPeriod = std::numeric_limits<std::int64_t>::max();
  // More rows that are certain are not counted.
  static constexpr std::int64_t kMostCertainRows = RowScreen::kMostDigitRows;

  LabelKind(std::size_t label_count, double tolerance) noexcept
      : label_count_(label_count), tolerance_(tolerance) {}

  [[nodiscard]] std::unique_ptr<Watch> NewWatch(std::int64_t first_observation,
                                                const Monitoring& /*monitoring*/,
                                                const EvidenceMarks& marks) const {
    return std::make_unique<Watch>(label_count_, tolerance_, marks, first_observation);
  }
  void AddStatistics(const Watch& watch, const Batch& batch);
  [[nodiscard]] static Stop StopAt(const Watch& /*watch*/, bool /*ends_row*/) noexcept {
    return {};
  }
  [[nodiscard]] static std::int64_t Count(const Watch& watch, const Stop& /*stop*/) noexcept {
    return watch.count();
  }
  // Names the label with the largest value of the statistic.
  static void Describe(const Watch& watch, const Stop& stop, const EvidenceReading& reading,
                       const Monitoring& monitoring, Alarm& alarm);

  [[nodiscard]] static Measure::Row RowOf(const Batch& batch, std::size_t row) noexcept {
    return batch.rows(row, 1);
  }
  [[nodiscard]] Measure NewMeasure(const Monitoring& monitoring) const noexcept {
    return Measure(Measure::Of::kModel, label_count_, LevelsOf(monitoring, label_count_).of_all);
  }
  [[nodiscard]] Measure NewGroupMeasure(const Monitoring& monitoring) const noexcept {
    return NewMeasure(monitoring);
  }
  // ---- The limits of single labels; see Monitor.
  [[nodiscard]] std::size_t label_count() const noexcept { return label_count_; }
  [[nodiscard]] Measure NewLabelMeasure(const Monitoring& monitoring) const noexcept {
    return Measure(Measure::Of::kLabel, 1, LevelsOf(monitoring, label_count_).of_each);
  }
  [[nodiscard]] static std::optional<Measure::Row> LabelRowOf(const Batch& batch, std::size_t row,
                                                              std::size_t label) noexcept {
    const std::size_t place = row * batch.label_count + label;
    if (batch.truths[place] == kMissingTruth) return std::nullopt;
    return Measure::Row{.probabilities = batch.probabilities.subspan(place, 1),
                        .truths = batch.truths.subspan(place, 1),
                        .label_count = 1};
  }

  // Counts the newest rows whose probabilities are all exactly 0 or 1.
  void Screen(const Batch& batch) noexcept { Screen(batch.probabilities); }
  // probabilities: of each label, row after row.
  void Screen(std::span<const double> probabilities) noexcept;
  [[nodiscard]] RowScreen::Counts screened() const noexcept {
    RowScreen::Counts counts;
    counts.digit_rows = counts.certain_rows = certain_rows_;
    return counts;
  }

  [[nodiscard]] static WatchSnapshot SnapshotOf(const Watch& watch, bool is_model,
                                                const Monitoring& monitoring);
  void Updated(const Monitoring& monitoring) noexcept { tolerance_ = monitoring.tolerance; }
  void Restarted() { dependence_ = {}; }
  // The observation of the evidence at which serial dependence was found, from 1; 0 before.
  [[nodiscard]] std::int64_t dependence_found_at() const noexcept {
    return dependence_.reached_at();
  }

  // The label whose own outcomes show it; unset if only several labels together do.
  [[nodiscard]] std::optional<std::size_t> dependent_label() const noexcept {
    return dependence_.WorstSequence();
  }

  void Save(store::v1::MonitorState& out) const { SaveDependence(dependence_, out); }
  template <typename Group>
  [[nodiscard]] static absl::Status RestoreWatch(const store::v1::WatchState& stored,
                                                 std::span<const Group> /*groups*/,
                                                 const Monitoring& /*monitoring*/, Watch& watch) {
    return watch.Restore(stored);
  }
  [[nodiscard]] absl::Status RestoreSums(const store::v1::MonitorState& stored,
                                         const Watch& /*watch*/) {
    return RestoreDependence(stored, SerialDependence::Shape::OfLabels(label_count_), dependence_);
  }

  // The levels of the intervals of each label and of all together.
  [[nodiscard]] static LabelErrorLevels LevelsOf(const Monitoring& monitoring,
                                                 std::size_t label_count) noexcept {
    const double alpha = monitoring.significance_level;
    return {{.bins = alpha * 3 / 4, .gap = alpha / 4}, label_count};
  }
  // Maximum number of bytes of the watches of a model; 0 if monitoring is disabled.
  [[nodiscard]] static std::size_t MaxMemory(const Monitoring& monitoring,
                                             std::size_t label_count) noexcept;

 private:
  std::size_t label_count_;
  double tolerance_;
  // Of the observations of the model's watch.
  SerialDependence dependence_;
  // Number of the newest rows in succession that are certain of each label; see Screen.
  std::int64_t certain_rows_ = 0;
};

using LabelMonitor = Monitor<LabelKind>;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_LABELS_LABEL_KIND_H_
