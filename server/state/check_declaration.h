#ifndef CALIBD_SERVER_STATE_CHECK_DECLARATION_H_
#define CALIBD_SERVER_STATE_CHECK_DECLARATION_H_

#include <cstddef>
#include <limits>

#include "absl/status/statusor.h"
#include "calibd/v1/model_service.pb.h"
#include "server/model/model_declaration.h"

namespace calibd::server {

// Checks a declaration and fills in the defaults. Defaults shrink to what fits into
// model_memory_bytes and, for max_pending, into a quarter of model_disk_bytes. Errors:
// InvalidArgument with a BadRequest that names every invalid field, also if the declared values
// need more than model_memory_bytes or model_disk_bytes.
[[nodiscard]] absl::StatusOr<ModelDeclaration> CheckDeclaration(
    const v1::Model& model, std::size_t model_memory_bytes,
    std::size_t model_disk_bytes = std::numeric_limits<std::size_t>::max());

// Checks the declaration of an existing model, which keeps its settings even if they exceed the
// limits now.
[[nodiscard]] absl::StatusOr<ModelDeclaration> CheckStoredDeclaration(
    const v1::Model& model, std::size_t model_memory_bytes);

// Returns the declaration with the settings of `model`, which are the fields of SettingsToProto.
// Errors: those of CheckDeclaration; the limits apply only if the model needs more than before.
[[nodiscard]] absl::StatusOr<ModelDeclaration> CheckSettings(const ModelDeclaration& declaration,
                                                             const v1::Model& model,
                                                             std::size_t model_memory_bytes,
                                                             std::size_t model_disk_bytes);

// DiskUse of a model of 2 classes with all defaults: with a smaller limit, no model can be created.
[[nodiscard]] std::size_t LeastModelDisk();

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_CHECK_DECLARATION_H_
