#ifndef CALIBD_TESTS_INTEGRATION_SERVER_MONITORED_SERVER_H_
#define CALIBD_TESTS_INTEGRATION_SERVER_MONITORED_SERVER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "calibd/core/generator.h"
#include "integration/server/service_client.h"
#include "support/server_process.h"
#include "support/temporary_folder.h"

namespace calibd::testing {

inline constexpr char kMonitoringModel[] = "models/watched";
inline constexpr std::size_t kMonitoringClasses = 4;
inline constexpr double kMonitoringBandwidth = 0.5;

inline PredictionSet DrawFrom(const GeneratorSpec& spec, std::size_t n, std::uint64_t seed = 3) {
  PredictionSet set;
  auto generator = Generator::Create(spec, seed);
  generator->Draw(n, set);
  return set;
}

class MonitoringTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }

  void Start() {
    client_.reset();
    server_ = ServerProcess::Start({"--data-dir", data_});
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  static v1::Model Declared() {
    v1::Model model;
    model.set_name(kMonitoringModel);
    model.mutable_classes()->set_count(kMonitoringClasses);
    model.mutable_classes()->mutable_bandwidth()->set_fixed(kMonitoringBandwidth);
    return model;
  }

  void Create(const v1::Model& model) {
    const grpc::Status status = client_->Create(model);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  void Send(const PredictionSet& set, std::size_t batch = 50) {
    v1::ObserveRequest request;
    request.set_model(kMonitoringModel);
    for (std::size_t done = 0; done < set.labels.size(); done += batch) {
      *request.mutable_observations() =
          ToProto(set.view().rows(done, std::min(batch, set.labels.size() - done)));
      const grpc::Status status = client_->Observe(request);
      ASSERT_TRUE(status.ok()) << status.error_message();
    }
  }

  v1::GetCalibrationResponse Answer() { return client_->GetCalibration(kMonitoringModel); }

  // The only model, as ListVerdicts describes it.
  v1::ListVerdictsResponse::ModelVerdict Listed() {
    v1::ListVerdictsResponse response;
    CallContext context;
    const grpc::Status status = client_->calibration->ListVerdicts(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.models_size(), 1);
    return response.models_size() == 1 ? response.models(0)
                                       : v1::ListVerdictsResponse::ModelVerdict();
  }

  // Sets error_limit and returns the answer after it.
  v1::GetCalibrationResponse WithLimit(double error_limit) {
    v1::UpdateModelRequest request;
    request.mutable_model()->set_name(kMonitoringModel);
    request.mutable_model()->mutable_monitoring()->set_error_limit(error_limit);
    request.mutable_update_mask()->add_paths("monitoring.error_limit");
    v1::UpdateModelResponse response;
    CallContext context;
    const grpc::Status status = client_->models->UpdateModel(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return Answer();
  }

  grpc::Status Acknowledge(std::int64_t id, const std::string& note, v1::Alarm* alarm = nullptr,
                           const std::string& model = kMonitoringModel) {
    v1::AcknowledgeAlarmRequest request;
    request.set_model(model);
    request.set_alarm_id(id);
    request.set_note(note);
    v1::AcknowledgeAlarmResponse response;
    CallContext context;
    const grpc::Status status =
        client_->calibration->AcknowledgeAlarm(&context, request, &response);
    if (alarm != nullptr) *alarm = response.alarm();
    return status;
  }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_SERVER_MONITORED_SERVER_H_
