// Damage to the files of a store: a server that starts on them gives the same answers as without
// the damage, or reports lost data.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "integration/store/damage_store.h"
#include "integration/store/store_damage.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

// ---- The oracle

enum class Outcome {
  // The start failed, named the file, and changed nothing.
  kRefused,
  // Some answers were DATA_LOSS, and all others equal.
  kDataLoss,
  // The newest frame of the log was discarded, with a warning that names its batches.
  kTailCut,
  // All answers were equal.
  kEqual,
  // An answer was different.
  kSilent,
  // Another rule was violated.
  kFailed,
};
constexpr std::array<const char*, 6> kOutcomes{"refused", "data loss", "tail cut",
                                               "equal",   "SILENT",    "FAILED"};

struct Finding {
  Outcome outcome = Outcome::kEqual;
  // The output of the server, or a description of the failure.
  std::string text;
};

struct Comparison {
  // The first answer that is neither the expected one nor DATA_LOSS, or empty if all are.
  std::string difference;
  std::size_t data_losses = 0;
  // A call was not answered because the server ended.
  bool unavailable = false;
};

std::string FirstDifference(const std::string& expected, const std::string& actual) {
  const auto at = static_cast<std::size_t>(
      std::mismatch(expected.begin(), expected.end(), actual.begin(), actual.end()).first -
      expected.begin());
  const std::size_t from = at < 40 ? 0 : at - 40;
  return "expected ..." + expected.substr(from, 120) + "..., answered ..." +
         actual.substr(std::min(from, actual.size()), 120) + "...";
}

Comparison Compare(const StoreAnswers& expected, const StoreAnswers& actual) {
  Comparison comparison;
  for (const auto& [question, answer] : actual.answers) {
    const Answer& wanted = expected.answers.at(question);
    if (answer == wanted) continue;
    if (answer.code == grpc::StatusCode::DATA_LOSS) {
      ++comparison.data_losses;
    } else if (answer.code == grpc::StatusCode::UNAVAILABLE ||
               answer.code == grpc::StatusCode::CANCELLED) {
      // CANCELLED: the call was in flight when gRPC closed its connection.
      comparison.unavailable = true;
    } else if (comparison.difference.empty()) {
      comparison.difference = question + ": " + FirstDifference(wanted.text, answer.text);
    }
  }
  return comparison;
}

bool Names(const std::string& output, const std::vector<std::string>& files) {
  return std::any_of(files.begin(), files.end(), [&](const std::string& file) {
    // Errors of SQLite name only the database.
    return output.find(file.substr(0, file.find("-wal"))) != std::string::npos;
  });
}

// SQLite creates and removes empty write-ahead logs, which are irrelevant.
Folder WithoutEmptyWal(Folder folder) {
  if (const auto wal = folder.find("calibd.db-wal"); wal != folder.end() && wal->second.empty()) {
    folder.erase(wal);
  }
  return folder;
}

// Returns whether a line of the log warns about this batch.
bool WarnsOf(const std::string& output, std::int64_t log_id) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" warning ") != std::string::npos &&
        line.find(" " + std::to_string(log_id) + " ") != std::string::npos) {
      return true;
    }
  }
  return false;
}

// A store, and the answers of a server that starts on it.
class Subject {
 public:
  // Fails the test if a server gives different answers the second time.
  Subject(const std::filesystem::path& folder, const Questions& questions)
      : folder_(ReadFolder(folder)), questions_(questions), expected_(Answers(folder_)) {
    EXPECT_EQ(expected_.problems, std::vector<std::string>());
    EXPECT_EQ(Compare(expected_, Answers(folder_)).difference, "");
  }

  [[nodiscard]] const Folder& folder() const { return folder_; }

  // Accepts the answers of the store without the newest frame of the log too, if the server warns
  // that it discards that frame.
  void AllowCutTail() {
    const Frame newest = NewestFrame(folder_);
    Folder cut = folder_;
    Overwrite(cut, newest.place, std::string(newest.bytes, '\0'));
    cut_ = Answers(cut);
    cut_log_id_ = newest.first_log_id;
    EXPECT_NE(Compare(expected_, *cut_).difference, "");
  }

