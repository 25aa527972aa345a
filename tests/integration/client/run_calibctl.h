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

// Runs calibctl as a process with an environment of its own, like a script.
class CalibctlRun {
 public:
  explicit CalibctlRun(const std::vector<std::string>& arguments);

  // Returns -1 if it does not end in time.
  int exit_code(std::chrono::milliseconds deadline = std::chrono::seconds(120));
  // Standard output and standard error; available once it has ended.
  [[nodiscard]] std::string output() const;
  [[nodiscard]] std::string error() const;
  // The output as JSON; null if it is not JSON.
  [[nodiscard]] nlohmann::json json() const;
  // Sends SIGINT once calibctl is ready for it. Returns false if it does not become ready.
  bool Interrupt();

 private:
  TemporaryFolder folder_;
  std::unique_ptr<ChildProcess> process_;
};

// The text with a space for each line break and the spaces around it.
[[nodiscard]] std::string Unwrapped(const std::string& text);

// Predictions in files.
class PredictionFiles {
 public:
  // Numbers are printed so that they can be read back as the same doubles.
  PredictionFiles(const PredictionSet& set, int label_base);

  [[nodiscard]] std::string predictions() const { return folder_.path() / "predictions.csv"; }
  [[nodiscard]] std::string labels() const { return folder_.path() / "labels.csv"; }

 private:
  TemporaryFolder folder_;
};

// Expects that the relative difference of actual[actual_key] and expected[expected_key] is at most
// the tolerance.
// An integer of 64 bits, which JSON has as a text.
std::int64_t Integer(const nlohmann::json& text);

void ExpectClose(const nlohmann::json& actual, const char* actual_key,
                 const nlohmann::json& expected, const char* expected_key,
                 double tolerance = 1e-10);

// Compares with the reference values of the quadratic estimators, and of the estimates over blocks
// of 2. estimates: the list that calibctl prints.
void ExpectQuadratic(const nlohmann::json& quadratic, const nlohmann::json& expected);
void ExpectLinear(const nlohmann::json& estimates, const nlohmann::json& expected);
// Returns the estimate for this block size in the list.
nlohmann::json EstimateOf(const nlohmann::json& estimates, int block_size);
// Compares the linear estimate and those over blocks of 10 and 100.
void ExpectCifar10Estimates(const nlohmann::json& estimates, const nlohmann::json& expected);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_CLIENT_RUN_CALIBCTL_H_
