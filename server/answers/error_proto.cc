#include "server/answers/error_proto.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "calibd/convert/evaluation.h"
#include "calibd/convert/forecast.h"
#include "server/answers/verdict.h"
#include "server/base/proto_time.h"
#include "server/kinds/classes/class_measure.h"
#include "server/kinds/numbers/coverage_measure.h"

namespace calibd::server {
namespace {

void DescribeStretch(const MeanDeviation& mean, std::int64_t first, std::int64_t count,
                     v1::DatedChange::Stretch& out) {
  out.set_first_observation(first);
  out.set_observations(count);
  out.set_gap(mean.mean);
  out.set_gap_lower(std::max(-1.0, mean.mean - mean.radius));
  out.set_gap_upper(std::min(1.0, mean.mean + mean.radius));
}

}  // namespace

void DescribeError(const ErrorSnapshot& error, v1::CalibrationError& proto) {
  const ErrorReading& reading = error.Read();
  proto.set_status(ToProto(reading.status));
  proto.set_limit(error.error_limit);
  if (error.acknowledged) proto.set_acknowledged_limit(error.limit);
  proto.set_is_recent(reading.is_recent);
  proto.set_is_recovered(reading.recovered);
  proto.set_is_acknowledged(error.acknowledged && !error.over);
  error.measured->Describe(error, reading, proto);
}

void DescribeRowsUntilDecided(const ErrorSnapshot& error, v1::CalibrationError& proto) {
  const std::optional<RowsUntilDecided> rows = error.Foresee();
  if (!rows.has_value()) return;
  proto.mutable_observations_needed()->set_lower(rows->lower);
  proto.mutable_observations_needed()->set_upper(rows->upper);
}

void DescribeChange(const ErrorSnapshot& error, v1::CalibrationError& proto) {
  if (!error.Change().has_value()) return;
  const auto& [place, change] = *error.Change();
  const EventDeviations& event = error.deviations[place];
  v1::DatedChange& out = *proto.mutable_change();
  error.measured->DescribeEvent(place, out);
  out.set_from_observation(event.first_observation + change.from);
  out.set_to_observation(event.first_observation + change.to - 1);
  DescribeStretch(change.before, event.first_observation + change.before_from,
                  change.best - change.before_from, *out.mutable_before());
  DescribeStretch(change.after, event.first_observation + change.best,
                  event.blocks.rows() - change.best, *out.mutable_after());
}

}  // namespace calibd::server