  // Starts a server on the damaged folder and compares its answers. restart: stops it first and
  // starts another one, because what a start and a stop write must not hide the damage.
  [[nodiscard]] Finding Try(Folder damaged, const Damage& damage, bool restart) const {
    const TemporaryFolder folder;
    const std::filesystem::path data = folder.path() / "data";
    WriteFolder(damaged, data);
    std::string output;
    if (restart) {
      const auto first = ServerProcess::Launch({"--data-dir", data.string()});
      if (!first->AwaitServing()) return JudgeRefusal(*first, damaged, data, damage);
      const std::optional<int> code = first->Terminate();
      output = first->process().Output();
      if (code != 0 && code != 1) return {Outcome::kFailed, "the stop: " + ToText(code) + output};
      damaged = ReadFolder(data);
    }
    const auto server = ServerProcess::Launch({"--data-dir", data.string()});
    if (!server->AwaitServing()) return JudgeRefusal(*server, damaged, data, damage);
    const std::filesystem::path backup = folder.path() / "backup";
    const StoreAnswers actual = AskAll(server->grpc_address(), questions_, backup.string());
    const Comparison comparison = Compare(expected_, actual);
    if (comparison.unavailable) {
      const std::optional<int> code = server->WaitForExit();
      if (code != 1 || !Names(server->process().Output(), damage.files)) {
        return {Outcome::kFailed,
                "the server ended with " + ToText(code) + ": " + server->process().Output()};
      }
    }
    output += server->process().Output();
    server->Kill();
    if (!comparison.difference.empty()) return JudgeDifference(comparison, actual, output);
    if (comparison.unavailable) return {Outcome::kDataLoss, ""};
    if (comparison.data_losses == 0) return {Outcome::kEqual, ""};
    if (actual.problems.empty() && actual.verification.code == grpc::StatusCode::OK) {
      return {Outcome::kFailed, "answers are DATA_LOSS, but Verify finds no problem"};
    }
    return JudgeBackup(backup);
  }

 private:
  static std::string ToText(const std::optional<int>& code) {
    return code.has_value() ? "exit code " + std::to_string(*code) : "no exit";
  }

  // The answers of an undamaged store.
  [[nodiscard]] StoreAnswers Answers(const Folder& content) const {
    const TemporaryFolder folder;
    WriteFolder(content, folder.path() / "data");
    const auto server = ServerProcess::Start({"--data-dir", (folder.path() / "data").string()});
    EXPECT_NE(server, nullptr);
    if (server == nullptr) return {};
    return AskAll(server->grpc_address(), questions_, (folder.path() / "backup").string());
  }

  [[nodiscard]] static Finding JudgeRefusal(ServerProcess& server, const Folder& damaged,
                                            const std::filesystem::path& data,
                                            const Damage& damage) {
    const std::optional<int> code = server.WaitForExit();
    const std::string output = server.process().Output();
    if (code != 1) {
      return {Outcome::kFailed, "the start ended with " + ToText(code) + ": " + output};
    }
    if (!Names(output, damage.files)) {
      return {Outcome::kFailed, "the start's error names another file: " + output};
    }
    if (output.find("restore") == std::string::npos) {
      return {Outcome::kFailed, "the start's error does not say what to do: " + output};
    }
    if (WithoutEmptyWal(ReadFolder(data)) != WithoutEmptyWal(damaged)) {
      return {Outcome::kFailed, "the start failed, but changed a file: " + output};
    }
    return {Outcome::kRefused, output};
  }

  [[nodiscard]] Finding JudgeDifference(const Comparison& comparison, const StoreAnswers& actual,
                                        const std::string& output) const {
    if (!cut_.has_value() || !Compare(*cut_, actual).difference.empty()) {
      return {Outcome::kSilent, comparison.difference + "\n" + output};
    }
    if (!WarnsOf(output, cut_log_id_)) {
      return {Outcome::kSilent, "the newest batch is gone without a warning: " + output};
    }
    return {Outcome::kTailCut, output};
  }

