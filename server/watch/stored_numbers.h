#ifndef CALIBD_SERVER_WATCH_STORED_NUMBERS_H_
#define CALIBD_SERVER_WATCH_STORED_NUMBERS_H_

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "calibd/core/evidence_state.h"
#include "calibd/core/running_reliability.h"
#include "calibd/core/running_skce.h"
#include "server/watch/state_fields.h"

namespace calibd::server {

// Checks all numbers in a message from the store, also those that no list of fields restores, such
// as the time of a snapshot and the updates of a declaration: reals are finite, and signed integers
// are in [0, StateFields::kGreatestInteger], except that the counts that clients report only have
// to be >= 0; see StateFields::IsReported. Errors: InvalidArgument naming the field and its value.
[[nodiscard]] absl::Status CheckStoredNumbers(const google::protobuf::Message& message);

// The fields of states that several kinds have, as StateFields visits them.
void MomentsFields(StateFields& fields, RunningMoments& moments);
void MaximumFields(StateFields& fields, RunningMaximum& maximum);
// Without the variances.
void SumsFields(StateFields& fields, ReliabilitySums& sums);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_STORED_NUMBERS_H_
