#include "server/watch/dependence_state.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "calibd/core/status_macros.h"
#include "server/watch/state_fields.h"

namespace calibd::server {
namespace {

void DependenceFields(StateFields& fields, SerialDependence::State& state) {
  using Stored = store::v1::MonitorState::SerialDependence;
  using Row = SerialDependence::Row;
  fields(Stored::kRowsFieldNumber, state.rows);
  std::vector<std::int32_t> labels;
  for (const Row& row : state.pool) labels.push_back(row.label);
  fields(Stored::kPoolLabelsFieldNumber, labels);
  fields.Require(labels.size() <= SerialDependence::kMostPool && (state.rows > 0 || labels.empty()),
                 "has too many rows for a pool");
  if (!fields.ok()) return;
  state.pool.resize(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) state.pool[i].label = labels[i];
  fields.Column(Stored::kPoolXFieldNumber, state.pool, &Row::x);
  if (fields.restoring() && state.rows == 0) return;
  fields.Column(Stored::kUnfinishedLabelsFieldNumber, state.unfinished, &Row::label);
  fields.Column(Stored::kUnfinishedXFieldNumber, state.unfinished, &Row::x);
  fields.Column(Stored::kSumsFieldNumber, state.sums);
  fields.Column(Stored::kSquaresFieldNumber, state.squares);
  fields(Stored::kReachedAtFieldNumber, state.reached_at);
  fields.Require(std::ranges::min(state.squares) >= 0 && state.reached_at <= state.rows,
                 "has evidence of serial dependence that cannot be");
}

}  // namespace

void SaveDependence(const SerialDependence& dependence, store::v1::MonitorState& out) {
  if (dependence.state().rows == 0) return;
  SaveFields(dependence.state(), *out.mutable_serial_dependence(), DependenceFields);
}

absl::Status RestoreDependence(const store::v1::MonitorState& stored, std::size_t class_count,
                               SerialDependence& dependence) {
  SerialDependence::State state;
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored.serial_dependence(), state, DependenceFields));
  const auto is_class = [class_count](const SerialDependence::Row& row) {
    return row.label >= 0 && static_cast<std::size_t>(row.label) < class_count;
  };
  if (!std::ranges::all_of(state.pool, is_class) ||
      !std::ranges::all_of(state.unfinished, is_class)) {
    return absl::InvalidArgumentError("has evidence of serial dependence that cannot be");
  }
  dependence = SerialDependence(std::move(state));
  return absl::OkStatus();
}

}  // namespace calibd::server
