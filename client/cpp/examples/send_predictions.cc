// Declares a model, sends labelled predictions and reads the running estimate.
//   send_predictions [HOST:PORT]
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "calibd/client/client.h"

namespace {

using calibd::client::Client;
using calibd::client::ModelName;
using calibd::client::PredictionKind;

absl::Status SendPredictions(const std::string& address) {
  auto client = Client::Connect(address);
  if (!client.ok()) return client.status();

  calibd::v1::Model model;
  model.set_name(ModelName("weather"));
  model.mutable_classes()->set_count(3);
  // Without a bandwidth, it is chosen from the first 500 predictions.
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.2);
  if (auto created = (*client)->CreateModel(model); !created.ok()) return created.status();

  auto stream = (*client)->OpenStream(model.name());
  if (!stream.ok()) return stream.status();
  // Four predictions, one row each: the probabilities of the three classes.
  const std::vector<double> probabilities = {0.7, 0.2, 0.1,  //
                                             0.1, 0.8, 0.1,  //
                                             0.3, 0.3, 0.4,  //
                                             0.9, 0.1, 0.0};
  // What came true, counted from 0.
  const std::vector<std::int32_t> labels = {0, 1, 0, 0};
  if (auto sent = (*stream)->Send(PredictionKind::kProbabilities, probabilities, labels);
      !sent.ok()) {
    return sent;
  }
  // Finish returns when every batch is counted, once, whatever the network did.
  const auto counts = (*stream)->Finish();
  if (!counts.ok()) return counts.status();
  std::cout << "accepted rows: " << counts->accepted_rows << "\n";

  const auto calibration = (*client)->GetCalibration(model.name());
  if (!calibration.ok()) return calibration.status();
  for (const auto& estimate : calibration->estimates()) {
    if (!estimate.has_skce()) continue;  // no complete block yet
    std::cout << "SKCE (blocks of " << estimate.block_size() << "): " << estimate.skce() << "\n";
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const auto status = SendPredictions(argc > 1 ? argv[1] : "127.0.0.1:8460");
  // Leaves out the details, which are for programs.
  if (!status.ok()) {
    std::cerr << status.ToString(absl::StatusToStringMode::kWithNoExtraData) << "\n";
  }
  return status.ok() ? 0 : 1;
}
