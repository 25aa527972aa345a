#include "integration/store/store_answers.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/timestamp.pb.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/model_service.pb.h"
#include "calibd/v1/store_service.grpc.pb.h"
#include "integration/server/service_client.h"

namespace calibd::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kAddedModel[] = "models/added";
constexpr std::size_t kAddedRows = 100;

// Removes the time and the duration of a computation, which differ between equal requests; with
// `all` also all other times.
void ClearTimes(Message& message, bool all) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    const bool point = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
                       field->message_type() == google::protobuf::Timestamp::descriptor();
    if (field->name() == "compute_time" || field->name() == "elapsed" || (all && point)) {
      reflection.ClearField(&message, field);
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    } else if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        ClearTimes(*reflection.MutableRepeatedMessage(&message, field, i), all);
      }
    } else {
      ClearTimes(*reflection.MutableMessage(&message, field), all);
    }
  }
}

// No undamaged list has so many pages. The page tokens of a damaged list may form a cycle.
constexpr int kMostPages = 1000;

class Interview {
 public:
  Interview(const std::string& address, const Questions& questions)
      : client_(address),
        questions_(questions),
        store_(v1::StoreService::NewStub(client_.channel)) {}

  void Read() {
    ReadModels();
    for (const std::string& model : questions_.models) {
      Calibration(model, "calibration of ", /*written=*/false);
      Histories(model);
      Test(model);
    }
    Verdicts();
  }

  void Backup(const std::string& path) {
    CallContext context;
    const auto reader = store_->Backup(&context, v1::BackupRequest());
    std::ofstream file(path, std::ios::binary);
    v1::BackupResponse response;
    while (reader->Read(&response)) file << response.data();
    file.close();
    const grpc::Status status = reader->Finish();
    if (!status.ok()) std::filesystem::remove(path);
    // The size may differ between equal stores.
    Put("backup", status, v1::BackupResponse());
  }

  void Write() {
    for (const v1::ObserveRequest& batch : questions_.newest_batches) {
      const v1::ObserveRequest::Producer& producer = batch.producer();
      const std::string name = batch.model() + " by " + producer.producer_id();
      NextSequence(batch, "next sequence of " + name);
      Observe(batch, "repeated batch of " + name);
      v1::ObserveRequest other = batch;
      other.mutable_observations()->set_dropped_rows(1);
      Observe(other, "other batch with the number of that of " + name);
      other.mutable_producer()->set_sequence(producer.sequence() + 1);
      Observe(other, "next batch of " + name);
    }
    Observe(questions_.labels, "labels");
    AddModel();
    for (const std::string& model : questions_.models) {
      Calibration(model, "later calibration of ", /*written=*/true);
    }
  }

  void Verify() {
    CallContext context;
    const auto reader = store_->Verify(&context, v1::VerifyRequest());
    v1::VerifyResponse response;
    while (reader->Read(&response)) {
      const auto& problems = response.verification().problems();
      result_.problems.assign(problems.begin(), problems.end());
    }
    const grpc::Status status = reader->Finish();
    result_.verification = {status.error_code(), status.error_message()};
  }

  [[nodiscard]] const StoreAnswers& result() const { return result_; }

 private:
  void Put(const std::string& question, const grpc::Status& status, const Message& response) {
    result_.answers[question] = {
        status.error_code(), status.ok() ? response.ShortDebugString() : status.error_message()};
  }

  void ReadModels() {
    v1::ListModelsRequest request;
    request.set_page_size(2);
    v1::ListModelsResponse all;
    grpc::Status status;
    int pages = 0;
    do {
      CallContext context;
      v1::ListModelsResponse page;
      status = client_.models->ListModels(&context, request, &page);
      all.mutable_models()->MergeFrom(page.models());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty() && ++pages < kMostPages);
    Put("models", status, all);
    for (const std::string& model : questions_.models) {
      CallContext context;
      v1::GetModelRequest one;
      one.set_name(model);
      v1::GetModelResponse response;
      status = client_.models->GetModel(&context, one, &response);
      Put("declaration of " + model, status, response);
    }
  }

  void Calibration(const std::string& model, const std::string& question, bool written) {
    CallContext context;
    v1::GetCalibrationRequest request;
    request.set_model(model);
    v1::GetCalibrationResponse response;
    const grpc::Status status =
        written && !failed_write_.ok()
            ? failed_write_
            : client_.calibration->GetCalibration(&context, request, &response);
    if (written) {
      // The arrival times of new batches differ between two servers. The scores are sums of the
      // sums of minutes, so their last digits depend on the times.
      ClearTimes(response, /*all=*/true);
      response.clear_scores();
    } else {
      ClearTimes(response, /*all=*/false);
    }
    // They describe the rows that were screened since the start, which a damaged snapshot
    // increases.
    response.clear_warnings();
    // Its sentences follow from the values, and name times.
    response.clear_reading();
    Put(question + model, status, response);
  }

