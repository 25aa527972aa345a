#include "words.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "calibd/core/p_value.h"

namespace calibd::convert {
namespace {

// A mean this many standard errors from 0 is named. The residuals of calibrated forecasts have the
// standard deviation 1, and that of a few rows may be far smaller by chance.
constexpr double kNamedErrors = 4;

bool IsNamed(double mean, double standard_deviation, std::int64_t observations) {
  return observations > 0 && std::abs(mean) > kNamedErrors * std::max(1.0, standard_deviation) /
                                                  std::sqrt(static_cast<double>(observations));
}

// The mean of the outcomes, in standard deviations of the forecasts.
double MeanOf(const v1::ForecastDirection& direction) {
  return direction.has_residual_mean() ? direction.residual_mean() : direction.shift();
}

// The probability of a central interval of the standard Normal distribution that promises
// `promised`, if the outcomes are Normal with this mean and the standard deviation 1.
double BiasedCoverage(double promised, double mean) {
  double low = 0;
  double high = 40;
  // The half width of the interval, by bisection.
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (2 * NormalUpperTail(middle) > 1 - promised ? low : high) = middle;
  }
  return 1 - NormalUpperTail(low - mean) - NormalUpperTail(low + mean);
}

// Where the outcomes of a cell are, such as "above the 99.9 % quantile".
std::string CellPlace(const v1::ForecastCell& cell) {
  if (cell.lower() <= 0) return absl::StrFormat("below the %.3g %% quantile", 100 * cell.upper());
  if (cell.upper() >= 1) return absl::StrFormat("above the %.3g %% quantile", 100 * cell.lower());
  return absl::StrFormat("between the %.3g and the %.3g %% quantile", 100 * cell.lower(),
                         100 * cell.upper());
}

// The levels outside of their intervals, the farthest first.
std::vector<const v1::LevelCoverage*> WrongLevels(const LevelCoverages& levels) {
  const auto outside = [](const v1::LevelCoverage* one) {
    return std::max(one->lower() - one->level(), one->level() - one->upper());
  };
  std::vector<const v1::LevelCoverage*> wrong;
  for (const v1::LevelCoverage& one : levels) {
    if (outside(&one) > 0) wrong.push_back(&one);
  }
  std::ranges::stable_sort(wrong, std::ranges::greater(), outside);
  return wrong;
}

}  // namespace

const v1::ErrorMeasurement& Current(const v1::CalibrationError& error) {
  return error.has_since_acknowledgement() ? error.since_acknowledgement() : error.since_start();
}

const v1::ErrorInterval* IntervalOf(const v1::ErrorMeasurement& error) {
  if (error.has_coverage()) return &error.coverage();
  if (error.has_labels()) return &error.labels();
  return error.has_top_label() ? &error.top_label() : nullptr;
}

NamedEvent WorstEvent(const v1::ErrorMeasurement& error) {
  if (!error.has_class_1()) return {.name = "", .interval = IntervalOf(error)};
  return IsSameEvent(error) || Exceeds(error.class_1(), error.top_label())
             ? NamedEvent{.name = Class1Event(error.class_1_name()) + " ",
                          .interval = &error.class_1()}
             : NamedEvent{.name = "top label ", .interval = &error.top_label()};
}

NamedEvent LeadingEvent(const v1::ErrorMeasurement& error, double limit,
                        const v1::ErrorMeasurement& lead) {
  NamedEvent worst = WorstEvent(error);
  if (!error.has_class_1() || !lead.has_class_1()) return worst;
  NamedEvent same = WorstEvent(lead);
  same.interval = same.interval == &lead.class_1() ? &error.class_1() : &error.top_label();
  const bool only_worst = worst.interval->lower() > limit && same.interval->lower() <= limit;
  return only_worst ? worst : same;
}

void CompareEvents(v1::CalibrationError& error) {
  const auto compare = [&error](v1::ErrorMeasurement& measured, const v1::ErrorMeasurement& lead) {
    if (!measured.has_class_1()) return;
    measured.set_class_1_is_worse(!IsSameEvent(measured) &&
                                  LeadingEvent(measured, error.limit(), lead).interval ==
                                      &measured.class_1());
  };
  if (error.has_since_start()) compare(*error.mutable_since_start(), error.since_start());
  if (error.has_since_acknowledgement()) {
    compare(*error.mutable_since_acknowledgement(), error.since_acknowledgement());
  }
  if (error.has_newest()) compare(*error.mutable_newest(), Current(error));
}

bool IsSameEvent(const v1::ErrorMeasurement& error) noexcept {
  return IsSameEvent(error.class_1(), error.top_label());
}

double FrequencyOf(const v1::ErrorInterval& error) noexcept {
  const double frequency = error.stated() - error.gap();
  // Less than one event in all rows is a rounding error.
  constexpr double kRounding = 1e-14;
  return frequency < kRounding ? 0 : frequency;
}

