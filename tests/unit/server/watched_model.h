#ifndef CALIBD_TESTS_UNIT_SERVER_WATCHED_MODEL_H_
#define CALIBD_TESTS_UNIT_SERVER_WATCHED_MODEL_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "calibd/core/generator.h"
#include "server/kinds/classes/class_kind.h"
#include "server/state/model.h"
#include "support/log_rows.h"

// A model with monitoring, for the tests of its monitor.
namespace calibd::server {

inline constexpr std::size_t kModelMonitorClasses = 3;

inline Alarm::Time At(std::int64_t second) { return Alarm::Time(std::chrono::seconds(second)); }

// Acknowledges the first alarm.
inline void Acknowledge(Model& model, const std::string& note, Alarm::Time time) {
  model.strand_state().Apply(
      testing::RowOf(AcknowledgedRow{.alarm_id = 1, .note = note}), 0,
      std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()));
}

inline PredictionSet DrawFrom(const GeneratorSpec& spec, std::size_t n, std::uint64_t seed = 5) {
  PredictionSet set;
  auto generator = Generator::Create(spec, seed);
  generator->Draw(n, set);
  return set;
}

inline ModelDeclaration Watched(std::size_t warmup = 0) {
  ModelDeclaration declaration;
  declaration.name = {"m", ""};
  auto& classes = declaration.kind.emplace<ClassesSpec>();
  classes.count = kModelMonitorClasses;
  classes.block_sizes = {2};
  declaration.window = 300;
  classes.row_sum_tolerance = 1e-3;
  declaration.warmup = warmup;
  if (warmup == 0) {
    classes.kernel.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
    classes.kernel.rule.bandwidth.fixed = 0.5;
  }
  return declaration;
}

// A monitor of classes whose evidence has begun.
inline std::unique_ptr<ClassMonitor> BegunMonitor(const Monitoring& monitoring,
                                                  std::size_t class_count) {
  auto monitor = std::make_unique<ClassMonitor>(monitoring, ClassKind(class_count, 300, 0));
  monitor->kind().SetKernel(*Kernel::ExponentialTotalVariation(0.5));
  monitor->Begin({});
  return monitor;
}

// Adds observations to the evidence, not to the error, and decides. observations: of the model,
// with them.
inline void AddAndDecide(ClassMonitor& monitor, const PredictionBatch& batch, Alarm::Time time,
                         std::int64_t observations) {
  ClassMonitor::Adding adding =
      monitor.BeginAdd(batch, {}, observations - static_cast<std::int64_t>(batch.size()), {});
  adding.Run(ClassMonitor::Adding::kStatistics, nullptr);
  adding.Run(ClassMonitor::Adding::kEvidence, nullptr);
  monitor.Decide(std::move(adding).End(), time, observations);
}

}  // namespace calibd::server

#endif  // CALIBD_TESTS_UNIT_SERVER_WATCHED_MODEL_H_
