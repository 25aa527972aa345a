#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
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

// The number of rows of a table that is not whole.
constexpr std::size_t kShortRows = 20;

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

std::vector<std::size_t> TableOrder(const v1::MultilabelCalibration& calibration) {
  std::vector<std::size_t> order(static_cast<std::size_t>(calibration.labels_size()));
  std::iota(order.begin(), order.end(), 0U);
  const auto key = [&](std::size_t k) {
    const v1::LabelCalibration& label = calibration.labels(static_cast<int>(k));
    return std::pair(!IsOver(label), !label.rejected());
  };
  std::ranges::stable_sort(order, {}, key);
  return order;
}

void AddTable(v1::MultilabelCalibration& calibration, bool is_whole,
              const v1::DatedChange& change) {
  v1::Table table;
  for (const char* const title : {"label", "truths", "stated", "held", "off by (points)",
                                  "interval (points)", "log10 e-value", ""}) {
    table.add_columns(title);
  }
  std::vector<std::size_t> order = TableOrder(calibration);
  if (!is_whole && order.size() > kShortRows) {
    table.set_left_out(static_cast<std::int32_t>(order.size() - kShortRows));
    order.resize(kShortRows);
  }
  for (const std::size_t k : order) {
    v1::Table::Row& row = *table.add_rows();
    for (std::string& cell : CellsOf(calibration.labels(static_cast<int>(k)), change)) {
      row.add_cells(std::move(cell));
    }
  }
  *calibration.mutable_table() = std::move(table);
}

}  // namespace calibd::convert
