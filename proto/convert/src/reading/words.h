#ifndef CALIBD_CONVERT_READING_WORDS_H_
#define CALIBD_CONVERT_READING_WORDS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "calibd/v1/calibration_service.pb.h"
#include "google/protobuf/timestamp.pb.h"

// What several lines of a reading share.
namespace calibd::convert {

using CentralCoverages = google::protobuf::RepeatedPtrField<v1::CentralCoverage>;
using LevelCoverages = google::protobuf::RepeatedPtrField<v1::LevelCoverage>;

// The rows to which the status and the limit apply.
[[nodiscard]] const v1::ErrorMeasurement& Current(const v1::CalibrationError& error);
// The interval of the event that the top label is right, or of the coverage of forecasts; null
// without observations.
[[nodiscard]] const v1::ErrorInterval* IntervalOf(const v1::ErrorMeasurement& error);
// The oldest active alarm of this kind, or null.
[[nodiscard]] const v1::Alarm* Active(const v1::GetCalibrationResponse& answer,
                                      v1::Alarm::Kind kind);

// "2026-01-31 12:30 UTC (row 913)", or without the row if it is 0.
[[nodiscard]] std::string TimeOfRow(const google::protobuf::Timestamp& time, std::int64_t row);
// " since 2026-01-31 12:30 UTC (row 913)": since the first row of the measurement.
[[nodiscard]] std::string SinceText(const v1::ErrorMeasurement& error);
// "a, b and 3 others". more: the number of further names, which are not known.
[[nodiscard]] std::string JoinNames(const std::vector<std::string>& names, std::size_t max_names,
                                    std::size_t more = 0);
inline constexpr std::size_t kMaxNames = 3;

// The event that an error is about, as the first words of a sentence. Only two classes have two
// events, of which each sentence names one.
struct NamedEvent {
  // "P(yes) ", "top label ", or empty.
  std::string name;
  // Null without observations.
  const v1::ErrorInterval* interval = nullptr;
};
// The event whose error is the largest; see Exceeds. Class 1 if both errors are equal.
[[nodiscard]] NamedEvent WorstEvent(const v1::ErrorMeasurement& error);
// The event of `error` that is the worst one of `lead`, so that both sentences of an answer speak
// of the same event. Another event that alone is over the limit comes first.
[[nodiscard]] NamedEvent LeadingEvent(const v1::ErrorMeasurement& error, double limit,
                                      const v1::ErrorMeasurement& lead);
// Whether the top label is always class 0, or always class 1, as of a rare event: then both events
// have the same error. error: of two classes.
[[nodiscard]] bool IsSameEvent(const v1::ErrorMeasurement& error) noexcept;

// Whether the error is shown to have both directions, because it is larger than the average gap can
// be: with the parts a, b >= 0 too high and too low, a + b is the error and a - b the gap.
[[nodiscard]] bool ErrsBothWays(const v1::ErrorInterval& error) noexcept;

// How often the event happened, in [0, 1]. error: with `stated`.
[[nodiscard]] double FrequencyOf(const v1::ErrorInterval& error) noexcept;
// "says 25.0 %, is 35.0 %: too low by 10.0 points (8.1 to 11.9)", or with a factor of two and
// more "says 0.10 %, is 0.010 %: 10 times too high, by 0.090 points (0.050 to 0.130)". Each
// figure is rounded on its own. Empty for an interval without `stated`.
[[nodiscard]] std::string StatedText(const v1::ErrorInterval& error);

// Whether the predicted class is right in less than 1 of class_count rows: the upper end of the
// accuracy is below, with the level of the interval. class_count: 0 if it is not known.
[[nodiscard]] bool IsWorseThanChance(const v1::ErrorMeasurement& error, int class_count);
// "right in 20.0 %, less often than by chance: check whether the columns ... are exchanged; ", the
// first words of a line; empty for other models.
[[nodiscard]] std::string ChanceText(const v1::ErrorMeasurement& error, int class_count);
// Two, or the number of a model of more classes; 0 if it is not known.
[[nodiscard]] int ClassCount(const v1::GetCalibrationResponse& answer);

// "off by 5.4 points (4.2 to 6.8; limit 2 points)".
[[nodiscard]] std::string OffByText(const v1::ErrorInterval& interval, double limit);

// How far off the stated probabilities are, with the direction. error: of at least one row. lead:
// of two events, the worse one of these rows leads. The other one follows if it is off too.
[[nodiscard]] std::string ErrorText(const v1::ErrorMeasurement& error, double limit,
                                    const v1::ErrorMeasurement& lead);
// The error alone, of the event that decides about the limit: "P(yes) off by 8.8 points (6.1 to 11;
// limit 2 points)".
[[nodiscard]] std::string BriefErrorText(const v1::ErrorMeasurement& error, double limit,
                                         const v1::ErrorMeasurement& lead);

// What the newest rows say while an alarm of the model itself is active, or until a row follows the
// acknowledgement of one that had recovered, such as "since row 23553
// off by 0.5 points (0 to 1.9; limit 2 points)" if it has recovered, or "the newest 1548 rows: off
// by 20.5 points (10.5 to 30.5; limit 5 points)". Empty if they say nothing else than all rows do.
[[nodiscard]] std::string BriefNowText(const v1::CalibrationError& error);
// See Reading.HowBad.newest_subject.
[[nodiscard]] std::string NewestSubject(const v1::GetCalibrationResponse& answer);

// The coverage of central intervals, and whether they are too narrow or too wide: about the widest
// one that certainly breaks its promise, and else about the widest one, which people trust most.
// Empty without an interval. direction: of these forecasts. If a bias that BiasText names makes
// intervals of the right width cover so little, the text says so, because wider ones would not
// repair them.
[[nodiscard]] std::string WidthText(const CentralCoverages& central,
                                    const v1::ForecastDirection& direction,
                                    std::int64_t observations);
// Where outcomes equal quantiles: how many fell below the quantile of a level. About the level that
// is farthest outside of its interval; if none is outside, about the one nearest to 1/2. Empty
// without levels.
[[nodiscard]] std::string LevelsText(const LevelCoverages& levels);
// Names the levels that are outside of their intervals, such as ".9", the farthest first.
[[nodiscard]] std::vector<std::string> WrongLevelNames(const LevelCoverages& levels);
// "wrong level " or "wrong levels ", to which the names are added.
[[nodiscard]] std::string WrongLevelsTitle(const std::vector<std::string>& names);
// How far forecasts are too high or too low, such as "on average 0.4 standard deviations too low".
// Empty if the mean is within four standard errors of 0, as for calibrated forecasts.
[[nodiscard]] std::string BiasText(const v1::ForecastDirection& direction,
                                   std::int64_t observations);
// The cells that stand out most, at most max_cells of them.
[[nodiscard]] std::vector<std::string> CellTexts(
    const google::protobuf::RepeatedPtrField<v1::ForecastCell>& cells, std::size_t max_cells);

// The classes that e-BH rejects, as far as they are known: the one whose probability is off by most
// first. Of two classes only one, because the other one says the same.
[[nodiscard]] std::vector<const v1::Whereabouts::ClassShare*> RejectedClasses(
    const v1::GetCalibrationResponse& answer);
// Whether e-BH rejects every class, as of a model that is over- or under-confident everywhere. No
// class is then the place to look at.
[[nodiscard]] bool AreAllRejected(const v1::Whereabouts& whereabouts) noexcept;
// The number of further rejected classes, which the answer does not describe.
[[nodiscard]] std::size_t UnknownRejectedClasses(const v1::GetCalibrationResponse& answer);
// The labels, the one with the largest error first: by the lower end of the interval, and then by
// the estimate. Those without an error are last.
[[nodiscard]] std::vector<const v1::LabelCalibration*> WorstFirst(
    const v1::MultilabelCalibration& labels);
// "cat", or the number of a class without a name.
[[nodiscard]] std::string ClassName(const v1::Whereabouts::ClassShare& share);

// Since when a group or a label has recovered: "recovered since row 4097". If the named change of
// the model came later, its rows are not alike: "on average within the limit since row 1025".
[[nodiscard]] std::string RecoveredText(std::int64_t since, const v1::DatedChange& change);

// The place with the largest |z| among those that stand out, or null.
template <typename Places>
const typename Places::value_type* WorstPlace(const Places& places) {
  const typename Places::value_type* worst = nullptr;
  for (const auto& place : places) {
    const bool worse = worst == nullptr || std::abs(place.z()) > std::abs(worst->z());
    if (place.stands_out() && worse) worst = &place;
  }
  return worst;
}

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_READING_WORDS_H_