bool ErrsBothWays(const v1::ErrorInterval& error) noexcept {
  return error.lower() > std::max(error.gap_upper(), -error.gap_lower());
}

std::string StatedText(const v1::ErrorInterval& error) {
  if (!error.has_stated()) return "";
  const double says = 100 * error.stated();
  const double is = 100 * FrequencyOf(error);
  const std::string shares =
      absl::StrCat("says ", Percent(says / 100, 1), ", is ", Percent(is / 100, 1));
  if (error.gap_lower() <= 0 && error.gap_upper() >= 0) {
    return shares + (ErrsBothWays(error)
                         ? ": too high for some predictions and too low for others, which cancels "
                           "in part"
                         : ", and whether this is too high or too low is not known yet");
  }
  const bool is_high = error.gap_lower() > 0;
  const double gap = std::abs(100 * error.gap());
  const double low = 100 * (is_high ? error.gap_lower() : -error.gap_upper());
  // A frequency is in [0, 1].
  const double high = std::min(100 * (is_high ? error.gap_upper() : -error.gap_lower()),
                               is_high ? says : 100 - says);
  const double larger = std::max(says, is);
  const double smaller = std::min(says, is);
  // The smallest factor that the interval allows: one event in many rows shows none.
  const double least = is_high ? says / (says - low) : (says + low) / says;
  std::string factor;
  if (smaller > 0 && larger >= 2 * smaller && least >= 2) {
    const double ratio = larger / smaller;
    factor =
        absl::StrCat(ratio < 99.5 ? absl::StrFormat("%.2g", ratio) : Fixed(ratio, 0), " times ");
  }
  return absl::StrCat(shares, ": ", factor, is_high ? "too high" : "too low",
                      factor.empty() ? "" : ",", " by ", Fixed(gap, DecimalsOf(gap, 1)),
                      " points (", Fixed(low, DecimalsOf(high - low, 1)), " to ",
                      Fixed(high, DecimalsOf(high - low, 1)), ")");
}

bool IsWorseThanChance(const v1::ErrorMeasurement& error, int class_count) {
  return class_count > 0 && error.has_top_label() &&
         error.mean_confidence() - error.top_label().gap_lower() < 1.0 / class_count;
}

std::string ChanceText(const v1::ErrorMeasurement& error, int class_count) {
  if (!IsWorseThanChance(error, class_count)) return "";
  return absl::StrCat("right in ", Percent(error.accuracy(), 1),
                      ", less often than by chance: check ", std::string(kSwappedColumns), "; ");
}

int ClassCount(const v1::GetCalibrationResponse& answer) {
  return answer.error().since_start().has_class_1()
             ? 2
             : static_cast<int>(answer.verdict().whereabouts().class_count());
}

const v1::Alarm* Active(const v1::GetCalibrationResponse& answer, v1::Alarm::Kind kind) {
  const v1::Alarm* oldest = nullptr;
  for (const v1::Alarm& alarm : answer.alarms()) {
    if (alarm.kind() == kind && !alarm.has_acknowledge_time()) oldest = &alarm;
  }
  return oldest;
}

std::string TimeOfRow(const google::protobuf::Timestamp& time, std::int64_t row) {
  return absl::StrCat(MinuteText(time), row > 0 ? absl::StrCat(" (row ", row, ")") : "");
}

std::string SinceText(const v1::ErrorMeasurement& error) {
  return " since " + (error.has_start_time()
                          ? TimeOfRow(error.start_time(), error.first_observation())
                          : absl::StrCat("row ", error.first_observation()));
}

std::string JoinNames(const std::vector<std::string>& names, std::size_t max_names,
                      std::size_t more) {
  const std::size_t shown = std::min(names.size(), max_names);
  more += names.size() - shown;
  std::string text =
      absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", ");
  if (more > 0) absl::StrAppend(&text, " and ", more, more == 1 ? " other" : " others");
  return text;
}

std::string OffByText(const v1::ErrorInterval& interval, double limit) {
  return OffByText(interval.estimate(), interval.lower(), interval.upper(), limit);
}

std::string WidthText(const CentralCoverages& central, const v1::ForecastDirection& direction,
                      std::int64_t observations) {
  if (central.empty()) return "";
  const v1::CentralCoverage* shown = &*central.rbegin();
  std::string conclusion;
  for (const v1::CentralCoverage& one : central) {
    const bool is_narrow = one.upper() < one.promised();
    if (!is_narrow && one.lower() <= one.promised()) continue;
    conclusion = is_narrow ? ": too narrow" : ": too wide";
    shown = &one;
  }
  const bool is_narrow = shown->upper() < shown->promised();
  const bool follows = is_narrow && !BiasText(direction, observations).empty() &&
                       BiasedCoverage(shown->promised(), MeanOf(direction)) <= shown->upper();
  return absl::StrFormat("%sthe %.3g %% intervals cover %.1f %% (%.1f to %.1f)%s",
                         follows ? "because of this, " : "", 100 * shown->promised(),
                         100 * shown->coverage(), 100 * shown->lower(), 100 * shown->upper(),
                         follows ? "" : conclusion);
}

