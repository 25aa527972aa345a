#ifndef CALIBD_CLIENT_CLI_COMMANDS_KERNEL_OPTION_H_
#define CALIBD_CLIENT_CLI_COMMANDS_KERNEL_OPTION_H_

#include <cstddef>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "calibd/v1/kernel.pb.h"

namespace calibd::cli {

// The values of --kernel and --bandwidth.
struct KernelOptions {
  std::string kernel = "total_variation";
  std::string bandwidth = "median";
};

void AddKernelOptions(CLI::App& command, KernelOptions& options);

// Fills in the kernel and the bandwidth from the options. class_count: to repeat a single alpha for
// all classes. Errors: InvalidArgument naming the option; NotFound and others for the file of a
// kernel.
[[nodiscard]] absl::Status ParseKernel(const KernelOptions& options, std::size_t class_count,
                                       v1::Kernel& kernel, v1::BandwidthRule& bandwidth);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_KERNEL_OPTION_H_
