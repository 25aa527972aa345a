#ifndef CALIBD_SERVER_OBSERVABILITY_MODEL_METRICS_H_
#define CALIBD_SERVER_OBSERVABILITY_MODEL_METRICS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "server/kinds/classes/effect_size.h"
#include "server/observability/metric_families.h"
#include "server/state/model.h"

namespace calibd::server {

// The metrics of models. The series of verdicts, alarms, ages and info of all models come before
// the details of any model, for which the series of the scrape may not suffice. The details follow
// model by model. Thread-safe.
class ModelMetrics {
 public:
  // models: all models in order of name.
  void Add(const std::vector<std::shared_ptr<Model>>& models, Scrape& scrape);

 private:
  std::mutex mutex_;
  // The effects of the previous scrape, by the ids of the models. They are exported again while a
  // watch that has restarted has too few observations.
  std::map<std::int64_t, EffectSize> last_effects_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_OBSERVABILITY_MODEL_METRICS_H_
