#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"

namespace calibd::convert {

std::string WarningLine(const v1::GetCalibrationResponse& answer) {
  if (answer.warnings().empty()) return "";
  const int more = answer.warnings_size() - 1;
  return absl::StrCat(more > 0 ? absl::StrCat("(and ", more, " more) ") : "",
                      Plain(answer.warnings(0)));
}

std::string DependenceText(std::int64_t row) {
  return absl::StrFormat(
      "Outcomes of neighbouring rows go together more than the predictions say, found at row %d: "
      "rows are sorted, or repeated, or many in succession are of one user.",
      row);
}

std::string DependenceText(std::int64_t row, std::string_view in_order) {
  return absl::StrCat(
      DependenceText(row),
      " Repeats, or many rows of one user, make the intervals too narrow and the evidence too "
      "strong in any order of the rows, because each row counts as a new observation: keep one of "
      "each. ",
      in_order.empty()
          ? std::string("If the rows are only sorted, nothing is false.")
          : absl::StrCat("If the rows are only sorted, ", std::string(in_order),
                         " are false, and the other numbers right: put the rows in random order."));
}

}  // namespace calibd::convert
