#include "server/rpc/calibration_service.h"

#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "calibd/core/hypothesis_test.h"
#include "calibd/core/kernel.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/provenance.h"
#include "server/rpc/status_mapping.h"
#include "server/rpc/test_call.h"

namespace calibd::server {
namespace {

constexpr double kConfidenceLevel = 0.95;

void Describe(const BlockSnapshot& block, v1::BlockEstimate& estimate) {
  estimate.set_block_size(static_cast<std::int32_t>(block.block_size));
  estimate.set_block_count(block.moments.count);
  estimate.set_pending_observations(static_cast<std::int32_t>(block.pending));
  if (block.moments.count < 1) {
    return;
  }
  estimate.set_skce(block.moments.mean);
  estimate.set_p_value_upper_bound(BlockPValueUpperBound(
      block.moments.mean, block.moments.count, block.block_size, Kernel::DistributionFreeBound()));
  const std::optional<NormalTest> test = TestMeanIsPositive(block.moments);
  if (!test.has_value()) {
    return;
  }
  estimate.set_standard_deviation(test->standard_deviation);
  estimate.set_p_value(test->p_value);
  if (test->z.has_value()) {
    estimate.set_z(*test->z);
  }
  if (const auto bound = LowerConfidenceBound(block.moments, kConfidenceLevel)) {
    estimate.set_skce_lower_bound(*bound);
  }
}

void Describe(const Model& model, const ModelSnapshot& snapshot,
              v1::GetCalibrationResponse& response) {
  const ModelDeclaration& declaration = model.declaration();
  response.set_model(declaration.name.ToString());
  response.set_observations(snapshot.observations);
  response.set_rejected_rows(snapshot.rejected_rows);
  response.set_dropped_rows(snapshot.dropped_rows);
  response.set_bandwidth_error(snapshot.bandwidth_error);
  if (snapshot.last_observation_time.has_value()) {
    SetProto(*snapshot.last_observation_time, *response.mutable_last_observation_time());
  }
  if (!snapshot.bandwidth.has_value()) {
    auto& insufficient = *response.mutable_insufficient_data();
    insufficient.set_observations(snapshot.observations);
    if (snapshot.bandwidth_error.empty()) {
      insufficient.set_needed(static_cast<std::int64_t>(declaration.warmup) -
                              snapshot.observations);
      insufficient.set_reason(absl::StrCat("the bandwidth is chosen from the first ",
                                           declaration.warmup, " predictions"));
    } else {
      insufficient.set_reason(snapshot.bandwidth_error);
    }
    return;
  }
  for (const BlockSnapshot& block : snapshot.blocks) {
    Describe(block, *response.add_estimates());
  }
  // Block size 2 is always there, so it has the first block.
  constexpr std::int64_t kFirstBlock = 2;
  if (snapshot.observations < kFirstBlock) {
    auto& insufficient = *response.mutable_insufficient_data();
    insufficient.set_observations(snapshot.observations);
    insufficient.set_needed(kFirstBlock - snapshot.observations);
    insufficient.set_reason("the first estimate is made from two observations");
  }
  DescribeProvenance(declaration, *snapshot.bandwidth, 1, snapshot.observations,
                     std::chrono::system_clock::now(), *response.mutable_provenance());
}

}  // namespace

grpc::ServerUnaryReactor* CalibrationServiceImpl::GetCalibration(
    grpc::CallbackServerContext* context, const v1::GetCalibrationRequest* request,
    v1::GetCalibrationResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(CatchExceptions([&]() -> absl::Status {
    const absl::StatusOr<ModelName> name = ParseModelName("model", request->model());
    if (!name.ok()) {
      return name.status();
    }
    const absl::StatusOr<std::shared_ptr<Model>> model = registry_.Find(*name);
    if (!model.ok()) {
      return model.status();
    }
    Describe(**model, *(*model)->snapshot(), *response);
    return absl::OkStatus();
  })));
  return reactor;
}

grpc::ServerWriteReactor<v1::RunTestResponse>* CalibrationServiceImpl::RunTest(
    grpc::CallbackServerContext* /*context*/, const v1::RunTestRequest* request) {
  return TestCall::Begin(registry_, tests_, *request);
}

}  // namespace calibd::server
