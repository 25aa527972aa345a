#include "calibd/core/experts.h"

namespace calibd {

const char* FamilyName(ExpertFamily family) noexcept {
  switch (family) {
    case ExpertFamily::kWitness:
      return "witness";
    case ExpertFamily::kTilt:
      return "tilt";
    case ExpertFamily::kPooledHistogram:
      return "pooled_histogram";
    case ExpertFamily::kClassHistogram:
      return "class_histogram";
    case ExpertFamily::kClassCounts:
      return "class_counts";
    case ExpertFamily::kClasses:
      return "classes";
    case ExpertFamily::kGroups:
      return "groups";
    case ExpertFamily::kParametric:
      break;
  }
  return "parametric";
}

}  // namespace calibd
