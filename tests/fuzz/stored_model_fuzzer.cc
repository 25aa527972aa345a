// The stored data of a model. An input is restored as at a start, more observations are added, and
// the responses are computed. Invalid data gives DATA_LOSS, responses contain no NaN, and the saved
// state can be restored.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "calibd/convert/evaluation.h"
#include "calibd/core/lens_kernel.h"
#include "fuzz/require.h"
#include "fuzz/text_input.h"
#include "inputs.pb.h"
#include "server/answers/label_arrivals_proto.h"
#include "server/answers/watch_proto.h"
#include "server/api/history_calls.h"
#include "server/ingest/decode.h"
#include "server/kinds/classes/reliability_proto.h"
#include "server/rows/row_codec.h"
#include "server/state/check_declaration.h"
#include "server/state/declaration_size.h"
#include "server/state/model.h"

namespace calibd::server {
namespace {

using std::chrono::microseconds;
using testing::HasRealsWithin;
using testing::IsFinite;
using testing::Require;

constexpr std::size_t kModelMemoryBytes = std::size_t{8} << 20;
constexpr std::size_t kMaxProducers = 4;
// No model reaches sums whose squares are not finite.
constexpr double kGreatestReal = 1e100;
// For rows, whose times are checked together with their frames: the year 2255.
constexpr std::int64_t kGreatestTime = (std::int64_t{1} << 53) - 1;
// 2026-01-01.
constexpr microseconds kNow{1'767'225'600'000'000};

std::unique_ptr<Model> MakeModel(const ModelDeclaration& declaration) {
  static ThreadPool writers("fuzz-writer", 1);
  return std::make_unique<Model>(1, declaration, ModelSnapshot::Time(kNow),
                                 ProducerLimits{.producers = kMaxProducers}, writers, nullptr);
}

// Replays a row of the log as at a start. Returns false if the start would end there.
bool Replay(const std::string& data, std::int64_t log_id, microseconds time, Model& model) {
  const auto row = DecodeRow(data, model.declaration()->row_shape());
  if (!row.ok()) {
    Require(absl::IsDataLoss(row.status()), "an invalid row is DATA_LOSS");
    return false;
  }
  auto& tracker = model.storage_state().tracker;
  if (row->needs_tracker() && !tracker.has_value()) return false;
  if (!ReplayPosition(*row, time.count(), model.storage_state().cursors)) return false;
  if (const auto* const predictions = row->As<PredictionsRow>(); row->tracked() && predictions) {
    tracker->Add(log_id, row->elapsed, time.count(), predictions->ids,
                 predictions->predicted_classes, predictions->values.truths);
    static_cast<void>(tracker->TakeWaiting(predictions->ids));
  } else if (const auto* const labels = row->As<LabelsRow>(); row->tracked() && labels) {
    tracker->RestoreLabels(log_id, labels->ids, labels->truths);
    tracker->RestoreWaiting(log_id, row->elapsed, labels->waiting_ids, labels->waiting_truths);
  }
  model.strand_state().Apply(*row, log_id, time);
  return true;
}

bool Restore(const fuzz::StoredModel& input, Model& model) {
  if (input.has_state()) {
    const absl::Status restored = model.strand_state().Restore(input.state());
    if (!restored.ok()) {
      Require(absl::IsDataLoss(restored), "an invalid snapshot is DATA_LOSS");
      return false;
    }
  }
  ProducerCursors::Cursor cursor;
  if (DecodeContents(input.cursor_contents(), cursor)) {
    Require(EncodeContents(cursor).ends_with(input.cursor_contents()),
            "a cursor is written as it was read");
    model.storage_state().cursors.Set("producer", cursor);
  }
  std::int64_t log_id = 0;
  for (const fuzz::StoredModel::Row& row : input.rows()) {
    const std::string data = row.has_raw() ? row.raw() : row.row().SerializeAsString();
    if (!Replay(data, ++log_id, microseconds(row.time_us() & kGreatestTime), model)) return false;
  }
  if (const auto& tracker = model.storage_state().tracker; tracker.has_value()) {
    model.strand_state().RestorePending(
        tracker->PendingByClass(model.declaration()->counted_classes()));
  }
  return true;
}

v1::Observations ValidObservations(const ModelDeclaration& declaration) {
  v1::Observations observations;
  if (declaration.numbers() != nullptr) {
    for (int i = 0; i < 5; ++i) {
      for (std::size_t k = 0; k < declaration.row_width(); ++k) {
        observations.mutable_forecasts()->add_values(1 + static_cast<double>(k));
      }
      observations.add_outcomes(i - 2);
    }
    return observations;
  }
  if (declaration.labels() != nullptr) {
    for (std::size_t i = 0; i < 5 * declaration.row_width(); ++i) {
      observations.mutable_probabilities()->add_values(static_cast<double>(i % 5) / 4);
      observations.add_labels(static_cast<int>(i % 3) - 1);
    }
    return observations;
  }
  const auto m = static_cast<int>(declaration.classes()->count);
  for (int i = 0; i < 5; ++i) {
    for (int k = 0; k < m; ++k) {
      observations.mutable_probabilities()->add_values(k == i % m ? 0.5 + 0.5 / m : 0.5 / m);
    }
    observations.add_labels(i * i % m);
  }
  return observations;
}

// Adds observations from a client, if they are valid.
void Observe(const v1::Observations& observations, std::int64_t log_id, Model& model) {
  const LogRow row = Decode(observations, *model.declaration());
  if (row.As<ObservationsRow>() != nullptr) {
    Require(Replay(EncodeRow(row), log_id, kNow, model), "what calibd logs can be replayed");
  }
}

void DescribeLenses(const ModelSnapshot& snapshot) {
  for (const LensSnapshot& lens : snapshot.lenses) {
    if (lens.kernel.has_value()) {
      const double bound = std::holds_alternative<Kernel>(*lens.kernel)
                               ? lens.lens.DistributionFreeBound()
                               : DistributionFreeBound(*lens.kernel);
      for (const RunningBlock& block : lens.blocks) {
        Require(IsFinite(convert::ToProto(block, bound)), "estimates are finite");
      }
    }
  }
}

// Describes the model as GetCalibration does.
void DescribeCalibration(Model& model) {
  model.Publish();
  const std::shared_ptr<const ModelSnapshot> snapshot = model.snapshot();
  v1::GetCalibrationResponse response;
  if (snapshot->label_arrivals.has_value()) {
    DescribeLabelArrivals(model, *snapshot->label_arrivals, *response.mutable_label_arrivals());
  }
  if (snapshot->reliability.Total().count > 0) {
    DescribeReliability(snapshot->reliability, *response.mutable_scores());
  }
  if (snapshot->monitor.has_value()) {
    const Verdict verdict = MakeVerdict(model, *snapshot, ModelSnapshot::Time(kNow));
    DescribeVerdict(model, *snapshot, verdict, *response.mutable_verdict());
    DescribeWatch(*model.declaration(), *snapshot, *response.mutable_watch());
    for (const Alarm& alarm : *snapshot->monitor->alarms) {
      DescribeAlarm(*model.declaration(), alarm, *response.add_alarms());
    }
    DescribeGroups(*model.declaration(), *snapshot, verdict, GroupsShown::kAll, response);
    WarnOfRows(*model.declaration(), *snapshot, response);
  }
  Require(IsFinite(response), "the answer is finite");
  DescribeLenses(*snapshot);
}

// Describes the history as GetHistory does.
void DescribeHistory(const fuzz::StoredModel& input, const Model& model) {
  for (const HistoryResolution resolution : kHistoryResolutions) {
    std::vector<History::Entry> entries;
    std::chrono::sys_seconds start{};
    for (const store::v1::HistoryBucket& stored : input.history()) {
      const auto bucket = DecodeHistoryBucket(stored.SerializeAsString());
      if (bucket.ok() && HasRealsWithin(stored, kGreatestReal)) {
        entries.push_back({.resolution = resolution, .start = start, .bucket = *bucket});
        start += SpanOf(resolution);
      }
      Require(bucket.ok() || absl::IsDataLoss(bucket.status()), "an invalid bucket is DATA_LOSS");
    }
    const auto own =
        model.strand_state().history().View(resolution, model.strand_state().watch_mark());
    entries.insert(entries.end(), own.begin(), own.end());
    HistoryQuery query;
    query.range.resolution = resolution;
    query.page_size = 1000;
    HistoryPage page(query);
    const std::shared_ptr<const ModelSnapshot> snapshot = model.snapshot();
    for (const History::Entry& entry : entries) page.Add(entry, *snapshot);
    const v1::GetHistoryResponse response = page.Finish(*snapshot);
    Require(IsFinite(response), "the history is finite");
  }
}

}  // namespace
}  // namespace calibd::server

CALIBD_FUZZ_MESSAGE(calibd::fuzz::StoredModel, input) {
  using namespace calibd::server;
  const auto declaration = CheckStoredDeclaration(input.declaration(), kModelMemoryBytes);
  if (!declaration.ok() || StateMemory(*declaration) > kModelMemoryBytes) return;
  const std::unique_ptr<Model> model = MakeModel(*declaration);
  if (!Restore(input, *model) || !HasRealsWithin(input.state(), kGreatestReal)) return;
  DescribeCalibration(*model);
  std::int64_t log_id = input.rows_size();
  for (const calibd::v1::Observations& observations : input.observations()) {
    Observe(observations, ++log_id, *model);
  }
  Observe(ValidObservations(*declaration), ++log_id, *model);
  DescribeCalibration(*model);
  DescribeHistory(input, *model);

  const calibd::store::v1::ModelState saved = model->strand_state().Save();
  const std::unique_ptr<Model> restored = MakeModel(*declaration);
  Require(restored->strand_state().Restore(saved).ok(), "what is saved can be restored");
  Require(restored->strand_state().Save().SerializeAsString() == saved.SerializeAsString(),
          "a restored state is the one that was saved");
}
