// Conversion of the monitoring state of a model to and from the messages of the store.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/watch/evidence_watch.h"
#include "server/watch/model_monitor.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

using Reals = google::protobuf::RepeatedField<double>;

void Put(const std::vector<double>& values, Reals& out) { out.Add(values.begin(), values.end()); }

std::vector<double> Get(const Reals& values) { return {values.begin(), values.end()}; }

void Put(const RunningMaximum& maximum, store::v1::RunningMaximum& out) {
  out.set_log_value(maximum.log_value);
  out.set_at(maximum.at);
}

RunningMaximum Get(const store::v1::RunningMaximum& stored) {
  return {.log_value = stored.log_value(), .at = stored.at()};
}

void Put(const PastState& past, store::v1::PastState& out) {
  out.set_weight(past.weight);
  Put(past.fourier_sums, *out.mutable_fourier_sums());
  Put(past.witness, *out.mutable_witness());
  Put(past.class_observed, *out.mutable_class_observed());
  Put(past.class_expected, *out.mutable_class_expected());
}

PastState Get(const store::v1::PastState& stored) {
  return {.weight = stored.weight(),
          .fourier_sums = Get(stored.fourier_sums()),
          .witness = Get(stored.witness()),
          .class_observed = Get(stored.class_observed()),
          .class_expected = Get(stored.class_expected())};
}

void Put(const EvidenceState& state, store::v1::EvidenceState& out) {
  out.set_count(state.count);
  out.mutable_expert_ids()->Add(state.expert_ids.begin(), state.expert_ids.end());
  Put(state.priors, *out.mutable_priors());
  Put(state.log_e, *out.mutable_log_e());
  Put(state.log_shiryaev_roberts, *out.mutable_log_shiryaev_roberts());
  Put(state.e_growth, *out.mutable_e_growth());
  Put(state.shiryaev_roberts_growth, *out.mutable_shiryaev_roberts_growth());
  out.set_log_offset(state.log_offset);
  Put(state.maximum, *out.mutable_maximum());
  const RunningMaximum& impossible = state.impossible_label;
  if (impossible.at > 0) Put(impossible, *out.mutable_impossible_label());
  Put(state.shiryaev_roberts_maximum, *out.mutable_shiryaev_roberts_maximum());
  out.set_pending_product(state.pending_product);
  out.set_square_sum(state.square_sum);
  PutMoments(state.projections, *out.mutable_projections());
  out.set_projection_variance(state.projection_variance);
  Put(state.all, *out.mutable_all());
  Put(state.recent, *out.mutable_recent());
  Put(state.pending, *out.mutable_pending_probabilities());
  out.mutable_pending_labels()->Add(state.pending_labels.begin(), state.pending_labels.end());
}

EvidenceState Get(const store::v1::EvidenceState& stored) {
  EvidenceState state;
  state.count = stored.count();
  state.expert_ids.assign(stored.expert_ids().begin(), stored.expert_ids().end());
  state.priors = Get(stored.priors());
  state.log_e = Get(stored.log_e());
  state.log_shiryaev_roberts = Get(stored.log_shiryaev_roberts());
  state.e_growth = Get(stored.e_growth());
  state.shiryaev_roberts_growth = Get(stored.shiryaev_roberts_growth());
  state.log_offset = stored.log_offset();
  state.maximum = Get(stored.maximum());
  state.impossible_label = Get(stored.impossible_label());
  state.shiryaev_roberts_maximum = Get(stored.shiryaev_roberts_maximum());
  state.pending_product = stored.pending_product();
  state.square_sum = stored.square_sum();
  state.projections = GetMoments(stored.projections());
  state.projection_variance = stored.projection_variance();
  state.all = Get(stored.all());
  state.recent = Get(stored.recent());
  state.pending = Get(stored.pending_probabilities());
  state.pending_labels.assign(stored.pending_labels().begin(), stored.pending_labels().end());
  return state;
}

void Put(const RunningReliability& reliability, store::v1::ReliabilityState& out) {
  PutSums(reliability, out);
  for (const ReliabilitySums::Bin& bin : reliability.bins) out.add_variances(bin.variance);
  out.set_brier(reliability.brier);
  out.set_log_loss(reliability.log_loss);
}

bool Get(const store::v1::ReliabilityState& stored, RunningReliability& out) {
  const auto bins = static_cast<int>(out.bins.size());
  if (!GetSums(stored, out) || stored.variances_size() != bins || !IsSum(stored.brier()) ||
      !IsSum(stored.log_loss())) {
    return false;
  }
  for (int i = 0; i < bins; ++i) {
    if (!IsSum(stored.variances(i))) return false;
    out.bins[static_cast<std::size_t>(i)].variance = stored.variances(i);
  }
  out.brier = stored.brier();
  out.log_loss = stored.log_loss();
  return true;
}

void Put(const ErrorSums& sums, std::size_t series, store::v1::ErrorState::Sums& out) {
  out.set_first_observation(sums.first_observation);
  if (sums.start_time.has_value()) out.set_start_time_us(ToMicroseconds(*sums.start_time));
  for (std::size_t s = 0; s < series; ++s) PutSums(sums.series[s], *out.add_series());
}

