#include "benchmark/load.h"

#include <grpcpp/create_channel.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <iostream>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>

#include "calibd/core/generator.h"

namespace calibd {
namespace {

using Request = v1::StreamObservationsRequest;
using Response = v1::StreamObservationsResponse;

// A producer's stream.
class Producer final : public grpc::ClientBidiReactor<Request, Response> {
 public:
  Producer(v1::IngestService::Stub& stub, const std::string& model, const std::string& producer_id,
           const NextBatch& next, Seconds duration)
      : next_(next), duration_(duration) {
    control_.mutable_open()->set_model(model);
    control_.mutable_open()->set_producer_id(producer_id);
    stub.async()->StreamObservations(&context_, this);
    StartRead(&response_);
    StartWrite(&control_);
    StartCall();
  }

  // Waits until the stream has ended. Returns the number of batches.
  std::int64_t Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    Check(status_.ok() && finished_, "the stream failed: " + status_.error_message());
    return next_sequence_ - first_sequence_;
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    const std::lock_guard lock(mutex_);
    if (response_.has_opened()) {
      begin_ = Clock::now();
      first_sequence_ = next_sequence_ = response_.opened().next_sequence();
      settled_ = next_sequence_ - 1;
      max_in_flight_ = response_.opened().max_batches_in_flight();
    } else if (response_.has_ack()) {
      settled_ = response_.ack().sequence();
    } else if (response_.has_finished()) {
      finished_ = true;
    } else {
      Die("a batch was rejected: " + response_.ShortDebugString());
    }
    StartRead(&response_);
    Send();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok) Send();
  }

  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(mutex_);
    status_ = status;
    done_ = true;
    changed_.notify_all();
  }

 private:
  void Send() {
    if (writing_ || finishing_ || next_sequence_ - settled_ > max_in_flight_) return;
    writing_ = true;
    Request* const request = Clock::now() - begin_ < duration_ ? next_() : nullptr;
    if (request == nullptr) {
      finishing_ = true;
      control_.mutable_finish()->set_last_sequence(next_sequence_ - 1);
      StartWrite(&control_);
      return;
    }
    request->mutable_batch()->set_sequence(next_sequence_++);
    StartWrite(request);
  }

  const NextBatch& next_;
  const Seconds duration_;
  grpc::ClientContext context_;
  Request control_;
  Response response_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool writing_ = true;
  bool finishing_ = false;
  bool finished_ = false;
  bool done_ = false;
  grpc::Status status_;
  // No batch may be in flight before Opened.
  std::int64_t max_in_flight_ = -1;
  std::int64_t first_sequence_ = 0;
  std::int64_t next_sequence_ = 0;
  std::int64_t settled_ = 0;
  Clock::time_point begin_;
};

}  // namespace

void Die(const std::string& what) {
  std::cerr << "ingest_benchmark: " << what << std::endl;
  std::_Exit(1);
}

void Check(bool ok, const std::string& what) {
  if (!ok) Die(what);
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address, const Credentials& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(
      address, credentials != nullptr ? credentials : grpc::InsecureChannelCredentials(),
      arguments);
}

void CreateModel(const std::string& address, const std::string& name, std::size_t class_count,
                 const std::function<void(v1::Model&)>& change, const Credentials& credentials) {
  v1::CreateModelRequest request;
  request.mutable_model()->set_name(name);
  if (class_count == 0) {
    request.mutable_model()->mutable_forecast()->mutable_normal();
  } else {
    request.mutable_model()->mutable_classes()->set_count(static_cast<std::int32_t>(class_count));
  }
  if (change) change(*request.mutable_model());
  v1::CreateModelResponse response;
  grpc::ClientContext context;
  const grpc::Status status = v1::ModelService::NewStub(Connect(address, credentials))
                                  ->CreateModel(&context, request, &response);
  Check(status.ok(), status.error_message());
}

Batches::Batches(std::size_t rows, std::size_t class_count, bool float32, std::uint64_t seed)
    : class_count_(class_count), batches_(16), random_(seed) {
  if (class_count == 0) {
    for (Batch& batch : batches_) DrawForecasts(rows, batch);
    return;
  }
  Generator generator = *Generator::Create(GeneratorSpec::M1(class_count), seed);
  for (Batch& batch : batches_) {
    PredictionSet set;
    generator.Draw(rows, set);
    v1::Observations& observations = *batch.request.mutable_batch()->mutable_observations();
    observations.mutable_labels()->Add(set.labels.begin(), set.labels.end());
    const std::vector<double>& values = set.probabilities;
    if (float32) {
      observations.mutable_probabilities_float32()->mutable_values()->Add(values.begin(),
                                                                          values.end());
    } else {
      observations.mutable_probabilities()->mutable_values()->Add(values.begin(), values.end());
    }
    batch.cumulative.resize(values.size());
    for (std::size_t i = 0; i < rows; ++i) {
      const auto row = static_cast<std::ptrdiff_t>(i * class_count);
      const auto end = row + static_cast<std::ptrdiff_t>(class_count);
      batch.first.push_back(values[i * class_count]);
      std::partial_sum(values.begin() + row, values.begin() + end, batch.cumulative.begin() + row);
    }
  }
}

