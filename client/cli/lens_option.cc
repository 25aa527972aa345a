#include "lens_option.h"

#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace calibd::cli {

absl::StatusOr<v1::Lens> ParseLens(const std::string& text) {
  v1::Lens lens;
  const absl::Status error = absl::InvalidArgumentError(
      absl::StrCat("lens '", text, "' is not known, expected ", kLensSyntax));
  absl::string_view rest = text;
  if (text == "canonical") {
    lens.mutable_canonical();
  } else if (text == "top_label") {
    lens.mutable_top_label();
  } else if (text == "class_wise") {
    lens.mutable_class_wise();
  } else if (absl::ConsumePrefix(&rest, "class:")) {
    std::int32_t index = 0;
    if (!absl::SimpleAtoi(rest, &index)) return error;
    lens.mutable_one_class()->set_class_index(index);
  } else if (absl::ConsumePrefix(&rest, "top_k:")) {
    std::int32_t k = 0;
    if (!absl::SimpleAtoi(rest, &k)) return error;
    lens.mutable_top_k()->set_k(k);
  } else if (absl::ConsumePrefix(&rest, "grouped:")) {
    for (const absl::string_view group : absl::StrSplit(rest, '/')) {
      std::int32_t value = 0;
      if (!absl::SimpleAtoi(group, &value)) return error;
      lens.mutable_grouped()->add_group_of_class(value);
    }
  } else {
    return error;
  }
  return lens;
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
  v1::Distance distance = v1::DISTANCE_TOTAL_VARIATION;
  if (parts.size() == 3 &&
      (parts[2].empty() ||
       !v1::Distance_Parse("DISTANCE_" + absl::AsciiStrToUpper(parts[2]), &distance) ||
       distance == v1::DISTANCE_UNSPECIFIED)) {
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

std::string BlindSpot(const std::string& name) {
  if (name == "canonical") return "nothing in the long run, but needs the most data";
  if (name == "top_label") return "errors in the other probabilities";
  if (name == "class_wise") return "dependence between classes";
  if (absl::StartsWith(name, "class_wise[")) return "errors in other classes";
  if (absl::StartsWith(name, "top_k"))
    return "which class has which rank, or errors within the rest";
  return "errors within a group";
}

}  // namespace calibd::cli
