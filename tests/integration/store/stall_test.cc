// A disk that does not respond: the server accepts only as much as fits its queue, and acknowledges
// nothing. When the disk responds, everything is counted once.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "calibd/client/client.h"
#include "calibd/core/generator.h"
#include "support/http_get.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::PredictionKind;

constexpr std::size_t kClasses = 100;
constexpr std::size_t kRows = 1000;
constexpr std::int64_t kBatches = 120;

// Returns the number after `key` at the start of a line, or -1 if no line has it.
std::int64_t ValueOf(const std::string& key, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(key, 0) == 0) {
      return static_cast<std::int64_t>(std::stod(line.substr(key.size())));
    }
  }
  return -1;
}

// Returns the resident memory in KiB.
std::int64_t ResidentMemory(const ServerProcess& server) {
  std::ifstream file("/proc/" + std::to_string(server.process().pid()) + "/status");
  std::ostringstream text;
  text << file.rdbuf();
  return ValueOf("VmRSS:", text.str());
}

std::int64_t Metric(const ServerProcess& server, const std::string& name) {
  return ValueOf(name + " ", HttpGet(server.http_address(), "/metrics").body);
}

TEST(StallTest, AStalledDiskNeedsBoundedMemoryAndLosesNothing) {
  const TemporaryFolder folder;
  const std::filesystem::path stall = folder.path() / "stall";
  setenv("LD_PRELOAD", CALIBD_IO_FAULT_LIBRARY, 1);
  setenv("CALIBD_IO_STALL", stall.c_str(), 1);
  // The sanitizer's library is loaded after the preloaded one.
  setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
  auto server = ServerProcess::Start({"--data-dir", (folder.path() / "data").string()});
  unsetenv("LD_PRELOAD");
  unsetenv("CALIBD_IO_STALL");
  unsetenv("ASAN_OPTIONS");
  ASSERT_NE(server, nullptr);
  auto client = *Client::Connect(server->grpc_address());
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(kClasses);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  // The window is small in comparison with the queue.
  model.set_window(1000);
  ASSERT_TRUE(client->CreateModel(model).ok());
  PredictionSet set;
  Generator::Create(GeneratorSpec::M1(kClasses), 1)->Draw(kRows, set);
  auto stream = *client->OpenStream("models/m", {.producer_id = "p", .epoch = 1});
  const auto send = [&]() -> absl::Status {
    absl::Status status =
        stream->Send(PredictionKind::kProbabilities, set.probabilities, set.labels);
    return status.ok() ? stream->Flush() : status;
  };
  // Warms up everything that allocates memory once.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(send().ok());
  }
  ASSERT_TRUE(WaitFor([&] { return stream->counts().accepted_rows == 3 * kRows; }));
  const std::int64_t before = ResidentMemory(*server);
  ASSERT_GT(before, 0);

  std::ofstream(stall).flush();
  absl::Status sent;
  std::atomic<bool> ended = false;
  std::thread sender([&] {
    for (std::int64_t i = 0; i < kBatches && sent.ok(); ++i) sent = send();
    if (sent.ok()) sent = stream->Finish().status();
    ended = true;
  });
  const std::int64_t limit = Metric(*server, "calibd_ingest_queue_limit_bytes");
  EXPECT_TRUE(WaitFor([&] { return Metric(*server, "calibd_ingest_waiting_batches") == 1; }));
  std::int64_t queued = 0;
  auto same_since = std::chrono::steady_clock::now();
  EXPECT_TRUE(WaitFor([&] {
    const auto now = std::chrono::steady_clock::now();
    if (const std::int64_t bytes = Metric(*server, "calibd_ingest_queue_bytes"); bytes != queued) {
      queued = bytes;
      same_since = now;
    }
    return now - same_since >= std::chrono::seconds(1);
  }));
  EXPECT_LE(queued, limit / 2);
  const std::int64_t grown = ResidentMemory(*server) - before;
  RecordProperty("grown_kib", std::to_string(grown));
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(grown, 64 << 10);
#endif
  EXPECT_EQ(stream->counts().accepted_rows, 3 * kRows);
  EXPECT_FALSE(ended);
  // Queries are still answered.
  EXPECT_EQ(client->GetCalibration("models/m")->observations(), 3 * kRows);

  std::filesystem::remove(stall);
  sender.join();
  EXPECT_TRUE(sent.ok()) << sent;
  constexpr auto kAll = (kBatches + 3) * static_cast<std::int64_t>(kRows);
  EXPECT_EQ(stream->counts().accepted_rows, kAll);
  EXPECT_EQ(stream->counts().reconnects, 0);
  EXPECT_EQ(client->GetCalibration("models/m")->observations(), kAll);
  EXPECT_EQ(Metric(*server, "calibd_ingest_queue_bytes"), 0);
  EXPECT_EQ(server->Terminate(), 0);
}

}  // namespace
}  // namespace calibd::testing
