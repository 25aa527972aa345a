#include "server/rpc/model_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "server/errors.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/status_mapping.h"

namespace calibd::server {
namespace {

constexpr std::int32_t kDefaultPageSize = 100;
constexpr std::int32_t kMaxPageSize = 1000;
constexpr std::size_t kMaxPageBytes = std::size_t{1} << 20;
// Before the name in a page token, so that other text is not taken for one.
constexpr char kTokenPrefix[] = "after:";

v1::Model Describe(const Model& model) {
  v1::Model proto = ToProto(model.declaration());
  SetProto(model.create_time(), *proto.mutable_create_time());
  return proto;
}

// Answers a unary call with what body, returning absl::Status, says.
template <typename Body>
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, Body body) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(CatchExceptions(body)));
  return reactor;
}

}  // namespace

ModelServiceImpl::ModelServiceImpl(ModelRegistry& registry, CommitQueue& commits,
                                   std::size_t model_memory_bytes,
                                   std::function<void(const std::shared_ptr<Model>&)> on_delete)
    : registry_(registry),
      commits_(commits),
      model_memory_bytes_(model_memory_bytes),
      on_delete_(std::move(on_delete)) {}

grpc::ServerUnaryReactor* ModelServiceImpl::CreateModel(grpc::CallbackServerContext* context,
                                                        const v1::CreateModelRequest* request,
                                                        v1::CreateModelResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  // After the model is on disk, also when another call has just made it.
  const auto post = [&](const std::shared_ptr<Model>& model, bool created) {
    CommitQueue::Operation operation;
    auto gone = std::make_shared<bool>(false);
    if (created) {
      operation.write = [model](Store& store) {
        return store.InsertModel(model->id(), Describe(*model));
      };
      operation.undo = [model] { model->MarkDeleted(true); };
    } else {
      operation.write = [model, gone](Store& /*store*/) {
        *gone = model->deleted();
        return absl::OkStatus();
      };
    }
    operation.done = [this, model, created, gone, reactor, response](const absl::Status& status) {
      if (*gone) {
        reactor->Finish(ToGrpcStatus(ModelError(
            absl::StatusCode::kAborted, "MODEL_GONE", model->declaration().name.ToString(),
            "the model of this name was being deleted, or could not be stored: "
            "create it again")));
        return;
      }
      if (!status.ok()) {
        if (created) {
          registry_.Remove(*model);
        }
        reactor->Finish(ToGrpcStatus(status));
        return;
      }
      const absl::Status described = CatchExceptions([&] {
        *response->mutable_model() = Describe(*model);
        return absl::OkStatus();
      });
      if (created) {
        spdlog::info("model {} is declared", model->declaration().name.ToString());
      }
      reactor->Finish(ToGrpcStatus(described));
    };
    commits_.Post(std::move(operation));
  };
  const absl::Status status = CatchExceptions([&]() -> absl::Status {
    absl::StatusOr<ModelDeclaration> declaration =
        CheckDeclaration(request->model(), model_memory_bytes_);
    return declaration.ok() ? registry_.Create(*std::move(declaration), post)
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
    if (request->page_size() < 0) {
      return InvalidFieldError("page_size", "is negative, expected 0..1000");
    }
    std::string after;
    if (!request->page_token().empty()) {
      if (!absl::WebSafeBase64Unescape(request->page_token(), &after) ||
          !absl::StartsWith(after, kTokenPrefix)) {
        return InvalidFieldError("page_token",
                                 "is not from a previous page, expected its next_page_token");
      }
      after.erase(0, sizeof(kTokenPrefix) - 1);
    }
    const auto page_size = static_cast<std::size_t>(
        request->page_size() == 0 ? kDefaultPageSize
                                  : std::min(request->page_size(), kMaxPageSize));
    const std::vector<std::shared_ptr<Model>> models = registry_.List(after, page_size + 1);
    // A declaration with class names or matrices may be long: the page ends before it
    // becomes too large a message, but not before its first model.
    std::size_t bytes = 0;
    std::size_t count = 0;
    while (count < std::min(models.size(), page_size)) {
      v1::Model model = Describe(*models[count]);
      bytes += model.ByteSizeLong();
      if (count > 0 && bytes > kMaxPageBytes) {
        break;
      }
      *response->add_models() = std::move(model);
      ++count;
    }
    if (count < models.size()) {
      absl::WebSafeBase64Escape(kTokenPrefix + models[count - 1]->declaration().name.ToString(),
                                response->mutable_next_page_token());
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
    // Whether it is this call that deletes it.
    auto deletes = std::make_shared<bool>(false);
    const std::shared_ptr<Model> model = *std::move(found);
    commits_.Post({.append = nullptr,
                   .write = [model, deletes](Store& store) -> absl::Status {
                     if (model->deleted()) {
                       return absl::OkStatus();
                     }
                     *deletes = true;
                     model->MarkDeleted(true);
                     return store.DeleteModel(model->id());
                   },
                   .undo =
                       [model, deletes] {
                         if (*deletes) {
                           model->MarkDeleted(false);
                         }
                       },
                   .done =
                       [this, model, deletes, reactor](const absl::Status& committed) {
                         if (committed.ok() && *deletes) {
                           FinishDelete(model);
                         }
                         reactor->Finish(ToGrpcStatus(
                             !committed.ok() ? committed
                             : *deletes
                                 ? absl::OkStatus()
                                 : ModelNotFoundError(model->declaration().name.ToString())));
                       }});
    return absl::OkStatus();
  });
  if (!status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
  }
  return reactor;
}

void ModelServiceImpl::FinishDelete(const std::shared_ptr<Model>& model) {
  registry_.Remove(*model);
  spdlog::info("model {} is deleted", model->declaration().name.ToString());
  on_delete_(model);
  // After the batches that were on their way.
  model->strand().Post([this, model] {
    commits_.Post(
        {.append = nullptr,
         .write = [model, batches = model->retention().TakeAll()](Store& store) -> absl::Status {
           store.ReleaseBatches(batches);
           if (model->tracker() != nullptr) {
             store.ReleaseBatches(model->tracker()->TakeAll());
           }
           return absl::OkStatus();
         },
         .undo = nullptr,
         .done = nullptr});
  });
}

}  // namespace calibd::server
