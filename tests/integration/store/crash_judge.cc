#include "integration/store/crash_judge.h"

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "calibd/core/evidence.h"
#include "calibd/core/running_skce.h"
#include "calibd/store/v1/store.pb.h"
#include "server/rows/row_codec.h"
#include "server/store/local/local_store.h"
#include "server/store/local/sqlite.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

// Expects that every estimate in the answer follows from these observations.
void ExpectEstimates(const v1::GetCalibrationResponse& answer, const PredictionSet& counted) {
  EXPECT_EQ(answer.observations(), static_cast<std::int64_t>(counted.labels.size()));
  ASSERT_GT(answer.estimates_size(), 0);
  for (const v1::BlockEstimate& estimate : answer.estimates()) {
    auto running = RunningBlockSkce::Create(static_cast<std::size_t>(estimate.block_size()),
                                            counted.class_count,
                                            *Kernel::ExponentialTotalVariation(kBandwidth));
    ASSERT_TRUE(running.ok()) << running.status();
    for (std::size_t i = 0; i < counted.labels.size(); ++i) {
      running->Add(counted.view().row(i), counted.labels[i]);
    }
    EXPECT_EQ(estimate.skce(), running->moments().mean) << estimate.block_size();
    EXPECT_EQ(estimate.block_count(), running->moments().count);
    EXPECT_EQ(static_cast<std::size_t>(estimate.pending_observations()), running->pending());
  }
  if (!answer.has_watch()) return;
  auto process = EvidenceProcess::Create(
      *FourierBasis::Create(*Kernel::ExponentialTotalVariation(kBandwidth), counted.class_count));
  ASSERT_TRUE(process.ok()) << process.status();
  process->Add(counted.view());
  const EvidenceReading expected = process->Read();
  EXPECT_EQ(answer.watch().observations(), expected.count);
  EXPECT_EQ(answer.watch().evidence().log10_e_value(), expected.evidence.log10_e_value);
  EXPECT_EQ(answer.watch().evidence().max_observation(), expected.maximum.at);
  EXPECT_EQ(answer.watch().drift().log10_statistic(), expected.drift.log10_now);
  EXPECT_EQ(answer.watch().effect_size().skce(), expected.skce_unbiased.value_or(0));
}

}  // namespace

NumberedCaller::NumberedCaller(const std::string& address, const std::string& model,
                               const std::string& producer) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  if (address.find(',') != std::string::npos) {
    arguments.SetServiceConfigJSON(
        R"({"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}})");
  }
  stub_ = v1::IngestService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  request_.set_model(model);
  request_.mutable_producer()->set_producer_id(producer);
  request_.mutable_producer()->set_epoch(1);
}

void NumberedCaller::SetObservations(const PredictionSet& piece) {
  v1::Observations& observations = *request_.mutable_observations();
  observations.Clear();
  observations.mutable_probabilities()->mutable_values()->Assign(piece.probabilities.begin(),
                                                                 piece.probabilities.end());
  observations.mutable_labels()->Assign(piece.labels.begin(), piece.labels.end());
}

void NumberedCaller::SetPredictions(const PredictionSet& piece, std::size_t first_id) {
  SetObservations(piece);
  v1::Observations& observations = *request_.mutable_observations();
  observations.clear_labels();
  for (std::size_t i = 0; i < piece.labels.size(); ++i) {
    observations.add_prediction_ids(std::to_string(first_id + i));
  }
}

bool NumberedCaller::Call() {
  request_.mutable_producer()->set_sequence(request_.producer().sequence() + 1);
  grpc::Status status;
  // A starting server answers at once that it is starting.
  const auto call = [&] {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    v1::ObserveResponse response;
    status = stub_->Observe(&context, request_, &response);
    return status.error_code() != grpc::UNAVAILABLE;
  };
  WaitFor(call, std::chrono::minutes(2));
  EXPECT_TRUE(status.ok()) << status.error_code() << " " << status.error_message();
  return status.ok();
}

void Append(const PredictionSet& piece, PredictionSet& all) {
  all.class_count = piece.class_count;
  all.probabilities.insert(all.probabilities.end(), piece.probabilities.begin(),
                           piece.probabilities.end());
  all.labels.insert(all.labels.end(), piece.labels.begin(), piece.labels.end());
}

LaterLabeller::LaterLabeller(const std::string& address, const std::string& model)
    : predictions_(address, model, "predictor"), labels_(address, model, "labeller") {}

bool LaterLabeller::Post(const PredictionSet& piece, const std::vector<bool>& labelled) {
  const std::size_t first_id = sent_.labels.size();
  predictions_.SetPredictions(piece, first_id);
  v1::Labels& later = *labels_.request().mutable_labels();
  later.Clear();
  for (std::size_t i = piece.labels.size(); i-- > 0;) {
    if (labelled[i]) {
      later.add_prediction_ids(std::to_string(first_id + i));
      later.add_labels(piece.labels[i]);
    }
  }
  Append(piece, sent_);
  labelled_.insert(labelled_.end(), labelled.begin(), labelled.end());
  return predictions_.Call() && (later.labels_size() == 0 || labels_.Call());
}