  // The backup of a store with known damage must not look undamaged.
  [[nodiscard]] Finding JudgeBackup(const std::filesystem::path& backup) const {
    if (!std::filesystem::exists(backup)) return {Outcome::kDataLoss, ""};
    const TemporaryFolder folder;
    WriteFolder({{"calibd.db", ReadFile(backup)}}, folder.path() / "data");
    const auto server = ServerProcess::Launch({"--data-dir", (folder.path() / "data").string()});
    if (!server->AwaitServing()) return {Outcome::kDataLoss, ""};
    const StoreAnswers restored =
        AskAll(server->grpc_address(), questions_, (folder.path() / "backup").string());
    const Comparison comparison = Compare(expected_, restored);
    if (comparison.difference.empty()) return {Outcome::kDataLoss, ""};
    return {Outcome::kSilent, "in a restored backup: " + comparison.difference};
  }

  const Folder folder_;
  const Questions& questions_;
  const StoreAnswers expected_;
  // The answers without the newest frame, and the id of that frame's first batch.
  std::optional<StoreAnswers> cut_;
  std::int64_t cut_log_id_ = 0;
};

// ---- The trials

// Counts the outcomes by file, and fails the test for forbidden ones.
class Report {
 public:
  void Add(const Damage& damage, const Finding& finding) {
    const std::lock_guard lock(mutex_);
    ++counts_[damage.files.front()][static_cast<std::size_t>(finding.outcome)];
    if (finding.outcome >= Outcome::kSilent) {
      ADD_FAILURE() << damage.text << ": " << kOutcomes[static_cast<std::size_t>(finding.outcome)]
                    << ": " << finding.text;
    }
  }

  void Print() const {
    for (const auto& [file, counts] : counts_) {
      std::cout << file << ":";
      for (std::size_t i = 0; i < counts.size(); ++i) {
        if (counts[i] > 0) std::cout << " " << counts[i] << " " << kOutcomes[i] << ",";
      }
      std::cout << "\n";
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::array<std::size_t, kOutcomes.size()>> counts_;
};

// Calls trial(0), trial(1), ... trial(count - 1) on a few threads.
void RunTrials(std::size_t count, const std::function<void(std::size_t)>& trial) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::clamp(std::thread::hardware_concurrency(), 1U, 4U); ++i) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < count; at = next++) trial(at);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

enum class End { kKill, kCleanStop };

class DamageTest : public ::testing::TestWithParam<End> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(store_.Make(1));
    const bool killed = GetParam() == End::kKill;
    subject_.emplace(killed ? store_.killed() : store_.stopped(), store_.questions());
    earlier_ = ReadFolder(killed ? store_.earlier_killed() : store_.earlier_stopped());
    if (killed) {
      ASSERT_NO_FATAL_FAILURE(subject_->AllowCutTail());
    }
  }

  // CALIBD_TEST_DAMAGE_KEEP: a folder that gets the damaged stores of failures, because the same
  // seed does not make the same store again.
  Finding Judge(const Folder& damaged, const Damage& damage, bool restart = false) {
    Finding finding = subject_->Try(damaged, damage, restart);
    report_.Add(damage, finding);
    const char* const keep = std::getenv("CALIBD_TEST_DAMAGE_KEEP");
    if (finding.outcome >= Outcome::kSilent && keep != nullptr) {
      WriteFolder(damaged, std::filesystem::path(keep) / std::to_string(kept_++));
    }
    return finding;
  }

  DamageStore store_;
  std::optional<Subject> subject_;
  // The store before its newest batches.
  Folder earlier_;
  Report report_;
  std::atomic<int> kept_ = 0;
};

