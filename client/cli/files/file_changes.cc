#include "client/cli/files/file_changes.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "calibd/convert/text.h"

namespace calibd::cli {

FileRows ToProto(const FileChanges& changes) {
  FileRows rows;
  if (changes.dropped_rows.has_value()) {
    rows.set_dropped_rows(static_cast<std::int64_t>(*changes.dropped_rows));
  }
  if (changes.renormalisation.has_value()) {
    rows.set_renormalised_rows(changes.renormalisation->rows);
    rows.set_largest_row_sum_correction(changes.renormalisation->largest_correction);
  }
  if (changes.rounded_probabilities > 0) {
    rows.set_rounded_probabilities(static_cast<std::int64_t>(changes.rounded_probabilities));
  }
  if (changes.moved_rows.has_value()) {
    rows.set_moved_rows(static_cast<std::int64_t>(*changes.moved_rows));
  }
  return rows;
}

std::string Describe(const FileChanges& changes) {
  std::string text;
  if (changes.dropped_rows.value_or(0) > 0) {
    const auto dropped = static_cast<std::int64_t>(*changes.dropped_rows);
    absl::StrAppend(&text, "\n", convert::CountText(dropped, "invalid row"),
                    dropped == 1 ? " was" : " were", " left out\n");
  }
  if (changes.renormalisation.has_value()) {
    const std::int64_t rows = changes.renormalisation->rows;
    absl::StrAppend(&text, "\n", convert::CountText(rows, "row"),
                    rows == 1 ? " was divided by its sum" : " were divided by their sums",
                    ", which differed from 1 by at most ",
                    changes.renormalisation->largest_correction, "\n");
  }
  if (changes.rounded_probabilities > 0) {
    absl::StrAppend(&text, "\n", changes.rounded_probabilities,
                    changes.rounded_probabilities == 1 ? " probability was" : " probabilities were",
                    " outside [0, 1] by a rounding, and counted as 0 or 1\n");
  }
  if (changes.moved_rows.has_value()) {
    absl::StrAppend(&text, "\nrows are in the order of their times",
                    *changes.moved_rows == 0
                        ? std::string(", as in the file")
                        : absl::StrCat("; ", *changes.moved_rows, " had another place in the file"),
                    "\n");
  }
  return text;
}

}  // namespace calibd::cli
