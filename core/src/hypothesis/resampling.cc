#include "calibd/core/resampling.h"

namespace calibd {

std::string_view Describe(NullHypothesis null) noexcept {
  switch (null) {
    case NullHypothesis::kForm:
      return "a model that is calibrated in the tested part of its predictions (approximate: "
             "observations drawn with replacement)";
    case NullHypothesis::kForecast:
      return "labels drawn from the predictions themselves (exact for every number of "
             "observations)";
    case NullHypothesis::kPearson:
      break;
  }
  return "labels drawn from the predictions themselves (approximate: a Pearson curve with "
         "the mean, variance and skewness of SKCE_uq)";
}

}  // namespace calibd
