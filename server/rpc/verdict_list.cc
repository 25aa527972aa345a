#include "server/rpc/verdict_list.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/e_bh.h"
#include "server/errors.h"
#include "server/rpc/page.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/watch_proto.h"

namespace calibd::server {
namespace {

constexpr double kDefaultRate = 0.05;
constexpr double kMinRate = 1e-9;
constexpr double kMaxRate = 0.25;

struct ListedModel {
  std::shared_ptr<Model> model;
  std::shared_ptr<const ModelSnapshot> snapshot;
  bool rejected = false;

  [[nodiscard]] bool tested() const {
    return snapshot->monitor.has_value() && snapshot->monitor->watch.has_value();
  }
};

// Of all models, as e-BH is over all, whatever the page.
std::vector<ListedModel> TestAll(const std::vector<std::shared_ptr<Model>>& models, double rate) {
  std::vector<ListedModel> listed;
  std::vector<double> e_values;
  for (const std::shared_ptr<Model>& model : models) {
    ListedModel one{.model = model, .snapshot = model->snapshot()};
    if (one.tested()) {
      e_values.push_back(one.snapshot->monitor->watch->reading.evidence.log10_e_value);
    }
    listed.push_back(std::move(one));
  }
  const std::vector<bool> rejected = RejectedByEbh(e_values, rate);
  std::size_t next = 0;
  for (ListedModel& one : listed) {
    one.rejected = one.tested() && rejected[next++];
  }
  return listed;
}

void DescribeListed(const ListedModel& listed, std::chrono::system_clock::time_point now,
                    v1::ListVerdictsResponse::ModelVerdict& proto) {
  const ModelDeclaration& declaration = listed.model->declaration();
  const ModelSnapshot& snapshot = *listed.snapshot;
  proto.set_model(declaration.name.ToString());
  proto.set_observations(snapshot.observations);
  if (snapshot.last_observation_time.has_value()) {
    SetProto(*snapshot.last_observation_time, *proto.mutable_last_observation_time());
  }
  if (snapshot.monitor.has_value()) {
    DescribeVerdict(*listed.model, snapshot, now, *proto.mutable_verdict());
    DescribeWatch(declaration, snapshot, *proto.mutable_watch());
  }
  proto.set_rejected_among_all(listed.rejected);
}

}  // namespace

absl::Status ListVerdicts(const ModelRegistry& registry, const v1::ListVerdictsRequest& request,
                          v1::ListVerdictsResponse& response) {
  const absl::StatusOr<Page> page = ParsePage(request.page_size(), request.page_token());
  if (!page.ok()) {
    return page.status();
  }
  const double given = request.false_discovery_rate();
  const double rate = given == 0 ? kDefaultRate : given;
  // Written so that NaN fails too.
  if (!(rate >= kMinRate && rate <= kMaxRate)) {
    return InvalidFieldError("false_discovery_rate",
                             absl::StrCat("is ", given, ", expected ", kMinRate, "..", kMaxRate));
  }
  const auto models = registry.List("", std::numeric_limits<std::size_t>::max());
  if (!models.ok()) {
    return models.status();
  }
  const std::vector<ListedModel> all = TestAll(*models, rate);
  response.set_tested_models(static_cast<std::int32_t>(
      std::count_if(all.begin(), all.end(), [](const ListedModel& one) { return one.tested(); })));
  response.set_rejected_models(static_cast<std::int32_t>(
      std::count_if(all.begin(), all.end(), [](const ListedModel& one) { return one.rejected; })));
  const auto now = std::chrono::system_clock::now();
  for (const ListedModel& one : all) {
    const std::string name = one.model->declaration().name.ToString();
    if (name <= page->after) {
      continue;
    }
    if (static_cast<std::size_t>(response.models_size()) == page->size) {
      response.set_next_page_token(
          MakePageToken(response.models(response.models_size() - 1).model()));
      break;
    }
    DescribeListed(one, now, *response.add_models());
  }
  return absl::OkStatus();
}

}  // namespace calibd::server
