#ifndef CALIBD_SERVER_KINDS_CLASSES_CLASS_KIND_H_
#define CALIBD_SERVER_KINDS_CLASSES_CLASS_KIND_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/running_skce.h"
#include "calibd/core/serial_dependence.h"
#include "calibd/store/v1/store.pb.h"
#include "server/kinds/classes/class_measure.h"
#include "server/kinds/classes/evidence_watch.h"
#include "server/model/monitoring.h"
#include "server/watch/monitor.h"
#include "server/watch/row_screen.h"

namespace calibd::server {

// Predictions of classes, for Monitor.
class ClassKind {
 public:
  using Batch = PredictionBatch;
  using Watch = EvidenceWatch;
  using Measure = ClassMeasure;

  struct Gathered {
    Gathered(const Batch& batch, std::size_t rows);
    void Add(const Batch& batch, std::size_t row);
    [[nodiscard]] Batch view() const noexcept { return {probabilities, labels, class_count}; }

    std::vector<double> probabilities;
    std::vector<std::int32_t> labels;
    std::size_t class_count;
  };

  struct Stop {
    double log_class_mean = 0;
    // Set at the end of a row of the log.
    RunningReliability::Bin total;
  };
  // The maximum of the e-value includes the evidence against classes and groups after this many
  // observations, counted from the first one of the watch: an alarm must not depend on where rows
  // of the log end.
  static constexpr std::int64_t kConsiderPeriod = 64;

  // window: the length of the model's window. reference_seed: fixed before the first row.
  ClassKind(std::size_t class_count, std::size_t window, std::uint64_t reference_seed)
      : class_count_(class_count),
        reference_seed_(reference_seed),
        screen_(std::make_unique<RowScreen>(window)) {}

  // Sets the kernel of the evidence. A kernel without a Fourier basis gives no evidence. May throw
  // bad_alloc.
  void SetKernel(const RunningKernel& kernel);

  [[nodiscard]] std::unique_ptr<Watch> NewWatch(std::int64_t first_observation,
                                                const Monitoring& monitoring,
                                                const EvidenceMarks& marks) const;
  void AddStatistics(Watch& watch, const Batch& batch);
  [[nodiscard]] static Stop StopAt(const Watch& watch, bool ends_row) {
    return {.log_class_mean = watch.LogClassMean(),
            .total = ends_row ? watch.reliability().Total() : RunningReliability::Bin()};
  }
  static void ConsiderGroup(Watch& watch) noexcept {
    watch.Consider({.log_class_mean = watch.LogClassMean()});
  }
  template <typename Group>
  static void Consider(Watch& watch, const Stop& stop, std::span<const Group> groups,
                       const Monitoring& monitoring) noexcept {
    PartsEvidence parts = OfGroups(groups, monitoring);
    parts.log_class_mean = stop.log_class_mean;
    watch.Consider(parts);
  }
  [[nodiscard]] static std::int64_t Count(const Watch& /*watch*/, const Stop& stop) noexcept {
    return stop.total.count;
  }
  static void Describe(const Watch& watch, const Stop& stop, const EvidenceReading& reading,
                       const Monitoring& monitoring, Alarm& alarm);

  [[nodiscard]] static Measure::Row RowOf(const Batch& batch, std::size_t row) noexcept {
    return {.batch = batch, .index = row};
  }
  // The probability of the predicted class, and whether it was wrong.
  [[nodiscard]] static std::pair<double, bool> OutcomeOf(const Batch& batch,
                                                         std::size_t row) noexcept {
    const Measure::Event top_label = Measure::EventOf(RowOf(batch, row), 0);
    return {top_label.stated, !top_label.happened};
  }
  [[nodiscard]] std::uint64_t reference_seed() const noexcept { return reference_seed_; }
  [[nodiscard]] Measure NewMeasure(const Monitoring& monitoring) const {
    return Measure(ErrorBudget::OfModel(monitoring.significance_level, class_count_));
  }
  [[nodiscard]] Measure NewGroupMeasure(const Monitoring& monitoring) const {
    // One more than max_groups, for the overflow group.
    return Measure(ErrorBudget::OfGroup(monitoring.significance_level, monitoring.max_groups + 1,
                                        class_count_));
  }

  // Call it for all received rows, with or without a kernel, and after a start for the rows of the
  // window.
  void Screen(const Batch& batch) noexcept { screen_->Add(batch); }
  [[nodiscard]] const RowScreen::Counts& screened() const noexcept { return screen_->counts(); }

  [[nodiscard]] static WatchSnapshot SnapshotOf(const Watch& watch, bool /*is_model*/,
                                                const Monitoring& monitoring) {
    return watch.Snapshot(monitoring.significance_level);
  }
  static void Updated(const Monitoring& /*monitoring*/) noexcept {}
  void Restarted() { dependence_ = {}; }
  // The observation of the evidence at which serial dependence was found, from 1; 0 before.
  [[nodiscard]] std::int64_t dependence_found_at() const noexcept {
    return dependence_.reached_at();
  }

  void Save(store::v1::MonitorState& out) const;
  template <typename Group>
  [[nodiscard]] static absl::Status RestoreWatch(const store::v1::WatchState& stored,
                                                 std::span<const Group> groups,
                                                 const Monitoring& monitoring, Watch& watch) {
    return watch.Restore(stored, groups.empty() ? PartsEvidence() : OfGroups(groups, monitoring));
  }
  [[nodiscard]] absl::Status RestoreSums(const store::v1::MonitorState& stored,
                                         const Watch& /*watch*/);

  // Maximum number of bytes of the watches of a model; 0 if monitoring is disabled.
  [[nodiscard]] static std::size_t MaxMemory(const Monitoring& monitoring,
                                             std::size_t class_count) noexcept;

 private:
  // The mean e-value of the groups, each with the weight 1 / max_groups, and their product. The
  // overflow group has no weight in the mean. 1 without a group tag.
  template <typename Group>
  [[nodiscard]] static PartsEvidence OfGroups(std::span<const Group> groups,
                                              const Monitoring& monitoring) noexcept;

  std::size_t class_count_;
  std::uint64_t reference_seed_;
  std::unique_ptr<RowScreen> screen_;
  // Of the observations of the model's watch.
  SerialDependence dependence_;
  // Null before the kernel is known, and for a kernel without a Fourier basis.
  std::shared_ptr<const FourierBasis> basis_;
};

using ClassMonitor = Monitor<ClassKind>;

template <typename Group>
PartsEvidence ClassKind::OfGroups(std::span<const Group> groups,
                                  const Monitoring& monitoring) noexcept {
  if (monitoring.group_tag.empty()) return {};
  const auto slots = static_cast<double>(monitoring.max_groups);
  // The largest e-value is taken out of the sum, which could overflow.
  double most = 0;
  auto unseen = slots;
  double log_product = 0;
  for (const Group& group : groups) {
    if (group.IsEmpty()) continue;
    const double log_e_value = group.watch->LogEValue();
    log_product += log_e_value;
    if (group.id.overflow) continue;
    most = std::max(most, log_e_value);
    --unseen;
  }
  double sum = unseen * std::exp(-most);
  for (const Group& group : groups) {
    if (!group.id.overflow && !group.IsEmpty()) sum += std::exp(group.watch->LogEValue() - most);
  }
  return {.log_group_mean = most + std::log(sum / slots), .log_group_product = log_product};
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_CLASSES_CLASS_KIND_H_
