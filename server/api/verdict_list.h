#ifndef CALIBD_SERVER_API_VERDICT_LIST_H_
#define CALIBD_SERVER_API_VERDICT_LIST_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/v1/calibration_service.pb.h"
#include "server/api/call.h"
#include "server/api/page.h"
#include "server/executor/thread_pool.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// ListVerdicts: the newest published state of each model of a page, and e-BH over all models, once
// for the pages of a list. On a thread of its own, as that looks at every model.
class VerdictList {
 public:
  // At a time.
  static constexpr std::size_t kMostCalls = 100;

  explicit VerdictList(const ModelRegistry& registry)
      : registry_(registry), thread_("calibd-verdicts", 1) {}

  // Answers on the thread; Unavailable before the models are recovered.
  // Errors, and then there is no answer: InvalidArgument; ResourceExhausted when too many calls
  // are queued. May throw bad_alloc likewise.
  [[nodiscard]] absl::Status List(const v1::ListVerdictsRequest& request,
                                  const Reply<v1::ListVerdictsResponse>& reply);

 private:
  // The result of e-BH over all models.
  struct Tested {
    double rate = 0;
    std::chrono::steady_clock::time_point time;
    std::int32_t models = 0;
    // Ids, ascending.
    std::vector<std::int64_t> rejected{};
  };

  [[nodiscard]] absl::StatusOr<Tested> TestAll(double rate) const;
  [[nodiscard]] absl::Status ListPage(const Page& page, double rate,
                                      v1::ListVerdictsResponse& response);

  const ModelRegistry& registry_;
  std::atomic<std::size_t> calls_ = 0;
  // Result for the newest first page; used only on the thread.
  std::optional<Tested> tested_;
  ThreadPool thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_VERDICT_LIST_H_
