// The k-th write or sync of the store fails: nothing that was acknowledged is lost, nothing is
// counted twice, and the database is undamaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "calibd/client/client.h"
#include "calibd/core/generator.h"
#include "calibd/store/v1/store.pb.h"
#include "server/rows/row_codec.h"
#include "server/store/local/local_store.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::PredictionKind;

constexpr int kFaults = 50;

// CALIBD_TEST_FAULT_STEP: the distance between two values of k.
int Step(int step) {
  const char* const given = std::getenv("CALIBD_TEST_FAULT_STEP");
  return given == nullptr ? step : std::max(1, std::atoi(given));
}

struct Outcome {
  bool started = false;
  std::int64_t acknowledged = 0;
  absl::Status status;
  // Exit code of the server, which is ended by SIGTERM if it does not end by itself.
  std::optional<int> exit_code;
};

// Starts a server with this fault, creates a model and sends batches of one row.
Outcome RunWithFault(const std::string& data, const std::string& fault) {
  setenv("LD_PRELOAD", CALIBD_IO_FAULT_LIBRARY, 1);
  setenv("CALIBD_IO_FAULT", fault.c_str(), 1);
  // The sanitizer's library is loaded after the preloaded one.
  setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
  auto server = ServerProcess::Start({"--data-dir", data});
  unsetenv("LD_PRELOAD");
  unsetenv("CALIBD_IO_FAULT");
  unsetenv("ASAN_OPTIONS");
  Outcome outcome;
  if (server == nullptr) return outcome;
  outcome.started = true;
  {
    auto client = Client::Connect(server->grpc_address());
    v1::Model model;
    model.set_name("models/m");
    model.mutable_classes()->set_count(3);
    model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
    outcome.status = client.status();
    if (outcome.status.ok()) outcome.status = (*client)->CreateModel(model).status();
    if (outcome.status.ok()) {
      auto stream = (*client)->OpenStream("models/m", {.producer_id = "p",
                                                       .epoch = 1,
                                                       .max_rows_per_batch = 1,
                                                       .max_unacknowledged_batches = 2,
                                                       .stall_timeout = std::chrono::seconds(2)});
      outcome.status = stream.status();
      if (stream.ok()) {
        PredictionSet set;
        Generator::Create(GeneratorSpec::M1(3), 1)->Draw(30, set);
        outcome.status =
            (*stream)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels);
        if (outcome.status.ok()) outcome.status = (*stream)->Finish().status();
        outcome.acknowledged = (*stream)->counts().accepted_rows;
      }
    }
  }
  outcome.exit_code = server->Terminate();
  return outcome;
}

// Expects that the log contains batches 1, 2, ... of the producer, each once; returns their number.
std::int64_t BatchesInTheLog(const std::string& data) {
  const auto store = server::LocalStore::Open(data);
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return -1;
  auto check = server::Statement::Prepare(*server::Database::Open((*store)->path()),
                                          "PRAGMA integrity_check");
  EXPECT_TRUE(check.ok() && *check->Next());
  EXPECT_EQ(check->Text(0), "ok");
  std::int64_t batches = 0;
  EXPECT_TRUE((*store)
                  ->ReadLog([&](const server::StoredBatch& stored) {
                    store::v1::LogRow row;
                    EXPECT_TRUE(server::ParseRow(stored.data, row));
                    EXPECT_EQ(row.producer().sequence(), row.has_opened() ? 0 : ++batches);
                    return absl::OkStatus();
                  })
                  .ok());
  return batches;
}

// Returns whether a fault of this system call can make a call of a client fail. A short write is
// continued, and space for the log is allocated at the start.
bool FailsCalls(const std::string& call) { return call != "short" && call != "room"; }

// step: the distance between two values of k, because a fault that ends the server takes seconds.
void Sweep(const std::string& call, int error, int step) {
  int failed = 0;
  for (int k = 1; k <= kFaults; k += Step(step)) {
    const std::string fault = call + ":" + std::to_string(k) + ":" + std::to_string(error);
    SCOPED_TRACE(fault);
    const TemporaryFolder folder;
    const std::string data = (folder.path() / "data").string();
    const Outcome outcome = RunWithFault(data, fault);
    const std::int64_t batches = BatchesInTheLog(data);
    EXPECT_GE(batches, outcome.acknowledged);
    // On a slow machine the client may give up although the server continues.
    const bool slow = absl::IsDeadlineExceeded(outcome.status) && outcome.exit_code == 0;
    if (outcome.started && !outcome.status.ok() && !slow) {
      ++failed;
      // The server survives a full disk; any other error ends it.
      EXPECT_EQ(outcome.exit_code, absl::IsResourceExhausted(outcome.status) ? 0 : 1)
          << outcome.status;
    }
    auto server = ServerProcess::Start({"--data-dir", data});
    ASSERT_NE(server, nullptr);
    auto client = *Client::Connect(server->grpc_address());
    const auto answer = client->GetCalibration("models/m");
    EXPECT_EQ(answer.ok() ? answer->observations() : 0, batches);
  }
  // The faults occurred, and while the server was serving.
  EXPECT_EQ(failed > 0, FailsCalls(call));
}

TEST(IoFaultTest, AFailedWriteLosesNothing) { Sweep("write", EIO, 5); }
TEST(IoFaultTest, AFullDiskLosesNothing) { Sweep("write", ENOSPC, 2); }
TEST(IoFaultTest, AFullDiskWithoutRoomForAFileLosesNothing) { Sweep("room", ENOSPC, 2); }
TEST(IoFaultTest, AShortWriteLosesNothing) { Sweep("short", EIO, 5); }
TEST(IoFaultTest, AFailedSyncLosesNothing) { Sweep("sync", EIO, 5); }

}  // namespace
}  // namespace calibd::testing
