#ifndef CALIBD_CLI_VERDICT_REPORT_H_
#define CALIBD_CLI_VERDICT_REPORT_H_

#include <cstddef>
#include <string>

#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/monitoring.pb.h"

namespace calibd::cli {

// Renders the verdict and the watch of a model as text. Names and notes are printed
// without their control characters.

// The verdict in a line, then what it rests on in a sentence each: evidence, effect size,
// direction, where, drift, the test for one look, alarms, groups, warnings.
[[nodiscard]] std::string DescribeVerdict(const v1::GetCalibrationResponse& response);

// A table, the newest first. model: its name.
[[nodiscard]] std::string DescribeAlarms(
    const std::string& model, const google::protobuf::RepeatedPtrField<v1::Alarm>& alarms);
[[nodiscard]] std::string DescribeAcknowledged(const std::string& model, const v1::Alarm& alarm);

// All models in a table, and what e-BH rejects among them. false_discovery_rate: as asked for.
[[nodiscard]] std::string DescribeVerdicts(const v1::ListVerdictsResponse& response,
                                           double false_discovery_rate);

// A change in a line, for a log.
[[nodiscard]] std::string ChangeLine(const v1::GetCalibrationResponse& response);
[[nodiscard]] std::string ChangeLine(const v1::ListVerdictsResponse::ModelVerdict& verdict);

// A model on a screen, some fifteen lines.
[[nodiscard]] std::string DescribeScreen(const v1::GetCalibrationResponse& response);

// "[######......|....]": value as a bar that reaches the '|' where it reaches threshold, > 0.
[[nodiscard]] std::string ThresholdBar(double value, double threshold);

// As many lines of the text as leave room for one that says how many are left out, if any are, and
// for the status, the last one. No more than height lines, >= 2, of width characters.
[[nodiscard]] std::string FitScreen(const std::string& text, const std::string& status,
                                    std::size_t width, std::size_t height);

// Each line cut to so many characters of UTF-8.
[[nodiscard]] std::string CutLines(const std::string& text, std::size_t width);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_VERDICT_REPORT_H_
