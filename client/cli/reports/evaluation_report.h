#ifndef CALIBD_CLIENT_CLI_REPORTS_EVALUATION_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_EVALUATION_REPORT_H_

#include <string>

#include "calibd/v1/evaluation.pb.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {

// The answer of an evaluation: the top label and, for two classes, the probability of class 1 are
// within the limit, or one of them is over it.
[[nodiscard]] v1::CalibrationError::Status StatusAgainst(const v1::Evaluation& evaluation,
                                                         double limit);

// Returns the complete report: how far off the model is, a summary in sentences, lenses side by
// side, estimates, scores, binned errors, the other tests, and the reliability diagram as a table.
// level: the level of the bootstrap tests of all lenses combined. error_limit: of the model.
[[nodiscard]] std::string DescribeEvaluation(const v1::Evaluation& evaluation, double level,
                                             double error_limit);

// {"quadratic": ..., "provenance": ...} of the canonical lens, then the evaluation with the
// other lenses.
[[nodiscard]] Json EvaluationJson(const v1::Evaluation& evaluation);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_EVALUATION_REPORT_H_
