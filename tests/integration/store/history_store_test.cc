// A long history on disk, as the real server returns it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "calibd/client/client.h"
#include "integration/server/service_client.h"
#include "server/state/history.h"
#include "server/store/local/sqlite.h"
#include "support/http_get.h"
#include "support/sealed_database.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using client::Client;
using server::HistoryBucket;
using ::testing::HasSubstr;

constexpr std::int64_t kFirstMinute = 1700000000 / 60;

class HistoryStoreTest : public ::testing::Test {
 protected:
  void Start() {
    server_ = ServerProcess::Start({"--data-dir", data_});
    ASSERT_NE(server_, nullptr);
    auto client = Client::Connect(server_->grpc_address());
    ASSERT_TRUE(client.ok());
    client_ = *std::move(client);
  }
  void Stop() {
    client_.reset();
    EXPECT_EQ(server_->Terminate(), 0);
  }
  void Execute(const std::string& sql) const {
    auto database = server::Database::Open(data_ + "/calibd.db");
    ASSERT_TRUE(database.ok());
    const absl::Status status = database->Execute(sql.c_str());
    ASSERT_TRUE(status.ok()) << status;
  }
  // Stores minutes with 1, 2, 3, ... rejected rows.
  void PutMinutes(std::int64_t count) const {
    std::vector<std::string> inserts;
    for (std::int64_t i = 0; i < count; ++i) {
      HistoryBucket bucket;
      bucket.rejected_rows = i + 1;
      inserts.push_back(absl::StrCat("INSERT INTO history VALUES (1, 1, ", 60 * (kFirstMinute + i),
                                     ", 0, x'", absl::BytesToHexString(EncodeHistoryBucket(bucket)),
                                     "', 0)"));
    }
    const absl::Status status = ChangeDatabase(data_ + "/calibd.db", inserts);
    ASSERT_TRUE(status.ok()) << status;
  }

  const TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(HistoryStoreTest, PagesHoldEachBucketOnceAndInOrder) {
  constexpr std::int64_t kMinutes = 23;
  Start();
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(10);
  ASSERT_TRUE(client_->CreateModel(model).ok());
  Stop();
  PutMinutes(kMinutes);
  Start();
  // The open minute, which is in no table yet, comes last.
  ServiceClient service(server_->grpc_address());
  v1::ObserveRequest observe;
  observe.set_model("models/m");
  *observe.mutable_observations() = ToProto(Draw(5).view());
  ASSERT_TRUE(service.Observe(observe).ok());
  for (const int page_size : {1, 5, 8, 23, 24, 25}) {
    v1::GetHistoryRequest request;
    request.set_model("models/m");
    request.set_resolution(v1::GetHistoryRequest::MINUTE);
    request.set_page_size(page_size);
    std::vector<v1::HistoryBucket> buckets;
    std::string total;
    int pages = 0;
    do {
      v1::GetHistoryResponse page;
      CallContext context;
      const grpc::Status status = service.calibration->GetHistory(&context, request, &page);
      ASSERT_TRUE(status.ok()) << status.error_message();
      ++pages;
      ASSERT_LE(page.buckets_size(), page_size);
      ASSERT_TRUE(page.buckets_size() == page_size || page.next_page_token().empty());
      buckets.insert(buckets.end(), page.buckets().begin(), page.buckets().end());
      // The total covers the range on every page.
      EXPECT_EQ(page.total().rejected_rows(), kMinutes * (kMinutes + 1) / 2);
      EXPECT_EQ(page.total().observations(), 5);
      request.set_page_token(page.next_page_token());
      ASSERT_LE(pages, kMinutes + 1);
    } while (!request.page_token().empty());
    EXPECT_EQ(pages, (kMinutes + page_size) / page_size) << page_size;
    ASSERT_EQ(buckets.size(), static_cast<std::size_t>(kMinutes) + 1) << page_size;
    for (std::int64_t i = 0; i < kMinutes; ++i) {
      const v1::HistoryBucket& bucket = buckets[static_cast<std::size_t>(i)];
      EXPECT_EQ(bucket.rejected_rows(), i + 1);
      EXPECT_EQ(bucket.start_time().seconds(), 60 * (kFirstMinute + i));
    }
    EXPECT_EQ(buckets.back().observations(), 5);
  }
}

TEST_F(HistoryStoreTest, ALongHistoryHasPagesAndDamageIsReported) {
  constexpr std::int64_t kMinutes = 2500;
  Start();
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(3);
  ASSERT_TRUE(client_->CreateModel(model).ok());
  Stop();
  PutMinutes(kMinutes);
  Start();
  v1::GetHistoryRequest request;
  request.set_model("models/m");
  request.set_resolution(v1::GetHistoryRequest::MINUTE);
  const auto history = client_->GetHistory(request);
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->buckets_size(), kMinutes);
  for (int i = 0; i < history->buckets_size(); ++i) {
    ASSERT_EQ(history->buckets(i).rejected_rows(), i + 1);
    ASSERT_EQ(history->buckets(i).start_time().seconds(), 60 * (kFirstMinute + i));
  }
  EXPECT_EQ(history->total().rejected_rows(), kMinutes * (kMinutes + 1) / 2);
  EXPECT_TRUE(history->next_page_token().empty());

  request.mutable_start_time()->set_seconds(60 * (kFirstMinute + 2000));
  request.mutable_end_time()->set_seconds(60 * (kFirstMinute + 2002));
  const auto two = client_->GetHistory(request);
  ASSERT_TRUE(two.ok()) << two.status();
  ASSERT_EQ(two->buckets_size(), 2);
  EXPECT_EQ(two->total().rejected_rows(), 2001 + 2002);

  EXPECT_EQ(client_->Verify()->problems_size(), 0);
  EXPECT_THAT(HttpGet(server_->http_address(), "/metrics").body,
              HasSubstr("\ncalibd_store_damaged 0\n"));
  Stop();
  Execute(
      absl::StrCat("UPDATE history SET data = x'ff' WHERE start_s = ", 60 * (kFirstMinute + 2001)));
  Start();
  // The damage is detected although nobody reads the row.
  EXPECT_TRUE(WaitFor([this] {
    return HttpGet(server_->http_address(), "/readyz").body.find("the store is damaged") !=
           std::string::npos;
  }));
  EXPECT_THAT(HttpGet(server_->http_address(), "/metrics").body,
              HasSubstr("\ncalibd_store_damaged 1\n"));
  EXPECT_THAT(server_->process().Output(), HasSubstr("has a damaged row in table history"));
  EXPECT_EQ(client_->GetHistory(request).status().code(), absl::StatusCode::kDataLoss);
  const auto verification = client_->Verify();
  ASSERT_TRUE(verification.ok());
  ASSERT_EQ(verification->problems_size(), 1);
  EXPECT_THAT(verification->problems(0),
              HasSubstr("models/m: the store is damaged: calibd.db has a damaged row"));

  ASSERT_TRUE(client_->DeleteModel("models/m", "models/m").ok());
  EXPECT_EQ(client_->GetHistory(request).status().code(), absl::StatusCode::kNotFound);
  Stop();
  auto database = server::Database::Open(data_ + "/calibd.db");
  EXPECT_EQ(*database->QueryInteger("SELECT count(*) FROM history"), 0);
}

}  // namespace
}  // namespace calibd::testing
