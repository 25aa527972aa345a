#include "client/cli/files/table_rows.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/convert/text.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

// Keeps the rows of `width` elements whose flag is set.
template <typename T>
void Keep(const std::vector<bool>& keep, std::size_t width, std::vector<T>& elements) {
  if (elements.empty()) return;
  std::size_t kept = 0;
  for (std::size_t row = 0; row < keep.size(); ++row) {
    if (!keep[row]) continue;
    for (std::size_t k = 0; k < width; ++k, ++kept) {
      if (kept != row * width + k) elements[kept] = std::move(elements[row * width + k]);
    }
  }
  elements.resize(kept);
}

}  // namespace

std::string RowPlaces::Of(std::size_t row) const {
  const std::size_t place = row < rows.size() ? rows[row] : row;
  return place < lines.size() ? absl::StrCat(path, " line ", lines[place])
                              : absl::StrCat(path, " row ", place, " (counted from 0)");
}

std::string Table::PlaceOf(std::size_t row, std::size_t column) const {
  const bool named = column < columns.names.size();
  if (format == FileFormat::kJsonLines) {
    return absl::StrCat(places.Of(row), ", key ", Quote(columns.names[column]));
  }
  return absl::StrCat(places.Of(row), ", column ", column + 1,
                      named ? absl::StrCat(" (", Quote(columns.names[column]), ")") : "");
}

void TellNotes(const Table& table, bool probabilities) {
  constexpr std::size_t kManyRows = 20;
  if (!table.columns.note.empty()) std::cerr << "calibctl: " << table.columns.note << '\n';
  const auto is_whole = [](double value) { return value == 0 || value == 1; };
  // A row that could not be read has a NaN.
  const bool whole = std::ranges::any_of(table.values, is_whole) &&
                     std::ranges::all_of(table.values, [&](double value) {
                       return is_whole(value) || std::isnan(value);
                     });
  if (!probabilities || table.row_count < kManyRows || !whole) return;
  std::cerr << "calibctl: WARNING: all probabilities of the " << table.row_count << " rows in "
            << table.places.path
            << " are 0 or 1. If these are predicted classes, the answers are wrong: give the "
               "probabilities of the model (scikit-learn: predict_proba)\n";
}

void DropInvalidRows(const std::function<bool(std::size_t row)>& is_valid, Table& table) {
  const std::size_t before = table.row_count;
  const std::size_t feature_count = table.features.size() / before;
  std::vector<bool> keep(before);
  for (std::size_t row = 0; row < before; ++row) {
    const auto features = std::span(table.features).subspan(row * feature_count, feature_count);
    keep[row] = is_valid(row) &&
                std::ranges::all_of(features, [](double value) { return std::isfinite(value); });
  }
  table.row_count = static_cast<std::size_t>(std::ranges::count(keep, true));
  Keep(keep, table.width, table.values);
  Keep(keep, table.truth_width, table.truths);
  Keep(keep, feature_count, table.features);
  Keep(keep, 1, table.ids);
  Keep(keep, 1, table.groups);
  Keep(keep, 1, table.times);
  for (RowPlaces* const places :
       {&table.places, &table.truth_places, &table.id_places, &table.group_places}) {
    Keep(keep, 1, places->lines);
  }
  table.changes.dropped_rows = before - table.row_count;
}

absl::Status CheckCount(const RowPlaces& places, const char* noun, std::size_t count,
                        const Table& table) {
  if (count == table.row_count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(places.path, " holds ", convert::CountText(count, noun), ", expected ",
                   table.row_count, ", one for each prediction",
                   places.csv && count == table.row_count + 1
                       ? "; if the first line of each file holds names, say --header"
                       : ""));
}

}  // namespace calibd::cli
