#include "server/access/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "support/server_process.h"
#include "support/wait_for.h"

namespace calibd::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class AuditLogTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return (folder_.path() / "audit.jsonl").string(); }
  static std::vector<std::string> Lines(const std::string& file) {
    std::ifstream stream(file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  std::unique_ptr<AuditLog> Opened(std::size_t max_bytes = 1 << 20) {
    auto log = AuditLog::Open(path(), max_bytes);
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }

 private:
  testing::TemporaryFolder folder_;
};

// The destructor writes what is queued.
TEST_F(AuditLogTest, EachEntryIsALineOfEscapedJson) {
  const std::string odd = "models/a\n{\"status\":\"OK\"}\x1b[2J\xe2\x80\xae\xff";
  Opened()->Record({.principal = "team",
                    .address = "127.0.0.1:1",
                    .method = "DeleteModel",
                    .resource = odd,
                    .status = absl::StatusCode::kNotFound});
  const std::vector<std::string> lines = Lines(path());
  ASSERT_THAT(lines, SizeIs(1));
  for (const char byte : lines[0]) EXPECT_TRUE(byte >= ' ' && byte <= '~') << lines[0];
  const auto line = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(line["principal"], "team");
  EXPECT_EQ(line["method"], "DeleteModel");
  EXPECT_EQ(line["status"], "NOT_FOUND");
  EXPECT_THAT(line["resource"].get<std::string>(), HasSubstr("models/a\n{"));
  EXPECT_THAT(line["time"].get<std::string>(), ::testing::MatchesRegex("20..-..-..T.*Z"));
}

TEST_F(AuditLogTest, AppendsAndRotatesBySize) {
  for (int i = 0; i < 3; ++i) Opened()->Record({.method = "Backup"});
  EXPECT_THAT(Lines(path()), SizeIs(3));
  {
    const auto log = Opened(4096);
    for (int i = 0; i < 1000; ++i) {
      log->Record({.principal = std::to_string(i), .method = "CreateModel"});
    }
  }
  EXPECT_TRUE(std::filesystem::exists(path() + ".9"));
  EXPECT_FALSE(std::filesystem::exists(path() + ".10"));
  for (const std::string suffix : {"", ".1", ".9"}) {
    EXPECT_LE(std::filesystem::file_size(path() + suffix), 4096U) << suffix;
  }
  EXPECT_THAT(Lines(path()).back(), HasSubstr("\"principal\":\"999\""));
  struct stat status {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(AuditLogTest, RefusedCallsAreLimited) {
  const auto log = Opened();
  constexpr int kCalls = 2000;
  for (int i = 0; i < kCalls; ++i) log->RecordDenial({.method = "GetModel"});
  const std::int64_t left_out = log->statistics().denials_left_out;
  // On a machine so slow that the loop takes 100 s, all would be written.
  EXPECT_GT(left_out, 0);
  EXPECT_LE(left_out, kCalls - static_cast<std::int64_t>(AuditLog::kDenialBurst));
}

// The former files stay when there can be no new one.
TEST_F(AuditLogTest, AFailedRotationLosesNothing) {
  std::ofstream(path() + ".1") << "former\n";
  // Nothing can be written to a folder.
  std::filesystem::create_directory(path() + ".new");
  {
    const auto log = Opened(4096);
    for (int i = 0; i < 100; ++i) log->Record({.method = "CreateModel"});
  }
  EXPECT_THAT(Lines(path()), SizeIs(100));
  EXPECT_EQ(Lines(path() + ".1"), std::vector<std::string>{"former"});
  EXPECT_FALSE(std::filesystem::exists(path() + ".2"));
}

TEST_F(AuditLogTest, ALineForWhichTheDiskHadNoRoomEndsBeforeTheNext) {
  rlimit former{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &former), 0);
  // A write beyond the limit would otherwise end the process.
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const auto await = [](const AuditLog& log, std::int64_t AuditLog::Statistics::*count) {
    return calibd::testing::WaitFor([&] { return log.statistics().*count == 1; });
  };
  const auto log = Opened();
  const rlimit small{.rlim_cur = 20, .rlim_max = former.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  log->Record({.method = "Backup"});
  const bool lost = await(*log, &AuditLog::Statistics::lost);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &former), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(lost);
  log->Record({.method = "CreateModel"});
  EXPECT_TRUE(await(*log, &AuditLog::Statistics::written));
  const std::vector<std::string> lines = Lines(path());
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0], SizeIs(20));
  EXPECT_EQ(nlohmann::json::parse(lines[1])["method"], "CreateModel");
}

TEST_F(AuditLogTest, ALineThatAnEarlierProcessHasTornEndsBeforeTheNext) {
  std::ofstream(path()) << "{\"time\":\"20";
  Opened()->Record({.method = "Backup"});
  const std::vector<std::string> lines = Lines(path());
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(nlohmann::json::parse(lines[1])["method"], "Backup");
}

TEST_F(AuditLogTest, ErrorsNameTheFile) {
  EXPECT_THAT(std::string(AuditLog::Open("/nonexistent/audit", 4096).status().message()),
              HasSubstr("--audit-log /nonexistent/audit cannot be written: No such file"));
}

}  // namespace
}  // namespace calibd::server
