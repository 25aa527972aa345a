#include "check.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"

namespace calibd::reproduce {
namespace {

int misses = 0;

}  // namespace

void Verdict(const std::string& line, bool pass) {
  absl::PrintF("%s  %s\n", pass ? "pass" : "FAIL", line);
  if (!pass) ++misses;
}

void Near(const std::string& what, double measured, double expected, double tolerance) {
  Verdict(absl::StrFormat("%s: %.12g, expected %.12g +- %.2g", what, measured, expected, tolerance),
          std::abs(measured - expected) <= tolerance);
}

void Within(const std::string& what, double measured, double low, double high) {
  Verdict(absl::StrFormat("%s: %.6g, expected %.6g to %.6g", what, measured, low, high),
          low <= measured && measured <= high);
}

void Relative(const std::string& what, double measured, double expected, double tolerance) {
  Near(what, measured, expected, tolerance * std::abs(expected));
}

Mean MeanOf(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0;
  double squares = 0;
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / n) * (value - sum / n);
  return {sum / n, std::sqrt(squares / (n - 1) / n)};
}

void NearMean(const std::string& what, std::span<const double> values, double expected,
              double standard_error) {
  const Mean measured = MeanOf(values);
  Near(what, measured.mean, expected, 4 * std::hypot(measured.standard_error, standard_error));
}

std::optional<std::stringstream> ReadCompressed(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      popen(absl::StrFormat("xz -dc '%s'", path.string()).c_str(), "r"), pclose);
  std::stringstream content;
  char buffer[65536];
  while (pipe != nullptr) {
    const std::size_t count = std::fread(buffer, 1, sizeof(buffer), pipe.get());
    if (count == 0) break;
    content.write(buffer, static_cast<std::streamsize>(count));
  }
  return content;
}

void OnAllProcessors(std::size_t count, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> workers;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t) {
    workers.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) body(i);
    });
  }
}

RunControl ControlOnAllProcessors() {
  RunControl control;
  control.parallel_for = OnAllProcessors;
  return control;
}

int Finish() {
  absl::PrintF("%d missed\n", misses);
  return misses == 0 ? 0 : 1;
}

}  // namespace calibd::reproduce
