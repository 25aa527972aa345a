#include "server/rpc/model_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "server/errors.h"
#include "server/ingest/model_changes.h"
#include "server/rpc/page.h"
#include "server/rpc/unary_call.h"
#include "server/state/monitoring.h"

namespace calibd::server {
namespace {

constexpr std::size_t kMaxPageBytes = std::size_t{1} << 20;

}  // namespace

ModelServiceImpl::ModelServiceImpl(CallMemory& memory, ModelRegistry& registry,
                                   CommitQueue& commits, const Limits& limits,
                                   std::function<void(const std::shared_ptr<Model>&)> on_delete)
    : memory_(memory),
      registry_(registry),
      commits_(commits),
      limits_(limits),
      on_delete_(std::move(on_delete)) {}

absl::StatusOr<ModelDeclaration> ModelServiceImpl::Check(const v1::Model& declared) const {
  const absl::StatusOr<ModelName> name = ParseModelName("model.name", declared.name());
  const auto existing = name.ok() ? registry_.Find(*name) : name.status();
  if (!existing.ok()) {
    return CheckDeclaration(declared, limits_.model_memory_bytes, limits_.model_disk_bytes);
  }
  // A model is declared again by every client that uses it. It keeps what it has, also if the
  // limits, and so the defaults that follow them, have changed since.
  const v1::Model kept = ToProto((*existing)->declaration());
  v1::Model again = declared;
  if (again.has_label_grace() && again.max_pending() == 0) {
    again.set_max_pending(kept.max_pending());
  }
  if (again.window() == 0) {
    again.set_window(kept.window());
  }
  if (!DeclaresAny(again.monitoring())) {
    *again.mutable_monitoring() = kept.monitoring();
  }
  return CheckStoredDeclaration(again, limits_.model_memory_bytes);
}

grpc::ServerUnaryReactor* ModelServiceImpl::CreateModel(grpc::CallbackServerContext* context,
                                                        const v1::CreateModelRequest* request,
                                                        v1::CreateModelResponse* response) {
  return ServeUnary(
      "CreateModel", memory_, *context, *request, *response, [&](const auto& call) -> absl::Status {
        absl::StatusOr<ModelDeclaration> declaration = Check(request->model());
        if (!declaration.ok()) {
          return declaration.status();
        }
        return server::CreateModel(
            registry_, commits_, *std::move(declaration),
            [call](const absl::StatusOr<std::shared_ptr<Model>>& model, bool created) {
              call->EndWith([&](v1::CreateModelResponse& answer) {
                if (created) {
                  spdlog::info("model {} is declared", (*model)->declaration().name.ToString());
                }
                if (model.ok()) {
                  *answer.mutable_model() = Describe(**model);
                }
                return model.status();
              });
            });
      });
}

grpc::ServerUnaryReactor* ModelServiceImpl::GetModel(grpc::CallbackServerContext* context,
                                                     const v1::GetModelRequest* request,
                                                     v1::GetModelResponse* response) {
  return AnswerUnary("GetModel", memory_, *context, *request, *response,
                     [&](v1::GetModelResponse& answer) -> absl::Status {
                       const absl::StatusOr<std::shared_ptr<Model>> model =
                           FindModel(request->name());
                       if (model.ok()) {
                         *answer.mutable_model() = Describe(**model);
                       }
                       return model.status();
                     });
}

grpc::ServerUnaryReactor* ModelServiceImpl::ListModels(grpc::CallbackServerContext* context,
                                                       const v1::ListModelsRequest* request,
                                                       v1::ListModelsResponse* response) {
  return AnswerUnary("ListModels", memory_, *context, *request, *response,
                     [&](v1::ListModelsResponse& answer) { return ListPage(*request, answer); });
}

grpc::ServerUnaryReactor* ModelServiceImpl::DeleteModel(grpc::CallbackServerContext* context,
                                                        const v1::DeleteModelRequest* request,
                                                        v1::DeleteModelResponse* response) {
  return ServeUnary(
      "DeleteModel", memory_, *context, *request, *response, [&](const auto& call) -> absl::Status {
        absl::StatusOr<std::shared_ptr<Model>> found = FindModel(request->name());
        if (!found.ok()) {
          return found.status();
        }
        server::DeleteModel(
            registry_, commits_, *found, [this, model = *found, call](const absl::Status& deleted) {
              // However the call has ended.
              const absl::Status told = Guarded("DeleteModel", Stage::kEnd, [&] {
                if (deleted.ok()) {
                  spdlog::info("model {} is deleted", model->declaration().name.ToString());
                  on_delete_(model);
                }
                return deleted;
              });
              call->End(!absl::IsResourceExhausted(deleted)
                            ? told
                            : WithClientMessage(
                                  told,
                                  "the model was not deleted: the server's disk is full, and a "
                                  "deletion needs some room before it gives any back; free some "
                                  "on that disk and delete the model again"));
            });
        return absl::OkStatus();
      });
}

absl::StatusOr<std::shared_ptr<Model>> ModelServiceImpl::FindModel(const std::string& name) const {
  const absl::StatusOr<ModelName> parsed = ParseModelName("name", name);
  return parsed.ok() ? registry_.Find(*parsed) : parsed.status();
}

absl::Status ModelServiceImpl::ListPage(const v1::ListModelsRequest& request,
                                        v1::ListModelsResponse& response) const {
  const absl::StatusOr<Page> page = ParsePage(request.page_size(), request.page_token());
  if (!page.ok()) {
    return page.status();
  }
  const auto listed = registry_.List(page->after, page->size + 1);
  if (!listed.ok()) {
    return listed.status();
  }
  const std::vector<std::shared_ptr<Model>>& models = *listed;
  // A declaration with class names or matrices may be long: the page ends before it becomes too
  // large a message, but not before its first model.
  std::size_t bytes = 0;
  std::size_t count = 0;
  while (count < std::min(models.size(), page->size)) {
    v1::Model model = Describe(*models[count]);
    bytes += model.ByteSizeLong();
    if (count > 0 && bytes > kMaxPageBytes) {
      break;
    }
    *response.add_models() = std::move(model);
    ++count;
  }
  if (count < models.size()) {
    response.set_next_page_token(MakePageToken(models[count - 1]->declaration().name.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace calibd::server
