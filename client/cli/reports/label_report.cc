#include "client/cli/reports/label_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {
namespace {

bool IsOver(const v1::LabelCalibration& label) {
  return label.status() == v1::CalibrationError::OVER_LIMIT;
}

// "over the limit, rejected", "recovered since row 4097", or after an acknowledgement "counted
// since row 4001, accepted up to 18.7 points".
std::string MarkText(const v1::LabelCalibration& label) {
  std::vector<std::string> marks;
  if (label.has_recovered_since()) {
    marks.push_back(absl::StrCat("recovered since row ", label.recovered_since()));
  } else if (IsOver(label)) {
    marks.emplace_back("over the limit");
  }
  if (label.rejected()) marks.emplace_back("rejected");
  if (label.has_since_observation()) {
    marks.push_back(absl::StrCat("counted since row ", label.since_observation()));
  }
  if (label.has_acknowledged_limit()) {
    marks.push_back(
        absl::StrCat("accepted up to ", convert::PointsText(label.acknowledged_limit())));
  }
  return absl::StrJoin(marks, ", ");
}

}  // namespace

std::string DescribeLabels(const v1::MultilabelCalibration& calibration, std::size_t most) {
  std::vector<const v1::LabelCalibration*> labels;
  for (const v1::LabelCalibration& label : calibration.labels()) labels.push_back(&label);
  std::ranges::stable_sort(labels, [](const auto* a, const auto* b) {
    const auto key = [](const v1::LabelCalibration& label) {
      return std::pair(!IsOver(label), !label.rejected());
    };
    return key(*a) < key(*b);
  });
  const std::size_t left_out = labels.size() - std::min(labels.size(), most);
  labels.resize(labels.size() - left_out);
  std::vector<std::vector<std::string>> rows = {{"label", "truths", "stated", "held",
                                                 "off by (points)", "interval (points)",
                                                 "log10 e-value", ""}};
  for (const v1::LabelCalibration* const label : labels) {
    const v1::ErrorInterval& error = label->error();
    const auto percent = [label](double share) {
      return label->truths() == 0 ? "-" : absl::StrFormat("%.1f %%", 100 * share);
    };
    // Noise biases the estimate upwards, which says nothing beside an interval that begins at 0.
    const bool has_estimate = label->has_error() && error.lower() > 0;
    rows.push_back(
        {convert::Plain(label->name()), absl::StrCat(label->truths()), percent(label->stated()),
         percent(label->held()), has_estimate ? convert::Points(error.estimate()) : "-",
         label->has_error()
             ? absl::StrCat(convert::Points(error.lower()), " to ", convert::Points(error.upper()))
             : "-",
         convert::Fixed(label->log10_e_value(), 1), MarkText(*label)});
  }
  return absl::StrCat(FormatTable(rows),
                      left_out > 0 ? absl::StrCat("... ", left_out, " more\n") : "");
}

}  // namespace calibd::cli
