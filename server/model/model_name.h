#ifndef CALIBD_SERVER_MODEL_MODEL_NAME_H_
#define CALIBD_SERVER_MODEL_MODEL_NAME_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace calibd::server {

// The name "models/{model}" or "models/{model}/versions/{version}"; both ids match
// ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$.
struct ModelName {
  std::string model;
  // Empty if the name has no version.
  std::string version;

  [[nodiscard]] std::string ToString() const;

  friend bool operator==(const ModelName&, const ModelName&) = default;
};

// field: the request field that holds the name. Errors: InvalidArgument (BadRequest).
[[nodiscard]] absl::StatusOr<ModelName> ParseModelName(std::string_view field,
                                                       std::string_view text);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_MODEL_MODEL_NAME_H_