bool Get(const store::v1::ErrorState::Sums& stored, std::size_t series, ErrorSums& out) {
  out.first_observation = stored.first_observation();
  if (stored.has_start_time_us()) out.start_time = ToTime(stored.start_time_us());
  bool valid =
      static_cast<std::size_t>(stored.series_size()) == series && stored.first_observation() > 0;
  for (std::size_t s = 0; valid && s < series; ++s) {
    valid = GetSums(stored.series(static_cast<int>(s)), out.series[s]) &&
            out.series[s].Total().count == out.count();
  }
  return valid;
}

template <std::size_t kSize>
bool Get(const Reals& stored, double least, std::array<double, kSize>& out) {
  if (static_cast<std::size_t>(stored.size()) != kSize) return false;
  std::copy(stored.begin(), stored.end(), out.begin());
  return std::all_of(out.begin(), out.end(), [least](double value) { return value >= least; });
}

void Put(const RecentErrorEvidence::State& state, store::v1::ErrorState::Recent& out) {
  out.set_count(state.count);
  for (const auto& sign : state.wealth) out.mutable_wealth()->Add(sign.begin(), sign.end());
  out.mutable_deviations()->Add(state.deviation.begin(), state.deviation.end());
  out.mutable_squares()->Add(state.squares.begin(), state.squares.end());
}

bool Get(const store::v1::ErrorState::Recent& stored, RecentErrorEvidence::State& out) {
  constexpr std::size_t kRates = RecentErrorEvidence::kRates;
  std::array<double, RecentErrorEvidence::kSigns * kRates> wealth{};
  if (!Get(stored.wealth(), 0, wealth) ||
      !Get(stored.deviations(), std::numeric_limits<double>::lowest(), out.deviation) ||
      !Get(stored.squares(), 0, out.squares)) {
    return false;
  }
  out.count = stored.count();
  for (std::size_t i = 0; i < wealth.size(); ++i) out.wealth[i / kRates][i % kRates] = wealth[i];
  return true;
}

}  // namespace

void EvidenceWatch::Save(store::v1::WatchState& out) const {
  out.set_first_observation(first_observation_);
  Put(process_.Save(), *out.mutable_evidence());
  Put(reliability_, *out.mutable_reliability());
  for (const RunningClassFrequencies::Class& one : frequencies_.classes()) {
    out.add_class_labels(one.labels);
    out.add_class_predicted(one.predicted);
    out.add_class_variances(one.variance);
  }
  const ClassEvidence::State class_evidence = class_evidence_.Save();
  out.mutable_class_evidence()->set_count(class_evidence.count);
  Put(class_evidence.inverses, *out.mutable_class_evidence()->mutable_inverses());
  const FourierNullSquares::State& squares = null_squares_.Save();
  PutMoments(squares.moments, *out.mutable_null_squares());
  Put(squares.previous, *out.mutable_null_squares_previous());
  PutMoments(squares.cubes, *out.mutable_null_cubes());
  Put(squares.pair, *out.mutable_null_cubes_pair());
}

absl::Status EvidenceWatch::Restore(const store::v1::WatchState& stored, double log_groups) {
  if (!Get(stored.reliability(), reliability_) ||
      reliability_.Total().count != stored.evidence().count()) {
    return absl::InvalidArgumentError("the reliability does not match the evidence");
  }
  const auto m = static_cast<int>(basis_->class_count());
  if (stored.class_labels_size() != m || stored.class_predicted_size() != m ||
      stored.class_variances_size() != m) {
    return absl::InvalidArgumentError("the class frequencies do not match the classes");
  }
  std::vector<RunningClassFrequencies::Class> classes;
  for (int k = 0; k < m; ++k) {
    classes.push_back({.labels = stored.class_labels(k),
                       .predicted = stored.class_predicted(k),
                       .variance = stored.class_variances(k)});
    if (classes.back().labels < 0 || !IsSum(classes.back().predicted) ||
        !IsSum(classes.back().variance)) {
      return absl::InvalidArgumentError("the class frequencies are impossible");
    }
  }
  if (!null_squares_.Restore({.count = stored.evidence().count(),
                              .moments = GetMoments(stored.null_squares()),
                              .previous = Get(stored.null_squares_previous()),
                              .cubes = GetMoments(stored.null_cubes()),
                              .pair = Get(stored.null_cubes_pair())})) {
    return absl::InvalidArgumentError("the squares under the null hypothesis are impossible");
  }
  if (stored.class_evidence().count() != stored.evidence().count() ||
      !class_evidence_.Restore({.count = stored.class_evidence().count(),
                                .inverses = Get(stored.class_evidence().inverses())})) {
    return absl::InvalidArgumentError("the evidence against single classes is impossible");
  }
  CALIBD_RETURN_IF_ERROR(
      process_.Restore(Get(stored.evidence()),
                       {.log_classes = class_evidence_.LogMean(), .log_groups = log_groups}));
  frequencies_ = RunningClassFrequencies(std::move(classes));
  first_observation_ = stored.first_observation();
  return absl::OkStatus();
}

