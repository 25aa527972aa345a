#ifndef CALIBD_CLIENT_CLI_REPORTS_VERDICT_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_VERDICT_REPORT_H_

#include <cstddef>
#include <string>

#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/monitoring.pb.h"

namespace calibd::cli {

// Renders the verdict and the watch of a model as text. Names and notes are printed
// without their control characters.

// Returns the verdict's summary, followed by a sentence for each part: evidence, effect size,
// direction, place, drift, the test for one look, alarms, groups, warnings.
[[nodiscard]] std::string DescribeVerdict(const v1::GetCalibrationResponse& response);

// Replaces control characters.
[[nodiscard]] std::string Plain(std::string text);
// "(no value)" for the group of predictions without a value, "(other groups)" for the overflow
// group.
[[nodiscard]] std::string GroupName(const std::string& value, bool is_overflow);
// 10^x as a number, or as "10^x" if the number would be too long to read.
[[nodiscard]] std::string PowerOfTen(double x);

// Returns a table of alarms, the newest first. model: its name.
[[nodiscard]] std::string DescribeAlarms(
    const std::string& model, const google::protobuf::RepeatedPtrField<v1::Alarm>& alarms);
[[nodiscard]] std::string DescribeAcknowledged(const std::string& model, const v1::Alarm& alarm);

// A table of all models and the result of e-BH over them. false_discovery_rate: as in the request.
[[nodiscard]] std::string DescribeVerdicts(const v1::ListVerdictsResponse& response,
                                           double false_discovery_rate);

// Describes a change in one line, for a log.
[[nodiscard]] std::string ChangeLine(const v1::GetCalibrationResponse& response);
[[nodiscard]] std::string ChangeLine(const v1::ListVerdictsResponse::ModelVerdict& verdict);

// Returns the lines of the text that fit a screen of at most height lines, >= 2, of width
// characters. The last line is the status. If lines are left out, the line before it says how many.
[[nodiscard]] std::string FitScreen(const std::string& text, const std::string& status,
                                    std::size_t width, std::size_t height);

// Cuts each line to this many UTF-8 characters.
[[nodiscard]] std::string CutLines(const std::string& text, std::size_t width);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_VERDICT_REPORT_H_
