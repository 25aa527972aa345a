#ifndef CALIBD_TESTS_INTEGRATION_CLIENT_CALIBCTL_SERVED_H_
#define CALIBD_TESTS_INTEGRATION_CLIENT_CALIBCTL_SERVED_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "integration/client/run_calibctl.h"
#include "nlohmann/json.hpp"
#include "support/http_get.h"
#include "support/server_process.h"

namespace calibd::testing {

// calibctl as a process against the real server.
class CalibctlServedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = ServerProcess::Start();
    ASSERT_NE(server_, nullptr);
  }

  std::unique_ptr<CalibctlRun> Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--server", server_->grpc_address()});
    return std::make_unique<CalibctlRun>(arguments);
  }
  // Runs calibctl, which must succeed, and returns the JSON.
  nlohmann::json RunJson(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--output", "json"});
    const auto run = Run(arguments);
    EXPECT_EQ(run->exit_code(), 0) << run->error();
    return run->json();
  }
  nlohmann::json Send(const std::string& model, const PredictionFiles& files) {
    return RunJson({"send", model, files.predictions(), files.labels(), "--label-base", "0"});
  }

  // Number of running tests in the server's metrics; -1 if they do not contain it.
  double RunningTests() {
    const std::string name = "\ncalibd_jobs_running ";
    const std::string body = HttpGet(server_->http_address(), "/metrics").body;
    const std::size_t at = body.find(name);
    return at == std::string::npos ? -1 : std::stod(body.substr(at + name.size()));
  }

  std::unique_ptr<ServerProcess> server_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_CLIENT_CALIBCTL_SERVED_H_
