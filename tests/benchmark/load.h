#ifndef CALIBD_TESTS_BENCHMARK_LOAD_H_
#define CALIBD_TESTS_BENCHMARK_LOAD_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "calibd/v1/ingest_service.grpc.pb.h"
#include "calibd/v1/model_service.grpc.pb.h"

namespace calibd {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Prints an error and ends the process at once, because threads of gRPC may be running.
[[noreturn]] void Die(const std::string& what);
void Check(bool ok, const std::string& what);

// Those of a server with TLS; null without encryption.
using Credentials = std::shared_ptr<grpc::ChannelCredentials>;

// Returns a channel with a connection of its own.
std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                       const Credentials& credentials = nullptr);

// Creates a model with the default declaration, except for what `change` sets. class_count: 0 for
// Normal forecasts of a number.
void CreateModel(const std::string& address, const std::string& name, std::size_t class_count,
                 const std::function<void(v1::Model&)>& change = nullptr,
                 const Credentials& credentials = nullptr);

// An endless sequence of batches of a calibrated model. All rows differ, and their labels or
// outcomes are drawn independently, so that the server sees neither duplicates nor evidence.
class Batches {
 public:
  // class_count: 0 for Normal forecasts, which are never sent as float32.
  Batches(std::size_t rows, std::size_t class_count, bool float32, std::uint64_t seed);

  // Returns the next batch, without its number. It stays valid for 15 further calls.
  v1::StreamObservationsRequest& Next();

 private:
  struct Batch {
    v1::StreamObservationsRequest request;
    // The first probability of each row.
    std::vector<double> first;
    // The sums of the probabilities of each row up to each class.
    std::vector<float> cumulative;
  };

  void DrawForecasts(std::size_t rows, Batch& batch);
  void DrawOutcomes(Batch& batch, double factor);

  const std::size_t class_count_;
  std::vector<Batch> batches_;
  std::size_t count_ = 0;
  std::mt19937_64 random_;
};

// Streams batches as a producer for `duration`, with as many in flight as the server allows, and
// returns when all are acknowledged. next: returns the next batch; null ends the stream early.
// Returns the number of batches.
using NextBatch = std::function<v1::StreamObservationsRequest*()>;
std::int64_t StreamBatches(v1::IngestService::Stub& stub, const std::string& model,
                           const std::string& producer_id, const NextBatch& next, Seconds duration);

// Producers that stream to a server at the same time, each over its own connection.
class Load {
 public:
  struct Options {
    // Number of classes; 0 means Normal forecasts.
    std::size_t class_count = 10;
    // Number of rows of a batch.
    std::size_t rows = 2048;
    std::size_t models = 1;
    std::size_t streams_per_model = 1;
    bool float32 = false;
  };

  Load(const std::string& address, const Options& options,
       const Credentials& credentials = nullptr);

  // Streams for `duration`. Returns the acknowledged predictions per second.
  double PredictionsPerSecond(Seconds duration);

  // Number of acknowledged predictions so far.
  [[nodiscard]] std::int64_t predictions() const { return predictions_; }

  // The model with this number, < Options::models.
  [[nodiscard]] static std::string ModelName(std::size_t model);

 private:
  struct Stream {
    std::unique_ptr<v1::IngestService::Stub> stub;
    std::string model;
    std::string producer_id;
    Batches batches;
  };

  const std::size_t rows_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::int64_t predictions_ = 0;
};

}  // namespace calibd

#endif  // CALIBD_TESTS_BENCHMARK_LOAD_H_
