#ifndef CALIBD_SERVER_RPC_TEST_CALL_H_
#define CALIBD_SERVER_RPC_TEST_CALL_H_

#include <grpcpp/server_context.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/v1/calibration_service.grpc.pb.h"
#include "server/compute/quadratic_tests.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// One call of RunTest: writes progress now and then, and the result. Its end,
// however it comes, stops the test.
class TestCall final : public grpc::ServerWriteReactor<v1::RunTestResponse>,
                       public std::enable_shared_from_this<TestCall> {
 public:
  // The call keeps itself alive until gRPC is done with it.
  static TestCall* Begin(const ModelRegistry& registry, QuadraticTests& tests,
                         const v1::RunTestRequest& request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  absl::Status Submit(const ModelRegistry& registry, QuadraticTests& tests,
                      const v1::RunTestRequest& request);
  void OnProgress(double fraction);
  void OnOutcome(const ModelDeclaration& declaration, const Lens& lens,
                 const absl::StatusOr<QuadraticTestOutcome>& outcome);
  // The following with mutex_ held.
  void Stop();
  // Writes or finishes, if there is something to write or finish with.
  void Advance();

  std::mutex mutex_;
  // Itself, until OnDone.
  std::shared_ptr<TestCall> self_;
  std::shared_ptr<QuadraticTests::Job> job_;
  std::optional<v1::RunTestResponse> next_;
  v1::RunTestResponse written_;
  bool writing_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
  std::chrono::steady_clock::time_point next_progress_;
  // How the call ends, once next_ is written.
  std::optional<absl::Status> end_status_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_TEST_CALL_H_