void Batches::DrawForecasts(std::size_t rows, Batch& batch) {
  std::normal_distribution<double> normal;
  auto& values = *batch.request.mutable_batch()->mutable_observations()->mutable_forecasts();
  for (std::size_t i = 0; i < rows; ++i) {
    batch.first.push_back(normal(random_));
    values.add_values(batch.first.back());
    values.add_values(std::exp(0.35 * normal(random_)));
  }
}

void Batches::DrawOutcomes(Batch& batch, double factor) {
  std::normal_distribution<double> normal;
  v1::Observations& observations = *batch.request.mutable_batch()->mutable_observations();
  google::protobuf::RepeatedField<double>& values =
      *observations.mutable_forecasts()->mutable_values();
  observations.mutable_outcomes()->Resize(static_cast<int>(batch.first.size()), 0);
  for (std::size_t i = 0; i < batch.first.size(); ++i) {
    const auto row = static_cast<int>(i);
    const double mean = batch.first[i] * factor;
    values.Set(2 * row, mean);
    observations.set_outcomes(row, mean + values.Get(2 * row + 1) * normal(random_));
  }
}

Request& Batches::Next() {
  Batch& batch = batches_[count_ % batches_.size()];
  // Changes a sum by less than a row's tolerance, but a float by more than its precision.
  const double factor = 1 - 0x1p-22 * static_cast<double>(count_++ / batches_.size() % 1024);
  if (class_count_ == 0) {
    DrawOutcomes(batch, factor);
    return batch.request;
  }
  v1::Observations& observations = *batch.request.mutable_batch()->mutable_observations();
  // The caller may have taken the labels away.
  observations.mutable_labels()->Resize(static_cast<int>(batch.first.size()), 0);
  std::uniform_real_distribution<float> uniform;
  for (std::size_t i = 0; i < batch.first.size(); ++i) {
    const double first = batch.first[i] * factor;
    const auto at = static_cast<int>(i * class_count_);
    if (observations.has_probabilities_float32()) {
      observations.mutable_probabilities_float32()->set_values(at, static_cast<float>(first));
    } else {
      observations.mutable_probabilities()->set_values(at, first);
    }
    const std::span row = std::span(batch.cumulative).subspan(i * class_count_, class_count_);
    const auto label = std::upper_bound(row.begin(), row.end() - 1, uniform(random_)) - row.begin();
    observations.set_labels(static_cast<int>(i), static_cast<std::int32_t>(label));
  }
  return batch.request;
}

std::int64_t StreamBatches(v1::IngestService::Stub& stub, const std::string& model,
                           const std::string& producer_id, const NextBatch& next,
                           Seconds duration) {
  return Producer(stub, model, producer_id, next, duration).Wait();
}

Load::Load(const std::string& address, const Options& options, const Credentials& credentials)
    : rows_(options.rows) {
  for (std::size_t model = 0; model < options.models; ++model) {
    for (std::size_t i = 0; i < options.streams_per_model; ++i) {
      streams_.push_back(std::make_unique<Stream>(Stream{
          .stub = v1::IngestService::NewStub(Connect(address, credentials)),
          .model = ModelName(model),
          .producer_id = "benchmark-" + std::to_string(i),
          .batches =
              Batches(options.rows, options.class_count, options.float32, streams_.size() + 1)}));
    }
  }
}

double Load::PredictionsPerSecond(Seconds duration) {
  const auto begin = Clock::now();
  std::vector<std::future<std::int64_t>> counts;
  for (const std::unique_ptr<Stream>& stream : streams_) {
    counts.push_back(std::async(std::launch::async, [&stream = *stream, duration] {
      return StreamBatches(
          *stream.stub, stream.model, stream.producer_id,
          [&stream] { return &stream.batches.Next(); }, duration);
    }));
  }
  std::int64_t predictions = 0;
  for (auto& count : counts) predictions += count.get() * static_cast<std::int64_t>(rows_);
  const Seconds elapsed = Clock::now() - begin;
  predictions_ += predictions;
  return static_cast<double>(predictions) / elapsed.count();
}

std::string Load::ModelName(std::size_t model) {
  return "models/benchmark-" + std::to_string(model);
}

}  // namespace calibd
