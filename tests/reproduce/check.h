#ifndef CALIBD_TESTS_REPRODUCE_CHECK_H_
#define CALIBD_TESTS_REPRODUCE_CHECK_H_

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <sstream>
#include <string>

#include "calibd/core/run_control.h"

// What the programs that repeat published results share: each checked line is printed with its
// verdict, and the number of missed lines decides the exit code.
namespace calibd::reproduce {

void Verdict(const std::string& line, bool pass);
void Near(const std::string& what, double measured, double expected, double tolerance);
void Within(const std::string& what, double measured, double low, double high);
void Relative(const std::string& what, double measured, double expected, double tolerance);

struct Mean {
  double mean = 0;
  double standard_error = 0;
};

// values: at least 2.
[[nodiscard]] Mean MeanOf(std::span<const double> values);
// Passes if the mean of the values is within 4 standard errors of the expected one. The two means
// have independent errors.
void NearMean(const std::string& what, std::span<const double> values, double expected,
              double standard_error);

// Reads a file that xz has compressed; nothing if there is no such file. The path has no quotes.
[[nodiscard]] std::optional<std::stringstream> ReadCompressed(const std::filesystem::path& path);

// Calls body(0) .. body(count - 1) on all processors.
void OnAllProcessors(std::size_t count, const std::function<void(std::size_t)>& body);
[[nodiscard]] RunControl ControlOnAllProcessors();

// Prints the number of missed lines. Returns the exit code: 1 if there are any.
[[nodiscard]] int Finish();

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_CHECK_H_
