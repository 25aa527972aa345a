#ifndef CALIBD_SERVER_RPC_REGISTERED_METHODS_H_
#define CALIBD_SERVER_RPC_REGISTERED_METHODS_H_

#include <google/protobuf/descriptor.h>

#include <vector>

#include "server/observability/rpc_statistics.h"

namespace calibd::server {

// Returns the services of calibd's API.
[[nodiscard]] std::vector<const google::protobuf::ServiceDescriptor*> ApiServices();

// The methods of the API, of the health service and, with reflection, of the reflection service.
[[nodiscard]] std::vector<RpcMethod> RegisteredMethods(bool reflection);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_REGISTERED_METHODS_H_
