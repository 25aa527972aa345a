#include "client/cli/commands/lens_option.h"

#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "calibd/convert/kernel.h"
#include "calibd/core/lens.h"

namespace calibd::cli {

absl::StatusOr<v1::Lens> ParseLens(const std::string& text) {
  const absl::StatusOr<Lens> lens = Lens::Parse(text);
  if (!lens.ok()) return lens.status();
  return convert::ToProto(*lens);
}

absl::StatusOr<v1::BinnedErrorSpec> ParseBins(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  absl::Status error = absl::InvalidArgumentError(
      absl::StrCat("binned error '", text, "' is not known, expected ", kBinsSyntax));
  std::int32_t number = 0;
  if (parts.size() < 2 || parts.size() > 3 || !absl::SimpleAtoi(parts[1], &number)) return error;
  v1::BinnedErrorSpec spec;
  if (parts.size() == 2 && parts[0] == "top_label") {
    spec.mutable_top_label()->set_bins(number);
    return spec;
  }
  if (parts.size() == 2 && parts[0] == "class_wise") {
    spec.mutable_class_wise()->set_bins(number);
    return spec;
  }
  v1::ExponentialKernel::Distance distance = v1::ExponentialKernel::TOTAL_VARIATION;
  if (parts.size() == 3 &&
      (parts[2].empty() ||
       !v1::ExponentialKernel::Distance_Parse(absl::AsciiStrToUpper(parts[2]), &distance) ||
       distance == v1::ExponentialKernel::UNSPECIFIED)) {
    return error;
  }
  if (parts[0] == "uniform") {
    spec.mutable_uniform()->set_bins_per_class(number);
    spec.mutable_uniform()->set_distance(distance);
  } else if (parts[0] == "median_variance") {
    spec.mutable_median_variance()->set_min_size(number);
    spec.mutable_median_variance()->set_distance(distance);
  } else {
    return error;
  }
  return spec;
}

}  // namespace calibd::cli
