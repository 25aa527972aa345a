// The state of an EvidenceWatch in the messages of the store.
#include <cstdint>
#include <vector>

#include "calibd/core/status_macros.h"
#include "server/kinds/classes/evidence_watch.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

using Reals = google::protobuf::RepeatedField<double>;

void Put(const std::vector<double>& values, Reals& out) { out.Add(values.begin(), values.end()); }

std::vector<double> Get(const Reals& values) { return {values.begin(), values.end()}; }

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
  PutMaximum(state.maximum, *out.mutable_maximum());
  const RunningMaximum& impossible = state.impossible_label;
  if (impossible.at > 0) PutMaximum(impossible, *out.mutable_impossible_label());
  PutMaximum(state.shiryaev_roberts_maximum, *out.mutable_shiryaev_roberts_maximum());
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
  state.maximum = GetMaximum(stored.maximum());
  state.impossible_label = GetMaximum(stored.impossible_label());
  state.shiryaev_roberts_maximum = GetMaximum(stored.shiryaev_roberts_maximum());
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

}  // namespace calibd::server
