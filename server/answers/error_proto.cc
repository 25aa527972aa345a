#include "server/answers/error_proto.h"

#include <optional>

#include "calibd/convert/evaluation.h"
#include "calibd/convert/forecast.h"
#include "server/answers/verdict.h"
#include "server/base/proto_time.h"
#include "server/kinds/classes/class_measure.h"
#include "server/kinds/numbers/coverage_measure.h"

namespace calibd::server {
void DescribeError(const ErrorSnapshot& error, v1::CalibrationError& proto) {
  const ErrorReading& reading = error.Read();
  proto.set_status(ToProto(reading.status));
  proto.set_limit(error.error_limit);
  if (error.acknowledged) proto.set_acknowledged_limit(error.limit);
  proto.set_is_recent(reading.is_recent);
  proto.set_is_recovered(reading.recovered);
  proto.set_is_acknowledged(error.acknowledged && !error.over);
  error.measured->Describe(error, reading, proto);
  if (reading.observations_needed.has_value()) {
    proto.set_observations_needed(*reading.observations_needed);
  }
}

}  // namespace calibd::server
