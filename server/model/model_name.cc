#include "server/model/model_name.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "calibd/text/model_id.h"
#include "calibd/text/printable.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr std::string_view kModels = "models/";
constexpr std::string_view kVersions = "/versions/";
// The escaped form of an id that is not valid, as advice; empty if it is too long, or not UTF-8.
std::string EscapedForm(std::string_view id) {
  const std::string escaped = EscapeModelId(id);
  return IsModelId(id) || !IsModelId(escaped) || !IsUtf8(id)
             ? ""
             : absl::StrCat("; the escaped form of ", Quoted(id), " is ", escaped);
}

}  // namespace

std::string ModelName::ToString() const {
  return version.empty() ? absl::StrCat("models/", model)
                         : absl::StrCat("models/", model, "/versions/", version);
}

absl::StatusOr<ModelName> ParseModelName(std::string_view field, std::string_view text) {
  std::string advice;
  if (text.starts_with(kModels)) {
    const std::string_view ids = text.substr(kModels.size());
    const std::size_t separator = ids.find(kVersions);
    const bool has_version = separator != std::string_view::npos;
    const std::string_view model = ids.substr(0, separator);
    const std::string_view version = has_version ? ids.substr(separator + kVersions.size()) : "";
    if (IsModelId(model) && (!has_version || IsModelId(version))) {
      return ModelName{std::string(model), std::string(version)};
    }
    advice = EscapedForm(model) + (has_version ? EscapedForm(version) : "");
  }
  return InvalidFieldError(
      field, absl::StrCat("is ", Quoted(text),
                          ", expected models/{model} or models/{model}/versions/{version}, each id "
                          "matching ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
                          advice));
}

}  // namespace calibd::server
