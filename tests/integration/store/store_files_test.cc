// Files of a store that are missing, empty, or of another store: calibd does not start, names the
// file and says what to do, and changes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibd/client/client.h"
#include "server/ingest/verification.h"
#include "server/store/local/local_store.h"
#include "support/http_get.h"
#include "support/server_process.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::PredictionKind;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSegment[] = "log-0000000000000001";

// The size and the beginning of all files of calibd. The shared memory holds no data, and an empty
// write-ahead log is equivalent to a missing one.
std::map<std::string, std::pair<std::uintmax_t, std::string>> Contents(
    const std::filesystem::path& folder) {
  constexpr std::size_t kRead = 1 << 20;
  std::map<std::string, std::pair<std::uintmax_t, std::string>> contents;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::uintmax_t size = entry.file_size();
    if (name == "calibd.db-shm" || (name == "calibd.db-wal" && size == 0)) continue;
    auto& [kept_size, bytes] = contents[name];
    kept_size = size;
    bytes.resize(std::min<std::size_t>(size, kRead));
    std::ifstream(entry.path(), std::ios::binary)
        .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  return contents;
}

// Damages the files, given the folder and the folder of another store. file: the file that the
// error names.
struct Damage {
  const char* name;
  std::function<void(const std::filesystem::path&, const std::filesystem::path&)> apply;
  const char* file;
};

std::vector<Damage> AllDamage() {
  const auto remove = [](const char* file) {
    return [file](const std::filesystem::path& data, const std::filesystem::path&) {
      std::filesystem::remove(data / file);
    };
  };
  const auto cut = [](const char* file) {
    return [file](const std::filesystem::path& data, const std::filesystem::path&) {
      std::filesystem::resize_file(data / file, 0);
    };
  };
  const auto replace = [](const char* file) {
    return [file](const std::filesystem::path& data, const std::filesystem::path& other) {
      std::filesystem::remove(data / "calibd.db-wal");
      std::filesystem::copy_file(other / file, data / file,
                                 std::filesystem::copy_options::overwrite_existing);
    };
  };
  return {{"NoDatabase", remove("calibd.db"), "calibd.db"},
          {"EmptyDatabase", cut("calibd.db"), "calibd.db"},
          {"ForeignDatabase", replace("calibd.db"), "calibd.db"},
          {"OnlyTheLog",
           [](const std::filesystem::path& data, const std::filesystem::path&) {
             for (const char* file : {"calibd.db", "calibd.db-wal", "calibd.db-shm", "store"}) {
               std::filesystem::remove(data / file);
             }
           },
           "calibd.db"},
          {"NoStoreFile", remove("store"), "store"},
          {"EmptyStoreFile", cut("store"), "store"},
          {"ForeignStoreFile", replace("store"), "store"},
          {"NoSegment", remove(kSegment), kSegment},
          {"EmptySegment", cut(kSegment), kSegment},
          {"ForeignSegment", replace(kSegment), kSegment}};
}

// Parameters: whether the server was killed, and the damage.
class StoreFilesTest : public ::testing::TestWithParam<std::tuple<bool, Damage>> {
 protected:
  // Makes a store with one model and some observations; returns the answer to it.
  static std::string MakeStore(const std::filesystem::path& data, bool killed) {
    const auto server = ServerProcess::Start({"--data-dir", data.string()});
    if (server == nullptr) return "no server";
    std::string answer;
    {
      const auto client = *Client::Connect(server->grpc_address());
      v1::Model model;
      model.set_name("models/m");
      model.mutable_classes()->set_count(2);
      EXPECT_TRUE(client->CreateModel(model).ok());
      auto stream = client->OpenStream("models/m", {.producer_id = "p"});
      EXPECT_TRUE(stream.ok());
      const std::vector<double> probabilities{0.25, 0.75, 0.5, 0.5};
      const std::vector<std::int32_t> labels{1, 0};
      EXPECT_TRUE((*stream)->Send(PredictionKind::kProbabilities, probabilities, labels).ok());
      EXPECT_TRUE((*stream)->Finish().ok());
      answer = Answer(*client);
    }
    if (killed) {
      server->Kill();
    } else {
      EXPECT_EQ(server->Terminate(), 0);
    }
    return answer;
  }
  static std::string Answer(Client& client) {
    const auto answer = client.GetCalibration("models/m");
    return answer.ok() ? std::to_string(answer->observations()) : answer.status().ToString();
  }
};

TEST_P(StoreFilesTest, IsRefusedAndNothingIsChanged) {
  const auto& [killed, damage] = GetParam();
  const TemporaryFolder folder;
  const std::filesystem::path data = folder.path() / "data";
  const std::filesystem::path other = folder.path() / "other";
  const std::filesystem::path kept = folder.path() / "kept";
  const std::string answer = MakeStore(data, killed);
  EXPECT_EQ(answer, "2");
  MakeStore(other, /*killed=*/false);
  std::filesystem::copy(data, kept);
  damage.apply(data, other);
  const auto before = Contents(data);
  for (int i = 0; i < 2; ++i) {
    const FinishedRun run = RunCalibd(
        {"--data-dir", data.string(), "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"});
    EXPECT_EQ(run.exit_code, 1) << run.output;
    EXPECT_THAT(run.output, HasSubstr("the store is damaged: "));
    EXPECT_THAT(run.output, HasSubstr(damage.file));
    EXPECT_THAT(run.output, HasSubstr("restore a backup"));
    EXPECT_THAT(run.output, Not(HasSubstr("serving")));
    EXPECT_TRUE(Contents(data) == before) << "a refused store was changed";
  }
  // With its own files, the store works again.
  std::filesystem::remove_all(data);
  std::filesystem::rename(kept, data);
  const auto server = ServerProcess::Start({"--data-dir", data.string()});
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Answer(**Client::Connect(server->grpc_address())), answer);
}

