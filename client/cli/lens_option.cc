#include "lens_option.h"

#include <cstdint>

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

std::string BlindSpot(const std::string& name) {
  if (name == "canonical") return "nothing in the long run; the most data";
  if (name == "top_label") return "all but the largest probability";
  if (name == "class_wise") return "how classes go together";
  if (absl::StartsWith(name, "class_wise[")) return "all other classes";
  if (absl::StartsWith(name, "top_k")) return "which class is where, and within the rest";
  return "within a group";
}

}  // namespace calibd::cli
