#ifndef CALIBD_TESTS_UNIT_CONVERT_READING_ANSWERS_H_
#define CALIBD_TESTS_UNIT_CONVERT_READING_ANSWERS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "calibd/convert/reading.h"

// Answers of models in known states, for the tests of the lines of a reading.
namespace calibd::convert::answers {

inline v1::ErrorInterval Interval(double estimate, double lower, double upper, double gap = 0) {
  v1::ErrorInterval interval;
  interval.set_estimate(estimate);
  interval.set_lower(lower);
  interval.set_upper(upper);
  interval.set_gap(gap);
  interval.set_gap_lower(gap - 0.0105);
  interval.set_gap_upper(gap + 0.0105);
  return interval;
}

inline v1::ErrorMeasurement Measured(double estimate, double lower, double upper, double gap) {
  v1::ErrorMeasurement measured;
  measured.set_observations(10000);
  measured.set_first_observation(1);
  measured.set_mean_confidence(0.96956);
  measured.set_accuracy(0.96956 - gap);
  *measured.mutable_top_label() = Interval(estimate, lower, upper, gap);
  return measured;
}

inline v1::CentralCoverage Coverage(double promised, double coverage, double lower, double upper) {
  v1::CentralCoverage central;
  central.set_promised(promised);
  central.set_coverage(coverage);
  central.set_lower(lower);
  central.set_upper(upper);
  return central;
}

// An over-confident model that is over its limit.
inline v1::GetCalibrationResponse OverLimit() {
  v1::GetCalibrationResponse answer;
  answer.set_model("models/resnet18/versions/2");
  answer.set_observations(10000);
  answer.mutable_last_observation_time()->set_seconds(86400);
  v1::Verdict& verdict = *answer.mutable_verdict();
  verdict.set_limit_status(v1::CalibrationError::OVER_LIMIT);
  verdict.set_status(v1::Verdict::MISCALIBRATED);
  auto& bin = *verdict.mutable_whereabouts()->add_confidence_bins();
  bin.set_lower(14. / 15);
  bin.set_upper(1);
  bin.set_observations(9021);
  bin.set_mean_confidence(0.996);
  bin.set_accuracy(0.959);
  bin.set_z(-40);
  bin.set_stands_out(true);
  auto& cat = *verdict.mutable_whereabouts()->add_classes();
  cat.set_class_name("cat");
  cat.set_predicted(0.105);
  cat.set_observed(0.1);
  cat.set_rejected(true);
  cat.set_stands_out(true);
  auto& dog = *verdict.mutable_whereabouts()->add_classes();
  dog.set_class_index(5);
  dog.set_predicted(0.1);
  dog.set_observed(0.109);
  dog.set_rejected(true);
  verdict.mutable_whereabouts()->set_rejected_classes(2);
  v1::CalibrationError& error = *answer.mutable_error();
  error.set_status(v1::CalibrationError::OVER_LIMIT);
  error.set_limit(0.02);
  *error.mutable_since_start() = Measured(0.0535, 0.0423, 0.0678, 0.05246);
  v1::Evidence& evidence = *answer.mutable_watch()->mutable_evidence();
  evidence.set_log10_e_value(229.07);
  evidence.set_max_log10_e_value(229.09);
  evidence.set_threshold(std::log10(20));
  v1::Alarm& alarm = *answer.add_alarms();
  alarm.set_id(3);
  alarm.set_kind(v1::Alarm::OVER_LIMIT);
  alarm.set_observation(913);
  alarm.mutable_raise_time()->set_seconds(3600);
  alarm.mutable_crossing()->set_first_observation(1);
  alarm.mutable_crossing()->set_limit(0.02);
  *alarm.mutable_crossing()->mutable_error() = Interval(0.06, 0.0201, 0.1, 0.05);
  return answer;
}

// Forecasts of a number whose intervals are too narrow.
inline v1::GetCalibrationResponse NarrowForecasts() {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_forecast()->set_observations(10000);
  answer.mutable_error()->set_limit(0.05);
  answer.mutable_verdict()->clear_whereabouts();
  v1::ErrorMeasurement& all = *answer.mutable_error()->mutable_since_start();
  all.clear_top_label();
  *all.mutable_coverage() = Interval(0.157, 0.085, 0.229);
  *all.add_central_coverage() = Coverage(0.5, 0.49, 0.45, 0.53);
  *all.add_central_coverage() = Coverage(0.9, 0.758, 0.716, 0.799);
  return answer;
}

inline v1::LevelCoverage Level(double level, double below, double at_most, double lower,
                               double upper) {
  v1::LevelCoverage coverage;
  coverage.set_level(level);
  coverage.set_below(below);
  coverage.set_at_most(at_most);
  coverage.set_lower(lower);
  coverage.set_upper(upper);
  return coverage;
}

// Quantiles that equal outcomes; all levels are right.
inline v1::GetCalibrationResponse TiedForecasts() {
  v1::GetCalibrationResponse answer = NarrowForecasts();
  v1::ErrorMeasurement& all = *answer.mutable_error()->mutable_since_start();
  all.clear_central_coverage();
  *all.mutable_coverage() = Interval(0, 0, 0.041);
  *all.add_level_coverage() = Level(0.1, 0, 0.52, 0, 0.56);
  *all.add_level_coverage() = Level(0.5, 0.36, 0.62, 0.32, 0.66);
  *all.add_level_coverage() = Level(0.9, 0.891, 0.891, 0.85, 0.93);
  return answer;
}

inline google::protobuf::Timestamp Now() {
  google::protobuf::Timestamp now;
  now.set_seconds(86400 + 7200);
  return now;
}

// The newest 1548 rows, after `first` rows.
inline void SetNewest(std::int64_t first, v1::ErrorMeasurement measured,
                      v1::GetCalibrationResponse& answer) {
  measured.set_first_observation(first);
  measured.set_observations(1548);
  *answer.mutable_error()->mutable_newest() = std::move(measured);
}

// A model of several labels of which one is over the limit, and a rejected one is not.
inline v1::GetCalibrationResponse OverLimitLabels() {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_verdict()->clear_whereabouts();
  answer.mutable_verdict()->add_labels_over_limit("wind");
  v1::CalibrationError& error = *answer.mutable_error();
  error.set_status(v1::CalibrationError::UNDECIDED);
  error.mutable_since_start()->clear_top_label();
  *error.mutable_since_start()->mutable_labels() = Interval(0.04, 0.015, 0.076);
  answer.mutable_alarms(0)->set_label("wind");
  answer.mutable_labels()->set_truths(10000);
  const auto add = [&answer](const char* name, v1::CalibrationError::Status status, double lower) {
    v1::LabelCalibration& label = *answer.mutable_labels()->add_labels();
    label.set_name(name);
    label.set_status(status);
    *label.mutable_error() = Interval(lower + 0.02, lower, lower + 0.1);
  };
  add("rain", v1::CalibrationError::WITHIN_LIMIT, 0);
  add("fog", v1::CalibrationError::UNDECIDED, 0.01);
  add("wind", v1::CalibrationError::OVER_LIMIT, 0.061);
  answer.mutable_labels()->mutable_labels(1)->set_rejected(true);
  answer.mutable_labels()->mutable_labels(2)->set_rejected(true);
  return answer;
}

}  // namespace calibd::convert::answers

#endif  // CALIBD_TESTS_UNIT_CONVERT_READING_ANSWERS_H_
