#ifndef CALIBD_SERVER_RPC_MODEL_SERVICE_H_
#define CALIBD_SERVER_RPC_MODEL_SERVICE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "calibd/v1/model_service.grpc.pb.h"
#include "server/rpc/call_memory.h"
#include "server/state/model_registry.h"
#include "server/store/commit_queue.h"

namespace calibd::server {

// ModelService on top of the registry and the store. No call blocks: those that change
// something are answered when it is on disk.
class ModelServiceImpl final : public v1::ModelService::CallbackService {
 public:
  // What the declaration of one new model may reserve, in bytes.
  struct Limits {
    std::size_t model_memory_bytes = 0;
    std::size_t model_disk_bytes = 0;
  };

  // on_delete: told of every deleted model, on the storage thread.
  ModelServiceImpl(CallMemory& memory, ModelRegistry& registry, CommitQueue& commits,
                   const Limits& limits,
                   std::function<void(const std::shared_ptr<Model>&)> on_delete);

  grpc::ServerUnaryReactor* CreateModel(grpc::CallbackServerContext* context,
                                        const v1::CreateModelRequest* request,
                                        v1::CreateModelResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteModel(grpc::CallbackServerContext* context,
                                        const v1::DeleteModelRequest* request,
                                        v1::DeleteModelResponse* response) override;

 private:
  // The declaration with its defaults. Errors: InvalidArgument.
  [[nodiscard]] absl::StatusOr<ModelDeclaration> Check(const v1::Model& declared) const;

  // Errors: InvalidArgument naming the field `name`; NotFound; Unavailable.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Model>> FindModel(const std::string& name) const;
  [[nodiscard]] absl::Status ListPage(const v1::ListModelsRequest& request,
                                      v1::ListModelsResponse& response) const;

  CallMemory& memory_;
  ModelRegistry& registry_;
  CommitQueue& commits_;
  const Limits limits_;
  const std::function<void(const std::shared_ptr<Model>&)> on_delete_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_MODEL_SERVICE_H_
