#ifndef CALIBD_TESTS_INTEGRATION_STORE_CRASH_JUDGE_H_
#define CALIBD_TESTS_INTEGRATION_STORE_CRASH_JUDGE_H_

#include <memory>
#include <string>
#include <vector>

#include "calibd/core/prediction_batch.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/ingest_service.grpc.pb.h"
#include "server/store/store.h"

namespace calibd::testing {

// Bandwidth of the models in these tests.
inline constexpr double kBandwidth = 0.5;

// Calls Observe under the next number until it is answered, whatever happens to the server.
class NumberedCaller {
 public:
  NumberedCaller(const std::string& address, const std::string& model, const std::string& producer);

  // The next request.
  v1::ObserveRequest& request() { return request_; }
  // Sets the rows of the next request.
  void SetObservations(const PredictionSet& piece);
  // Sets predictions with the ids first_id, first_id + 1, ... and without labels.
  void SetPredictions(const PredictionSet& piece, std::size_t first_id);

  bool Call();

 private:
  std::unique_ptr<v1::IngestService::Stub> stub_;
  v1::ObserveRequest request_;
};

void Append(const PredictionSet& piece, PredictionSet& all);

// Sends predictions whose ids are their numbers in `sent`, and after each batch the labels that
// must arrive, in a different order.
class LaterLabeller {
 public:
  LaterLabeller(const std::string& address, const std::string& model);

  // Sends one batch of predictions and then their labels. labelled: for each row, whether its label
  // is sent.
  bool Post(const PredictionSet& piece, const std::vector<bool>& labelled);

  [[nodiscard]] const PredictionSet& sent() const { return sent_; }
  [[nodiscard]] const std::vector<bool>& labelled() const { return labelled_; }

 private:
  NumberedCaller predictions_;
  NumberedCaller labels_;
  PredictionSet sent_;
  std::vector<bool> labelled_;
};

// Expects an undamaged database.
void ExpectIntegrity(const std::string& data);

// Opens the store of a folder that no server uses, and expects an undamaged database. Returns null
// after a failure.
std::unique_ptr<server::Store> OpenUndamaged(const std::string& data);

// For a model with one producer. Expects that the log contains the newest batches, at least the
// whole window, each once and in order, and that the answer follows from all batches, to the bit.
// batches: number of batches.
void ExpectCountedAsSent(server::Store& store, const v1::GetCalibrationResponse& answer,
                         const PredictionSet& sent, std::int64_t batches, std::size_t window);

// For a model with later labels, without pending predictions, whose window contains everything.
// Expects that the matured predictions, in the order of the log, are those that were sent, each
// with its label or as missing, and that the answer follows from them.
void ExpectMaturedAsSent(server::Store& store, const v1::GetCalibrationResponse& answer,
                         const PredictionSet& sent, const std::vector<bool>& labelled);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_STORE_CRASH_JUDGE_H_
