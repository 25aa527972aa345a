// The state of an EvidenceWatch in the messages of the store.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "calibd/core/status_macros.h"
#include "server/kinds/classes/evidence_watch.h"
#include "server/watch/state_fields.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

struct WatchState {
  std::int64_t first_observation = 1;
  EvidenceState evidence;
  RunningReliability reliability;
  std::vector<RunningClassFrequencies::Class> classes;
  ClassEvidence::State class_evidence;
  FourierNullSquares::State null_squares;
};

void PastFields(StateFields& fields, PastState& past) {
  using Stored = store::v1::PastState;
  fields(Stored::kWeightFieldNumber, past.weight);
  fields(Stored::kFourierSumsFieldNumber, past.fourier_sums);
  fields(Stored::kWitnessFieldNumber, past.witness);
  fields(Stored::kClassObservedFieldNumber, past.class_observed);
  fields(Stored::kClassExpectedFieldNumber, past.class_expected);
}

void EvidenceFields(StateFields& fields, EvidenceState& state) {
  using Stored = store::v1::EvidenceState;
  fields(Stored::kCountFieldNumber, state.count);
  fields(Stored::kExpertIdsFieldNumber, state.expert_ids);
  fields(Stored::kPriorsFieldNumber, state.priors);
  fields(Stored::kLogEFieldNumber, state.log_e);
  fields(Stored::kLogShiryaevRobertsFieldNumber, state.log_shiryaev_roberts);
  fields(Stored::kEGrowthFieldNumber, state.e_growth);
  fields(Stored::kShiryaevRobertsGrowthFieldNumber, state.shiryaev_roberts_growth);
  fields(Stored::kLogOffsetFieldNumber, state.log_offset);
  fields(Stored::kMaximumFieldNumber, state.maximum, MaximumFields);
  fields.If(state.impossible_label.at > 0, Stored::kImpossibleLabelFieldNumber,
            state.impossible_label, MaximumFields);
  fields(Stored::kShiryaevRobertsMaximumFieldNumber, state.shiryaev_roberts_maximum, MaximumFields);
  fields(Stored::kPendingProductFieldNumber, state.pending_product);
  fields(Stored::kSquareSumFieldNumber, state.square_sum);
  fields(Stored::kProjectionsFieldNumber, state.projections, MomentsFields);
  fields(Stored::kProjectionVarianceFieldNumber, state.projection_variance);
  fields(Stored::kAllFieldNumber, state.all, PastFields);
  fields(Stored::kRecentFieldNumber, state.recent, PastFields);
  fields(Stored::kPendingProbabilitiesFieldNumber, state.pending);
  fields(Stored::kPendingLabelsFieldNumber, state.pending_labels);
}

void ReliabilityFields(StateFields& fields, RunningReliability& reliability) {
  using Stored = store::v1::ReliabilityState;
  using Bin = ReliabilitySums::Bin;
  SumsFields(fields, reliability);
  fields.Column(Stored::kVariancesFieldNumber, reliability.bins, &Bin::variance);
  fields(Stored::kBrierFieldNumber, reliability.brier);
  fields(Stored::kLogLossFieldNumber, reliability.log_loss);
  const bool fits =
      std::ranges::all_of(reliability.bins, [](const Bin& bin) { return bin.variance >= 0; });
  fields.Require(fits && reliability.brier >= 0 && reliability.log_loss >= 0,
                 "has sums of reliability that cannot be");
}

void ClassEvidenceFields(StateFields& fields, ClassEvidence::State& state) {
  using Stored = store::v1::WatchState::ClassEvidence;
  fields(Stored::kCountFieldNumber, state.count);
  fields(Stored::kInversesFieldNumber, state.inverses);
}

void WatchFields(StateFields& fields, WatchState& state) {
  using Stored = store::v1::WatchState;
  using Class = RunningClassFrequencies::Class;
  fields(Stored::kFirstObservationFieldNumber, state.first_observation);
  fields(Stored::kEvidenceFieldNumber, state.evidence, EvidenceFields);
  fields(Stored::kReliabilityFieldNumber, state.reliability, ReliabilityFields);
  fields.Column(Stored::kClassLabelsFieldNumber, state.classes, &Class::labels);
  fields.Column(Stored::kClassPredictedFieldNumber, state.classes, &Class::predicted);
  fields.Column(Stored::kClassVariancesFieldNumber, state.classes, &Class::variance);
  fields(Stored::kClassEvidenceFieldNumber, state.class_evidence, ClassEvidenceFields);
  fields(Stored::kNullSquaresFieldNumber, state.null_squares.moments, MomentsFields);
  fields(Stored::kNullSquaresPreviousFieldNumber, state.null_squares.previous);
  fields(Stored::kNullCubesFieldNumber, state.null_squares.cubes, MomentsFields);
  fields(Stored::kNullCubesPairFieldNumber, state.null_squares.pair);
  state.null_squares.count = state.evidence.count;

  const std::int64_t count = state.evidence.count;
  fields.Require(state.reliability.Total().count == count,
                 "has a reliability that does not match the evidence");
  fields.Require(state.class_evidence.count == count,
                 "has evidence against classes that does not match the evidence");
  fields.Require(
      std::ranges::all_of(state.classes,
                          [](const Class& one) { return one.predicted >= 0 && one.variance >= 0; }),
      "has class frequencies that cannot be");
}

}  // namespace

void EvidenceWatch::Save(store::v1::WatchState& out) const {
  SaveFields(WatchState{.first_observation = first_observation_,
                        .evidence = process_.Save(),
                        .reliability = reliability_,
                        .classes = frequencies_.classes(),
                        .class_evidence = class_evidence_.Save(),
                        .null_squares = null_squares_.Save()},
             out, WatchFields);
}

absl::Status EvidenceWatch::Restore(const store::v1::WatchState& stored, PartsEvidence groups) {
  WatchState state;
  state.classes.resize(basis_->class_count());
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored, state, WatchFields));
  if (!null_squares_.Restore(std::move(state.null_squares))) {
    return absl::InvalidArgumentError("has squares under the null hypothesis that cannot be");
  }
  if (!class_evidence_.Restore(state.class_evidence)) {
    return absl::InvalidArgumentError("has evidence against single classes that cannot be");
  }
  groups.log_class_mean = class_evidence_.LogMean();
  CALIBD_RETURN_IF_ERROR(process_.Restore(std::move(state.evidence), groups));
  reliability_ = state.reliability;
  frequencies_ = RunningClassFrequencies(std::move(state.classes));
  first_observation_ = state.first_observation;
  return absl::OkStatus();
}

}  // namespace calibd::server