  // The whole history, and a part of it.
  void Histories(const std::string& model) {
    constexpr std::int64_t kHourSeconds = 3600;
    constexpr std::int64_t kDaySeconds = 24 * kHourSeconds;
    struct Part {
      v1::GetHistoryRequest::Resolution resolution;
      std::int64_t begin_s;
      std::int64_t end_s;
    };
    const std::int64_t newest = questions_.newest_s;
    for (const Part& part :
         {Part{v1::GetHistoryRequest::MINUTE, newest - 30 * kHourSeconds,
               newest - 7 * kHourSeconds},
          Part{v1::GetHistoryRequest::HOUR, newest - 30 * kDaySeconds, newest - 5 * kHourSeconds},
          Part{v1::GetHistoryRequest::DAY, newest - 150 * kDaySeconds, newest - 2 * kDaySeconds}}) {
      v1::GetHistoryRequest request;
      request.set_model(model);
      request.set_resolution(part.resolution);
      request.set_page_size(7);
      const std::string of =
          " of " + model + ", " + v1::GetHistoryRequest::Resolution_Name(part.resolution);
      request.mutable_start_time()->set_seconds(0);
      // This is after every bucket.
      request.mutable_end_time()->set_seconds(newest + 1000 * kDaySeconds);
      History(request, "history" + of);
      request.mutable_start_time()->set_seconds(part.begin_s);
      request.mutable_end_time()->set_seconds(part.end_s);
      History(request, "part of the history" + of);
    }
  }

  void History(v1::GetHistoryRequest& request, const std::string& question) {
    v1::GetHistoryResponse all;
    grpc::Status status;
    int pages = 0;
    do {
      CallContext context;
      v1::GetHistoryResponse page;
      status = client_.calibration->GetHistory(&context, request, &page);
      all.mutable_buckets()->MergeFrom(page.buckets());
      *all.mutable_total() = page.total();
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty() && ++pages < kMostPages);
    Put(question, status, all);
  }

  // The result depends on the whole window.
  void Test(const std::string& model) {
    v1::RunTestRequest request;
    request.set_model(model);
    request.set_replicates(99);
    request.set_seed(1);
    v1::QuadraticTestResult result;
    const grpc::Status status = client_.RunTest(request, &result);
    ClearTimes(result, /*all=*/false);
    Put("test of " + model, status, result);
  }

  void Verdicts() {
    CallContext context;
    v1::ListVerdictsResponse response;
    const grpc::Status status =
        client_.calibration->ListVerdicts(&context, v1::ListVerdictsRequest(), &response);
    Put("verdicts", status, response);
  }

  void NextSequence(const v1::ObserveRequest& batch, const std::string& question) {
    ObservationCall call(client_);
    const auto next =
        call.Open(batch.model(), batch.producer().producer_id(), batch.producer().epoch());
    if (next.has_value()) {
      result_.answers[question] = {grpc::StatusCode::OK, std::to_string(*next)};
      return;
    }
    const grpc::Status status = call.Await();
    result_.answers[question] = {status.error_code(), status.error_message()};
  }

  void Observe(const v1::ObserveRequest& request, const std::string& question) {
    v1::ObserveResponse response;
    const grpc::Status status =
        failed_write_.ok() ? client_.Observe(request, &response) : failed_write_;
    if (status.error_code() == grpc::StatusCode::DATA_LOSS) failed_write_ = status;
    Put(question, status, response);
  }

  // The model has only the observations that are sent to it.
  void AddModel() {
    v1::Model model;
    model.set_name(kAddedModel);
    model.mutable_classes()->set_count(3);
    model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
    v1::Model created;
    const grpc::Status status = client_.Create(model, &created);
    ClearTimes(created, /*all=*/true);
    if (status.error_code() == grpc::StatusCode::DATA_LOSS) failed_write_ = status;
    Put("creation of a model", status, created);
    v1::ObserveRequest request;
    request.set_model(kAddedModel);
    *request.mutable_observations() = ToProto(Draw(kAddedRows, 3).view());
    Observe(request, "batch of a new model");
    Calibration(kAddedModel, "calibration of the new ", /*written=*/true);
  }

  ServiceClient client_;
  const Questions& questions_;
  std::unique_ptr<v1::StoreService::Stub> store_;
  // The first DATA_LOSS of a call that writes.
  grpc::Status failed_write_;
  StoreAnswers result_;
};

}  // namespace

StoreAnswers AskAll(const std::string& address, const Questions& questions,
                    const std::string& backup) {
  Interview interview(address, questions);
  interview.Read();
  interview.Backup(backup);
  interview.Write();
  interview.Verify();
  return interview.result();
}

}  // namespace calibd::testing
