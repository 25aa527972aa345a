#ifndef CALIBD_CLIENT_CLI_REPORTS_VERDICT_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_VERDICT_REPORT_H_

#include <cstddef>
#include <string>

#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/monitoring.pb.h"

namespace calibd::cli {

// The numbers of the verdict and the watch of a model, for `show --verbose`: evidence, effect size,
// direction, drift, places, alarms, groups, and all warnings. Empty if it is not monitored. Names
// and notes are printed without their control characters.
[[nodiscard]] std::string DescribeNumbers(const v1::GetCalibrationResponse& response);

// Returns a table of alarms, the newest first. model: its name.
[[nodiscard]] std::string DescribeAlarms(
    const std::string& model, const google::protobuf::RepeatedPtrField<v1::Alarm>& alarms);
// What the acknowledgement did, and the lines about the model after it.
[[nodiscard]] std::string DescribeAcknowledged(const std::string& model,
                                               const v1::AcknowledgeAlarmResponse& response);

// Describes a change in one line, for a log.
[[nodiscard]] std::string ChangeLine(const v1::GetCalibrationResponse& response);
[[nodiscard]] std::string ChangeLine(const v1::ListVerdictsResponse::ModelVerdict& verdict);

// Returns the lines of the text that fit a screen of at most height lines, >= 2, of width
// characters. The last line is the status. If lines are left out, the line before it says how many.
[[nodiscard]] std::string FitScreen(const std::string& text, const std::string& status,
                                    std::size_t width, std::size_t height);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_VERDICT_REPORT_H_
