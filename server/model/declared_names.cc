#include "server/model/declared_names.h"

#include <cstddef>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "calibd/text/printable.h"
#include "server/base/errors.h"

namespace calibd::server {

constexpr std::size_t kMaxNameLength = 64;

std::vector<std::string> CheckNames(const char* field,
                                    const google::protobuf::RepeatedPtrField<std::string>& names,
                                    bool is_new, std::vector<Violation>& violations) {
  std::set<std::string_view> seen;
  for (int i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    const auto unprintable = is_new ? FindUnprintable(name) : std::nullopt;
    if (name.empty() || name.size() > kMaxNameLength) {
      Violate(violations, absl::StrCat(field, "[", i, "]"), "is ", Quoted(name), ", expected 1..",
              kMaxNameLength, " bytes");
    } else if (unprintable.has_value()) {
      Violate(violations, absl::StrCat(field, "[", i, "]"), *unprintable);
    } else if (!seen.insert(name).second) {
      Violate(violations, absl::StrCat(field, "[", i, "]"), "is ", Quoted(name),
              " again, expected distinct names");
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace calibd::server
