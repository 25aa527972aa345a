#ifndef CALIBD_CLIENT_CLI_COMMANDS_LENS_OPTION_H_
#define CALIBD_CLIENT_CLI_COMMANDS_LENS_OPTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "calibd/v1/evaluation.pb.h"
#include "calibd/v1/kernel.pb.h"

namespace calibd::cli {

// Does what Lens::Parse does.
[[nodiscard]] absl::StatusOr<v1::Lens> ParseLens(const std::string& text);

// The syntax of a binned error on the command line, for the help text.
inline constexpr char kBinsSyntax[] =
    "top_label:BINS, class_wise:BINS, uniform:BINS[:DISTANCE] or median_variance:MIN[:DISTANCE] "
    "with total_variation (default), cityblock, euclidean or squared_euclidean";

// Errors: InvalidArgument quoting `text`. Does not check the ranges of numbers.
[[nodiscard]] absl::StatusOr<v1::BinnedErrorSpec> ParseBins(const std::string& text);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_LENS_OPTION_H_
