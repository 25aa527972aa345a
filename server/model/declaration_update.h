#ifndef CALIBD_SERVER_MODEL_DECLARATION_UPDATE_H_
#define CALIBD_SERVER_MODEL_DECLARATION_UPDATE_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "calibd/v1/model_service.pb.h"
#include "google/protobuf/field_mask.pb.h"

namespace calibd::server {

// New values of some fields of a declaration.
struct DeclarationUpdate {
  // A v1::Model with the fields that mask names; fields that are unset there get their defaults.
  v1::Model model;
  google::protobuf::FieldMask mask;
};

// The paths of the fields that can be updated, ascending.
[[nodiscard]] std::span<const std::string> UpdatableFields();

// Errors: InvalidArgument if the mask is empty, or names a field that cannot be updated; it then
// lists those that can.
[[nodiscard]] absl::Status CheckUpdateMask(const google::protobuf::FieldMask& mask);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_MODEL_DECLARATION_UPDATE_H_
