#ifndef CALIBD_SERVER_RESTORE_H_
#define CALIBD_SERVER_RESTORE_H_

#include "server/process/options.h"

namespace calibd::server {

// Makes a store from an archive, recovers its models as a start does, and prints what they hold.
// Returns the exit code: 0, or 1 with an error on stderr.
[[nodiscard]] int RunRestore(const RestoreArguments& arguments);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RESTORE_H_
