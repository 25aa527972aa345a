#include "calibd/convert/text.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace calibd::convert {

std::string GapText(double gap) {
  const double points = 100 * std::abs(gap);
  return points < 0.05
             ? "neither over- nor under-confident"
             : absl::StrFormat("%s-confident by %.1f points", gap > 0 ? "over" : "under", points);
}

}  // namespace calibd::convert
