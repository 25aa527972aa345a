#include "server/api/api.h"

#include <utility>

#include "server/api/quota_use.h"

namespace calibd::server {

absl::StatusOr<std::shared_ptr<Model>> FindModel(const ModelRegistry& registry, const char* field,
                                                 const std::string& name) {
  const absl::StatusOr<ModelName> parsed = ParseModelName(field, name);
  return parsed.ok() ? registry.Find(*parsed) : parsed.status();
}

Api::Api(const ApiParts& parts)
    : parts_(parts),
      verdicts_(parts.registry),
      watches_(parts.registry, parts.max_watchers),
      upkeep_(parts.registry, parts.commits, parts.health) {}

absl::Status Api::CheckAccess(const CallContext& call, Role role, const char* field,
                              const std::string& name) const {
  CALIBD_RETURN_IF_ERROR(call.identity.status());
  if (call.identity->unrestricted()) return absl::OkStatus();
  CALIBD_ASSIGN_OR_RETURN(const ModelName parsed, ParseModelName(field, name));
  return parts_.access.Check(*call.identity, call.address, call.method, role, parsed.ToString());
}

absl::Status Api::CheckAll(const CallContext& call, const Right& right) const {
  CALIBD_RETURN_IF_ERROR(call.identity.status());
  if (right.scope == Scope::kReadable) return absl::OkStatus();
  return parts_.access.Check(*call.identity, call.address, call.method, right.role,
                             std::string(kAllModels));
}

bool Api::MayDeclare(const CallContext& call, const std::string& name) const {
  return call.identity.ok() && call.identity->Has(Role::kWriter, name) &&
         FindModel(parts_.registry, "model.name", name).ok();
}

absl::StatusOr<std::shared_ptr<AccessControl::Held>> Api::Hold(
    const char* method, const Right& right, std::string resource,
    const std::shared_ptr<Call>& call) const {
  return parts_.access.Hold(*call->context().identity, method, right.role, std::move(resource),
                            [weak = std::weak_ptr(call)](const absl::Status& status) {
                              if (const auto held = weak.lock()) held->End(status);
                            });
}

absl::Status Api::ListVerdicts(const v1::ListVerdictsRequest& request,
                               const Reply<v1::ListVerdictsResponse>& reply) {
  return verdicts_.List(request, reply);
}

absl::Status Api::WatchCalibration(const v1::WatchCalibrationRequest& request,
                                   const Reply<v1::WatchCalibrationResponse>& reply,
                                   NamedModel model) {
  const std::string name = model->original().name.ToString();
  Quota::Part part;
  CALIBD_RETURN_IF_ERROR(
      TakeQuota(parts_.access, reply->context(), name, QuotaKind::kWatches, part));
  CALIBD_ASSIGN_OR_RETURN(auto held,
                          Hold(kWatchCalibration.name, kWatchCalibration.right, name, reply));
  return watches_.Add(request, reply, model, WithPart(std::move(held), std::move(part)));
}

absl::Status Api::Backup(const v1::BackupRequest& /*request*/,
                         const Reply<v1::BackupResponse>& reply) {
  CALIBD_ASSIGN_OR_RETURN(auto held,
                          Hold(kBackup.name, kBackup.right, std::string(kAllModels), reply));
  return upkeep_.Backup(reply, std::move(held));
}

absl::Status Api::Verify(const v1::VerifyRequest& /*request*/,
                         const Reply<v1::VerifyResponse>& reply) {
  return upkeep_.Verify(reply);
}

void Api::Drain() {
  parts_.jobs.Drain();
  upkeep_.Drain();
  watches_.Drain();
  if (parts_.forwarder != nullptr) parts_.forwarder->Drain();
}

void Api::Stop() {
  watches_.Stop();
  upkeep_.Stop();
}

}  // namespace calibd::server
