#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "calibd/core/status_macros.h"
#include "server/api/api.h"
#include "server/api/page.h"
#include "server/errors.h"
#include "server/ingest/model_changes.h"
#include "server/state/monitoring.h"

namespace calibd::server {
namespace {

constexpr std::size_t kMaxPageBytes = std::size_t{1} << 20;

// Returns the declaration with its defaults. Errors: InvalidArgument.
absl::StatusOr<ModelDeclaration> Check(const ApiParts& parts, const v1::Model& declared) {
  const auto existing = FindModel(parts.registry, "model.name", declared.name());
  if (!existing.ok()) {
    return CheckDeclaration(declared, parts.model_memory_bytes, parts.model_disk_bytes);
  }
  // Every client declares the models that it uses. An existing model keeps its declaration, even if
  // the defaults, or the limits on which they depend, have changed since.
  const v1::Model kept = ToProto((*existing)->declaration());
  v1::Model again = declared;
  if (again.has_label_grace() && again.max_pending() == 0) {
    again.set_max_pending(kept.max_pending());
  }
  if (again.window() == 0) again.set_window(kept.window());
  if (again.row_sum_tolerance() == 0) again.set_row_sum_tolerance(kept.row_sum_tolerance());
  if (!DeclaresAny(again.monitoring())) *again.mutable_monitoring() = kept.monitoring();
  return CheckStoredDeclaration(again, parts.model_memory_bytes);
}

// Returns the error of a deletion in the form for the client.
absl::Status DeletionError(const absl::Status& deleted) {
  return !absl::IsResourceExhausted(deleted)
             ? deleted
             : WithClientMessage(deleted,
                                 "the model was not deleted: the server's disk is full, and a "
                                 "deletion needs some room before it gives any back; free some on "
                                 "that disk and delete the model again");
}

absl::Status ListPage(const ModelRegistry& registry, const v1::ListModelsRequest& request,
                      v1::ListModelsResponse& response) {
  CALIBD_ASSIGN_OR_RETURN(const Page page, ParsePage(request.page_size(), request.page_token()));
  CALIBD_ASSIGN_OR_RETURN(const auto models, registry.List(page.after, page.size + 1));
  // Declarations with class names or matrices may be long. The page ends before the message becomes
  // too large, but contains at least one model.
  std::size_t bytes = 0;
  std::size_t count = 0;
  while (count < std::min(models.size(), page.size)) {
    v1::Model model = Describe(*models[count]);
    bytes += model.ByteSizeLong();
    if (count > 0 && bytes > kMaxPageBytes) break;
    *response.add_models() = std::move(model);
    ++count;
  }
  if (count < models.size()) {
    response.set_next_page_token(MakePageToken(models[count - 1]->declaration().name.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Api::CreateModel(const v1::CreateModelRequest& request,
                              const Reply<v1::CreateModelResponse>& reply) {
  CALIBD_ASSIGN_OR_RETURN(ModelDeclaration declaration, Check(parts_, request.model()));
  return server::CreateModel(
      parts_.registry, parts_.commits, std::move(declaration),
      [reply](const absl::StatusOr<std::shared_ptr<Model>>& model, bool created) {
        reply->Answer([&](v1::CreateModelResponse& response) {
          if (created) {
            spdlog::info("model {} is declared", (*model)->declaration().name.ToString());
          }
          if (model.ok()) *response.mutable_model() = Describe(**model);
          return model.status();
        });
      });
}

absl::Status Api::GetModel(const v1::GetModelRequest& /*request*/,
                           const Reply<v1::GetModelResponse>& reply, NamedModel model) {
  reply->Answer([&](v1::GetModelResponse& response) {
    *response.mutable_model() = Describe(*model);
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::Status Api::DeleteModel(const v1::DeleteModelRequest& /*request*/,
                              const Reply<v1::DeleteModelResponse>& reply, NamedModel model) {
  server::DeleteModel(
      parts_.registry, parts_.commits, model, [this, model, reply](const absl::Status& deleted) {
        // Runs even if the call has ended.
        reply->Guard(Stage::kEnd, [&] {
          if (deleted.ok()) {
            const std::string name = model->declaration().name.ToString();
            spdlog::info("model {} is deleted", name);
            parts_.streams.EndStreamsOf(*model, ModelNotFoundError(name));
            watches_.EndWatchesOf(*model);
          }
          return DeletionError(deleted);
        });
        reply->Answer([](v1::DeleteModelResponse& /*response*/) { return absl::OkStatus(); });
      });
  return absl::OkStatus();
}

absl::Status Api::ListModels(const v1::ListModelsRequest& request,
                             const Reply<v1::ListModelsResponse>& reply) {
  reply->Answer([&](v1::ListModelsResponse& response) {
    return ListPage(parts_.registry, request, response);
  });
  return absl::OkStatus();
}

}  // namespace calibd::server
