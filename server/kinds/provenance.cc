#include "server/kinds/provenance.h"

#include "server/base/proto_time.h"
#include "server/version.h"

namespace calibd::server {

void DescribeProvenance(const ModelDeclaration& declaration, std::int64_t first_observation,
                        std::int64_t last_observation, std::chrono::system_clock::time_point time,
                        v1::Provenance& provenance) {
  provenance.set_observations(last_observation - first_observation + 1);
  provenance.set_first_observation(first_observation);
  provenance.set_last_observation(last_observation);
  provenance.set_class_count(static_cast<std::int32_t>(declaration.class_count()));
  *provenance.mutable_compute_time() = ToTimestamp(time);
  provenance.set_valid_for_repeated_looks(false);
  provenance.set_version(kVersion);
}

}  // namespace calibd::server
