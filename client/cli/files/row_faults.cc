#include "client/cli/files/row_faults.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "calibd/client/observation_stream.h"
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

std::string PlaceOf(const Table& table, const Violation& violation) {
  const std::string& field = violation.field;
  if (!violation.row.has_value()) return field;
  std::string place = PlacesOf(table, field).Of(*violation.row);
  if (field == "mean" || field == "standard_deviation") absl::StrAppend(&place, ", ", field);
  if (field == "outcome" || field == "outcomes") place += ", outcome";
  if (violation.column.has_value()) {
    absl::StrAppend(&place, ", column ", ColumnOf(table, field, *violation.column));
  }
  return place;
}

}  // namespace

absl::Status DescribeFaults(const Table& table, std::span<const Violation> violations) {
  std::string text;
  for (const Violation& violation : violations) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", PlaceOf(table, violation), " ",
                    violation.description);
  }
  return absl::InvalidArgumentError(text);
}

absl::Status DescribeFaults(const Table& table, const absl::Status& status) {
  std::string text(status.message());
  for (const client::RowError& error : client::RowErrors(status)) {
    const std::string place = PlaceOf(table, ParsePath(error.field, error.description));
    absl::StrReplaceAll({{absl::StrCat(error.field, " ", error.description),
                          absl::StrCat(place, " ", error.description)}},
                        &text);
  }
  return {status.code(), text};
}

}  // namespace calibd::cli
