#ifndef CALIBD_TESTS_INTEGRATION_CLIENT_RUN_CALIBCTL_H_
#define CALIBD_TESTS_INTEGRATION_CLIENT_RUN_CALIBCTL_H_

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "calibd/core/prediction_batch.h"
#include "support/server_process.h"

namespace calibd::testing {

// calibctl run as a process, as a script would, with an environment of its own.
class CalibctlRun {
 public:
  explicit CalibctlRun(const std::vector<std::string>& arguments);

  // -1 when it does not end in time.
  int exit_code(std::chrono::milliseconds deadline = std::chrono::seconds(120));
  // Standard output and standard error, once it has ended.
  [[nodiscard]] std::string output() const;
  [[nodiscard]] std::string error() const;
  // The output as JSON; null when it is none.
  [[nodiscard]] nlohmann::json json() const;
  // SIGINT, once calibctl is ready for it. False when it does not come to be.
  bool Interrupt();

 private:
  TemporaryFolder folder_;
  std::unique_ptr<ChildProcess> process_;
};

// Predictions in files, as users have them.
class PredictionFiles {
 public:
  // Numbers are printed so that they read back as the same doubles.
  PredictionFiles(const PredictionSet& set, int label_base);

  [[nodiscard]] std::string predictions() const { return folder_.path() / "predictions.csv"; }
  [[nodiscard]] std::string labels() const { return folder_.path() / "labels.csv"; }

 private:
  TemporaryFolder folder_;
};

// |actual[actual_key] - expected[expected_key]|, relative, at most the tolerance.
void ExpectClose(const nlohmann::json& actual, const char* actual_key,
                 const nlohmann::json& expected, const char* expected_key,
                 double tolerance = 1e-10);

// What the reference says of the quadratic estimators, and of the estimates over
// blocks of 2, `estimates` being calibctl's list.
void ExpectQuadratic(const nlohmann::json& quadratic, const nlohmann::json& expected);
void ExpectLinear(const nlohmann::json& estimates, const nlohmann::json& expected);
// The estimate over blocks of `block_size` in the list.
nlohmann::json EstimateOf(const nlohmann::json& estimates, int block_size);
// Linear, blocks of 10 and of 100.
void ExpectCifar10Estimates(const nlohmann::json& estimates, const nlohmann::json& expected);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_CLIENT_RUN_CALIBCTL_H_
