#ifndef CALIBD_TESTS_UNIT_CLIENT_PREDICTION_FILES_H_
#define CALIBD_TESTS_UNIT_CLIENT_PREDICTION_FILES_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/files/prediction_file.h"

namespace calibd::cli {

// A test that reads files of predictions.
class PredictionFiles : public ::testing::Test {
 protected:
  // Returns the path of a file that does not exist yet.
  std::string Path(const std::string& name) {
    // Tests run in parallel.
    paths_.push_back(::testing::TempDir() + "prediction_file_test_" + std::to_string(getpid()) +
                     "_" + name);
    return paths_.back();
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = Path(name);
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  void TearDown() override {
    for (const std::string& path : paths_) std::filesystem::remove(path);
  }
  // Options for these predictions and no labels file.
  InputOptions Predictions(const std::string& name, const std::string& text) {
    InputOptions options;
    options.predictions = Write(name, text);
    return options;
  }
  // Options for two rows of two classes, the labels 1 and 0, and base 0.
  InputOptions TwoRows() {
    InputOptions options = Predictions("p.csv", "0.5,0.5\n1,0\n");
    options.labels = Write("l.csv", "1\n0\n");
    options.label_base = 0;
    return options;
  }

 private:
  std::vector<std::string> paths_;
};

inline Input ParseInput(const InputOptions& options) {
  auto input = ReadInput(options);
  EXPECT_TRUE(input.ok()) << input.status();
  return input.ok() ? *std::move(input) : Input();
}

inline std::string InputErrorOf(const InputOptions& options) {
  return std::string(ReadInput(options).status().message());
}

}  // namespace calibd::cli

#endif  // CALIBD_TESTS_UNIT_CLIENT_PREDICTION_FILES_H_
