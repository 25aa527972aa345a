// The process ends while a file of the log is created or removed: everything is counted once.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <tuple>

#include "integration/engine/engine.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using server::Model;
using server::Settlement;

constexpr int kRetireFailpointClasses = 50;
// Snapshots are due after the first alarms and 8192 rows later; then files are removed.
constexpr std::int64_t kBatches = 80;
const Engine::Options kOptions{.matures = false, .segment_bytes = std::uint64_t{64} << 10};

// Sends to an idle model, and to one whose batches fill many files.
void SubmitAll(Engine& engine, bool needs_compaction) {
  for (const char* const name : {"models/idle", "models/busy"}) {
    v1::Model model = Declare(name, kRetireFailpointClasses);
    model.set_window(400);
    EXPECT_TRUE(engine.CreateModel(model).ok());
  }
  const std::shared_ptr<Model> idle = engine.Find("models/idle");
  const std::shared_ptr<Model> busy = engine.Find("models/busy");
  for (std::int64_t i = 1; needs_compaction && i <= 3; ++i) {
    engine.Submit(idle, {{"p", 1, i}}, MakeBatch(*idle, 20, static_cast<std::uint64_t>(i)));
  }
  for (std::int64_t i = 1; i <= kBatches; ++i) {
    const Settlement settlement =
        engine.Submit(busy, {{"p", 1, i}}, MakeBatch(*busy, 150, static_cast<std::uint64_t>(i)));
    EXPECT_NE(settlement.kind, Settlement::Kind::kRefused) << settlement.status;
  }
}

class RetireFailpointTest : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(RetireFailpointTest, EveryBatchIsCountedOnce) {
  const auto [point, at] = GetParam();
  // A file is removed as a whole once no batch of it is needed.
  const bool needs_compaction = std::string_view(point) != "retire";
  // The process that ends is this test, started again.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr char kFolder[] = "CALIBD_TEST_FOLDER";
  std::optional<TemporaryFolder> own;
  if (std::getenv(kFolder) == nullptr) {
    own.emplace();
    setenv(kFolder, own->path().c_str(), 1);
  }
  const std::filesystem::path folder = std::getenv(kFolder);
  EXPECT_EXIT(
      {
        setenv("CALIBD_FAILPOINT", (std::string(point) + ":" + std::to_string(at)).c_str(), 1);
        Engine engine(folder / "dies", kOptions);
        SubmitAll(engine, needs_compaction);
      },
      ::testing::KilledBySignal(SIGKILL), "");
  unsetenv(kFolder);
  Engine whole(folder / "whole", kOptions);
  SubmitAll(whole, needs_compaction);
  // Settled batches are duplicates, the others are counted now.
  for (int start = 0; start < 2; ++start) {
    Engine engine(folder / "dies", kOptions);
    SubmitAll(engine, needs_compaction);
    for (const char* const name : {"models/idle", "models/busy"}) {
      const std::shared_ptr<Model> model = engine.Find(name);
      Engine::State now = engine.StateOf(model, {"p"});
      Engine::State expected = whole.StateOf(whole.Find(name), {"p"});
      // Equal except for the arrival times.
      store::v1::ModelState saved;
      for (std::string* const one : {&now.saved, &expected.saved}) {
        ASSERT_TRUE(saved.ParseFromString(*one));
        saved.clear_last_observation_time_us();
        saved.mutable_monitor()->clear_last_counted_time_us();
        for (store::v1::Alarm& alarm : *saved.mutable_monitor()->mutable_alarms()) {
          alarm.clear_raise_time_us();
        }
        store::v1::ErrorState& error = *saved.mutable_monitor()->mutable_error();
        error.mutable_since_start()->clear_start_time_us();
        error.mutable_sums()->clear_start_time_us();
        for (auto& mark : *error.mutable_marks()) mark.clear_start_time_us();
        saved.clear_history();
        *one = saved.SerializeAsString();
      }
      EXPECT_TRUE(now == expected) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Points, RetireFailpointTest,
                         // The steps of the removal of a file and of a compaction; a new file
                         // before its first frame; an incomplete frame.
                         ::testing::Combine(::testing::Values("retire", "compact", "segment",
                                                              "torn"),
                                            ::testing::Values(1, 2, 3, 4, 5, 6, 20)),
                         [](const auto& parameter) {
                           return std::string(std::get<0>(parameter.param)) + "_" +
                                  std::to_string(std::get<1>(parameter.param));
                         });

}  // namespace
}  // namespace calibd::testing
