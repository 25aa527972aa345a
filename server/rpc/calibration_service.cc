#include "server/rpc/calibration_service.h"

#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/kernel.h"
#include "calibd/core/lens_kernel.h"
#include "calibd/text/printable.h"
#include "server/errors.h"
#include "server/rpc/history_calls.h"
#include "server/rpc/label_coverage_proto.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/provenance.h"
#include "server/rpc/reliability_proto.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/watch_proto.h"
#include "server/rpc/window_call.h"
#include "server/rpc/window_calls.h"

namespace calibd::server {
namespace {

constexpr std::size_t kMaxNoteLength = 500;

// B of the terms that a lens sums.
double TermBound(const LensSnapshot& lens) {
  return std::holds_alternative<Kernel>(*lens.kernel) ? lens.lens.DistributionFreeBound()
                                                      : DistributionFreeBound(*lens.kernel);
}

// lens: has a kernel.
void DescribeEstimates(const ModelDeclaration& declaration, const LensSnapshot& lens,
                       google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates,
                       v1::Provenance& provenance) {
  const double bound = TermBound(lens);
  for (const RunningBlock& block : lens.blocks) {
    *estimates.Add() = convert::ToProto(block, bound);
  }
  const KernelSpec spec = KernelOfLens(lens.lens, declaration.kernel);
  provenance.set_lens(lens.lens.name());
  *provenance.mutable_kernel() = convert::KernelToProto(spec);
  if (spec.matrix == nullptr) {
    *provenance.mutable_bandwidth_rule() =
        convert::BandwidthToProto(spec.rule.bandwidth, declaration.warmup);
  }
  convert::ToProto(*lens.kernel, provenance);
  provenance.set_term_bound(bound);
}

void DescribeWarmup(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                    v1::GetCalibrationResponse::InsufficientData& insufficient) {
  insufficient.set_observations(snapshot.observations);
  insufficient.set_needed(static_cast<std::int64_t>(declaration.warmup) - snapshot.observations);
  insufficient.set_reason(
      absl::StrCat("the bandwidth is chosen from the first ", declaration.warmup, " predictions"));
}

void DescribeMonitor(const Model& model, const ModelSnapshot& snapshot,
                     std::chrono::system_clock::time_point now,
                     v1::GetCalibrationResponse& response) {
  DescribeVerdict(model, snapshot, now, *response.mutable_verdict());
  DescribeWatch(model.declaration(), snapshot, *response.mutable_watch());
  const std::vector<Alarm>& alarms = *snapshot.monitor->alarms;
  // The newest first.
  for (std::size_t i = alarms.size(); i-- > 0;) {
    DescribeAlarm(alarms[i], *response.add_alarms());
  }
  DescribeGroups(model.declaration(), snapshot, response);
  WarnOfRows(model.declaration(), snapshot, *response.mutable_warnings());
  response.mutable_warnings()->MergeFrom(response.label_coverage().warnings());
}

absl::Status AlarmNotFoundError(const Model& model, std::int64_t alarm_id) {
  return MakeError(absl::StatusCode::kNotFound, "ALARM_NOT_FOUND",
                   absl::StrCat(model.declaration().name.ToString(), " has no alarm ", alarm_id));
}

// Describes the alarm as it is now. Errors: NotFound.
absl::Status FindAlarm(const Model& model, std::int64_t alarm_id, v1::Alarm& proto) {
  const std::shared_ptr<const ModelSnapshot> snapshot = model.snapshot();
  const Alarm* const alarm =
      snapshot->monitor.has_value() ? snapshot->monitor->FindAlarm(alarm_id) : nullptr;
  if (alarm == nullptr) {
    return AlarmNotFoundError(model, alarm_id);
  }
  DescribeAlarm(*alarm, proto);
  return absl::OkStatus();
}

void Describe(Model& model, const ModelSnapshot& snapshot,
              std::chrono::system_clock::time_point now, v1::GetCalibrationResponse& response) {
  const ModelDeclaration& declaration = model.declaration();
  response.set_model(declaration.name.ToString());
  response.set_observations(snapshot.observations);
  response.set_rejected_rows(snapshot.rejected_rows);
  response.set_dropped_rows(snapshot.dropped_rows);
  if (snapshot.last_observation_time.has_value()) {
    SetProto(*snapshot.last_observation_time, *response.mutable_last_observation_time());
  }
  if (snapshot.label_coverage.has_value()) {
    DescribeLabelCoverage(model, *snapshot.label_coverage, *response.mutable_label_coverage());
  }
  if (snapshot.reliability.Total().count > 0) {
    DescribeReliability(snapshot.reliability, *response.mutable_scores());
  }
  if (snapshot.monitor.has_value()) {
    DescribeMonitor(model, snapshot, now, response);
  }
  if (snapshot.warming_up()) {
    DescribeWarmup(declaration, snapshot, *response.mutable_insufficient_data());
    return;
  }
  const LensSnapshot& canonical = snapshot.lenses.front();
  response.set_bandwidth_error(canonical.bandwidth_error);
  if (canonical.kernel.has_value()) {
    DescribeProvenance(declaration, 1, snapshot.observations, now, *response.mutable_provenance());
    DescribeEstimates(declaration, canonical, *response.mutable_estimates(),
                      *response.mutable_provenance());
  }
  for (std::size_t i = 1; i < snapshot.lenses.size(); ++i) {
    const LensSnapshot& lens = snapshot.lenses[i];
    v1::RunningLens& out = *response.add_lenses();
    out.set_lens(lens.lens.name());
    out.set_bandwidth_error(lens.bandwidth_error);
    if (lens.kernel.has_value()) {
      DescribeProvenance(declaration, 1, snapshot.observations, now, *out.mutable_provenance());
      DescribeEstimates(declaration, lens, *out.mutable_estimates(), *out.mutable_provenance());
    }
  }
  // Block size 2 is always there, so it has the first block.
  constexpr std::int64_t kFirstBlock = 2;
  if (!canonical.bandwidth_error.empty()) {
    auto& insufficient = *response.mutable_insufficient_data();
    insufficient.set_observations(snapshot.observations);
    insufficient.set_reason(canonical.bandwidth_error);
  } else if (snapshot.observations < kFirstBlock) {
    auto& insufficient = *response.mutable_insufficient_data();
    insufficient.set_observations(snapshot.observations);
    insufficient.set_needed(kFirstBlock - snapshot.observations);
    insufficient.set_reason("the first estimate is made from two observations");
  }
}

}  // namespace

CalibrationServiceImpl::CalibrationServiceImpl(CallMemory& memory, ModelRegistry& registry,
                                               WindowJobs& jobs, Ingestor& ingestor,
                                               HistoryReader& history, std::size_t max_watchers)
    : memory_(memory),
      registry_(registry),
      jobs_(jobs),
      ingestor_(ingestor),
      history_(history),
      watches_(registry, max_watchers, Describe),
      verdicts_(registry) {}

grpc::ServerUnaryReactor* CalibrationServiceImpl::GetCalibration(
    grpc::CallbackServerContext* context, const v1::GetCalibrationRequest* request,
    v1::GetCalibrationResponse* response) {
  return AnswerUnary(
      "GetCalibration", memory_, *context, *request, *response,
      [&](v1::GetCalibrationResponse& answer) -> absl::Status {
        const absl::StatusOr<ModelName> name = ParseModelName("model", request->model());
        if (!name.ok()) {
          return name.status();
        }
        const absl::StatusOr<std::shared_ptr<Model>> model = registry_.Find(*name);
        if (!model.ok()) {
          return model.status();
        }
        Describe(**model, *(*model)->snapshot(), std::chrono::system_clock::now(), answer);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* CalibrationServiceImpl::ListVerdicts(
    grpc::CallbackServerContext* context, const v1::ListVerdictsRequest* request,
    v1::ListVerdictsResponse* response) {
  return ServeUnary("ListVerdicts", memory_, *context, *request, *response, [&](const auto& call) {
    return verdicts_.List(*request, *response,
                          [call](const absl::Status& listed) { call->End(listed); });
  });
}

grpc::ServerUnaryReactor* CalibrationServiceImpl::AcknowledgeAlarm(
    grpc::CallbackServerContext* context, const v1::AcknowledgeAlarmRequest* request,
    v1::AcknowledgeAlarmResponse* response) {
  return ServeUnary(
      "AcknowledgeAlarm", memory_, *context, *request, *response,
      [&](const auto& call) -> absl::Status {
        const absl::StatusOr<std::shared_ptr<Model>> model = CheckAcknowledgement(*request);
        if (!model.ok()) {
          return model.status();
        }
        const std::int64_t alarm_id = request->alarm_id();
        v1::Alarm alarm;
        absl::Status found = FindAlarm(**model, alarm_id, alarm);
        if (!found.ok()) {
          return found;
        }
        const auto describe = [model = *model, alarm_id](v1::AcknowledgeAlarmResponse& answer) {
          return FindAlarm(*model, alarm_id, *answer.mutable_alarm());
        };
        if (alarm.has_acknowledge_time()) {
          // What is visible is on disk.
          call->EndWith(describe);
          return absl::OkStatus();
        }
        ingestor_.Acknowledge(*model, alarm_id, request->note(),
                              [call, describe](const absl::Status& acknowledged) {
                                call->EndWith([&](v1::AcknowledgeAlarmResponse& answer) {
                                  return acknowledged.ok() ? describe(answer) : acknowledged;
                                });
                              });
        return absl::OkStatus();
      });
}

absl::StatusOr<std::shared_ptr<Model>> CalibrationServiceImpl::CheckAcknowledgement(
    const v1::AcknowledgeAlarmRequest& request) const {
  const absl::StatusOr<ModelName> name = ParseModelName("model", request.model());
  if (!name.ok()) {
    return name.status();
  }
  if (request.alarm_id() < 1) {
    return InvalidFieldError("alarm_id",
                             absl::StrCat("is ", request.alarm_id(), ", expected >= 1"));
  }
  if (request.note().size() > kMaxNoteLength) {
    return InvalidFieldError("note", absl::StrCat("has ", request.note().size(),
                                                  " bytes, expected at most ", kMaxNoteLength));
  }
  if (const auto unprintable = FindUnprintable(request.note())) {
    return InvalidFieldError("note", *unprintable);
  }
  return registry_.Find(*name);
}

grpc::ServerWriteReactor<v1::RunTestResponse>* CalibrationServiceImpl::RunTest(
    grpc::CallbackServerContext* context, const v1::RunTestRequest* request) {
  return ServeWindowCall<v1::RunTestResponse>(
      "RunTest", memory_, *context, *request, [&](const auto& result, auto watcher) {
        return SubmitRunTest(registry_, jobs_, *request, result, std::move(watcher));
      });
}

grpc::ServerWriteReactor<v1::EvaluateResponse>* CalibrationServiceImpl::Evaluate(
    grpc::CallbackServerContext* context, const v1::EvaluateRequest* request) {
  return ServeWindowCall<v1::EvaluateResponse>(
      "Evaluate", memory_, *context, *request, [&](const auto& result, auto watcher) {
        return SubmitEvaluate(registry_, jobs_, *request, result, std::move(watcher));
      });
}

grpc::ServerWriteReactor<v1::WatchCalibrationResponse>* CalibrationServiceImpl::WatchCalibration(
    grpc::CallbackServerContext* context, const v1::WatchCalibrationRequest* request) {
  return ServeStream<v1::WatchCalibrationResponse>(
      "WatchCalibration", memory_, *context, *request,
      [&](const auto& stream) { return watches_.Add(*request, stream); });
}

grpc::ServerUnaryReactor* CalibrationServiceImpl::GetHistory(grpc::CallbackServerContext* context,
                                                             const v1::GetHistoryRequest* request,
                                                             v1::GetHistoryResponse* response) {
  return ServeUnary(
      "GetHistory", memory_, *context, *request, *response, [&](const auto& call) -> absl::Status {
        const absl::StatusOr<HistoryQuery> query = CheckHistoryRequest(registry_, *request);
        if (!query.ok()) {
          return query.status();
        }
        return history_.Read(query->model, query->range,
                             [call, query = *query](const auto& buckets) {
                               call->EndWith([&](v1::GetHistoryResponse& answer) {
                                 if (buckets.ok()) {
                                   DescribeHistory(query, *buckets, answer);
                                 }
                                 return buckets.status();
                               });
                             });
      });
}

}  // namespace calibd::server
