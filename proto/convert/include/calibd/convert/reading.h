#ifndef CALIBD_CONVERT_READING_H_
#define CALIBD_CONVERT_READING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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
// How an evaluation is judged.
struct EvaluationCriteria {
  // The acceptable error, as a probability.
  double error_limit = 0;
  // The probability with which any test may reject a calibrated model: all lenses share it. With
  // groups, half of it is for them.
  double significance_level = 0.05;
};
// The verdict of an evaluation, which gates follow.
struct EvaluationVerdict {
  // Of all rows; OVER_LIMIT also if a group is over the limit.
  v1::CalibrationError::Status limit = v1::CalibrationError::UNDECIDED;
  // Whether calibration is rejected, by the tests of lenses, the cells of forecasts, or in a group.
  // Unset without tests.
  std::optional<bool> is_rejected;
  // The groups over the limit: " in group eu", ", also in groups eu, us" or empty.
  std::string groups;

  // "OVER_LIMIT in group eu, MISCALIBRATED", "UNDECIDED, NOT_REJECTED" or "UNDECIDED".
  [[nodiscard]] std::string Text() const;
};
// evaluation: with `error`, or of forecasts.
[[nodiscard]] EvaluationVerdict VerdictOf(const v1::Evaluation& evaluation,
                                          const EvaluationCriteria& criteria);
// The significance level of a lens, a share of that of the criteria. lens_count: at least 1.
[[nodiscard]] double LevelOfLens(const EvaluationCriteria& criteria, std::size_t lens_count,
                                 bool has_groups);
// The significance level of e-BH over the groups.
[[nodiscard]] double LevelOfGroups(const EvaluationCriteria& criteria);
[[nodiscard]] v1::Reading ReadingOf(const v1::Evaluation& evaluation,
                                    const EvaluationCriteria& criteria);
// Sets `reading`, `limit_status` and `error_limit`.
void Judge(const EvaluationCriteria& criteria, v1::Evaluation& evaluation);

// Sets ErrorMeasurement.class_1_is_worse of each measurement.
void CompareEvents(v1::CalibrationError& error);

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
// What rows are that go together more than their predictions say. row: at which it was found.
[[nodiscard]] std::string DependenceText(std::int64_t row);
// The same of rows that are evaluated once, with the numbers that are false then and what to do.
// in_order: the numbers that depend on the order of the rows, such as "the e-values"; empty if none
// does.
[[nodiscard]] std::string DependenceText(std::int64_t row, std::string_view in_order);
// What the acknowledgement of an alarm did, as a part of a sentence. first_observation: of the rows
// that count, after it, for what the alarm was about; 0 if it had been acknowledged before.
[[nodiscard]] std::string AcknowledgedText(const v1::Alarm& alarm, std::int64_t first_observation);
// What changed since the reference: "more errors since about row 5012: 107 of 873 predictions were
// wrong, 61 are expected by the reference".
[[nodiscard]] std::string FindingText(const v1::ReferenceChange::Finding& finding);
[[nodiscard]] v1::Reading::Next NextLine(const v1::GetCalibrationResponse& answer);

// A decision with a threshold. first_observation: number of the first row within the model.
[[nodiscard]] std::string DecisionText(const v1::DecisionLoss& loss,
                                       std::int64_t first_observation);

// "log loss 0.012 nats lower (0.004 to 0.020), better". unit: "points" for a score that is a
// probability; empty without a unit.
[[nodiscard]] std::string DifferenceText(const std::string& score, const std::string& unit,
                                         const v1::ScoreDifference& difference);

// The likely cause of predictions that are right less often than by chance, after "check".
inline constexpr std::string_view kSwappedColumns =
    "whether the columns of the classes, or the labels, are exchanged";

// "temperature 1.9 would take the error of the model from 5.4 (4.2 to 6.8) points to 0 to 2 points
// if nothing changed within these rows". Says so if no map helps. advice: needs everything but the
// time.
// Why a map for all rows may do harm, or does not repair what is off; empty if nothing is known.
// answer: with everything but the reading.
[[nodiscard]] std::string MapCaution(const v1::GetCalibrationResponse& answer);
[[nodiscard]] std::string RecalibrationText(const v1::Recalibration& advice);

// How large the error is, by the chosen estimator, and whether this is better than saying 0.
// class_names: in the order of the classes; empty if they have none.
[[nodiscard]] std::string EstimateText(const v1::CalibrationErrorEstimate& estimate,
                                       std::span<const std::string> class_names);
// The name of an estimator, such as "kernel_density".
[[nodiscard]] std::string EstimatorName(v1::EstimatorOutcome::Estimator estimator);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_READING_H_
