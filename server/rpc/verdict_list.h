#ifndef CALIBD_SERVER_RPC_VERDICT_LIST_H_
#define CALIBD_SERVER_RPC_VERDICT_LIST_H_

#include "absl/status/status.h"
#include "calibd/v1/calibration_service.pb.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// ListVerdicts. Cost: a look at the newest published state of every model. Errors: InvalidArgument.
[[nodiscard]] absl::Status ListVerdicts(const ModelRegistry& registry,
                                        const v1::ListVerdictsRequest& request,
                                        v1::ListVerdictsResponse& response);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_VERDICT_LIST_H_
