#ifndef CALIBD_SERVER_RPC_GRPC_LOG_H_
#define CALIBD_SERVER_RPC_GRPC_LOG_H_

namespace calibd::server {

// While an object exists, what gRPC logs is written as lines of calibd: escaped, cut, and at most
// one error and one other line in ten seconds, because peers can cause such lines. Errors of gRPC
// are warnings; its other lines have the level debug. gRPC itself would write to stderr.
// Afterwards, what it logs is dropped.
class GrpcLog {
 public:
  GrpcLog();
  ~GrpcLog();
  GrpcLog(const GrpcLog&) = delete;
  GrpcLog& operator=(const GrpcLog&) = delete;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_GRPC_LOG_H_