std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// CALIBD_TEST_DAMAGE: how many bits are flipped; a fifth as many ranges are overwritten.
TEST_P(DamageTest, NoDamagedByteChangesAnAnswer) {
  const std::uint64_t flips = FromEnvironment("CALIBD_TEST_DAMAGE", 75);
  const std::uint64_t seed = FromEnvironment("CALIBD_TEST_DAMAGE_SEED", std::random_device()());
  std::cout << "seed " << seed << "\n";
  RunTrials(flips + flips / 5, [&](std::size_t trial) {
    Random random(seed + trial);
    Folder damaged = subject_->folder();
    const Damage damage =
        trial < flips ? FlipAnyBit(damaged, random) : OverwriteAnyRange(damaged, random);
    Judge(damaged, damage, /*restart=*/trial % 4 == 0);
  });
  report_.Print();
}

// After a kill the newest frame may be incomplete, so the server discards it with a warning. After
// a clean stop it must be there.
TEST_P(DamageTest, DamageToTheNewestFrameIsReported) {
  const Frame newest = NewestFrame(subject_->folder());
  // The trial that overwrites the hash of the header: the producer can still be read.
  constexpr std::size_t kHash = 2;
  const std::uint64_t flips = FromEnvironment("CALIBD_TEST_DAMAGE", 75) / 5;
  const std::uint64_t seed = FromEnvironment("CALIBD_TEST_DAMAGE_SEED", std::random_device()());
  std::cout << "seed " << seed << "\n";
  RunTrials(flips + 3, [&](std::size_t trial) {
    Folder damaged = subject_->folder();
    const auto overwrite = [&](std::uint64_t offset, std::uint64_t bytes) {
      Overwrite(damaged, {newest.place.file, newest.place.offset + offset},
                std::string(bytes, '\0'));
      return std::to_string(bytes) + " bytes of the newest frame at " + std::to_string(offset);
    };
    std::string text;
    if (trial == 0) {
      text = overwrite(0, newest.bytes);
    } else if (trial == 1) {
      text = overwrite(newest.bytes / 2, newest.bytes - newest.bytes / 2);
    } else if (trial == kHash) {
      text = overwrite(40, 8);
    } else {
      Random random(seed + trial);
      const std::uint64_t bit = Below(newest.bytes * 8, random);
      FlipBit(damaged, {newest.place.file, newest.place.offset + bit / 8}, bit % 8);
      text = "bit " + std::to_string(bit) + " of the newest frame";
    }
    const Finding finding = Judge(damaged, {text, {newest.place.file}});
    const bool killed = GetParam() == End::kKill;
    EXPECT_TRUE(finding.outcome == (killed ? Outcome::kTailCut : Outcome::kRefused))
        << text << ": " << finding.text;
    if (killed && trial == kHash) {
      EXPECT_NE(finding.text.find("newest-producer"), std::string::npos) << finding.text;
    }
  });
  report_.Print();
}

TEST_P(DamageTest, NoDamagedFileChangesAnAnswer) {
  DamageStore twin;
  ASSERT_NO_FATAL_FAILURE(twin.Make(1000));
  const Folder foreign = ReadFolder(GetParam() == End::kKill ? twin.killed() : twin.stopped());
  std::vector<DamagedFolder> damages = DamageFiles(subject_->folder(), earlier_, foreign);
  // Write-ahead logs that were checkpointed long ago, or that belong to another database.
  for (const auto& path : {store_.killed(), store_.earlier_killed(), twin.killed()}) {
    DamagedFolder stale{subject_->folder(), {"another calibd.db-wal", {"calibd.db-wal"}}};
    stale.folder["calibd.db-wal"] = ReadFile(path / "calibd.db-wal");
    damages.push_back(std::move(stale));
  }
  RunTrials(damages.size(),
            [&](std::size_t trial) { Judge(damages[trial].folder, damages[trial].damage); });
  report_.Print();
}

INSTANTIATE_TEST_SUITE_P(Ends, DamageTest, ::testing::Values(End::kKill, End::kCleanStop),
                         [](const auto& end) {
                           return end.param == End::kKill ? "AfterAKill" : "AfterACleanStop";
                         });

}  // namespace
}  // namespace calibd::testing
