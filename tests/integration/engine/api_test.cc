// The functions of the API without a transport: a sink records the messages.
#include "server/api/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "integration/engine/engine.h"
#include "support/memory_store.h"

namespace calibd::testing {
namespace {

using server::Api;
using server::Reply;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Response>
class RecordingSink final : public server::Sink<Response> {
 public:
  explicit RecordingSink(const char* method)
      : server::Sink<Response>({.method = method,
                                .caller = "test",
                                .owner = "test",
                                .address = "test",
                                .identity = server::Identity::Unrestricted()}) {}

  bool Send(Response response) override {
    const std::lock_guard lock(mutex_);
    if (!status_.has_value()) messages_.push_back(std::move(response));
    return !status_.has_value();
  }
  void SendLast(Response response) override {
    Send(std::move(response));
    End(absl::OkStatus());
  }
  void End(absl::Status status) override {
    std::function<void()> on_end;
    {
      const std::lock_guard lock(mutex_);
      if (status_.has_value()) return;
      status_ = std::move(status);
      on_end = std::exchange(on_end_, nullptr);
      ended_.notify_all();
    }
    if (on_end) on_end();
  }
  [[nodiscard]] bool ended() const override {
    const std::lock_guard lock(mutex_);
    return status_.has_value();
  }
  [[nodiscard]] bool idle() const override { return !ended(); }
  void OnTaken(std::function<void()> /*on_taken*/) override {}
  void OnEnd(std::function<void()> on_end) override {
    const std::lock_guard lock(mutex_);
    on_end_ = std::move(on_end);
  }

  // Waits for the end of the call and returns its status.
  absl::Status Await() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return status_.has_value(); });
    return *status_;
  }
  // Returns the last message after the call has ended successfully.
  Response Answered() {
    EXPECT_TRUE(Await().ok()) << Await();
    return messages_.empty() ? Response() : messages_.back();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<Response> messages_;
  std::optional<absl::Status> status_;
  std::function<void()> on_end_;
};

class ApiTest : public ::testing::Test {
 protected:
  ~ApiTest() override {
    api_.Drain();
    small_computers_.Stop();
    computers_.Stop();
    api_.Stop();
    history_.Stop();
  }

  template <typename Request, typename Response, typename... Extra>
  std::shared_ptr<RecordingSink<Response>> Call(
      const server::Method<absl::Status (Api::*)(const Request&, const Reply<Response>&, Extra...)>&
          method,
      const Request& request) {
    auto sink = std::make_shared<RecordingSink<Response>>(method.name);
    api_.Serve(method, request, Reply<Response>(sink));
    return sink;
  }

  Engine engine_{std::make_unique<MemoryStore>(std::make_shared<MemoryDisk>()), {}};
  server::ThreadPool computers_{"test-compute", 1};
  server::ThreadPool small_computers_{"test-small", 1};
  server::WindowJobs jobs_{
      {.max_queued = 1, .memory_bytes = std::size_t{1} << 30, .operations = 1e12},
      computers_,
      1,
      small_computers_};
  server::OpenStreams streams_{1, 1};
  server::HistoryReader history_{engine_.store()};
  server::AuditLog audit_;
  server::AccessControl access_{audit_};
  server::Health health_{"", [this] { return engine_.commits().refusal(); },
                         [] { return absl::OkStatus(); }};
  Api api_{{.registry = engine_.registry(),
            .commits = engine_.commits(),
            .jobs = jobs_,
            .ingestor = engine_.ingestor(),
            .streams = streams_,
            .history = history_,
            .access = access_,
            .audit = audit_,
            .writers = computers_,
            .health = health_,
            .model_memory_bytes = std::size_t{256} << 20,
            .model_disk_bytes = std::size_t{256} << 20,
            .max_watchers = 1}};
};

