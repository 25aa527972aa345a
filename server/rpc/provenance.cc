#include "server/rpc/provenance.h"

#include <utility>

#include "server/rpc/proto_time.h"
#include "server/version.h"

namespace calibd::server {

void DescribeProvenance(const ModelDeclaration& declaration, double bandwidth,
                        std::int64_t first_observation, std::int64_t last_observation,
                        std::chrono::system_clock::time_point time, v1::Provenance& provenance) {
  provenance.set_observations(last_observation - first_observation + 1);
  provenance.set_first_observation(first_observation);
  provenance.set_last_observation(last_observation);
  provenance.set_class_count(static_cast<std::int32_t>(declaration.class_count));
  provenance.set_lens("canonical");
  v1::Model model = ToProto(declaration);
  *provenance.mutable_kernel() = std::move(*model.mutable_kernel());
  *provenance.mutable_bandwidth_rule() = std::move(*model.mutable_bandwidth());
  provenance.set_bandwidth(bandwidth);
  SetProto(time, *provenance.mutable_compute_time());
  provenance.set_valid_for_repeated_looks(false);
  provenance.set_version(kVersion);
}

}  // namespace calibd::server
