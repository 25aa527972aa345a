#include "calibd/convert/dated_change.h"

#include <algorithm>

namespace calibd::convert {
namespace {

void Describe(const MeanDeviation& mean, std::int64_t first, std::int64_t count,
              v1::DatedChange::Stretch& out) {
  out.set_first_observation(first);
  out.set_observations(count);
  out.set_gap(mean.mean);
  out.set_gap_lower(std::max(-1.0, mean.mean - mean.radius));
  out.set_gap_upper(std::min(1.0, mean.mean + mean.radius));
}

}  // namespace

v1::DatedChange ToProto(const DatedChange& change, std::int64_t first_observation,
                        std::int64_t rows) {
  v1::DatedChange out;
  out.set_from_observation(first_observation + change.from);
  out.set_to_observation(first_observation + change.to - 1);
  Describe(change.before, first_observation + change.before_from, change.best - change.before_from,
           *out.mutable_before());
  Describe(change.after, first_observation + change.best, rows - change.best, *out.mutable_after());
  return out;
}

}  // namespace calibd::convert
