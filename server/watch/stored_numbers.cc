#include "server/watch/stored_numbers.h"

#include <algorithm>

#include "calibd/store/v1/store.pb.h"

namespace calibd::server {

void MomentsFields(StateFields& fields, RunningMoments& moments) {
  using Stored = store::v1::Moments;
  fields(Stored::kCountFieldNumber, moments.count);
  fields(Stored::kMeanFieldNumber, moments.mean);
  fields(Stored::kM2FieldNumber, moments.m2);
  fields.Require(moments.m2 >= 0, "has a sum of squares below 0");
}

void MaximumFields(StateFields& fields, RunningMaximum& maximum) {
  using Stored = store::v1::RunningMaximum;
  fields(Stored::kLogValueFieldNumber, maximum.log_value);
  fields(Stored::kAtFieldNumber, maximum.at);
}

void SumsFields(StateFields& fields, ReliabilitySums& sums) {
  using Stored = store::v1::ReliabilityState;
  using Bin = ReliabilitySums::Bin;
  fields.Column(Stored::kCountsFieldNumber, sums.bins, &Bin::count);
  fields.Column(Stored::kCorrectFieldNumber, sums.bins, &Bin::correct);
  fields.Column(Stored::kConfidencesFieldNumber, sums.bins, &Bin::confidence);
  fields(Stored::kSquareSumFieldNumber, sums.square_sum);
  const bool fits = std::ranges::all_of(
      sums.bins, [](const Bin& bin) { return bin.correct <= bin.count && bin.confidence >= 0; });
  fields.Require(fits && sums.square_sum >= 0, "has sums of reliability that cannot be");
}

}  // namespace calibd::server
