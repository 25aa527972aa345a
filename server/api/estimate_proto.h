#ifndef CALIBD_SERVER_API_ESTIMATE_PROTO_H_
#define CALIBD_SERVER_API_ESTIMATE_PROTO_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "calibd/core/estimator_selection.h"
#include "calibd/v1/calibration_service.pb.h"

namespace calibd::server {

// seed: of a request without one. Errors: InvalidArgument naming the field.
[[nodiscard]] absl::StatusOr<SelectionOptions> SelectionOf(
    const v1::EstimateCalibrationErrorRequest& request, std::size_t class_count,
    std::uint64_t seed);

// Removes the kernel density estimator if the work for n rows of m classes exceeds the limit,
// unless it is the only estimator. Returns whether it did.
bool LeaveOutDensity(std::size_t n, std::size_t m, double max_operations,
                     SelectionOptions& options);

// Fills in the result, except the provenance and what was left out.
void Describe(const SelectionOptions& options, const SelectionResult& selected,
              v1::CalibrationErrorEstimate& proto);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_ESTIMATE_PROTO_H_
