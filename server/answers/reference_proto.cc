#include "server/answers/reference_proto.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "server/base/proto_time.h"

namespace calibd::server {

v1::ReferenceChange::Status ReferenceStatus(const MonitorSnapshot& monitor) {
  if (monitor.reference == std::nullopt) return v1::ReferenceChange::UNSPECIFIED;
  const ReferenceSnapshot& reference = *monitor.reference;
  if (reference.changed_at > 0) return v1::ReferenceChange::CHANGED;
  return reference.rows < reference.reference_rows ? v1::ReferenceChange::COLLECTING
                                                   : v1::ReferenceChange::NOT_CHANGED;
}

void DescribeReference(const ModelDeclaration& declaration, const MonitorSnapshot& monitor,
                       v1::ReferenceChange& proto) {
  const ReferenceSnapshot& reference = *monitor.reference;
  const ReferenceChange::Reading& reading = reference.reading;
  proto.set_status(ReferenceStatus(monitor));
  proto.set_first_observation(reference.first_observation);
  proto.set_reference_observations(reference.reference_rows);
  const std::int64_t later = reference.rows - reference.reference_rows;
  proto.set_observations_needed(std::max<std::int64_t>(0, -later));
  proto.set_later_observations(std::max<std::int64_t>(0, later));
  if (reference.start_time.has_value()) {
    *proto.mutable_start_time() = ToTimestamp(*reference.start_time);
  }
  if (reference.end_time.has_value()) *proto.mutable_end_time() = ToTimestamp(*reference.end_time);
  if (reading.reference_rows > 0) {
    proto.set_reference_error_rate(static_cast<double>(reading.reference_wrong) /
                                   static_cast<double>(reading.reference_rows));
  }
  if (reading.e_value > 0) proto.set_log10_e_value(std::log10(reading.e_value));
  proto.set_threshold(EvidenceThreshold(declaration.monitoring.significance_level));
  if (const auto finding = reference.Finding()) DescribeFinding(*finding, *proto.mutable_finding());
}

void DescribeFinding(const ReferenceFinding& finding, v1::ReferenceChange::Finding& proto) {
  proto.set_more_errors(finding.more_errors);
  proto.set_direction_share(finding.direction_share);
  proto.set_since_observation(finding.since_observation);
  proto.set_observations(finding.observations);
  proto.set_wrong(finding.wrong);
  proto.set_expected_wrong(finding.expected_wrong);
}

}  // namespace calibd::server
