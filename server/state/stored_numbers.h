#ifndef CALIBD_SERVER_STATE_STORED_NUMBERS_H_
#define CALIBD_SERVER_STATE_STORED_NUMBERS_H_

#include <google/protobuf/message.h>

#include "absl/status/status.h"

namespace calibd::server {

// Checks the numbers of a message that the store held, so that sums and differences of them are
// neither infinite nor NaN nor overflow: reals are finite and at most 1e100 in magnitude, and
// signed integers are counts or times in [0, 2^53]. `dropped_rows`, which clients claim, is only
// >= 0, and the `inverses` of the class evidence, which are products, are only finite. Errors:
// InvalidArgument naming the field and its value.
[[nodiscard]] absl::Status CheckStoredNumbers(const google::protobuf::Message& message);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_STORED_NUMBERS_H_
