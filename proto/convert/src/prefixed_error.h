#ifndef CALIBD_CONVERT_SRC_PREFIXED_ERROR_H_
#define CALIBD_CONVERT_SRC_PREFIXED_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace calibd::convert {

// Returns an InvalidArgument error with the location of the field before the message.
[[nodiscard]] inline absl::Status PrefixedError(const std::string& where,
                                                const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(where, status.message()));
}

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_SRC_PREFIXED_ERROR_H_
