#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "limit_alarm.h"
#include "rejected_parts.h"
#include "words.h"

namespace calibd::convert {
namespace {

// Appends a part of a sentence, if it says anything.
void Add(std::string& text, const std::string& part) {
  if (!part.empty()) absl::StrAppend(&text, "; ", part);
}

// Says since when there is no labelled row, and how far off the rows before were.
std::string NoRowText(const v1::GetCalibrationResponse& answer) {
  const v1::ErrorMeasurement& all = answer.error().since_start();
  const v1::LabelArrivals& arrivals = answer.label_arrivals();
  if (answer.observations() == 0 && arrivals.pending_labelled() > 0) {
    return absl::StrCat(
        "no row counted yet: ", arrivals.pending_labelled(), " of ", arrivals.pending(),
        arrivals.pending() == 1 ? " pending row is" : " pending rows are", " labelled");
  }
  if (answer.observations() == 0) return "no labelled row yet";
  // Rows of several labels may have no truth.
  if (IntervalOf(all) == nullptr && all.observations() > 0) return "no known truth yet";
  if (IntervalOf(all) == nullptr) {
    return absl::StrCat("no labelled row since row ", all.first_observation() - 1);
  }
  const NamedEvent event = WorstEvent(all);
  const v1::ErrorInterval& interval = *event.interval;
  return absl::StrCat(event.name, "was off by ", PointsText(interval.estimate()), " (",
                      Points(interval.lower()), " to ", Points(interval.upper()), ") over rows ",
                      all.first_observation(), " to ",
                      all.first_observation() + all.observations() - 1, "; no labelled row since");
}

// "says 97.0 %, right 91.7 %: over-confident by 5.3 points (4.2 to 6.3)". Each figure is rounded on
// its own, so that all channels print the same ones; the first two may differ by a tenth of a point
// more or less than the third. A direction is named only if the interval has no other.
std::string ConfidenceText(const v1::ErrorMeasurement& error) {
  const v1::ErrorInterval& interval = error.top_label();
  const std::string shares = absl::StrCat("says ", Percent(error.mean_confidence(), 1), ", right ",
                                          Percent(error.accuracy(), 1));
  const bool is_over = interval.gap_lower() > 0;
  if (!is_over && interval.gap_upper() >= 0) {
    return shares + (ErrsBothWays(interval)
                         ? ": over-confident for some predictions and under-confident for others, "
                           "which cancels in part"
                         : ", and whether it is over- or under-confident is not known yet");
  }
  const double gap = std::abs(error.mean_confidence() - error.accuracy());
  const double low = is_over ? interval.gap_lower() : -interval.gap_upper();
  const double high = is_over ? interval.gap_upper() : -interval.gap_lower();
  return absl::StrCat(shares, ": ", is_over ? "over" : "under", "-confident by ", PointsText(gap),
                      " (", Points(low), " to ", Points(high), ")");
}

// Whether an event is worth a second sentence: it is over the limit too, or off in one direction.
bool IsOff(const v1::ErrorInterval& error, double limit) {
  return error.lower() > limit || error.gap_lower() > 0 || error.gap_upper() < 0;
}

// Each event has its own direction.
std::string ClassesText(const v1::ErrorMeasurement& error, double limit,
                        const v1::ErrorMeasurement& lead) {
  const std::string off_by = OffByText(error.top_label(), limit);
  if (!error.has_class_1()) return absl::StrCat(off_by, "; ", ConfidenceText(error));
  std::string first = absl::StrCat("top label ", off_by, ", ", ConfidenceText(error));
  std::string second =
      absl::StrCat(Class1Event(error.class_1_name()), " ", OffByText(error.class_1(), limit));
  const std::string stated = StatedText(error.class_1());
  if (!stated.empty()) absl::StrAppend(&second, ", ", stated);
  const bool is_class_1 = LeadingEvent(error, limit, lead).interval == &error.class_1();
  if (is_class_1) first.swap(second);
  if (IsSameEvent(error)) return first;
  if (IsOff(is_class_1 ? error.top_label() : error.class_1(), limit)) Add(first, second);
  return first;
}

// How far a level may be off at most, where the outcomes that equal its quantile leave a range of
// right levels; 0 without such outcomes. In [0, 1].
double HiddenByTies(const v1::ErrorMeasurement& error) {
  double hidden = 0;
  for (const v1::LevelCoverage& level : error.level_coverage()) {
    if (level.below() == level.at_most()) continue;
    hidden = std::max({hidden, level.level() - level.below(), level.at_most() - level.level()});
  }
  return hidden;
}

std::string ForecastsText(const v1::ErrorMeasurement& error, double limit) {
  std::string text = OffByText(error.coverage(), limit);
  // "off by 0 to 0 points" alone would praise forecasts that the outcomes cannot judge.
  constexpr double kNothing = 5e-4;
  if (const double hidden = HiddenByTies(error);
      error.coverage().upper() < kNothing && hidden > kNothing) {
    Add(text, absl::StrCat("outcomes that equal quantiles can hide up to ", PointsText(hidden)));
  }
  Add(text, BiasText(error.direction(), error.observations()));
  Add(text, WidthText(error.central_coverage(), error.direction(), error.observations()));
  Add(text, LevelsText(error.level_coverage()));
  return text;
}

// "on average over 3 labels off by 4 points (1.5 to 7.6; limit 2 points)".
std::string LabelsText(const v1::GetCalibrationResponse& answer) {
  const v1::MultilabelCalibration& labels = answer.labels();
  std::string text =
      absl::StrCat(labels.labels_size() == 1
                       ? ""
                       : absl::StrCat("on average over ", labels.labels_size(), " labels "),
                   OffByText(*IntervalOf(Current(answer.error())), answer.error().limit()));
  const auto undecided = std::ranges::count_if(labels.labels(), [](const auto& label) {
    return label.status() == v1::CalibrationError::UNDECIDED;
  });
  if (undecided > 0) {
    Add(text, absl::StrCat(undecided, undecided == 1 ? " label is" : " labels are", " undecided"));
  }
  return text;
}

}  // namespace

std::string ErrorText(const v1::ErrorMeasurement& error, double limit,
                      const v1::ErrorMeasurement& lead) {
  return error.has_coverage() ? ForecastsText(error, limit) : ClassesText(error, limit, lead);
}

std::string BriefErrorText(const v1::ErrorMeasurement& error, double limit,
                           const v1::ErrorMeasurement& lead) {
  const NamedEvent event = LeadingEvent(error, limit, lead);
  return event.name + OffByText(*event.interval, limit);
}

v1::Reading::HowBad HowBadLine(const v1::GetCalibrationResponse& answer) {
  v1::Reading::HowBad line;
  if (!answer.has_verdict()) return line;
  const v1::CalibrationError& error = answer.error();
  const v1::ErrorMeasurement& current = Current(error);
  const LeadingPart lead = LeadingPartOf(answer);
  NamedEvent event{.name = lead.subject, .interval = lead.interval};
  std::string text;
  std::string brief;
  if (IntervalOf(current) == nullptr) {
    text = NoRowText(answer);
    brief = BriefNowText(error);
  } else {
    text = answer.has_labels() ? LabelsText(answer)
                               : ChanceText(current, ClassCount(answer)) +
                                     ErrorText(current, error.limit(), current);
    Add(text,
        FormerText(answer, std::max(IntervalOf(current)->lower(), current.class_1().lower())));
    if (error.has_acknowledged_limit() && FirstLimitAlarm(answer, AlarmsOf::kModel) == nullptr) {
      Add(text,
          absl::StrCat("the next alarm is raised above ", PointsText(error.acknowledged_limit())));
    }
    brief = BriefErrorText(current, error.limit(), current);
    if (event.interval == nullptr) event = LeadingEvent(current, error.limit(), current);
    Add(brief, BriefNowText(error));
  }
  // What is rejected comes first.
  if (!lead.text.empty()) {
    text = absl::StrCat(lead.text, answer.has_labels() ? "; " : "; all rows together: ", text);
    brief = lead.text;
  }
  line.set_text(std::move(text));
  if (!brief.empty()) line.set_brief(std::move(brief));
  if (event.interval != nullptr) *line.mutable_interval() = *event.interval;
  line.set_subject(std::string(absl::StripAsciiWhitespace(event.name)));
  return line;
}

}  // namespace calibd::convert
