#ifndef CALIBD_CLI_REPORT_H_
#define CALIBD_CLI_REPORT_H_

#include <string>
#include <vector>

#include "calibd/convert/json.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/model_service.pb.h"

namespace calibd::cli {

using convert::Json;
using convert::ToJson;

// Renders what calibd found, for people; for programs there is ToJson, whose output
// client/cli/OUTPUT.md documents.

// Six digits; a p-value, where 0 is shown as too small for a double; seven digits and a sign.
[[nodiscard]] std::string Number(double value);
[[nodiscard]] std::string PValue(double p);
[[nodiscard]] std::string Signed(double value);

// Left-aligned first column, the others to the right; the first row is the head.
[[nodiscard]] std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

[[nodiscard]] std::string DescribeModels(const std::vector<v1::Model>& models);
// "exponential kernel over total variation, bandwidth 0.997 (median ...), ...".
[[nodiscard]] std::string DescribeProvenance(const v1::Provenance& provenance);
[[nodiscard]] std::string DescribeEstimates(
    const google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates);
[[nodiscard]] std::string DescribeQuadratic(const v1::QuadraticTestResult& result);
// How many predictions got their labels, what may make the estimates false.
[[nodiscard]] std::string DescribeLabelCoverage(const v1::LabelCoverage& coverage);
[[nodiscard]] std::string DescribeCalibration(const v1::GetCalibrationResponse& response);

// The whole report: what was found in a sentence, lenses side by side, estimates, scores,
// binned errors, the other tests, the reliability diagram as a table. level: of the
// bootstrap tests of all lenses together.
[[nodiscard]] std::string DescribeEvaluation(const v1::Evaluation& evaluation, double level);

// {"quadratic": ..., "provenance": ...} of the canonical lens, then the evaluation with the
// other lenses.
[[nodiscard]] Json EvaluationJson(const v1::Evaluation& evaluation);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_REPORT_H_
