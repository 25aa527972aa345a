#ifndef CALIBD_SERVER_STATE_UPDATE_DECLARATION_H_
#define CALIBD_SERVER_STATE_UPDATE_DECLARATION_H_

#include <cstddef>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/v1/model_service.pb.h"
#include "google/protobuf/field_mask.pb.h"
#include "server/model/declaration_update.h"
#include "server/model/model_declaration.h"

namespace calibd::server {

// Returns the updated declaration. update: with a checked mask. Errors: InvalidArgument with a
// BadRequest that names every invalid field, also if the model would then need more than
// model_memory_bytes or model_disk_bytes, and more than before.
[[nodiscard]] absl::StatusOr<ModelDeclaration> UpdateDeclaration(
    const ModelDeclaration& declaration, const DeclarationUpdate& update,
    std::size_t model_memory_bytes = std::numeric_limits<std::size_t>::max(),
    std::size_t model_disk_bytes = std::numeric_limits<std::size_t>::max());

// Returns the update that makes the fields of the mask equal to those of the declaration.
[[nodiscard]] DeclarationUpdate UpdateTo(const ModelDeclaration& declaration,
                                         google::protobuf::FieldMask mask);

// Returns the fields that differ, and what begins anew. time and observations stay unset.
[[nodiscard]] v1::ModelUpdate DescribeUpdate(const ModelDeclaration& before,
                                             const ModelDeclaration& after);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_UPDATE_DECLARATION_H_
