#ifndef CALIBD_SERVER_KINDS_KIND_TABLE_H_
#define CALIBD_SERVER_KINDS_KIND_TABLE_H_

#include <string>

#include "absl/status/status.h"
#include "calibd/v1/model_service.pb.h"
#include "google/protobuf/repeated_field.h"
#include "server/kinds/prediction_kind.h"
#include "server/model/model_declaration.h"

namespace calibd::server {

// Returns the kind of the model.
[[nodiscard]] const PredictionKind& KindOf(const ModelDeclaration& declaration) noexcept;
// Returns the kind that the model declares; null if it declares none.
[[nodiscard]] const PredictionKind* FindKind(const v1::Model& model) noexcept;
// Returns an error if models of this kind do not support the call: see PredictionKind::CheckCall.
[[nodiscard]] absl::Status CheckCall(const ModelDeclaration& declaration, WindowCall call);
// Errors: InvalidArgument naming the field or its element that is no label of the model.
[[nodiscard]] absl::Status CheckLabelNames(
    const std::string& field, const google::protobuf::RepeatedPtrField<std::string>& labels,
    const ModelDeclaration& declaration);
// The field of Model.kind that declares a model of this kind, such as "classes".
[[nodiscard]] const std::string& FieldName(const PredictionKind& kind);
// These fields of all kinds, separated by commas.
[[nodiscard]] std::string KindFields();

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_KIND_TABLE_H_
