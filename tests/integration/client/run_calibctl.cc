#include "integration/client/run_calibctl.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "calibd/core/p_value.h"
#include "support/test_data.h"

namespace calibd::testing {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

CalibctlRun::CalibctlRun(const std::vector<std::string>& arguments) {
  // The shell separates the two outputs, and is then replaced by calibctl.
  std::vector<std::string> command = {"env",
                                      "-u",
                                      "CALIBD_SERVER",
                                      "sh",
                                      "-c",
                                      "error=$1; shift; exec \"$@\" 2>\"$error\"",
                                      "sh",
                                      folder_.path() / "error.txt",
                                      CALIBD_BIN_DIR "/calibctl"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  process_ = std::make_unique<ChildProcess>(command, folder_.path() / "output.txt");
}

int CalibctlRun::exit_code(std::chrono::milliseconds deadline) {
  return process_->WaitForExit(deadline).value_or(-1);
}

std::string CalibctlRun::output() const { return process_->Output(); }
std::string CalibctlRun::error() const { return ReadFile(folder_.path() / "error.txt"); }

nlohmann::json CalibctlRun::json() const {
  auto json = nlohmann::json::parse(output(), nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? nlohmann::json() : json;
}

bool CalibctlRun::Interrupt() {
  // A process that waits for a signal has blocked it before.
  const std::string status = "/proc/" + std::to_string(process_->pid()) + "/status";
  const bool ready = WaitFor([&] {
    std::ifstream file(status);
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("SigBlk:", 0) == 0) {
        return (std::stoull(line.substr(7), nullptr, 16) & (1ULL << (SIGINT - 1))) != 0;
      }
    }
    return false;
  });
  process_->Signal(SIGINT);
  return ready;
}

std::string Unwrapped(const std::string& text) {
  std::istringstream words(text);
  std::string unwrapped;
  for (std::string word; words >> word;) unwrapped += (unwrapped.empty() ? "" : " ") + word;
  return unwrapped;
}

PredictionFiles::PredictionFiles(const PredictionSet& set, int label_base) {
  std::ofstream predictions_file(predictions());
  std::ofstream labels_file(labels());
  predictions_file << std::setprecision(17);
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    for (std::size_t k = 0; k < set.class_count; ++k) {
      predictions_file << (k == 0 ? "" : ",") << set.view().row(i)[k];
    }
    predictions_file << '\n';
    labels_file << set.labels[i] + label_base << '\n';
  }
}

std::int64_t Integer(const nlohmann::json& text) { return std::stoll(text.get<std::string>()); }

void ExpectClose(const nlohmann::json& actual, const char* actual_key,
                 const nlohmann::json& expected, const char* expected_key, double tolerance) {
  ASSERT_TRUE(actual.contains(actual_key) && actual.at(actual_key).is_number())
      << actual_key << " in " << actual.dump();
  EXPECT_LE(RelativeDifference(actual.at(actual_key).get<double>(),
                               expected.at(expected_key).get<double>()),
            tolerance)
      << actual_key;
}

void ExpectQuadratic(const nlohmann::json& quadratic, const nlohmann::json& expected) {
  ExpectClose(quadratic, "skceBiased", expected, "SKCE_b");
  ExpectClose(quadratic, "skceUnbiased", expected, "SKCE_uq");
  ExpectClose(quadratic, "pValueUpperBoundBiased", expected, "p_free_b");
  ExpectClose(quadratic, "pValueUpperBoundUnbiased", expected, "p_free_uq");
}

nlohmann::json EstimateOf(const nlohmann::json& estimates, int block_size) {
  for (const auto& estimate : estimates) {
    if (estimate.at("blockSize") == block_size) return estimate;
  }
  ADD_FAILURE() << "no blocks of " << block_size << " in " << estimates.dump();
  return {};
}

void ExpectLinear(const nlohmann::json& estimates, const nlohmann::json& expected) {
  const nlohmann::json linear = EstimateOf(estimates, 2);
  ExpectClose(linear, "skce", expected, "SKCE_ul");
  ExpectClose(linear, "pValueUpperBound", expected, "p_free_ul");
  if (expected.contains("h_pairs_sd")) {
    ExpectClose(linear, "standardDeviation", expected, "h_pairs_sd");
  }
  if (Integer(linear.at("blockCount")) < kMinTestedBlocks) {
    EXPECT_FALSE(linear.contains("z"));
    EXPECT_FALSE(linear.contains("pValue"));
    EXPECT_FALSE(linear.contains("skceLowerBound"));
  } else {
    ExpectClose(linear, "z", expected, "z_ul");
    ExpectClose(linear, "pValue", expected, "p_ul");
  }
}

void ExpectCifar10Estimates(const nlohmann::json& estimates, const nlohmann::json& expected) {
  ExpectLinear(estimates, expected);
  for (const int block_size : {10, 100}) {
    const nlohmann::json& wanted = expected.at("block" + std::to_string(block_size));
    const nlohmann::json block = EstimateOf(estimates, block_size);
    EXPECT_EQ(Integer(block.at("blockCount")), wanted.at("nblocks"));
    ExpectClose(block, "skce", wanted, "estimate");
    ExpectClose(block, "standardDeviation", wanted, "sd");
    ExpectClose(block, "z", wanted, "z");
    ExpectClose(block, "pValue", wanted, "p");
  }
}

}  // namespace calibd::testing
