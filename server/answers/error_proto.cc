#include "server/answers/error_proto.h"

#include <algorithm>
#include <cmath>
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

// The level of the intervals of all events together, whatever the level of the tests is.
constexpr double kChangeLevel = .05;

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
  std::optional<DatedChange> newest;
  std::size_t place = 0;
  for (std::size_t i = 0; i < error.deviations.size(); ++i) {
    const double level = kChangeLevel / static_cast<double>(error.deviations.size());
    const std::optional<DatedChange> change = error.deviations[i].blocks.Find(level);
    const auto size = [](const DatedChange& one) {
      return std::abs(one.after.mean - one.before.mean);
    };
    if (!change.has_value() || (newest.has_value() && size(*change) <= size(*newest))) continue;
    newest = change;
    place = i;
  }
  if (!newest.has_value()) return;
  const EventDeviations& event = error.deviations[place];
  v1::DatedChange& out = *proto.mutable_change();
  error.measured->DescribeEvent(place, out);
  out.set_from_observation(event.first_observation + newest->from);
  out.set_to_observation(event.first_observation + newest->to - 1);
  DescribeStretch(newest->before, event.first_observation + newest->before_from,
                  newest->best - newest->before_from, *out.mutable_before());
  DescribeStretch(newest->after, event.first_observation + newest->best,
                  event.blocks.rows() - newest->best, *out.mutable_after());
}

}  // namespace calibd::server
