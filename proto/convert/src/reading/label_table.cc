#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/multilabel.h"
#include "calibd/convert/text.h"

namespace calibd::convert {
namespace {

// The number of labels that a short answer shows.
constexpr int kShortRows = 20;

bool IsOver(const v1::LabelCalibration& label) {
  return label.status() == v1::CalibrationError::OVER_LIMIT;
}

// "over the limit, rejected", "recovered since row 4097", or after an acknowledgement "counted
// since row 4001, accepted up to 18.7 points".
std::string MarkText(const v1::LabelCalibration& label, const v1::DatedChange& change) {
  std::vector<std::string> marks;
  if (label.has_recovered_since()) {
    marks.push_back(RecoveredText(label.recovered_since(), change));
  } else if (IsOver(label)) {
    marks.emplace_back("over the limit");
  }
  if (label.rejected()) marks.emplace_back("rejected");
  if (label.has_since_observation()) {
    marks.push_back(absl::StrCat("counted since row ", label.since_observation()));
  }
  if (label.has_acknowledged_limit()) {
    marks.push_back(absl::StrCat("accepted up to ", PointsText(label.acknowledged_limit())));
  }
  return absl::StrJoin(marks, ", ");
}

std::vector<std::string> CellsOf(const v1::LabelCalibration& label, const v1::DatedChange& change) {
  const v1::ErrorInterval& error = label.error();
  const auto percent = [&label](double share) {
    return label.truths() == 0 ? "-" : absl::StrFormat("%.1f %%", 100 * share);
  };
  // Noise biases the estimate upwards, which says nothing beside an interval that begins at 0.
  const bool has_estimate = label.has_error() && error.lower() > 0;
  return {
      Plain(label.name()),
      absl::StrCat(label.truths()),
      percent(label.stated()),
      percent(label.held()),
      has_estimate ? Points(error.estimate()) : "-",
      label.has_error() ? absl::StrCat(Points(error.lower()), " to ", Points(error.upper())) : "-",
      Fixed(label.log10_e_value(), 1),
      MarkText(label, change)};
}

}  // namespace

void AddTable(v1::MultilabelCalibration& calibration, const v1::DatedChange& change) {
  v1::Table table;
  table.set_short_rows(kShortRows);
  for (const char* const title : {"label", "truths", "stated", "held", "off by (points)",
                                  "interval (points)", "log10 e-value", ""}) {
    table.add_columns(title);
  }
  std::vector<const v1::LabelCalibration*> labels;
  for (const v1::LabelCalibration& label : calibration.labels()) labels.push_back(&label);
  std::ranges::stable_sort(labels, [](const auto* a, const auto* b) {
    const auto key = [](const v1::LabelCalibration& label) {
      return std::pair(!IsOver(label), !label.rejected());
    };
    return key(*a) < key(*b);
  });
  for (const v1::LabelCalibration* const label : labels) {
    v1::Table::Row& row = *table.add_rows();
    for (std::string& cell : CellsOf(*label, change)) row.add_cells(std::move(cell));
  }
  *calibration.mutable_table() = std::move(table);
}

}  // namespace calibd::convert
