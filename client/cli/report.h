#ifndef CALIBD_CLI_REPORT_H_
#define CALIBD_CLI_REPORT_H_

#include <string>
#include <vector>

#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/model_service.pb.h"
#include "nlohmann/json.hpp"
#include "offline_evaluation.h"

namespace calibd::cli {

// Renders what calibd found, for people and for programs. client/cli/OUTPUT.md
// documents the JSON; numbers are written so that they read back as the same
// doubles, and what is unknown is null.
using Json = nlohmann::ordered_json;

[[nodiscard]] Json ToJson(const v1::Model& model);
[[nodiscard]] Json ToJson(const v1::BlockEstimate& estimate);
[[nodiscard]] Json ToJson(const v1::Provenance& provenance);
// Without the provenance.
[[nodiscard]] Json ToJson(const v1::QuadraticTestResult& result);
[[nodiscard]] Json ToJson(const v1::GetCalibrationResponse& response);

[[nodiscard]] Json ToJson(const Scores& scores);
[[nodiscard]] Json ToJson(const BinnedError& error);
[[nodiscard]] Json ToJson(const CorpDecomposition& decomposition);

// Left-aligned first column, the others to the right; the first row is the head.
[[nodiscard]] std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

[[nodiscard]] std::string DescribeModels(const std::vector<v1::Model>& models);
// "exponential kernel over total variation, bandwidth 0.997 (median ...), ...".
[[nodiscard]] std::string DescribeProvenance(const v1::Provenance& provenance);
[[nodiscard]] std::string DescribeEstimates(
    const google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates);
[[nodiscard]] std::string DescribeQuadratic(const v1::QuadraticTestResult& result);
// One row for each lens, with what it cannot see.
[[nodiscard]] std::string DescribeLenses(const std::vector<v1::QuadraticTestResult>& lenses);
[[nodiscard]] std::string DescribeScores(const Evaluation& evaluation);
// What was found, in sentences. level: of the bootstrap tests.
[[nodiscard]] std::string Summarize(const Evaluation& evaluation, double level);
[[nodiscard]] std::string DescribeCalibration(const v1::GetCalibrationResponse& response);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_REPORT_H_
