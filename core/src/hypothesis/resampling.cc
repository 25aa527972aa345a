#include "calibd/core/resampling.h"

namespace calibd {

std::string_view Describe(NullHypothesis null) noexcept {
  return null == NullHypothesis::kForecast
             ? "labels drawn from the predictions themselves (exact for every number of "
               "observations)"
             : "a model that is calibrated in the tested part of its predictions (approximate: "
               "observations drawn with replacement)";
}

}  // namespace calibd