TEST_F(ApiTest, AStoreThatCannotBeBackedUpSaysSo) {
  const absl::Status backup = Call(server::kBackup, v1::BackupRequest())->Await();
  EXPECT_EQ(backup.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(backup.message(), "a store in memory cannot be backed up or verified");
  // The next call is answered at once, because a failed backup is no longer under way.
  EXPECT_EQ(Call(server::kVerify, v1::VerifyRequest())->Await(), backup);
}

TEST_F(ApiTest, AnExceptionOfAComputationEndsOnlyThat) {
  ASSERT_TRUE(engine_.CreateModel(Declare("models/m")).ok());
  const auto outcome_of = [this](std::function<absl::Status()> compute) {
    server::WindowRequest request;
    request.model = engine_.Find("models/m");
    request.min_observations = 0;
    request.needs_bandwidth = false;
    request.cost = [](std::size_t /*n*/, std::size_t /*threads*/) { return server::JobCost(); };
    request.compute = [compute = std::move(compute)](const server::WindowSample& /*sample*/,
                                                     const RunControl& /*control*/) {
      return compute();
    };
    const auto ended = std::make_shared<std::promise<absl::Status>>();
    server::WindowJobs::Watcher watcher;
    watcher.done = [ended](const absl::Status& status) { ended->set_value(status); };
    EXPECT_TRUE(jobs_.Submit(std::move(request), std::move(watcher)).ok());
    return ended->get_future().get();
  };
  EXPECT_EQ(outcome_of([]() -> absl::Status { throw std::out_of_range("missing"); }).code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(outcome_of([]() -> absl::Status { throw std::bad_alloc(); }).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(outcome_of([] { return absl::OkStatus(); }).ok());
}

// A job of this many operations, for an owner.
server::WindowRequest JobOf(const std::shared_ptr<server::Model>& model, const std::string& owner,
                            double operations, std::function<void()> compute) {
  server::WindowRequest request;
  request.model = model;
  request.owner = owner;
  request.min_observations = 0;
  request.needs_bandwidth = false;
  request.cost = [operations](std::size_t /*n*/, std::size_t /*threads*/) {
    return server::JobCost{.memory_bytes = 0, .operations = operations};
  };
  request.compute = [compute = std::move(compute)](const server::WindowSample& /*sample*/,
                                                   const RunControl& /*control*/) {
    compute();
    return absl::OkStatus();
  };
  return request;
}

TEST_F(ApiTest, OwnersShareTheJobsAndSmallJobsDoNotWaitForLargeOnes) {
  ASSERT_TRUE(engine_.CreateModel(Declare("models/m")).ok());
  const std::shared_ptr<server::Model> model = engine_.Find("models/m");
  // Ten places for large jobs.
  server::WindowJobs jobs(
      {.max_queued = 9, .memory_bytes = std::size_t{1} << 30, .operations = 1e12}, computers_, 1,
      small_computers_);
  std::promise<void> begin;
  const std::shared_future<void> begun = begin.get_future().share();
  std::mutex mutex;
  std::condition_variable changed;
  std::string order;
  std::size_t ended = 0;
  const auto submit = [&](const std::string& owner, double operations, const std::string& name,
                          bool waits) {
    server::WindowJobs::Watcher watcher;
    watcher.done = [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      const std::lock_guard lock(mutex);
      ++ended;
      changed.notify_all();
    };
    return jobs
        .Submit(JobOf(model, owner, operations,
                      [&, name, waits] {
                        if (waits) begun.wait();
                        const std::lock_guard lock(mutex);
                        order += name;
                      }),
                std::move(watcher))
        .status();
  };
  std::size_t accepted = 0;
  absl::Status refused;
  for (const char* const owner : {"a", "b"}) {
    while ((refused = submit(owner, 1e12, owner, true)).ok()) ++accepted;
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("of this client"));
  }
  EXPECT_EQ(accepted, 9);
  // The share of the only owner of small jobs is its own.
  EXPECT_TRUE(submit("a", 1e9, "small ", false).ok());
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return ended == 1; }));
  }
  begin.set_value();
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return ended == 10; }));
  }
  EXPECT_EQ(order, "small abababaaa");
  // All places are free again.
  EXPECT_TRUE(submit("b", 1e12, "b", false).ok());
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return ended == 11; }));
  EXPECT_EQ(jobs.counts().completed, 11);
  EXPECT_EQ(jobs.counts().queued, 0);
}

