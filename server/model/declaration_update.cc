#include "server/model/declaration_update.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr const char* kUpdatableFields[] = {
    "classes.row_sum_tolerance",
    "description",
    "inference_output.baseline_name",
    "inference_output.name",
    "inference_output.transform",
    "label_grace",
    "max_pending",
    "monitoring.average_run_length",
    "monitoring.error_limit",
    "monitoring.significance_level",
    "monitoring.stale_after",
    "monitoring.tolerance",
};

}  // namespace

std::span<const char* const> UpdatableFields() noexcept { return kUpdatableFields; }

absl::Status CheckUpdateMask(const google::protobuf::FieldMask& mask) {
  const std::string fields = absl::StrJoin(kUpdatableFields, ", ");
  if (mask.paths().empty()) {
    return InvalidFieldError("update_mask", absl::StrCat("is empty, expected one of ", fields));
  }
  for (const std::string& path : mask.paths()) {
    if (std::ranges::find(kUpdatableFields, path) == std::ranges::end(kUpdatableFields)) {
      return InvalidFieldError(
          "update_mask",
          absl::StrCat("names ", Quoted(path), ", which cannot be updated, expected ", fields));
    }
  }
  return absl::OkStatus();
}

}  // namespace calibd::server
