#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;

class ModelServiceTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& arguments = {}) {
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

v1::Model Declared(const std::string& name) {
  v1::Model model;
  model.set_name(name);
  model.mutable_classes()->set_count(10);
  return model;
}

TEST_F(ModelServiceTest, CreatingIsIdempotentForAnEqualDeclaration) {
  Start();
  v1::Model created;
  ASSERT_TRUE(client_->Create(Declared("models/a"), &created).ok());
  EXPECT_EQ(created.window(), 10000);
  v1::Model again;
  ASSERT_TRUE(client_->Create(Declared("models/a"), &again).ok());
  EXPECT_EQ(again.create_time().nanos(), created.create_time().nanos());
  // With the defaults written out, the declaration is the same.
  ASSERT_TRUE(client_->Create(created, &again).ok());

  v1::Model different = Declared("models/a");
  different.set_window(500);
  const grpc::Status status = client_->Create(different);
  EXPECT_EQ(status.error_code(), grpc::ALREADY_EXISTS);
  EXPECT_EQ(Reason(status), "MODEL_DIFFERS");
  EXPECT_THAT(status.error_message(), HasSubstr("window is 10000, declared 500"));
}

TEST_F(ModelServiceTest, AModelWithTheFormerDefaultToleranceIsDeclaredAgain) {
  Start();
  v1::Model model;
  model.set_name("models/Former");
  model.mutable_classes()->set_count(1000);
  // The default of versions before 5e-5 per class.
  model.mutable_classes()->set_row_sum_tolerance(1e-3);
  ASSERT_TRUE(client_->Create(model).ok());
  model.mutable_classes()->clear_row_sum_tolerance();
  v1::Model created;
  const grpc::Status status = client_->Create(model, &created);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(created.classes().row_sum_tolerance(), 1e-3);
  model.mutable_classes()->set_row_sum_tolerance(0.05);
  EXPECT_EQ(client_->Create(model).error_code(), grpc::ALREADY_EXISTS);
  // Upper and lower case differ.
  model.set_name("models/former");
  EXPECT_TRUE(client_->Create(model).ok());
}

TEST_F(ModelServiceTest, InvalidDeclarationsAreRefused) {
  Start();
  const grpc::Status status = client_->Create(Declared("models/a name"));
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("model.name"));
}

TEST_F(ModelServiceTest, ListsInOrderPageByPage) {
  Start();
  std::set<std::string> names;
  for (const char* id : {"b", "a", "c/versions/2", "c/versions/1", "c"}) {
    const std::string name = std::string("models/") + id;
    ASSERT_TRUE(client_->Create(Declared(name)).ok());
    names.insert(name);
  }
  std::vector<std::string> listed;
  v1::ListModelsRequest request;
  request.set_page_size(2);
  do {
    CallContext context;
    v1::ListModelsResponse response;
    ASSERT_TRUE(client_->models->ListModels(&context, request, &response).ok());
    EXPECT_LE(response.models_size(), 2);
    for (const v1::Model& model : response.models()) listed.push_back(model.name());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(listed, ::testing::ElementsAreArray(names));

  request.set_page_token("not a token");
  CallContext context;
  v1::ListModelsResponse response;
  EXPECT_EQ(client_->models->ListModels(&context, request, &response).error_code(),
            grpc::INVALID_ARGUMENT);
}

TEST_F(ModelServiceTest, DeletedModelsAreGone) {
  Start();
  client_->CreateFixed("models/a", 10);
  ASSERT_TRUE(client_->Delete("models/a").ok());
  CallContext context;
  v1::GetModelRequest request;
  request.set_name("models/a");
  v1::GetModelResponse response;
  const grpc::Status status = client_->models->GetModel(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(Reason(status), "MODEL_NOT_FOUND");
  EXPECT_EQ(client_->Delete("models/a").error_code(), grpc::NOT_FOUND);
}

TEST_F(ModelServiceTest, DeclarationsReserveMemoryUntilTheyAreDeleted) {
  // A declaration of 10 classes and 10000 observations reserves 4.0 MB.
  Start({"--state-memory-bytes", "8000000", "--max-models", "10"});
  int created = 0;
  grpc::Status status;
  do {
    status = client_->Create(Declared("models/m" + std::to_string(created)));
    created += status.ok() ? 1 : 0;
  } while (status.ok());
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(status), "STATE_MEMORY_EXHAUSTED");
  EXPECT_EQ(created, 2);
  // The advice names what the model declares.
  EXPECT_THAT(status.error_message(), HasSubstr("declare a smaller window, delete models"));
  v1::Model grace = Declared("models/grace");
  grace.mutable_label_grace()->set_seconds(60);
  EXPECT_THAT(client_->Create(grace).error_message(),
              HasSubstr("declare a smaller max_pending or window, delete models"));
  ASSERT_TRUE(client_->Delete("models/m0").ok());
  EXPECT_TRUE(WaitFor([&] { return client_->Create(Declared("models/again")).ok(); }));
}

TEST_F(ModelServiceTest, DeclarationsReserveDiskUntilTheyAreDeleted) {
  // A declaration of 10 classes and 10000 observations reserves about 30 MB, and all models share
  // 512 MiB.
  constexpr double kShared = 512 << 20;
  Start({"--disk-bytes", "616870912"});
  int created = 0;
  grpc::Status status;
  do {
    status = client_->Create(Declared("models/m" + std::to_string(created)));
    created += status.ok() ? 1 : 0;
  } while (status.ok());
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(status), "DISK_EXHAUSTED");
  EXPECT_THAT(status.error_message(), HasSubstr("calibd --disk-bytes"));
  EXPECT_EQ(created, 2);
  const auto reserved = [this] {
    const std::string text = HttpGet(server_->http_address(), "/metrics").body;
    EXPECT_THAT(text, HasSubstr("\ncalibd_store_limit_bytes 616870912\n"));
    const std::string name = "\ncalibd_store_reserved_bytes ";
    return std::stod(text.substr(text.find(name) + name.size())) - kShared;
  };
  const double before = reserved();
  EXPECT_GT(before, 40e6);
  EXPECT_LT(before, 80e6);
  ASSERT_TRUE(client_->Delete("models/m0").ok());
  EXPECT_TRUE(WaitFor([&] { return reserved() == before / 2; }));
  EXPECT_TRUE(client_->Create(Declared("models/again")).ok());
}

