#ifndef CALIBD_TESTS_UNIT_SERVER_GOLDEN_BLOB_H_
#define CALIBD_TESTS_UNIT_SERVER_GOLDEN_BLOB_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "server/model/model_declaration.h"

namespace calibd::server {

inline constexpr std::size_t kStoreFormatClasses = 3;

// The model whose blobs are in the golden files.
inline ModelDeclaration StoreFormatDeclaration() {
  ModelDeclaration declaration;
  declaration.name = {"m", ""};
  auto& classes = declaration.kind.emplace<ClassesSpec>();
  classes.count = kStoreFormatClasses;
  classes.kernel.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
  classes.kernel.rule.bandwidth.fixed = 0.5;
  classes.lenses = {Lens::Canonical(), Lens::TopLabel()};
  classes.block_sizes = {2, 7};
  declaration.window = 100;
  classes.row_sum_tolerance = 1e-3;
  declaration.label_grace = std::chrono::seconds(60);
  declaration.max_pending = 100;
  declaration.monitoring.disabled = true;
  return declaration;
}

inline std::filesystem::path GoldenFile(const std::string& name) {
  return std::filesystem::path(CALIBD_GOLDEN_DIR) / "store" / (name + ".hex");
}

// Returns the bytes in the file, which has lines of hexadecimal digits.
inline std::string ReadGolden(const std::string& name) {
  std::ifstream file(GoldenFile(name));
  EXPECT_TRUE(file.is_open()) << GoldenFile(name);
  std::string digits;
  for (std::string line; std::getline(file, line);) digits += line;
  return absl::HexStringToBytes(digits);
}

// Expects that `encoded` equals the contents of the file. CALIBD_TEST_WRITE_GOLDEN: writes the file
// first.
inline void ExpectGolden(const std::string& name, const std::string& encoded) {
  constexpr std::size_t kBytesPerLine = 48;
  if (std::getenv("CALIBD_TEST_WRITE_GOLDEN") != nullptr) {
    std::ofstream file(GoldenFile(name));
    for (std::size_t i = 0; i < encoded.size(); i += kBytesPerLine) {
      file << absl::BytesToHexString(encoded.substr(i, kBytesPerLine)) << "\n";
    }
  }
  EXPECT_EQ(absl::BytesToHexString(encoded), absl::BytesToHexString(ReadGolden(name))) << name;
}

}  // namespace calibd::server

#endif  // CALIBD_TESTS_UNIT_SERVER_GOLDEN_BLOB_H_
