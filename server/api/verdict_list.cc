#include "server/api/verdict_list.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/convert/reading.h"
#include "calibd/core/e_bh.h"
#include "calibd/core/status_macros.h"
#include "server/answers/error_proto.h"
#include "server/answers/label_arrivals_proto.h"
#include "server/answers/verdict.h"
#include "server/answers/watch_proto.h"
#include "server/api/pagination.h"
#include "server/base/errors.h"
#include "server/base/proto_time.h"
#include "server/kinds/kind_table.h"

namespace calibd::server {
namespace {

constexpr double kDefaultRate = 0.05;
constexpr double kMinRate = 1e-9;
constexpr double kMaxRate = 0.25;

// For this time, later pages of a list use the test of its first page.
constexpr std::chrono::seconds kTestedAge{60};
// Maximum number of callers whose tests are kept.
constexpr std::size_t kMostTested = 64;
// Number of models that are read from the registry at a time, because lookups block meanwhile.
constexpr std::size_t kModelsAtATime = 256;
constexpr std::chrono::seconds kListRetryDelay{1};

}  // namespace

void DescribeListed(Model& model, std::chrono::system_clock::time_point now,
                    v1::ListVerdictsResponse::ModelVerdict& proto) {
  const std::shared_ptr<const ModelSnapshot> snapshot = model.snapshot();
  const ModelDeclaration& declaration = *snapshot->declaration;
  proto.set_model(declaration.name.ToString());
  proto.set_observations(snapshot->observations);
  if (snapshot->last_observation_time.has_value()) {
    *proto.mutable_last_observation_time() = ToTimestamp(*snapshot->last_observation_time);
  }
  // The facts of the headlines.
  v1::GetCalibrationResponse facts;
  facts.set_model(proto.model());
  facts.set_observations(proto.observations());
  facts.set_rejected_rows(snapshot->rejected_rows);
  facts.set_dropped_rows(snapshot->dropped_rows);
  facts.set_dropped_labels(snapshot->dropped_labels);
  if (snapshot->label_arrivals.has_value()) {
    DescribeLabelArrivals(model, *snapshot->label_arrivals, *facts.mutable_label_arrivals());
  }
  if (snapshot->monitor.has_value()) {
    const Verdict verdict = MakeVerdict(model, *snapshot, now);
    DescribeVerdict(model, *snapshot, verdict, *facts.mutable_verdict());
    DescribeGroups(declaration, *snapshot, verdict, GroupsShown::kRejected, facts);
    DescribeWatch(declaration, *snapshot, *proto.mutable_watch());
    DescribeError(declaration, snapshot->monitor->error, *facts.mutable_error());
    // The headlines name it; the answer does not have it, see CalibrationError.change.
    if (facts.verdict().limit_status() == v1::CalibrationError::OVER_LIMIT) {
      DescribeChange(snapshot->monitor->error, *facts.mutable_error());
    }
    if (!snapshot->monitor->labels.empty()) {
      KindOf(declaration).Describe({declaration, *snapshot, snapshot->observations, now}, facts);
    }
    WarnOfRows(declaration, *snapshot, facts);
    const std::vector<Alarm>& alarms = *snapshot->monitor->alarms;
    for (std::size_t i = alarms.size(); i-- > 0;) {
      if (!alarms[i].acknowledge_time.has_value()) {
        DescribeAlarm(declaration, alarms[i], *facts.add_alarms());
      }
    }
  }
  *proto.mutable_reading() = convert::HeadlinesOf(facts);
  if (!facts.has_verdict()) return;
  proto.mutable_verdict()->Swap(facts.mutable_verdict());
  facts.mutable_error()->clear_change();
  proto.mutable_error()->Swap(facts.mutable_error());
  proto.mutable_alarms()->Swap(facts.mutable_alarms());
}

absl::StatusOr<VerdictList::Tested> VerdictList::TestAll(const Identity& caller,
                                                         double rate) const {
  Tested tested{.policy_version = caller.policy_version(),
                .rate = rate,
                .time = std::chrono::steady_clock::now()};
  std::vector<std::int64_t> ids;
  std::vector<double> e_values;
  std::string after;
  std::size_t listed = 0;
  do {
    CALIBD_ASSIGN_OR_RETURN(const auto models,
                            ListReadable(registry_, caller, after, kModelsAtATime));
    for (const std::shared_ptr<Model>& model : models) {
      const std::shared_ptr<const ModelSnapshot> snapshot = model->snapshot();
      if (snapshot->monitor.has_value() &&
          IsTested(snapshot->declaration->monitoring, *snapshot->monitor)) {
        ids.push_back(model->id());
        // 0 is an e-value too, and the only one that repeated or dependent rows leave valid.
        e_values.push_back(HasDoubtfulEvidence(*snapshot)
                               ? -std::numeric_limits<double>::infinity()
                               : snapshot->monitor->watch->reading.evidence.log10_e_value);
      }
    }
    listed = models.size();
    if (listed > 0) after = models.back()->declaration()->name.ToString();
  } while (listed == kModelsAtATime);
  tested.models = static_cast<std::int32_t>(ids.size());
  const std::vector<bool> rejected = RejectedByEbh(e_values, rate);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (rejected[i]) tested.rejected.push_back(ids[i]);
  }
  std::sort(tested.rejected.begin(), tested.rejected.end());
  return tested;
}