TEST_F(ApiTest, AJobIsAdmittedWithTheMostSecondsThatItMayTake) {
  ASSERT_TRUE(engine_.CreateModel(Declare("models/m")).ok());
  const auto admitted = [this](std::optional<double> seconds) {
    server::WindowRequest request = JobOf(engine_.Find("models/m"), "a", 2e9, [] {});
    request.cost = [seconds](std::size_t /*n*/, std::size_t /*threads*/) {
      return server::JobCost{.memory_bytes = 0, .operations = 2e9, .seconds = seconds};
    };
    // When it is submitted, and when it begins.
    std::vector<double> asked;
    request.admit = [&asked](double most) -> absl::StatusOr<std::shared_ptr<void>> {
      asked.push_back(most);
      return nullptr;
    };
    std::promise<absl::Status> ended;
    server::WindowJobs::Watcher watcher;
    watcher.done = [&ended](const absl::Status& status) { ended.set_value(status); };
    EXPECT_TRUE(jobs_.Submit(std::move(request), std::move(watcher)).ok());
    EXPECT_TRUE(ended.get_future().get().ok());
    return asked;
  };
  EXPECT_THAT(admitted(std::nullopt), ElementsAre(DoubleEq(2), DoubleEq(2)));
  EXPECT_THAT(admitted(0.25), ElementsAre(0.25, 0.25));
}

TEST_F(ApiTest, ServesAModelFromItsCreationToItsDeletion) {
  v1::CreateModelRequest create;
  *create.mutable_model() = Declare("models/m");
  EXPECT_EQ(Call(server::kCreateModel, create)->Answered().model().name(), "models/m");

  v1::ObserveRequest observe;
  observe.set_model("models/m");
  for (int i = 0; i < 200; ++i) {
    for (const double p : {0.4, 0.3, 0.2, 0.1}) {
      observe.mutable_observations()->mutable_probabilities()->add_values(p);
    }
    observe.mutable_observations()->add_labels(i % 4);
  }
  EXPECT_EQ(Call(server::kObserve, observe)->Answered().accepted_rows(), 200);

  v1::GetCalibrationRequest get;
  get.set_model("models/m");
  EXPECT_EQ(Call(server::kGetCalibration, get)->Answered().observations(), 200);

  // A stream that ends when the model is deleted.
  v1::WatchCalibrationRequest watch;
  watch.set_model("models/m");
  const auto watching = Call(server::kWatchCalibration, watch);
  v1::RunTestRequest test;
  test.set_model("models/m");
  test.set_replicates(99);
  EXPECT_EQ(Call(server::kRunTest, test)->Answered().result().replicates(), 99);

  v1::DeleteModelRequest remove;
  remove.set_name("models/m");
  for (const char* const other : {"", "models/M", "m"}) {
    remove.set_confirmation(other);
    EXPECT_TRUE(absl::IsInvalidArgument(Call(server::kDeleteModel, remove)->Await())) << other;
  }
  remove.set_confirmation("models/m");
  EXPECT_TRUE(Call(server::kDeleteModel, remove)->Await().ok());
  EXPECT_TRUE(absl::IsNotFound(watching->Await()));
  EXPECT_TRUE(absl::IsNotFound(Call(server::kGetCalibration, get)->Await()));
}

TEST_F(ApiTest, NamesTheFieldOfAnInvalidModel) {
  v1::GetModelRequest get;
  get.set_name("m");
  EXPECT_THAT(std::string(Call(server::kGetModel, get)->Await().message()), HasSubstr("name is "));
  v1::GetHistoryRequest history;
  history.set_model("m");
  EXPECT_THAT(std::string(Call(server::kGetHistory, history)->Await().message()),
              HasSubstr("model is "));
}

TEST_F(ApiTest, AnErrorOfAFunctionEndsItsCall) {
  v1::CreateModelRequest create;
  *create.mutable_model() = Declare("models/m");
  ASSERT_TRUE(Call(server::kCreateModel, create)->Await().ok());
  v1::EvaluateRequest evaluate;
  evaluate.set_model("models/m");
  // There are no observations.
  EXPECT_TRUE(absl::IsFailedPrecondition(Call(server::kEvaluate, evaluate)->Await()));
  evaluate.set_window(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(Call(server::kEvaluate, evaluate)->Await()));
}

}  // namespace
}  // namespace calibd::testing
