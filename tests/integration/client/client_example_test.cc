// The SDK's examples do what the README says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/server_process.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;

TEST(ClientExampleTest, SendsPredictionsAndReadsTheEstimate) {
  const auto server = ServerProcess::Start();
  ASSERT_NE(server, nullptr);
  const TemporaryFolder folder;
  ChildProcess example({CALIBD_BIN_DIR "/send_predictions", server->grpc_address()},
                       folder.path() / "output.txt");
  EXPECT_EQ(example.WaitForExit(), 0) << example.Output();
  EXPECT_THAT(example.Output(), HasSubstr("accepted rows: 4"));
  EXPECT_THAT(example.Output(), HasSubstr("SKCE (blocks of 2): "));
}

}  // namespace
}  // namespace calibd::testing
