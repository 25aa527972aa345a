#include "server/answers/error_proto.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "calibd/convert/dated_change.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/forecast.h"
#include "calibd/convert/reading.h"
#include "server/answers/verdict.h"
#include "server/base/proto_time.h"
#include "server/kinds/classes/class_measure.h"
#include "server/kinds/numbers/coverage_measure.h"

namespace calibd::server {
void DescribeError(const ModelDeclaration& declaration, const ErrorSnapshot& error,
                   v1::CalibrationError& proto) {
  const ErrorReading& reading = error.Read();
  proto.set_status(ToProto(reading.status));
  proto.set_limit(error.error_limit);
  if (error.acknowledged) proto.set_acknowledged_limit(error.limit);
  proto.set_is_recent(reading.is_recent);
  proto.set_is_recovered(reading.recovered);
  proto.set_is_acknowledged(error.acknowledged && !error.over);
  if (const auto again = error.OverAgainSince()) proto.set_over_again_since(*again);
  error.measured->Describe(error, reading, proto);
  if (error.recovery != nullptr) {
    v1::ErrorMeasurement& newest = *proto.mutable_newest();
    newest.set_observations(error.recovery->observations);
    newest.set_first_observation(error.recovery->first_observation);
    if (error.recovery->start_time.has_value()) {
      *newest.mutable_start_time() = ToTimestamp(*error.recovery->start_time);
    }
    error.measured->DescribeIntervals(*error.recovery, newest);
  }
  convert::CompareEvents(proto);
  const std::string class_1 = declaration.class_1_name();
  if (class_1.empty()) return;
  proto.mutable_since_start()->set_class_1_name(class_1);
  if (proto.has_since_acknowledgement()) {
    proto.mutable_since_acknowledgement()->set_class_1_name(class_1);
  }
  if (proto.has_newest()) proto.mutable_newest()->set_class_1_name(class_1);
}

void DescribeRowsUntilDecided(const ErrorSnapshot& error, v1::CalibrationError& proto) {
  const std::optional<RowsUntilDecided> rows = error.Foresee();
  if (!rows.has_value()) return;
  proto.mutable_observations_needed()->set_lower(rows->lower);
  proto.mutable_observations_needed()->set_upper(rows->upper);
}

void DescribeChange(const ErrorSnapshot& error, v1::CalibrationError& proto) {
  const EventChange* const named = error.NamedChange();
  if (named == nullptr) return;
  const EventDeviations& event = error.deviations[named->event];
  v1::DatedChange& out = *proto.mutable_change();
  out = convert::ToProto(named->change, event.first_observation, event.blocks.rows());
  error.measured->DescribeEvent(named->event, out);
}

}  // namespace calibd::server
