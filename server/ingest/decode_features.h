#ifndef CALIBD_SERVER_INGEST_DECODE_FEATURES_H_
#define CALIBD_SERVER_INGEST_DECODE_FEATURES_H_

#include <optional>

#include "absl/status/status.h"
#include "calibd/core/validation.h"
#include "calibd/v1/ingest_service.pb.h"
#include "server/model/model_declaration.h"

namespace calibd::server {

// Checks that each of the `rows` rows has the declared number of features.
[[nodiscard]] absl::Status CheckFeatureCount(const v1::Observations& observations, int rows,
                                             const ModelDeclaration& declaration);
// The violation of the features of row i, if any. The number of features must be valid.
[[nodiscard]] std::optional<Violation> FindFeatureViolation(const v1::Observations& observations,
                                                            const ModelDeclaration& declaration,
                                                            int i);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_DECODE_FEATURES_H_
