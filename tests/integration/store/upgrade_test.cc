// Databases of older formats: kept as files, made by the calibd of their time.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "calibd/client/client.h"
#include "server/store/sqlite.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::PredictionKind;

// What that calibd answered: the estimates, by model and block size.
TEST(UpgradeTest, Format1GoesOn) {
  const std::filesystem::path golden = std::filesystem::path(CALIBD_GOLDEN_DIR) / "store";
  const TemporaryFolder folder;
  const std::filesystem::path data = folder.path() / "data";
  std::filesystem::create_directories(data);
  std::filesystem::copy_file(golden / "format_1.db", data / "calibd.db");
  const auto expected = nlohmann::json::parse(std::ifstream(golden / "format_1.json"));
  for (int start = 0; start < 2; ++start) {
    const auto server = ServerProcess::Start({"--data-dir", data.string()});
    ASSERT_NE(server, nullptr);
    auto client = Client::Connect(server->grpc_address());
    ASSERT_TRUE(client.ok());
    for (const auto& [name, answer] : expected.items()) {
      const auto now = (*client)->GetCalibration("models/" + name);
      ASSERT_TRUE(now.ok()) << now.status();
      EXPECT_EQ(std::to_string(now->observations()), answer["observations"].dump());
      ASSERT_EQ(static_cast<std::size_t>(now->estimates_size()), answer["estimates"].size());
      for (int i = 0; i < now->estimates_size(); ++i) {
        const auto& estimate = answer["estimates"][static_cast<std::size_t>(i)];
        EXPECT_EQ(now->estimates(i).skce(), estimate["skce"].get<double>()) << name;
        EXPECT_EQ(now->estimates(i).standard_deviation(),
                  estimate["standard_deviation"].get<double>());
        EXPECT_EQ(now->estimates(i).noise_floor().standard_deviation(),
                  estimate["noise_floor"]["standard_deviation"].get<double>());
      }
    }
    // A producer goes on with its numbering.
    auto stream = (*client)->OpenStream("models/warming", {.producer_id = "c"});
    ASSERT_TRUE(stream.ok()) << stream.status();
    client->reset();
    stream->reset();
    EXPECT_EQ(server->Terminate(), 0);
  }
  auto database = server::Database::Open((data / "calibd.db").string());
  ASSERT_TRUE(database.ok());
  EXPECT_EQ(*database->QueryInteger("PRAGMA user_version"), 2);
  EXPECT_EQ(*database->QueryInteger("SELECT last_sequence FROM cursors WHERE producer_id = 'a'"),
            2);
}

}  // namespace
}  // namespace calibd::testing
