#include "server/rpc/model_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "server/errors.h"
#include "server/ingest/model_changes.h"
#include "server/rpc/page.h"
#include "server/rpc/status_mapping.h"

namespace calibd::server {
namespace {

constexpr std::size_t kMaxPageBytes = std::size_t{1} << 20;

// Answers a unary call with what body, returning absl::Status, says.
template <typename Body>
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, Body body) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(CatchExceptions(body)));
  return reactor;
}

}  // namespace

ModelServiceImpl::ModelServiceImpl(ModelRegistry& registry, CommitQueue& commits,
                                   const Limits& limits,
                                   std::function<void(const std::shared_ptr<Model>&)> on_delete)
    : registry_(registry), commits_(commits), limits_(limits), on_delete_(std::move(on_delete)) {}

absl::StatusOr<ModelDeclaration> ModelServiceImpl::Check(const v1::Model& declared) const {
  const absl::StatusOr<ModelName> name = ParseModelName("model.name", declared.name());
  const auto existing = name.ok() ? registry_.Find(*name) : name.status();
  if (!existing.ok()) {
    return CheckDeclaration(declared, limits_.model_memory_bytes, limits_.model_disk_bytes);
  }
  // A model is declared again by every client that uses it. It keeps what it has, also if the
  // limits and so the default of max_pending have changed since.
  v1::Model again = declared;
  if (again.has_label_grace() && again.max_pending() == 0) {
    again.set_max_pending(static_cast<std::int32_t>((*existing)->declaration().max_pending));
  }
  return CheckStoredDeclaration(again, limits_.model_memory_bytes);
}

grpc::ServerUnaryReactor* ModelServiceImpl::CreateModel(grpc::CallbackServerContext* context,
                                                        const v1::CreateModelRequest* request,
                                                        v1::CreateModelResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto done = [reactor, response](const absl::StatusOr<std::shared_ptr<Model>>& model,
                                        bool created) {
    if (created) {
      spdlog::info("model {} is declared", (*model)->declaration().name.ToString());
    }
    reactor->Finish(ToGrpcStatus(CatchExceptions([&] {
      if (model.ok()) {
        *response->mutable_model() = Describe(**model);
      }
      return model.status();
    })));
  };
  const absl::Status status = CatchExceptions([&]() -> absl::Status {
    absl::StatusOr<ModelDeclaration> declaration = Check(request->model());
    return declaration.ok()
               ? server::CreateModel(registry_, commits_, *std::move(declaration), done)
               : declaration.status();
  });
  if (!status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
  }
  return reactor;
}

grpc::ServerUnaryReactor* ModelServiceImpl::GetModel(grpc::CallbackServerContext* context,
                                                     const v1::GetModelRequest* request,
                                                     v1::GetModelResponse* response) {
  return Answer(context, [&]() -> absl::Status {
    const absl::StatusOr<ModelName> name = ParseModelName("name", request->name());
    if (!name.ok()) {
      return name.status();
    }
    const absl::StatusOr<std::shared_ptr<Model>> model = registry_.Find(*name);
    if (!model.ok()) {
      return model.status();
    }
    *response->mutable_model() = Describe(**model);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ModelServiceImpl::ListModels(grpc::CallbackServerContext* context,
                                                       const v1::ListModelsRequest* request,
                                                       v1::ListModelsResponse* response) {
  return Answer(context, [&]() -> absl::Status {
    const absl::StatusOr<Page> page = ParsePage(request->page_size(), request->page_token());
    if (!page.ok()) {
      return page.status();
    }
    const auto listed = registry_.List(page->after, page->size + 1);
    if (!listed.ok()) {
      return listed.status();
    }
    const std::vector<std::shared_ptr<Model>>& models = *listed;
    // A declaration with class names or matrices may be long: the page ends before it
    // becomes too large a message, but not before its first model.
    std::size_t bytes = 0;
    std::size_t count = 0;
    while (count < std::min(models.size(), page->size)) {
      v1::Model model = Describe(*models[count]);
      bytes += model.ByteSizeLong();
      if (count > 0 && bytes > kMaxPageBytes) {
        break;
      }
      *response->add_models() = std::move(model);
      ++count;
    }
    if (count < models.size()) {
      response->set_next_page_token(
          MakePageToken(models[count - 1]->declaration().name.ToString()));
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ModelServiceImpl::DeleteModel(grpc::CallbackServerContext* context,
                                                        const v1::DeleteModelRequest* request,
                                                        v1::DeleteModelResponse* /*response*/) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Status status = CatchExceptions([&]() -> absl::Status {
    const absl::StatusOr<ModelName> name = ParseModelName("name", request->name());
    if (!name.ok()) {
      return name.status();
    }
    absl::StatusOr<std::shared_ptr<Model>> found = registry_.Find(*name);
    if (!found.ok()) {
      return found.status();
    }
    const std::shared_ptr<Model> model = *std::move(found);
    server::DeleteModel(
        registry_, commits_, model, [this, model, reactor](const absl::Status& deleted) {
          if (deleted.ok()) {
            spdlog::info("model {} is deleted", model->declaration().name.ToString());
            on_delete_(model);
          }
          reactor->Finish(ToGrpcStatus(deleted));
        });
    return absl::OkStatus();
  });
  if (!status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
  }
  return reactor;
}

}  // namespace calibd::server