INSTANTIATE_TEST_SUITE_P(Files, StoreFilesTest,
                         ::testing::Combine(::testing::Bool(), ::testing::ValuesIn(AllDamage())),
                         [](const auto& parameter) {
                           return std::string(std::get<1>(parameter.param).name) +
                                  (std::get<0>(parameter.param) ? "AfterAKill" : "");
                         });

// Writes to a removed file succeed, but their rows are lost.
TEST(RemovedFileTest, EndsTheServer) {
  using Path = std::filesystem::path;
  const auto remove = [](const char* file) {
    return [file](const Path& data) { std::filesystem::remove(data / file); };
  };
  const auto replace = [](const char* file) {
    return [file](const Path& data) {
      std::filesystem::copy_file(data / file, data / "copy");
      std::filesystem::rename(data / "copy", data / file);
    };
  };
  const std::vector<std::pair<const char*, std::function<void(const Path&)>>> changes{
      {"calibd.db", remove("calibd.db")},
      {"store", remove("store")},
      {kSegment, remove(kSegment)},
      {"calibd.db", replace("calibd.db")},
      {"calibd.db-wal", remove("calibd.db-wal")},
      {"store", replace("store")},
      {kSegment, replace(kSegment)},
      {"store", [](const Path& data) { std::filesystem::remove_all(data); }},
  };
  for (const auto& [file, change] : changes) {
    const TemporaryFolder folder;
    const Path data = folder.path() / "data";
    const auto server = ServerProcess::Start({"--data-dir", data.string()});
    ASSERT_NE(server, nullptr);
    EXPECT_EQ(HttpGet(server->http_address(), "/readyz").status, 200);
    change(data);
    EXPECT_EQ(server->WaitForExit(), 1) << file;
    const std::string output = server->process().Output();
    EXPECT_THAT(output, HasSubstr("the store is damaged: " + std::string(file) +
                                  " was removed or replaced while calibd ran"));
    EXPECT_THAT(output, HasSubstr("the store failed, calibd acknowledges nothing more: "));
  }
}

// They open the files by name, and would otherwise not notice that a file was replaced by a copy.
TEST(RemovedFileTest, IsDetectedByAVerificationAndABackup) {
  const std::string copy = "copy";
  for (const char* const file : {"calibd.db", "calibd.db-wal", kSegment}) {
    for (const bool is_backup : {false, true}) {
      const TemporaryFolder folder;
      const std::filesystem::path data = folder.path() / "data";
      auto store = server::LocalStore::Open(data.string());
      ASSERT_TRUE(store.ok()) << store.status();
      ASSERT_TRUE((*store)->Begin().ok());
      ASSERT_TRUE((*store)->InsertModel(1, v1::Model()).ok());
      ASSERT_TRUE((*store)->Commit().ok());
      absl::Status failure;
      server::CommitQueue commits(*std::move(store),
                                  [&](const absl::Status& status) { failure = status; });
      const auto run = [&] {
        const auto go_on = [](double) { return true; };
        if (!is_backup) return server::VerifyStore(commits, go_on).status();
        const auto view = commits.OpenView();
        return view.ok() ? (*view)->Copy(go_on).status() : view.status();
      };
      EXPECT_TRUE(run().ok());
      std::filesystem::copy_file(data / file, data / copy);
      // SQLite reports only the size of the write-ahead log.
      std::filesystem::resize_file(data / copy, std::filesystem::file_size(data / copy) + 1);
      std::filesystem::rename(data / copy, data / file);
      EXPECT_TRUE(absl::IsDataLoss(run())) << file;
      EXPECT_TRUE(absl::IsDataLoss(failure)) << file << failure;
      EXPECT_TRUE(absl::IsDataLoss(run())) << file;
    }
  }
}

// While the server drains, no batch is acknowledged.
TEST(RemovedFileTest, NothingIsAcknowledgedAfterItsDetection) {
  const TemporaryFolder folder;
  const std::filesystem::path data = folder.path() / "data";
  const auto server = ServerProcess::Start({"--data-dir", data.string()});
  ASSERT_NE(server, nullptr);
  const auto client = *Client::Connect(server->grpc_address());
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(2);
  ASSERT_TRUE(client->CreateModel(model).ok());
  const std::vector<double> probabilities{0.25, 0.75, 0.5, 0.5};
  const std::vector<std::int32_t> labels{1, 0};
  auto stream = client->OpenStream("models/m", {.producer_id = "p"});
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE((*stream)->Send(PredictionKind::kProbabilities, probabilities, labels).ok());
  ASSERT_TRUE((*stream)->Finish().ok());
  stream = client->OpenStream("models/m",
                              {.producer_id = "q", .stall_timeout = std::chrono::seconds(2)});
  ASSERT_TRUE(stream.ok());
  std::filesystem::remove(data / "store");
  ASSERT_TRUE(WaitFor(
      [&] { return server->process().Output().find("the store failed") != std::string::npos; }));
  const bool sent = (*stream)->Send(PredictionKind::kProbabilities, probabilities, labels).ok();
  EXPECT_FALSE(sent && (*stream)->Finish().ok());
  EXPECT_EQ(server->WaitForExit(), 1);
  // The stop cannot store the snapshot, and must not promise that the next start needs none.
  EXPECT_THAT(server->process().Output(),
              HasSubstr("snapshots that were not stored: 1, because the store is damaged"));
  EXPECT_THAT(server->process().Output(), Not(HasSubstr("loses nothing")));
}

}  // namespace
}  // namespace calibd::testing
