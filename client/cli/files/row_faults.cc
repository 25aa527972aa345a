#include "client/cli/files/row_faults.h"

#include <cstddef>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

const RowPlaces& PlacesOf(const Table& table, const std::string& field) {
  const auto own = [&](const RowPlaces& places) -> const RowPlaces& {
    return places.path.empty() ? table.places : places;
  };
  if (field.starts_with("baseline_")) return own(table.baseline_places);
  if (field == "labels" || field == "outcomes") return own(table.truth_places);
  return field == "prediction_ids" ? own(table.id_places) : table.places;
}

// "2 ("cat")": the number of the column from 1, and its name.
std::string ColumnOf(const Table& table, const std::string& field, std::size_t k) {
  const ColumnPlan& plan = table.columns;
  const bool truth = field == "truths" || field == "labels";
  const std::vector<std::size_t>& columns = truth                 ? plan.truths
                                            : field == "features" ? plan.features
                                                                  : plan.values;
  const std::size_t column = k < columns.size() ? columns[k] : k;
  std::string name;
  if (column < plan.names.size()) {
    name = plan.names[column];
  } else if (k < plan.value_names.size() && &columns == &plan.values) {
    name = plan.value_names[k];
  }
  return absl::StrCat(column + 1, name.empty() ? "" : absl::StrCat(" (", Quote(name), ")"));
}

}  // namespace

absl::Status DescribeFaults(const Table& table, const absl::Status& faults) {
  static const std::regex kRow(R"((rows|labels)\[(\d+)\](?:\.(\w+))?(?:\[(\d+)\])?)");
  const std::string message(faults.message());
  std::string text;
  auto rest = message.begin();
  for (std::sregex_iterator row(message.begin(), message.end(), kRow), end; row != end; ++row) {
    const std::smatch& match = *row;
    text.append(rest, match[0].first);
    rest = match[0].second;
    const std::string field = match[3].matched ? match[3].str() : match[1].str();
    text += PlacesOf(table, field).Of(std::stoull(match[2].str()));
    if (field == "mean" || field == "standard_deviation" || field == "outcome") {
      absl::StrAppend(&text, ", ", field);
    }
    if (match[4].matched) {
      absl::StrAppend(&text, ", column ", ColumnOf(table, field, std::stoull(match[4].str())));
    }
    if (field == "outcomes") text += ", outcome";
  }
  return absl::InvalidArgumentError(text.append(rest, message.end()));
}

}  // namespace calibd::cli
