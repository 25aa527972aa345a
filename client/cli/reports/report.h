#ifndef CALIBD_CLIENT_CLI_REPORTS_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_REPORT_H_

#include <string>
#include <vector>

#include "calibd/convert/json.h"
#include "calibd/convert/text.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/model_service.pb.h"

namespace calibd::cli {

using convert::Json;
using convert::MinuteText;
using convert::ToJson;
using convert::ToJsonText;

// Renders results as text for people. ToJson makes the JSON for programs, see client/cli/OUTPUT.md.

// Number: three digits. PValue: a p-value; 0 is shown as too small for a double. Signed: three
// digits and a sign.
[[nodiscard]] std::string Number(double value);
[[nodiscard]] std::string PValue(double p);
[[nodiscard]] std::string Signed(double value);

// Formats a table with a header in the first row; the first column is aligned left, others right.
[[nodiscard]] std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// "Euclidean distance"; the bandwidth as a Number, or "-".
[[nodiscard]] std::string DistanceText(v1::ExponentialKernel::Distance distance);
[[nodiscard]] std::string BandwidthText(const v1::Provenance& provenance);

// All settings of a model, one on each line.
[[nodiscard]] std::string DescribeModel(const v1::Model& model);
[[nodiscard]] std::string DescribeModels(const std::vector<v1::Model>& models);
// "exponential kernel over total variation, bandwidth 0.997 (median ...), ...".
[[nodiscard]] std::string DescribeProvenance(const v1::Provenance& provenance);
[[nodiscard]] std::string DescribeEstimates(
    const google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates);
[[nodiscard]] std::string DescribeQuadratic(const v1::QuadraticTestResult& result);
// Describes how many predictions got their labels, and what may make the estimates false.
[[nodiscard]] std::string DescribeLabelArrivals(const v1::LabelArrivals& coverage);
// Describes the running estimates and what they were computed from, without the verdict.
[[nodiscard]] std::string DescribeCalibration(const v1::GetCalibrationResponse& response);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_REPORT_H_
