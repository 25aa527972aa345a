#ifndef CALIBD_CONVERT_KERNEL_H_
#define CALIBD_CONVERT_KERNEL_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "calibd/core/lens.h"
#include "calibd/core/lens_kernel.h"
#include "calibd/v1/kernel.pb.h"

// Conversions between core's values and the contract's messages, for the server and for programs
// that compute the server's answers offline.
namespace calibd::convert {

// Errors: InvalidArgument if the lens does not fit a model with class_count classes.
[[nodiscard]] absl::StatusOr<Lens> FromProto(const v1::Lens& proto, std::size_t class_count);
[[nodiscard]] v1::Lens ToProto(const Lens& lens);

// Errors: InvalidArgument that begins with the field and a space, e.g. "bandwidth.fixed is
// -1, expected a finite number > 0".
[[nodiscard]] absl::StatusOr<KernelSpec> FromProto(const v1::Kernel& kernel,
                                                   const v1::BandwidthRule& bandwidth,
                                                   std::size_t class_count);
[[nodiscard]] v1::Kernel KernelToProto(const KernelSpec& spec);
// observations: the number of observations from which the median is computed.
[[nodiscard]] v1::BandwidthRule BandwidthToProto(const BandwidthRule& rule,
                                                 std::size_t observations);

// An unset distance is unspecified, which means total variation.
[[nodiscard]] absl::StatusOr<Distance> FromProto(v1::ExponentialKernel::Distance proto);
[[nodiscard]] v1::ExponentialKernel::Distance ToProto(Distance distance);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_KERNEL_H_
