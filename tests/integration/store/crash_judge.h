#ifndef CALIBD_TESTS_INTEGRATION_STORE_CRASH_JUDGE_H_
#define CALIBD_TESTS_INTEGRATION_STORE_CRASH_JUDGE_H_

#include <memory>
#include <string>
#include <vector>

#include "calibd/core/prediction_batch.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/ingest_service.grpc.pb.h"

namespace calibd::testing {

// Of the models that are judged.
inline constexpr double kBandwidth = 0.5;

// Calls Observe under the next number until it is answered, whatever happens to the server.
class NumberedCaller {
 public:
  NumberedCaller(const std::string& address, const std::string& model, const std::string& producer);

  // What is to be sent next.
  v1::ObserveRequest& request() { return request_; }
  // Makes these rows what is sent next.
  void SetObservations(const PredictionSet& piece);
  // Likewise, as predictions with the ids first_id, first_id + 1, ... and without labels.
  void SetPredictions(const PredictionSet& piece, std::size_t first_id);

  bool Call();

 private:
  std::unique_ptr<v1::IngestService::Stub> stub_;
  v1::ObserveRequest request_;
};

void Append(const PredictionSet& piece, PredictionSet& all);

// Posts predictions whose ids are their numbers in `sent`, and after each batch those labels
// that are to come, in another order.
class LaterLabeller {
 public:
  LaterLabeller(const std::string& address, const std::string& model);

  // One batch of predictions, and their labels. labelled: for each row.
  bool Post(const PredictionSet& piece, const std::vector<bool>& labelled);

  [[nodiscard]] const PredictionSet& sent() const { return sent_; }
  [[nodiscard]] const std::vector<bool>& labelled() const { return labelled_; }

 private:
  NumberedCaller predictions_;
  NumberedCaller labels_;
  PredictionSet sent_;
  std::vector<bool> labelled_;
};

// The database is whole.
void ExpectIntegrity(const std::string& data);

// Of a model with one producer, judged by what it sent: the log holds the newest batches, all
// of the window at least, each once and in order; the answer is what all of them make, to
// the bit. batches: how many there were.
void ExpectCountedAsSent(const std::string& data, const v1::GetCalibrationResponse& answer,
                         const PredictionSet& sent, std::int64_t batches, std::size_t window);

// Of a model that takes labels later, with nothing that waits and all in its window: what
// matured, in the order of the log, is what was sent, in its order, with its label or as
// missing; and the answer is what it makes.
void ExpectMaturedAsSent(const std::string& data, const v1::GetCalibrationResponse& answer,
                         const PredictionSet& sent, const std::vector<bool>& labelled);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_STORE_CRASH_JUDGE_H_
