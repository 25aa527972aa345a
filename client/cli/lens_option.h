#ifndef CALIBD_CLI_LENS_OPTION_H_
#define CALIBD_CLI_LENS_OPTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "calibd/v1/evaluation.pb.h"
#include "calibd/v1/kernel.pb.h"

namespace calibd::cli {

// The syntax of a lens on the command line, for the help text.
inline constexpr char kLensSyntax[] =
    "canonical, top_label, class_wise, class:K, top_k:K, or grouped:G0/G1/... with the group of "
    "each class";

// Errors: InvalidArgument quoting `text`. Does not check whether the lens fits the model.
[[nodiscard]] absl::StatusOr<v1::Lens> ParseLens(const std::string& text);

// The syntax of a binned error on the command line, for the help text.
inline constexpr char kBinsSyntax[] =
    "top_label:BINS, class_wise:BINS, uniform:BINS[:DISTANCE] or median_variance:MIN[:DISTANCE] "
    "with total_variation (default), cityblock, euclidean or squared_euclidean";

// Errors: InvalidArgument quoting `text`. Does not check the ranges of numbers.
[[nodiscard]] absl::StatusOr<v1::BinnedErrorSpec> ParseBins(const std::string& text);

// What a lens cannot detect, as the end of a sentence. name: Provenance.lens.
[[nodiscard]] std::string BlindSpot(const std::string& name);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_LENS_OPTION_H_
