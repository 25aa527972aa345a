#ifndef CALIBD_TESTS_SUPPORT_SEALED_DATABASE_H_
#define CALIBD_TESTS_SUPPORT_SEALED_DATABASE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace calibd::testing {

// Executes statements on the calibd.db at `path`, and then recomputes all checksums, links of the
// history and sums, so that the result looks as if a calibd with a bug had written it. The
// statements write 0 as checksums, and name all other columns.
[[nodiscard]] absl::Status ChangeDatabase(const std::string& path,
                                          const std::vector<std::string>& statements);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_SEALED_DATABASE_H_