void ErrorWatch::Save(store::v1::ErrorState& out) const {
  Put(since_start_, budget_.series, *out.mutable_since_start());
  Put(sums_, budget_.series, *out.mutable_sums());
  for (std::size_t s = 0; budget_.recent > 0 && s < budget_.series; ++s) {
    Put(recent_[s].state(), *out.add_recent());
  }
  if (acknowledged_limit_.has_value()) out.set_acknowledged_limit(*acknowledged_limit_);
  out.set_over(over_);
  out.set_over_recent(over_recent_);
  if (recent_series_.has_value()) out.set_recent_series(static_cast<std::int32_t>(*recent_series_));
  out.set_next_decision(next_decision_);
  for (const ErrorSums& mark : *marks_) Put(mark, budget_.series, *out.add_marks());
}

absl::Status ErrorWatch::Restore(const store::v1::ErrorState& stored) {
  const auto series = static_cast<int>(budget_.series);
  bool valid = Get(stored.since_start(), budget_.series, since_start_) &&
               Get(stored.sums(), budget_.series, sums_) &&
               stored.recent_size() == (budget_.recent > 0 ? series : 0) &&
               stored.recent_series() >= 0 && stored.recent_series() < series;
  for (int s = 0; valid && s < stored.recent_size(); ++s) {
    RecentErrorEvidence::State state;
    valid = Get(stored.recent(s), state);
    recent_[static_cast<std::size_t>(s)] = RecentErrorEvidence(state);
  }
  auto marks = std::make_shared<std::vector<ErrorSums>>();
  for (const store::v1::ErrorState::Sums& mark : stored.marks()) {
    valid = valid && Get(mark, budget_.series, marks->emplace_back());
  }
  if (!valid) return absl::InvalidArgumentError("the sums of the error are impossible");
  count_ = sums_.count();
  if (stored.has_acknowledged_limit()) acknowledged_limit_ = stored.acknowledged_limit();
  over_ = stored.over();
  over_recent_ = stored.over_recent();
  if (stored.has_recent_series()) recent_series_ = static_cast<std::size_t>(stored.recent_series());
  next_decision_ = stored.next_decision();
  marks_ = std::move(marks);
  return absl::OkStatus();
}

void ModelMonitor::Save(store::v1::MonitorState& out) const {
  if (watch_ != nullptr) watch_->Save(*out.mutable_watch());
  alarms_.Save(out);
  for (const Group& group : groups_) {
    store::v1::GroupState& stored = *out.add_groups();
    stored.set_value(group.id.value);
    stored.set_overflow(group.id.overflow);
    group.watch->Save(*stored.mutable_watch());
    group.error.Save(*stored.mutable_error());
  }
  error_.Save(*out.mutable_error());
  if (last_counted_time_.has_value()) {
    out.set_last_counted_time_us(ToMicroseconds(*last_counted_time_));
  }
}

absl::Status ModelMonitor::Restore(const store::v1::MonitorState& stored,
                                   const std::optional<RunningKernel>& kernel,
                                   std::int64_t observations) {
  std::unique_ptr<EvidenceWatch> watch;
  if (kernel.has_value()) watch = Prepare(*kernel, observations + 1);
  std::vector<Group> groups;
  for (const store::v1::GroupState& group : stored.groups()) {
    if (watch == nullptr || monitoring_.group_tag.empty() ||
        static_cast<std::size_t>(stored.groups_size()) > monitoring_.max_groups + 1) {
      return absl::InvalidArgumentError("has impossible groups");
    }
    Group& restored =
        groups.emplace_back(Group{.id = {.value = group.value(), .overflow = group.overflow()},
                                  .watch = NewWatch(watch->basis(), 1),
                                  .error = NewGroupError(observations + 1),
                                  .snapshot = nullptr});
    CALIBD_RETURN_IF_ERROR(restored.watch->Restore(group.watch(), 0));
    CALIBD_RETURN_IF_ERROR(restored.error.Restore(group.error()));
  }
  if (stored.has_watch() != (watch != nullptr)) {
    return absl::InvalidArgumentError(
        "has evidence without a kernel, or a kernel without evidence");
  }
  if (watch != nullptr) {
    CALIBD_RETURN_IF_ERROR(watch->Restore(stored.watch(), LogGroupMean(groups)));
  }
  CALIBD_RETURN_IF_ERROR(alarms_.Restore(stored));
  error_ = NewError(observations + 1);
  CALIBD_RETURN_IF_ERROR(error_.Restore(stored.error()));
  watch_ = std::move(watch);
  groups_ = std::move(groups);
  if (stored.last_counted_time_us() != 0) {
    last_counted_time_ = ToTime(stored.last_counted_time_us());
  }
  return absl::OkStatus();
}

}  // namespace calibd::server
