#ifndef CALIBD_CORE_STATUS_MACROS_H_
#define CALIBD_CORE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Pass errors on to the caller. Only for functions that return absl::Status or absl::StatusOr.

// Returns from the function with the error of an absl::Status, if it is one.
#define CALIBD_RETURN_IF_ERROR(...)                                                            \
  do {                                                                                         \
    if (absl::Status calibd_status = (__VA_ARGS__); !calibd_status.ok()) return calibd_status; \
  } while (false)

// CALIBD_ASSIGN_OR_RETURN(const auto table, ReadTable(path)): moves the value of an absl::StatusOr
// into a variable or a declaration, or returns from the function with its error.
#define CALIBD_ASSIGN_OR_RETURN(target, ...) \
  CALIBD_ASSIGN_OR_RETURN_(CALIBD_UNIQUE_NAME_(__LINE__), target, __VA_ARGS__)

#define CALIBD_ASSIGN_OR_RETURN_(result, target, ...)  \
  auto result = (__VA_ARGS__);                         \
  if (!result.ok()) return std::move(result).status(); \
  target = *std::move(result)
#define CALIBD_UNIQUE_NAME_(line) CALIBD_UNIQUE_NAME_OF_(line)
#define CALIBD_UNIQUE_NAME_OF_(line) calibd_result_##line

#endif  // CALIBD_CORE_STATUS_MACROS_H_