const VerdictList::Tested& VerdictList::Keep(const Identity& caller, Tested tested) {
  std::erase_if(tested_, [&](const auto& one) {
    return one.first == caller.name() || tested.time - one.second.time >= kTestedAge;
  });
  if (tested_.size() >= kMostTested) {
    tested_.erase(
        std::min_element(tested_.begin(), tested_.end(), [](const auto& first, const auto& second) {
          return first.second.time < second.second.time;
        }));
  }
  return tested_.emplace(caller.name(), std::move(tested)).first->second;
}

absl::Status VerdictList::ListPage(const Identity& caller, const Page& page, double rate,
                                   v1::ListVerdictsResponse& response) {
  const auto kept = tested_.find(caller.name());
  const Tested* tested = kept != tested_.end() ? &kept->second : nullptr;
  const bool known = !page.after.empty() && tested != nullptr && tested->rate == rate &&
                     tested->policy_version == caller.policy_version() &&
                     std::chrono::steady_clock::now() - tested->time < kTestedAge;
  if (!known) {
    CALIBD_ASSIGN_OR_RETURN(Tested all, TestAll(caller, rate));
    tested = &Keep(caller, std::move(all));
  }
  // One extra model shows whether there is another page.
  CALIBD_ASSIGN_OR_RETURN(const auto models,
                          ListReadable(registry_, caller, page.after, page.size + 1));
  response.set_tested_models(tested->models);
  response.set_rejected_models(static_cast<std::int32_t>(tested->rejected.size()));
  const auto now = std::chrono::system_clock::now();
  for (std::size_t i = 0; i < std::min(models.size(), page.size); ++i) {
    Model& model = *models[i];
    v1::ListVerdictsResponse::ModelVerdict& proto = *response.add_models();
    DescribeListed(model, now, proto);
    proto.set_rejected_among_all(
        std::binary_search(tested->rejected.begin(), tested->rejected.end(), model.id()));
  }
  if (models.size() > page.size) {
    response.set_next_page_token(
        MakePageToken(response.models(response.models_size() - 1).model()));
  }
  return absl::OkStatus();
}

absl::Status VerdictList::List(const v1::ListVerdictsRequest& request,
                               const Reply<v1::ListVerdictsResponse>& reply) {
  CALIBD_ASSIGN_OR_RETURN(const Page page, ParsePage(request.page_size(), request.page_token()));
  const double given = request.false_discovery_rate();
  const double rate = given == 0 ? kDefaultRate : given;
  if (calls_.fetch_add(1) >= kMostCalls) {
    --calls_;
    return WithRetryDelay(
        MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_READS",
                  absl::StrCat(kMostCalls, " calls for verdicts are queued, expected fewer")),
        kListRetryDelay);
  }
  try {
    thread_.Post([this, page, rate, reply] {
      --calls_;
      reply->Answer([&](v1::ListVerdictsResponse& response) {
        return ListPage(*reply->context().identity, page, rate, response);
      });
    });
  } catch (...) {
    --calls_;
    throw;
  }
  return absl::OkStatus();
}

}  // namespace calibd::server
