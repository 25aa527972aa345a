#include "server/model/declaration_update.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/errors.h"
#include "server/base/rules.h"

namespace calibd::server {

std::span<const std::string> UpdatableFields() {
  static const std::vector<std::string> kFields = UpdatablePaths(*v1::Model::descriptor());
  return kFields;
}

absl::Status CheckUpdateMask(const google::protobuf::FieldMask& mask) {
  const std::string fields = absl::StrJoin(UpdatableFields(), ", ");
  if (mask.paths().empty()) {
    return InvalidFieldError("update_mask", absl::StrCat("is empty, expected one of ", fields));
  }
  for (const std::string& path : mask.paths()) {
    if (std::ranges::find(UpdatableFields(), path) == UpdatableFields().end()) {
      return InvalidFieldError(
          "update_mask",
          absl::StrCat("names ", Quoted(path), ", which cannot be updated, expected ", fields));
    }
  }
  return absl::OkStatus();
}

}  // namespace calibd::server
