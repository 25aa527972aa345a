#ifndef CALIBD_CONVERT_LENS_H_
#define CALIBD_CONVERT_LENS_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "calibd/core/lens.h"
#include "calibd/core/lens_test.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/model_service.pb.h"

// Between core's values and the contract's messages, for the server and for whoever
// computes the server's answers offline.
namespace calibd::convert {

// Errors: InvalidArgument when the lens does not fit a model of class_count classes.
[[nodiscard]] absl::StatusOr<Lens> FromProto(const v1::Lens& proto, std::size_t class_count);

// Fills the estimates, the test, the bounds and the noise floor, and of the provenance
// the lens, the bandwidth and how the lens chose it. A rule that is there already stays
// where the bandwidth was given.
void ToProto(const Lens& lens, const LensTestResult& result, v1::QuadraticTestResult& proto);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_LENS_H_
