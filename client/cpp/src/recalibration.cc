#include "calibd/client/recalibration.h"

#include "absl/strings/str_cat.h"
#include "calibd/convert/recalibration.h"

namespace calibd::client {

absl::Status ApplyRecalibration(const v1::RecalibrationMap& map, std::span<double> rows) {
  const absl::StatusOr<RecalibrationMap> parsed = convert::FromProto(map);
  if (!parsed.ok()) return parsed.status();
  const auto class_count = static_cast<std::size_t>(map.class_count());
  if (rows.size() % class_count != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rows has ", rows.size(), " probabilities, expected a multiple of ", class_count));
  }
  calibd::ApplyRecalibration(*parsed, class_count, rows);
  return absl::OkStatus();
}

}  // namespace calibd::client
