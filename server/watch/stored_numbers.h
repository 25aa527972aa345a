#ifndef CALIBD_SERVER_WATCH_STORED_NUMBERS_H_
#define CALIBD_SERVER_WATCH_STORED_NUMBERS_H_

#include <google/protobuf/message.h>

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "calibd/core/evidence.h"
#include "calibd/core/running_reliability.h"
#include "calibd/core/running_skce.h"
#include "calibd/store/v1/store.pb.h"

namespace calibd::server {

// Checks the numbers in a message from the store: reals are finite, and signed integers are counts
// or times in [0, 2^53], so that their sums do not overflow. `dropped_rows`, which clients report,
// only has to be >= 0. Errors: InvalidArgument naming the field and its value.
[[nodiscard]] absl::Status CheckStoredNumbers(const google::protobuf::Message& message);

void PutMoments(const RunningMoments& moments, store::v1::Moments& out);
[[nodiscard]] RunningMoments GetMoments(const store::v1::Moments& stored);

void PutMaximum(const RunningMaximum& maximum, store::v1::RunningMaximum& out);
[[nodiscard]] RunningMaximum GetMaximum(const store::v1::RunningMaximum& stored);

// True if the value can be a sum of non-negative numbers.
[[nodiscard]] bool IsSum(double value);
// Saves and restores the sums without their variances. GetSums returns false if the message does
// not hold such sums.
void PutSums(const ReliabilitySums& sums, store::v1::ReliabilityState& out);
[[nodiscard]] bool GetSums(const store::v1::ReliabilityState& stored, ReliabilitySums& out);

// Times of the store, in microseconds since 1970.
[[nodiscard]] inline std::int64_t ToMicroseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}
[[nodiscard]] inline std::chrono::system_clock::time_point ToTime(std::int64_t microseconds) {
  return std::chrono::system_clock::time_point(std::chrono::microseconds(microseconds));
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_STORED_NUMBERS_H_