TEST_F(ModelServiceTest, MaxPendingFollowsTheDiskAndStaysAsItWasDeclared) {
  const TemporaryFolder folder;
  const std::string data = (folder.path() / "data").string();
  v1::Model model = Declared("models/m");
  model.mutable_classes()->set_count(2000);
  model.mutable_label_grace()->set_seconds(60);
  Start({"--data-dir", data});
  v1::Model created;
  ASSERT_TRUE(client_->Create(model, &created).ok());
  EXPECT_LT(created.max_pending(), 100000);
  EXPECT_GT(created.max_pending(), 1000);
  v1::Model larger = model;
  larger.set_name("models/larger");
  larger.set_max_pending(100000);
  const grpc::Status refused = client_->Create(larger);
  EXPECT_EQ(refused.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("model.max_pending is 100000"));
  EXPECT_THAT(refused.error_message(), HasSubstr("calibd --model-disk-bytes"));
  client_.reset();
  ASSERT_EQ(server_->Terminate(), 0);

  // The model stays declared as before under limits that it does not fit any more.
  Start({"--data-dir", data, "--disk-bytes", "600000000", "--model-disk-bytes", "35000000"});
  v1::Model again;
  const grpc::Status status = client_->Create(model, &again);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(again.max_pending(), created.max_pending());
}

TEST_F(ModelServiceTest, ModelCountIsCapped) {
  Start({"--max-models", "1"});
  ASSERT_TRUE(client_->Create(Declared("models/a")).ok());
  const grpc::Status status = client_->Create(Declared("models/b"));
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(status), "TOO_MANY_MODELS");
}

TEST_F(ModelServiceTest, APageOfLongDeclarationsEndsEarlyAndNothingIsLeftOut) {
  Start();
  constexpr int kModels = 6;
  for (int i = 0; i < kModels; ++i) {
    v1::Model model;
    model.set_name("models/m" + std::to_string(i));
    for (int k = 0; k < 8000; ++k) {
      model.mutable_classes()->add_names("class " + std::to_string(k) + std::string(45, '-'));
    }
    ASSERT_TRUE(client_->Create(model).ok());
  }
  v1::ListModelsRequest request;
  int pages = 0;
  int models = 0;
  do {
    CallContext context;
    v1::ListModelsResponse response;
    ASSERT_TRUE(client_->models->ListModels(&context, request, &response).ok());
    EXPECT_LE(response.ByteSizeLong(), std::size_t{1} << 20);
    EXPECT_GE(response.models_size(), 1);
    models += response.models_size();
    ++pages;
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(models, kModels);
  EXPECT_GT(pages, 2);
}

}  // namespace
}  // namespace calibd::testing
