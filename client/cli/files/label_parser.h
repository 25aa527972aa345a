#ifndef CALIBD_CLIENT_CLI_FILES_LABEL_PARSER_H_
#define CALIBD_CLIENT_CLI_FILES_LABEL_PARSER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace calibd::cli {

struct LabelOptions {
  // The number of the first class. Unset: labels are not numbers of classes.
  std::optional<int> base;
  // In the order of the classes; empty if unknown.
  std::span<const std::string> class_names;
  // Whether these names are those of the columns of the file.
  bool names_of_columns = false;
  std::size_t class_count = 0;
  // If set and `base` is not, the labels 1 and True name this class, and 0 and False the other one.
  std::optional<std::int32_t> positive_class;
  // Errors say that labels by class name need this.
  std::string_view names_need = "need --class-names or a header";
};

// Converts the texts of labels to classes. With a base, a label is a number (3, 3.0, True as 1) or
// a class name that is not a number; without one, a class name, also if it is a number (3.0 for
// "3").
class LabelParser {
 public:
  // Errors: a usage fault if neither the base nor the class names are known.
  [[nodiscard]] static absl::StatusOr<LabelParser> Create(const LabelOptions& options);

  // Returns the class in [0, class_count), or InvalidArgument with the label and what was expected.
  [[nodiscard]] absl::StatusOr<std::int32_t> Parse(std::string_view label) const;

 private:
  explicit LabelParser(const LabelOptions& options) : options_(options) {}

  // Returns -1 if the label is not a class.
  [[nodiscard]] std::int64_t Find(std::string_view label) const;
  // What was expected instead of this label.
  [[nodiscard]] std::string Expected(std::string_view label) const;

  LabelOptions options_;
  absl::flat_hash_map<std::string, std::int32_t> classes_;
};

// "a, b, c, and 7 more", in quotes.
[[nodiscard]] std::string ListNames(std::span<const std::string> names);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_LABEL_PARSER_H_
