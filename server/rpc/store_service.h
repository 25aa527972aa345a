#ifndef CALIBD_SERVER_RPC_STORE_SERVICE_H_
#define CALIBD_SERVER_RPC_STORE_SERVICE_H_

#include <atomic>
#include <functional>
#include <string>

#include "calibd/v1/store_service.grpc.pb.h"
#include "server/executor/thread_pool.h"
#include "server/state/model_registry.h"
#include "server/store/commit_queue.h"

namespace calibd::server {

// StoreService. Reads the database by connections of its own, on a thread of its own, once the
// models are back.
class StoreServiceImpl final : public v1::StoreService::CallbackService {
 public:
  // folder: of the store that commits writes. Removes what an earlier process left there half done.
  StoreServiceImpl(const ModelRegistry& registry, std::string folder, CommitQueue& commits);

  grpc::ServerWriteReactor<v1::BackupResponse>* Backup(grpc::CallbackServerContext* context,
                                                       const v1::BackupRequest* request) override;
  grpc::ServerWriteReactor<v1::VerifyResponse>* Verify(grpc::CallbackServerContext* context,
                                                       const v1::VerifyRequest* request) override;

  // Ends what runs and takes nothing more.
  void Drain() noexcept { draining_ = true; }
  void Stop() { thread_.Stop(); }

 private:
  // Runs work, which answers by the writer and returns how the call ends, unless another runs.
  template <typename Response, typename Work>
  grpc::ServerWriteReactor<Response>* Begin(const Work& work);

  [[nodiscard]] std::string database() const { return folder_ + "/calibd.db"; }

  const ModelRegistry& registry_;
  const std::string folder_;
  CommitQueue& commits_;
  std::atomic<bool> busy_ = false;
  std::atomic<bool> draining_ = false;
  ThreadPool thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_STORE_SERVICE_H_
