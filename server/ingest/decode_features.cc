#include "server/ingest/decode_features.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "calibd/text/printable.h"
#include "server/base/errors.h"

namespace calibd::server {

absl::Status CheckFeatureCount(const v1::Observations& observations, int rows,
                               const ModelDeclaration& declaration) {
  const std::size_t width = declaration.feature_names.size();
  if (width == 0) {
    return !observations.has_features()
               ? absl::OkStatus()
               : InvalidFieldError(
                     "features", "are given, expected none because the model has no feature_names");
  }
  const int count = observations.features().values_size();
  const std::size_t expected = static_cast<std::size_t>(rows) * width;
  if (static_cast<std::size_t>(count) == expected) return absl::OkStatus();
  return InvalidFieldError(
      "features", absl::StrCat(observations.has_features() ? absl::StrCat("has ", count, " values")
                                                           : std::string("is not set"),
                               ", expected ", rows, " x ", width, " values because the model has ",
                               width, " feature_names"));
}

std::optional<Violation> FindFeatureViolation(const v1::Observations& observations,
                                              const ModelDeclaration& declaration, int i) {
  const int width = static_cast<int>(declaration.feature_names.size());
  for (int k = 0; k < width; ++k) {
    const double value = observations.features().values(i * width + k);
    if (std::isfinite(value)) continue;
    return Violation{.field = "features",
                     .description = absl::StrCat(
                         "(", Quoted(declaration.feature_names[static_cast<std::size_t>(k)]),
                         ") is ", value, ", expected a finite number"),
                     .row = static_cast<std::size_t>(i),
                     .column = static_cast<std::size_t>(k)};
  }
  return std::nullopt;
}

}  // namespace calibd::server