void ExpectIntegrity(const std::string& data) {
  const auto database = server::Database::Open(data + "/calibd.db");
  ASSERT_TRUE(database.ok()) << database.status();
  auto check = server::Statement::Prepare(*database, "PRAGMA integrity_check");
  ASSERT_TRUE(check.ok() && *check->Next());
  EXPECT_EQ(check->Text(0), "ok");
}

std::unique_ptr<server::Store> OpenUndamaged(const std::string& data) {
  ExpectIntegrity(data);
  auto store = server::LocalStore::Open(data);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

void ExpectCountedAsSent(server::Store& store, const v1::GetCalibrationResponse& answer,
                         const PredictionSet& sent, std::int64_t batches, std::size_t window) {
  ExpectEstimates(answer, sent);
  PredictionSet logged;
  std::int64_t sequence = 0;
  const absl::Status read = store.ReadLog([&](const server::StoredBatch& stored) -> absl::Status {
    const auto row = server::DecodeRow(stored.data, sent.class_count);
    if (!row.ok()) return row.status();
    if (row->counted() == nullptr) return absl::OkStatus();
    EXPECT_TRUE(sequence == 0 || row->position->sequence == sequence + 1);
    sequence = row->position->sequence;
    const server::RowValues& values = *row->counted();
    logged.probabilities.insert(logged.probabilities.end(), values.values.begin(),
                                values.values.end());
    logged.labels.insert(logged.labels.end(), values.truths.labels.begin(),
                         values.truths.labels.end());
    return absl::OkStatus();
  });
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(sequence, batches);
  const std::size_t rows = logged.labels.size();
  ASSERT_GE(rows, std::min(window, sent.labels.size()));
  ASSERT_LE(rows, sent.labels.size());
  const PredictionBatch newest = sent.view().rows(sent.labels.size() - rows, rows);
  EXPECT_TRUE(std::equal(logged.labels.begin(), logged.labels.end(), newest.labels.begin()));
  EXPECT_TRUE(std::equal(logged.probabilities.begin(), logged.probabilities.end(),
                         newest.probabilities.begin()));
}

void ExpectMaturedAsSent(server::Store& store, const v1::GetCalibrationResponse& answer,
                         const PredictionSet& sent, const std::vector<bool>& labelled) {
  PredictionSet counted;
  counted.class_count = sent.class_count;
  std::size_t next = 0;
  std::int64_t missing = 0;
  const absl::Status read = store.ReadLog([&](const server::StoredBatch& stored) -> absl::Status {
    const auto row = server::DecodeRow(stored.data, sent.class_count);
    if (!row.ok()) return row.status();
    const auto* const matured = row->As<server::MaturedRow>();
    if (matured == nullptr) return absl::OkStatus();
    missing += static_cast<std::int64_t>(matured->missing_predicted_classes.size());
    const PredictionBatch batch = matured->values.view();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto values = batch.row(i);
      while (next < sent.labels.size() &&
             !std::equal(values.begin(), values.end(), sent.view().row(next).begin())) {
        ++next;
      }
      if (next == sent.labels.size()) {
        return absl::InternalError("a row that matured was not sent, or matured before");
      }
      EXPECT_TRUE(labelled[next]);
      EXPECT_EQ(batch.labels[i], sent.labels[next]);
      counted.probabilities.insert(counted.probabilities.end(), values.begin(), values.end());
      counted.labels.push_back(batch.labels[i]);
      ++next;
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(read.ok()) << read;
  ASSERT_GT(counted.labels.size(), 0U);
  ExpectEstimates(answer, counted);
  const auto rows = static_cast<std::int64_t>(counted.labels.size());
  const v1::LabelArrivals& coverage = answer.label_arrivals();
  EXPECT_EQ(coverage.predictions(), static_cast<std::int64_t>(sent.labels.size()));
  EXPECT_EQ(coverage.duplicate_predictions(), 0);
  EXPECT_EQ(coverage.matured(), coverage.predictions());
  EXPECT_EQ(coverage.labels().matched(), rows);
  // A label whose id was forgotten waits before it is unknown.
  EXPECT_EQ(coverage.labels().matched() + coverage.labels().late() + coverage.labels().unknown() +
                coverage.labels().waiting(),
            std::count(labelled.begin(), labelled.end(), true));
  EXPECT_EQ(coverage.labels().repeated() + coverage.labels().conflicting(), 0);
  EXPECT_EQ(coverage.missing(), missing);
  EXPECT_EQ(rows + missing, coverage.matured());
  std::int64_t predictions = 0;
  std::int64_t late = 0;
  for (const auto& one : coverage.predicted_classes()) {
    EXPECT_EQ(one.pending(), 0);
    predictions += one.predictions();
    late += one.late();
  }
  EXPECT_EQ(predictions, coverage.predictions());
  EXPECT_EQ(late, coverage.labels().late());
}

}  // namespace calibd::testing
