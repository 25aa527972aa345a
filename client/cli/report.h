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

// Renders results as text for people. ToJson makes the JSON for programs, see client/cli/OUTPUT.md.

// Number: three digits. PValue: a p-value; 0 is shown as too small for a double. Signed: three
// digits and a sign.
[[nodiscard]] std::string Number(double value);
[[nodiscard]] std::string PValue(double p);
[[nodiscard]] std::string Signed(double value);

// Formats a table with a header in the first row; the first column is aligned left, others right.
[[nodiscard]] std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// All settings of a model, one on each line.
[[nodiscard]] std::string DescribeModel(const v1::Model& model);
[[nodiscard]] std::string DescribeModels(const std::vector<v1::Model>& models);
// "exponential kernel over total variation, bandwidth 0.997 (median ...), ...".
[[nodiscard]] std::string DescribeProvenance(const v1::Provenance& provenance);
[[nodiscard]] std::string DescribeEstimates(
    const google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates);
[[nodiscard]] std::string DescribeQuadratic(const v1::QuadraticTestResult& result);
// Describes how many predictions got their labels, and what may make the estimates false.
[[nodiscard]] std::string DescribeLabelCoverage(const v1::LabelCoverage& coverage);
// Describes the running estimates and what they were computed from, without the verdict.
[[nodiscard]] std::string DescribeCalibration(const v1::GetCalibrationResponse& response);

// The answer of an evaluation: the top label and, for two classes, the probability of class 1 are
// within the limit, or one of them is over it.
[[nodiscard]] v1::LimitStatus StatusAgainst(const v1::Evaluation& evaluation, double limit);

// Returns the complete report: how far off the model is, a summary in sentences, lenses side by
// side, estimates, scores, binned errors, the other tests, and the reliability diagram as a table.
// level: the level of the bootstrap tests of all lenses combined. error_limit: of the model.
[[nodiscard]] std::string DescribeEvaluation(const v1::Evaluation& evaluation, double level,
                                             double error_limit);

// {"quadratic": ..., "provenance": ...} of the canonical lens, then the evaluation with the
// other lenses.
[[nodiscard]] Json EvaluationJson(const v1::Evaluation& evaluation);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_REPORT_H_
