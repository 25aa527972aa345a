#ifndef CALIBD_SERVER_INTAKE_CLASS_VALUES_H_
#define CALIBD_SERVER_INTAKE_CLASS_VALUES_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace calibd::server {

// The classes of a model, which the keys of a row may name.
struct AnswerClasses {
  // 0 for a model without classes.
  std::size_t count = 0;
  // `count` names, or empty.
  std::span<const std::string> names{};
};

// Returns the keys of a row that holds the value of each class by its name or by its number from 0,
// such as {"0": 0.7, "1": 0.3}, in the order of the classes. Unset unless the row is an object that
// has these keys and no others. Cost: O(m log m).
[[nodiscard]] std::optional<std::vector<std::string>> ClassKeys(const nlohmann::json& row,
                                                                const AnswerClasses& classes);

// The keys that ClassKeys expects, for errors.
[[nodiscard]] std::string DescribeClassKeys(const AnswerClasses& classes);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INTAKE_CLASS_VALUES_H_
