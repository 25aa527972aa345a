// Sends predictions whose labels come later, and labels them by id.
//   label_later [HOST:PORT]
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "calibd/client/client.h"

namespace {

using calibd::client::Client;
using calibd::client::ModelName;
using calibd::client::PredictionKind;

absl::Status LabelLater(const std::string& address) {
  auto client = Client::Connect(address);
  if (!client.ok()) return client.status();

  calibd::v1::Model model;
  model.set_name(ModelName("visits"));
  model.mutable_classes()->set_count(2);
  model.mutable_label_grace()->set_seconds(7 * std::int64_t{86400});  // until predictions mature
  if (auto created = (*client)->CreateModel(model); !created.ok()) return created.status();

  auto stream = (*client)->OpenStream(model.name());
  if (!stream.ok()) return stream.status();
  const std::vector<std::string> ids = {"visit-1", "visit-2", "visit-3"};
  const std::vector<double> probabilities = {0.9, 0.1,  //
                                             0.8, 0.2,  //
                                             0.3, 0.7};
  if (auto sent = (*stream)->SendWithIds(PredictionKind::kProbabilities, probabilities, ids);
      !sent.ok()) {
    return sent;
  }
  // Later, from here or from anywhere else: what came true of some of them.
  const std::vector<std::string> clicked = {"visit-3", "visit-1"};
  const std::vector<std::int32_t> labels = {1, 0};
  if (auto sent = (*stream)->Label(clicked, labels); !sent.ok()) return sent;

  const auto counts = (*stream)->Finish();
  if (!counts.ok()) return counts.status();
  std::cout << "accepted rows: " << counts->accepted_rows
            << ", known before: " << counts->duplicate_rows
            << ", labels matched: " << counts->labels.matched
            << ", repeated: " << counts->labels.repeated << "\n";
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const auto status = LabelLater(argc > 1 ? argv[1] : "127.0.0.1:8460");
  // Leaves out the details, which are for programs.
  if (!status.ok()) {
    std::cerr << status.ToString(absl::StatusToStringMode::kWithNoExtraData) << "\n";
  }
  return status.ok() ? 0 : 1;
}
