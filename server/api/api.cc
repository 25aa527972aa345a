#include "server/api/api.h"

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

absl::Status Api::ListVerdicts(const v1::ListVerdictsRequest& request,
                               const Reply<v1::ListVerdictsResponse>& reply) {
  return verdicts_.List(request, reply);
}

absl::Status Api::WatchCalibration(const v1::WatchCalibrationRequest& request,
                                   const Reply<v1::WatchCalibrationResponse>& reply,
                                   NamedModel model) {
  return watches_.Add(request, reply, model);
}

absl::Status Api::Backup(const v1::BackupRequest& /*request*/,
                         const Reply<v1::BackupResponse>& reply) {
  return upkeep_.Backup(reply);
}

absl::Status Api::Verify(const v1::VerifyRequest& /*request*/,
                         const Reply<v1::VerifyResponse>& reply) {
  return upkeep_.Verify(reply);
}

void Api::Drain() {
  parts_.jobs.Drain();
  upkeep_.Drain();
  watches_.Drain();
}

void Api::Stop() {
  watches_.Stop();
  upkeep_.Stop();
}

}  // namespace calibd::server
