#include "server/observability/rpc_statistics.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "server/rpc/registered_methods.h"

namespace calibd::server {
namespace {

TEST(RpcStatisticsTest, UnregisteredMethodsAreCountedTogether) {
  RpcStatistics statistics(RegisteredMethods(/*reflection=*/false));
  const std::size_t unknown = statistics.Find("/made.up/Method");
  for (const std::string_view path :
       {"", "/", "x", "//", "calibd.v1.ModelService/GetModel", "/calibd.v1.ModelService/",
        "/calibd.v1.ModelService/GetModel/", "\xff\xfe", "/unknown/unknownx",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(statistics.Find(path), unknown) << path;
  }
  EXPECT_EQ(statistics.Find(std::string(3000, 'x')), unknown);
  for (int i = 0; i < 3; ++i) {
    statistics.Started(unknown);
    statistics.Handled(unknown, absl::StatusCode::kUnimplemented, std::chrono::milliseconds(1));
  }
  const std::size_t known = statistics.Find("/calibd.v1.ModelService/GetModel");
  ASSERT_NE(known, unknown);
  statistics.Started(known);
  const auto calls = statistics.Snapshot();
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].method.service, "calibd.v1.ModelService");
  EXPECT_EQ(calls[0].method.method, "GetModel");
  EXPECT_EQ(calls[0].method.type, "unary");
  EXPECT_EQ(calls[0].started, 1);
  EXPECT_EQ(calls[1].method.method, "unknown");
  EXPECT_EQ(calls[1].started, 3);
  EXPECT_EQ(calls[1].handled[static_cast<std::size_t>(absl::StatusCode::kUnimplemented)], 3);
}

TEST(RegisteredMethodsTest, ContainEveryMethodWithItsType) {
  std::set<std::string> found;
  for (const RpcMethod& method : RegisteredMethods(/*reflection=*/true)) {
    found.insert(method.service + "/" + method.method + " " + method.type);
  }
  EXPECT_TRUE(found.contains("calibd.v1.IngestService/StreamObservations bidi_stream"));
  EXPECT_TRUE(found.contains("calibd.v1.CalibrationService/WatchCalibration server_stream"));
  EXPECT_TRUE(found.contains("calibd.v1.StoreService/Backup server_stream"));
  EXPECT_TRUE(found.contains("grpc.health.v1.Health/Check unary"));
  EXPECT_TRUE(
      found.contains("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo bidi_stream"));
}

}  // namespace
}  // namespace calibd::server
