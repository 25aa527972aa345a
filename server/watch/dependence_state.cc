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
  if (fields.restoring() && state.rows == 0) return;
  std::vector<std::int32_t> labels;
  for (const Row& row : state.kept) labels.push_back(row.label);
  fields(Stored::kKeptLabelsFieldNumber, labels);
  // Integers of a store are counts: each is one more than the outcome.
  std::vector<std::int32_t> newest = state.newest;
  for (std::int32_t& outcome : newest) ++outcome;
  fields(Stored::kNewestFieldNumber, newest);
  std::vector<double> runs;
  for (const SerialDependence::Run& run : state.runs) {
    runs.insert(runs.end(), run.begin(), run.end());
  }
  fields(Stored::kRunsFieldNumber, runs);
  fields.Require(
      labels.size() == static_cast<std::size_t>(std::min<std::int64_t>(
                           state.rows / 3, static_cast<std::int64_t>(SerialDependence::kLag))),
      "has too many or too few rows for neighbours");
  if (!fields.ok()) return;
  state.kept.resize(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) state.kept[i].label = labels[i];
  state.newest = std::move(newest);
  for (std::int32_t& outcome : state.newest) --outcome;
  constexpr std::size_t kRates = SerialDependence::kRunRates.size();
  state.runs.resize(runs.size() / kRates);
  for (std::size_t i = 0; i < state.runs.size() * kRates; ++i) {
    state.runs[i / kRates][i % kRates] = runs[i];
  }
  fields.Column(Stored::kKeptXFieldNumber, state.kept, &Row::x);
  fields.Column(Stored::kUnfinishedLabelsFieldNumber, state.unfinished, &Row::label);
  fields.Column(Stored::kUnfinishedXFieldNumber, state.unfinished, &Row::x);
  fields.Column(Stored::kSumsFieldNumber, state.sums);
  fields.Column(Stored::kSquaresFieldNumber, state.squares);
  fields(Stored::kReachedAtFieldNumber, state.reached_at);
  fields(Stored::kOrderFieldNumber, state.order);
  fields(Stored::kPairOutcomeFieldNumber, state.pair_outcome);
  fields.Require(std::ranges::min(state.squares) >= 0 && state.reached_at <= state.rows,
                 "has evidence of serial dependence that cannot be");
}

bool Fits(const SerialDependence::State& state, const SerialDependence::Shape& shape) {
  if (state.rows == 0) return true;
  const auto is_class = [&shape](const SerialDependence::Row& row) {
    return row.label >= 0 && static_cast<std::size_t>(row.label) < shape.classes;
  };
  const std::size_t outcomes = std::max<std::size_t>(shape.classes, 2);
  return std::ranges::all_of(state.kept, is_class) &&
         std::ranges::all_of(state.unfinished, is_class) &&
         state.newest.size() == shape.sequences &&
         state.runs.size() == shape.sequences * shape.labels &&
         (state.order.empty() || state.order.size() == shape.order) &&
         std::ranges::all_of(state.order, [](double product) { return product > 0; }) &&
         std::ranges::all_of(state.newest, [outcomes](std::int32_t outcome) {
           return outcome < static_cast<std::int32_t>(outcomes);
         });
}

}  // namespace

void SaveDependence(const SerialDependence& dependence, store::v1::MonitorState& out) {
  if (dependence.state().rows == 0) return;
  SaveFields(dependence.state(), *out.mutable_serial_dependence(), DependenceFields);
}

absl::Status RestoreDependence(const store::v1::MonitorState& stored,
                               const SerialDependence::Shape& shape, SerialDependence& dependence) {
  SerialDependence::State state;
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored.serial_dependence(), state, DependenceFields));
  if (!Fits(state, shape)) {
    return absl::InvalidArgumentError("has evidence of serial dependence that cannot be");
  }
  dependence = SerialDependence(std::move(state));
  return absl::OkStatus();
}

}  // namespace calibd::server
