#ifndef CALIBD_CONVERT_READING_REJECTED_PARTS_H_
#define CALIBD_CONVERT_READING_REJECTED_PARTS_H_

#include <string>

#include "calibd/v1/calibration_service.pb.h"

// The groups or labels of a model that are over their limits, or rejected by e-BH.
namespace calibd::convert {

// The group or label that is off by most.
struct LeadingPart {
  // With the number of further ones: "group eu off by 40 points (35 to 45; limit 10 points), and 2
  // more groups". Empty if no part leads.
  std::string text;
  // "group eu top label", and its error within the answer; empty and null if no part leads.
  std::string subject;
  const v1::ErrorInterval* interval = nullptr;
};
// No part leads if none is over its limit or rejected, or if the model itself is over its limit or
// rejected, and off by more. Groups without an error, because no row has come since an
// acknowledgement, do not lead. Labels lead if there are several.
[[nodiscard]] LeadingPart LeadingPartOf(const v1::GetCalibrationResponse& answer);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_READING_REJECTED_PARTS_H_