std::string LevelsText(const LevelCoverages& levels) {
  if (levels.empty()) return "";
  const std::vector<const v1::LevelCoverage*> wrong = WrongLevels(levels);
  const auto from_half = [](const v1::LevelCoverage& one) { return std::abs(one.level() - 0.5); };
  const v1::LevelCoverage& shown =
      wrong.empty() ? *std::ranges::min_element(levels, {}, from_half) : *wrong.front();
  return LevelText(shown) + LevelConclusion(shown);
}

std::vector<std::string> WrongLevelNames(const LevelCoverages& levels) {
  std::vector<std::string> names;
  for (const v1::LevelCoverage* const one : WrongLevels(levels)) {
    names.push_back(LevelName(one->level()));
  }
  return names;
}

std::string WrongLevelsTitle(const std::vector<std::string>& names) {
  return names.size() == 1 ? "wrong level " : "wrong levels ";
}

std::string BiasText(const v1::ForecastDirection& direction, std::int64_t observations) {
  const bool is_exact = direction.has_residual_mean();
  const double mean = MeanOf(direction);
  const double deviation = is_exact ? direction.residual_standard_deviation() : direction.scale();
  if (!IsNamed(mean, deviation, observations)) return "";
  return absl::StrFormat("on average %s%.2g standard deviations too %s", is_exact ? "" : "about ",
                         std::abs(mean), mean < 0 ? "high" : "low");
}

std::vector<const v1::Whereabouts::ClassShare*> RejectedClasses(
    const v1::GetCalibrationResponse& answer) {
  std::vector<const v1::Whereabouts::ClassShare*> rejected;
  for (const auto& share : answer.verdict().whereabouts().classes()) {
    if (share.rejected()) rejected.push_back(&share);
  }
  const auto size = [](const v1::Whereabouts::ClassShare* share) {
    return std::abs(share->predicted() - share->observed());
  };
  std::ranges::stable_sort(rejected, std::greater<>(), size);
  if (answer.error().since_start().has_class_1() && rejected.size() == 2) {
    std::erase_if(rejected, [](const auto* share) { return share->class_index() == 0; });
  }
  return rejected;
}

bool AreAllRejected(const v1::Whereabouts& whereabouts) noexcept {
  return whereabouts.class_count() > 0 &&
         whereabouts.rejected_classes() == whereabouts.class_count();
}

std::size_t UnknownRejectedClasses(const v1::GetCalibrationResponse& answer) {
  const v1::Whereabouts& whereabouts = answer.verdict().whereabouts();
  const auto known =
      std::ranges::count_if(whereabouts.classes(), &v1::Whereabouts::ClassShare::rejected);
  return static_cast<std::size_t>(
      std::max<std::int64_t>(0, whereabouts.rejected_classes() - known));
}

std::vector<const v1::LabelCalibration*> WorstFirst(const v1::MultilabelCalibration& labels) {
  std::vector<const v1::LabelCalibration*> sorted;
  for (const v1::LabelCalibration& label : labels.labels()) sorted.push_back(&label);
  std::ranges::stable_sort(sorted, std::greater<>(), [](const v1::LabelCalibration* label) {
    return label->has_error() ? std::pair(label->error().lower(), label->error().estimate())
                              : std::pair(-1.0, 0.0);
  });
  return sorted;
}

std::string RecoveredText(std::int64_t since, const v1::DatedChange& change) {
  return absl::StrCat(since > change.to_observation() ? "recovered since row "
                                                      : "on average within the limit since row ",
                      since);
}

std::string ClassName(const v1::Whereabouts::ClassShare& share) {
  return share.class_name().empty() ? absl::StrCat(share.class_index())
                                    : CutName(share.class_name());
}

std::vector<std::string> CellTexts(
    const google::protobuf::RepeatedPtrField<v1::ForecastCell>& cells, std::size_t max_cells) {
  std::vector<v1::ForecastCell> worst;
  std::ranges::copy_if(cells, std::back_inserter(worst), &v1::ForecastCell::stands_out);
  std::ranges::stable_sort(worst, std::ranges::greater(),
                           [](const v1::ForecastCell& cell) { return std::abs(cell.z()); });
  worst.resize(std::min(worst.size(), max_cells));
  std::vector<std::string> texts;
  for (const v1::ForecastCell& cell : worst) {
    const std::string expected = cell.expected() < 9.95 ? absl::StrFormat("%.2g", cell.expected())
                                                        : absl::StrFormat("%.0f", cell.expected());
    texts.push_back(absl::StrCat(CellPlace(cell), ": ", cell.observations(), " outcomes, ",
                                 expected, " expected"));
  }
  return texts;
}

}  // namespace calibd::convert
