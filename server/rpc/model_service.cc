#include "server/rpc/model_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "server/errors.h"
#include "server/rpc/page.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/status_mapping.h"

namespace calibd::server {
namespace {

constexpr std::size_t kMaxPageBytes = std::size_t{1} << 20;

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
    const absl::StatusOr<Page> page = ParsePage(request->page_size(), request->page_token());
    if (!page.ok()) {
      return page.status();
    }
    const std::vector<std::shared_ptr<Model>> models = registry_.List(page->after, page->size + 1);
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
    // Whether it is this call that deletes it.
    auto deletes = std::make_shared<bool>(false);
    const std::shared_ptr<Model> model = *std::move(found);
    commits_.Post({.write = [model, deletes](Store& store) -> absl::Status {
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
        {.write = [model, batches = model->retention().TakeAll()](Store& store) -> absl::Status {
           absl::Status status = store.DeleteBatches(batches);
           if (status.ok() && model->tracker() != nullptr) {
             status = store.DeleteBatches(model->tracker()->TakeAll());
           }
           return status;
         },
         .undo = nullptr,
         .done = nullptr});
  });
}

}  // namespace calibd::server
