#ifndef CALIBD_SERVER_WATCH_STORED_NUMBERS_H_
#define CALIBD_SERVER_WATCH_STORED_NUMBERS_H_

#include "calibd/core/evidence_state.h"
#include "calibd/core/running_reliability.h"
#include "calibd/core/running_skce.h"
#include "server/watch/state_fields.h"

namespace calibd::server {

// The fields of states that several kinds have, as StateFields visits them.
void MomentsFields(StateFields& fields, RunningMoments& moments);
void MaximumFields(StateFields& fields, RunningMaximum& maximum);
// Without the variances.
void SumsFields(StateFields& fields, ReliabilitySums& sums);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_STORED_NUMBERS_H_
