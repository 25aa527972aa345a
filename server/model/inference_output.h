#ifndef CALIBD_SERVER_MODEL_INFERENCE_OUTPUT_H_
#define CALIBD_SERVER_MODEL_INFERENCE_OUTPUT_H_

#include <vector>

#include "calibd/core/validation.h"
#include "calibd/v1/model_service.pb.h"
#include "server/model/model_declaration.h"

namespace calibd::server {

// Returns the declared output of a model of this kind. declaration: with its kind. violations:
// receives the invalid fields.
[[nodiscard]] InferenceOutput CheckInferenceOutput(const v1::InferenceOutput& declared,
                                                   const ModelDeclaration& declaration,
                                                   std::vector<Violation>& violations);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_MODEL_INFERENCE_OUTPUT_H_
