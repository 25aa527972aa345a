#include <string>

#include "absl/strings/str_cat.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"

namespace calibd::convert {

std::string WarningLine(const v1::GetCalibrationResponse& answer) {
  if (answer.warnings().empty()) return "";
  const int more = answer.warnings_size() - 1;
  return absl::StrCat(more > 0 ? absl::StrCat("(and ", more, " more) ") : "",
                      Plain(answer.warnings(0)));
}

}  // namespace calibd::convert
