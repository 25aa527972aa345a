#ifndef CALIBD_SERVER_API_VERDICT_LIST_H_
#define CALIBD_SERVER_API_VERDICT_LIST_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/v1/calibration_service.pb.h"
#include "server/access/access_control.h"
#include "server/api/call.h"
#include "server/api/pagination.h"
#include "server/executor/thread_pool.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// Describes the newest published state of a model, without rejected_among_all.
void DescribeListed(Model& model, std::chrono::system_clock::time_point now,
                    v1::ListVerdictsResponse::ModelVerdict& proto);

// ListVerdicts: the newest published state of each model of a page, and e-BH over all models that
// the caller may read, computed once for all pages of a list. It runs on a thread of its own,
// because it reads the state of every model.
class VerdictList {
 public:
  // Maximum number of queued calls.
  static constexpr std::size_t kMostCalls = 100;

  explicit VerdictList(const ModelRegistry& registry)
      : registry_(registry), thread_("calibd-verdicts", 1) {}

  // Answers on the thread; the answer is Unavailable before the models are recovered. Errors, after
  // which there is no answer: InvalidArgument; ResourceExhausted if too many calls are queued. May
  // throw bad_alloc, also without an answer.
  [[nodiscard]] absl::Status List(const v1::ListVerdictsRequest& request,
                                  const Reply<v1::ListVerdictsResponse>& reply);

 private:
  // The result of e-BH over all models that one caller may read.
  struct Tested {
    std::uint64_t policy_version = 0;
    double rate = 0;
    std::chrono::steady_clock::time_point time;
    std::int32_t models = 0;
    // Ids of the rejected models, ascending.
    std::vector<std::int64_t> rejected{};
  };

  [[nodiscard]] absl::StatusOr<Tested> TestAll(const Identity& caller, double rate) const;
  // Keeps the result in place of the caller's former one, and forgets those that are too old or too
  // many.
  const Tested& Keep(const Identity& caller, Tested tested);
  [[nodiscard]] absl::Status ListPage(const Identity& caller, const Page& page, double rate,
                                      v1::ListVerdictsResponse& response);

  const ModelRegistry& registry_;
  std::atomic<std::size_t> calls_ = 0;
  // The results for the newest first page of each caller, by its name; used only on the thread.
  std::map<std::string, Tested> tested_;
  ThreadPool thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_VERDICT_LIST_H_
