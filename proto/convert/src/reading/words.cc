#include "words.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"

namespace calibd::convert {
namespace {

constexpr std::size_t kMaxName = 24;

// A mean this many standard errors from 0 is named. The residuals of calibrated forecasts have the
// standard deviation 1, and that of a few rows may be far smaller by chance.
constexpr double kNamedErrors = 4;

bool IsNamed(double mean, double standard_deviation, std::int64_t observations) {
  return observations > 0 && std::abs(mean) > kNamedErrors * std::max(1.0, standard_deviation) /
                                                  std::sqrt(static_cast<double>(observations));
}

// Where the outcomes of a cell are, such as "above the 99.9 % quantile".
std::string CellPlace(const v1::ForecastCell& cell) {
  if (cell.lower() <= 0) return absl::StrFormat("below the %.3g %% quantile", 100 * cell.upper());
  if (cell.upper() >= 1) return absl::StrFormat("above the %.3g %% quantile", 100 * cell.lower());
  return absl::StrFormat("between the %.3g and the %.3g %% quantile", 100 * cell.lower(),
                         100 * cell.upper());
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

const v1::Alarm* Active(const v1::GetCalibrationResponse& answer, v1::Alarm::Kind kind,
                        bool with_groups) {
  const v1::Alarm* oldest = nullptr;
  for (const v1::Alarm& alarm : answer.alarms()) {
    if (alarm.kind() != kind || alarm.has_acknowledge_time()) continue;
    const bool is_own =
        !alarm.has_group_value() && !(kind == v1::Alarm::OVER_LIMIT && alarm.has_label());
    if (with_groups || is_own) oldest = &alarm;
  }
  return oldest;
}

std::string CutName(const std::string& name) {
  const std::string plain = Plain(name);
  return plain.size() <= kMaxName ? plain : CutLines(plain, kMaxName - 3) + "...";
}

std::string JoinNames(const std::vector<std::string>& names, std::size_t max_names,
                      std::size_t more) {
  const std::size_t shown = std::min(names.size(), max_names);
  more += names.size() - shown;
  std::string text =
      absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", ");
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

std::string OffByText(const v1::ErrorInterval& interval, double limit) {
  return OffByText(interval.estimate(), interval.lower(), interval.upper(), limit);
}

std::string WidthText(const CentralCoverages& central) {
  if (central.empty()) return "";
  const v1::CentralCoverage* shown = &*central.rbegin();
  std::string conclusion;
  for (const v1::CentralCoverage& one : central) {
    const bool is_narrow = one.upper() < one.promised();
    if (!is_narrow && one.lower() <= one.promised()) continue;
    conclusion = is_narrow ? ": too narrow" : ": too wide";
    shown = &one;
  }
  return absl::StrFormat("the %.3g %% intervals cover %.1f %% (%.1f to %.1f)%s",
                         100 * shown->promised(), 100 * shown->coverage(), 100 * shown->lower(),
                         100 * shown->upper(), conclusion);
}

std::string BiasText(const v1::ForecastDirection& direction, std::int64_t observations) {
  const bool is_exact = direction.has_residual_mean();
  const double mean = is_exact ? direction.residual_mean() : direction.shift();
  const double deviation = is_exact ? direction.residual_standard_deviation() : direction.scale();
  if (!IsNamed(mean, deviation, observations)) return "";
  return absl::StrFormat("on average %s%.2g standard deviations too %s", is_exact ? "" : "about ",
                         std::abs(mean), mean < 0 ? "high" : "low");
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
