#ifndef CALIBD_CLIENT_CLI_REPORTS_READING_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_READING_REPORT_H_

#include <cstddef>
#include <string>

#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/reading.pb.h"

namespace calibd::cli {

// The longest line of a reading that is not written to a narrower terminal, in characters.
inline constexpr std::size_t kReadingWidth = 100;

// The server's lines, each with its title, broken into lines of at most `width` characters. name:
// of the model, or empty for a file.
[[nodiscard]] std::string DescribeReading(const std::string& name, const v1::Reading& reading,
                                          std::size_t width = kReadingWidth);
// The server's table, and how many rows it leaves out.
[[nodiscard]] std::string DescribeTable(const v1::Table& table);
// The lines about a model, which begin with its name.
[[nodiscard]] std::string DescribeShow(const v1::GetCalibrationResponse& response,
                                       std::size_t width = kReadingWidth);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_READING_REPORT_H_
