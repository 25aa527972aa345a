#include "server/state/model_name.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/errors.h"

namespace calibd::server {
namespace {

constexpr std::string_view kModels = "models/";
constexpr std::string_view kVersions = "/versions/";
constexpr std::size_t kMaxModelIdLength = 128;

bool IsAlphanumeric(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

bool IsId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxModelIdLength && IsAlphanumeric(id.front()) &&
         std::all_of(id.begin(), id.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '.' || c == '_' || c == '-'; });
}

}  // namespace

std::string ModelName::ToString() const {
  return version.empty() ? absl::StrCat("models/", model)
                         : absl::StrCat("models/", model, "/versions/", version);
}

absl::StatusOr<ModelName> ParseModelName(std::string_view field, std::string_view text) {
  if (text.starts_with(kModels)) {
    const std::string_view ids = text.substr(kModels.size());
    const std::size_t separator = ids.find(kVersions);
    const std::string_view model = ids.substr(0, separator);
    if (separator == std::string_view::npos) {
      if (IsId(model)) {
        return ModelName{std::string(model), ""};
      }
    } else {
      const std::string_view version = ids.substr(separator + kVersions.size());
      if (IsId(model) && IsId(version)) {
        return ModelName{std::string(model), std::string(version)};
      }
    }
  }
  return InvalidFieldError(field, absl::StrCat("is ", Quoted(text),
                                               ", expected models/{model} or models/{model}/"
                                               "versions/{version}, each id matching "
                                               "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"));
}

}  // namespace calibd::server
