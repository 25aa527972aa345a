#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/api/api.h"
#include "server/api/pagination.h"
#include "server/api/quota_use.h"
#include "server/base/errors.h"
#include "server/ingest/model_changes.h"
#include "server/kinds/kind_table.h"
#include "server/model/monitoring.h"
#include "server/state/check_declaration.h"
#include "server/state/update_declaration.h"

namespace calibd::server {
namespace {

constexpr std::size_t kMaxPageBytes = std::size_t{1} << 20;

// Returns the declaration with the values of an existing model in place of defaults: these depend
// on limits and on the version of calibd, which may have changed since.
v1::Model FillFrom(const ModelDeclaration& existing, const v1::Model& declared) {
  const v1::Model kept = ToProto(existing);
  v1::Model filled = declared;
  if (filled.has_label_grace() && filled.max_pending() == 0) {
    filled.set_max_pending(kept.max_pending());
  }
  if (filled.window() == 0) filled.set_window(kept.window());
  if (filled.description().empty()) filled.set_description(kept.description());
  if (!filled.has_inference_output() && kept.has_inference_output()) {
    *filled.mutable_inference_output() = kept.inference_output();
  }
  if (filled.kind_case() == kept.kind_case()) KindOf(existing).FillFrom(kept, filled);
  const v1::Monitoring& monitoring = declared.monitoring();
  if (!DeclaresAny(monitoring) || (monitoring.disabled() == kept.monitoring().disabled() &&
                                   monitoring.group_tag() == kept.monitoring().group_tag())) {
    *filled.mutable_monitoring() = kept.monitoring();
    if (monitoring.has_stale_after()) filled.mutable_monitoring()->clear_stale_after();
    filled.mutable_monitoring()->MergeFrom(monitoring);
  }
  return filled;
}

// Returns the declaration with its defaults. Errors: InvalidArgument.
absl::StatusOr<ModelDeclaration> Check(const ApiParts& parts, const v1::Model& declared) {
  const auto existing = FindModel(parts.registry, "model.name", declared.name());
  if (!existing.ok()) {
    return CheckDeclaration(declared, parts.model_memory_bytes, parts.model_disk_bytes);
  }
  // Every client declares the models that it uses: either with the original declaration or with the
  // present one.
  const std::shared_ptr<const ModelDeclaration> present = (*existing)->declaration();
  auto again = CheckStoredDeclaration(FillFrom(*present, declared), parts.model_memory_bytes);
  if (again.ok() && *again == *present) return again;
  const ModelDeclaration& original = (*existing)->original();
  auto first = CheckStoredDeclaration(FillFrom(original, declared), parts.model_memory_bytes);
  // Otherwise the declaration is refused, and the error says how it differs from the present one.
  return first.ok() && *first == original ? first : again;
}

// The error of a declaration, without the values of a model that the caller may not read.
absl::Status HideModel(const ApiParts& parts, const v1::Model& declared, absl::Status error) {
  if (!absl::IsAlreadyExists(error) && !absl::IsInvalidArgument(error)) return error;
  const auto alone = CheckDeclaration(declared, parts.model_memory_bytes, parts.model_disk_bytes);
  if (!alone.ok()) return alone.status();
  return ModelError(absl::StatusCode::kAlreadyExists, "MODEL_DIFFERS", declared.name(),
                    absl::StrCat(declared.name(),
                                 " exists with another declaration, which a reader of it can see"));
}

void LogUpdate(const v1::UpdateModelResponse& response) {
  for (const v1::ModelUpdate::Change& change : response.update().changes()) {
    spdlog::info("model {}: {} is updated from {} to {}", response.model().name(), change.path(),
                 Quoted(change.old_value()), Quoted(change.new_value()));
  }
}

absl::Status CheckConfirmation(const v1::DeleteModelRequest& request) {
  if (request.confirmation() == request.name()) return absl::OkStatus();
  const Violation violation{
      .field = "confirmation",
      .description =
          absl::StrCat("is ", Quoted(request.confirmation()), ", expected the name ",
                       request.name(), " again: a model cannot be restored after its deletion")};
  return InvalidFieldsError("NOT_CONFIRMED", std::span(&violation, 1));
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

// Checks the quota of the caller, who may create no more models than `limit`, if the model is new.
// Models that the caller may change count. Errors: ResourceExhausted.
absl::Status CheckModelQuota(const ApiParts& parts, const Identity& caller, const std::string& name,
                             std::uint64_t limit) {
  if (FindModel(parts.registry, "model.name", name).ok()) return absl::OkStatus();
  CALIBD_ASSIGN_OR_RETURN(const auto models,
                          parts.registry.List("", std::numeric_limits<std::size_t>::max()));
  const auto used = std::count_if(models.begin(), models.end(), [&caller](const auto& model) {
    return caller.Has(kCreateModel.right.role, model->original().name.ToString());
  });
  if (static_cast<std::uint64_t>(used) < limit) return absl::OkStatus();
  return parts.access.CountRefusal(caller, {.kind = QuotaKind::kModels,
                                            .limit = limit,
                                            .used = static_cast<std::uint64_t>(used),
                                            .asked = 1,
                                            .wait = std::nullopt});
}

absl::Status ListPage(const ModelRegistry& registry, const Identity& caller,
                      const v1::ListModelsRequest& request, v1::ListModelsResponse& response) {
  CALIBD_ASSIGN_OR_RETURN(const Page page, ParsePage(request.page_size(), request.page_token()));
  CALIBD_ASSIGN_OR_RETURN(const auto models,
                          ListReadable(registry, caller, page.after, page.size + 1));
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
    response.set_next_page_token(MakePageToken(models[count - 1]->declaration()->name.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Api::CreateModel(const v1::CreateModelRequest& request,
                              const Reply<v1::CreateModelResponse>& reply) {
  const Identity& caller = *reply->context().identity;
  const std::string& name = request.model().name();
  // A writer may declare a model that exists; see MayDeclare.
  const bool may_create = caller.Has(kCreateModel.right.role, name);
  const bool may_read = caller.Has(Role::kReader, name);
  absl::StatusOr<ModelDeclaration> declaration = Check(parts_, request.model());
  absl::Status status = declaration.status();
  if (status.ok()) {
    const std::optional<std::uint64_t> limit = may_create && caller.quota() != nullptr
                                                   ? caller.quota()->limit(QuotaKind::kModels)
                                                   : std::nullopt;
    // No other model of such a quota is created between the count and the insertion.
    std::unique_lock counted(create_mutex_, std::defer_lock);
    if (limit.has_value()) {
      counted.lock();
      CALIBD_RETURN_IF_ERROR(CheckModelQuota(parts_, caller, name, *limit));
    }
    status = server::CreateModel(
        parts_.registry, parts_.commits, *std::move(declaration), may_create,
        [reply, shown = may_read ? v1::Model() : request.model(), may_read](
            const absl::StatusOr<std::shared_ptr<Model>>& model, bool created) {
          if (model.ok() && !created) reply->ChangesNothing();
          reply->Answer([&](v1::CreateModelResponse& response) {
            if (created) {
              spdlog::info("model {} is declared", (*model)->declaration()->name.ToString());
            }
            if (model.ok()) *response.mutable_model() = may_read ? Describe(**model) : shown;
            return model.status();
          });
        });
  }
  // The model was deleted since the right of the caller was checked.
  if (!may_create && absl::IsNotFound(status)) {
    return CheckAccess(reply->context(), kCreateModel.right.role, "model.name", name);
  }
  return may_read ? status : HideModel(parts_, request.model(), std::move(status));
}

absl::Status Api::GetModel(const v1::GetModelRequest& /*request*/,
                           const Reply<v1::GetModelResponse>& reply, NamedModel model) {
  reply->Answer([&](v1::GetModelResponse& response) {
    *response.mutable_model() = Describe(*model);
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::Status Api::UpdateModel(const v1::UpdateModelRequest& request,
                              const Reply<v1::UpdateModelResponse>& reply, NamedModel model) {
  CALIBD_RETURN_IF_ERROR(CheckUpdateMask(request.update_mask()));
  server::UpdateModel(
      parts_.registry, parts_.commits, parts_.ingestor.clock(), model,
      {.memory_bytes = parts_.model_memory_bytes, .disk_bytes = parts_.model_disk_bytes},
      {.model = request.model(), .mask = request.update_mask()},
      [reply](const absl::StatusOr<v1::UpdateModelResponse>& updated) {
        reply->Answer([&](v1::UpdateModelResponse& response) {
          if (!updated.ok()) return updated.status();
          if (updated->update().changes().empty()) reply->ChangesNothing();
          LogUpdate(*updated);
          response = *updated;
          return absl::OkStatus();
        });
      });
  return absl::OkStatus();
}

absl::Status Api::DeleteModel(const v1::DeleteModelRequest& request,
                              const Reply<v1::DeleteModelResponse>& reply, NamedModel model) {
  CALIBD_RETURN_IF_ERROR(CheckConfirmation(request));
  server::DeleteModel(
      parts_.registry, parts_.commits, model, [this, model, reply](const absl::Status& deleted) {
        // Runs even if the call has ended.
        reply->Guard(Stage::kEnd, [&] {
          if (deleted.ok()) {
            const std::string name = model->declaration()->name.ToString();
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
    return ListPage(parts_.registry, *reply->context().identity, request, response);
  });
  return absl::OkStatus();
}

}  // namespace calibd::server
