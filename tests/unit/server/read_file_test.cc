#include "server/base/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "support/server_process.h"

namespace calibd::server {
namespace {

using ::testing::HasSubstr;

std::string FaultOf(const std::string& path) {
  const auto text = ReadFile(path, 4);
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(text.status().message());
}

TEST(ReadFileTest, ReadsRegularFilesUpToTheLimitAndWaitsForNoOther) {
  const testing::TemporaryFolder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  std::ofstream(file("full")) << "abcd";
  const auto text = ReadFile(file("full"), 4);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "abcd");
  std::ofstream(file("long")) << "abcde";
  EXPECT_THAT(FaultOf(file("long")), HasSubstr("more than 4 bytes"));
  EXPECT_THAT(FaultOf(file("none")), HasSubstr("No such file"));
  EXPECT_THAT(FaultOf(folder.path().string()), HasSubstr("directory"));
  // Opening it for reading would wait for a writer.
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_THAT(FaultOf(file("pipe")), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace calibd::server
