#ifndef CALIBD_CONVERT_READING_H_
#define CALIBD_CONVERT_READING_H_

#include <cstdint>
#include <string>

#include "calibd/v1/calibration_service.pb.h"
#include "google/protobuf/timestamp.pb.h"

// What an answer says, in words: the only place that knows what the numbers mean. Each function
// makes one line from the facts of the answer, on one line, with names that have no control
// characters; a line that has nothing to say is empty.
namespace calibd::convert {

// All lines. now: when the answer was made.
[[nodiscard]] v1::Reading ReadingOf(const v1::GetCalibrationResponse& answer,
                                    const google::protobuf::Timestamp& now);
// The lines of a list of models. answer: needs verdict, error, alarms and observations.
[[nodiscard]] v1::Reading HeadlinesOf(const v1::GetCalibrationResponse& answer);
// error_limit: the acceptable error, as a probability.
[[nodiscard]] v1::Reading ReadingOf(const v1::Evaluation& evaluation, double error_limit);

[[nodiscard]] std::string VerdictLine(const v1::GetCalibrationResponse& answer);
[[nodiscard]] v1::Reading::HowBad HowBadLine(const v1::GetCalibrationResponse& answer);
[[nodiscard]] std::string NowLine(const v1::GetCalibrationResponse& answer);
[[nodiscard]] std::string WhereLine(const v1::GetCalibrationResponse& answer);
[[nodiscard]] std::string DecisionLine(const v1::GetCalibrationResponse& answer);
[[nodiscard]] std::string AgainstLine(const v1::GetCalibrationResponse& answer);
[[nodiscard]] v1::Reading::Changed ChangedLine(const v1::GetCalibrationResponse& answer);
[[nodiscard]] std::string RepairLine(const v1::GetCalibrationResponse& answer);
[[nodiscard]] std::string CertainLine(const v1::GetCalibrationResponse& answer);
[[nodiscard]] std::string DataLine(const v1::GetCalibrationResponse& answer,
                                   const google::protobuf::Timestamp& now);
[[nodiscard]] std::string WarningLine(const v1::GetCalibrationResponse& answer);
[[nodiscard]] v1::Reading::Next NextLine(const v1::GetCalibrationResponse& answer);

// A decision with a threshold. first_observation: number of the first row within the model.
[[nodiscard]] std::string DecisionText(const v1::DecisionLoss& loss,
                                       std::int64_t first_observation);

// "log loss 0.012 lower (0.004 to 0.020), better". in_points: the score is a probability.
[[nodiscard]] std::string DifferenceText(const std::string& score, bool in_points,
                                         const v1::ScoreDifference& difference);

// "temperature 1.9 would leave 0.4 points (0 to 2)". Says so if no map helps.
[[nodiscard]] std::string RecalibrationText(const v1::Recalibration& advice);

// How large the error is, by the chosen estimator, and whether this is better than saying 0.
[[nodiscard]] std::string EstimateText(const v1::CalibrationErrorEstimate& estimate);
// The name of an estimator, such as "kernel_density".
[[nodiscard]] std::string EstimatorName(v1::EstimatorOutcome::Estimator estimator);

// The answer of a file or a window against a limit. Of two classes, the worse event decides.
[[nodiscard]] v1::CalibrationError::Status StatusAgainst(const v1::Evaluation& evaluation,
                                                         double error_limit);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_READING_H_
