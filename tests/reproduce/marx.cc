// Repeats results of Marx, Zalouk & Ermon, "Calibration by Distribution Matching: Trainable Kernel
// Calibration Metrics", NeurIPS 2023. Each line has the measured value, its expectation and a
// verdict. Arguments: the folder of data, and the lines, such as F4; all if there are none.
#include "marx.h"

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "check.h"

namespace calibd::reproduce {
namespace {

int Run(const std::filesystem::path& data, std::vector<std::string> lines) {
  const std::filesystem::path uci = data / "uci";
  const std::filesystem::path folder = data / "reproduce" / "marx";
  const std::map<std::string, std::function<void()>> all = {
      {"F1", ReproduceExactness},
      {"F2", ReproducePower},
      {"F3", ReproduceEvidence},
      {"F4", [&] { ReproduceCrime(uci); }},
      {"F5", [&] { ReproduceClasses(uci); }},
      {"F6", ReproduceSmallCases},
      {"F7", [&] { ReproduceTables(uci, folder); }},
      {"F8", [&] { ReproduceRegression(uci, folder); }},
      {"F11", [&] { ReproduceMap(folder); }},
      {"F12", ReproducePostHocErrors},
  };
  if (lines.empty()) {
    for (const auto& [name, unused] : all) lines.push_back(name);
  }
  for (const std::string& line : lines) {
    const auto found = all.find(line);
    if (found == all.end()) {
      absl::FPrintF(
          stderr,
          "there is no line '%s', expected F1 to F6, F7 (with F10), F8 (with F9), F11 or F12\n",
          line);
      return 2;
    }
    found->second();
  }
  return Finish();
}

}  // namespace
}  // namespace calibd::reproduce

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) return calibd::reproduce::Run("", {});
  return calibd::reproduce::Run(arguments[0], {arguments.begin() + 1, arguments.end()});
}
