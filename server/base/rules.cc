#include "server/base/rules.h"

#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/rpc/rules.pb.h"
#include "calibd/text/printable.h"
#include "google/protobuf/duration.pb.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;
using rpc::FieldRules;

const FieldRules& RulesOf(const FieldDescriptor& field) {
  return field.options().GetExtension(rpc::rules);
}

struct RuledField {
  const FieldDescriptor* field;
  const FieldRules* rules;
};

// All fields of a type. Each batch is checked, and to look up the rules takes longer than to check
// them.
const std::vector<RuledField>& FieldsOf(const Descriptor& type) {
  // Each thread has its own, so that calls do not wait for each other.
  thread_local std::map<const Descriptor*, std::vector<RuledField>> known;
  if (const auto found = known.find(&type); found != known.end()) return found->second;
  std::vector<RuledField> fields;
  fields.reserve(static_cast<std::size_t>(type.field_count()));
  for (int i = 0; i < type.field_count(); ++i) {
    fields.push_back({type.field(i), &RulesOf(*type.field(i))});
  }
  return known.emplace(&type, std::move(fields)).first->second;
}

std::string Join(const std::string& path, const std::string& name) {
  return path.empty() ? name : absl::StrCat(path, ".", name);
}

bool Matches(const std::string& text, const std::string& pattern) {
  // Each thread has its own, so that calls do not wait for each other.
  thread_local std::map<std::string, re2::RE2> compiled;
  auto found = compiled.find(pattern);
  if (found == compiled.end()) found = compiled.try_emplace(pattern, pattern).first;
  return re2::RE2::FullMatch(text, found->second);
}

// What the elements of a list are called: "names" for feature_names.
std::string NounOf(const FieldDescriptor& field) {
  const std::string& name = field.name();
  return name.substr(name.rfind('_') + 1);
}

bool IsInRange(double value, const FieldRules& rules) {
  // Written so that NaN fails the check too.
  return std::isfinite(value) && (!rules.has_least() || value >= rules.least()) &&
         (!rules.has_most() || value <= rules.most()) &&
         (!rules.has_above() || value > rules.above()) &&
         (!rules.has_below() || value < rules.below());
}

bool HasRange(const FieldRules& rules) {
  return rules.has_least() || rules.has_most() || rules.has_above() || rules.has_below();
}

// is_integer: the ends of the range are integers. Those, and short ones, are shown with all digits.
std::string DescribeRange(const FieldRules& rules, bool is_integer) {
  const auto shown = [&](double end) {
    const bool is_short = std::abs(end) < 1e9 && end == std::trunc(end);
    return is_integer || is_short ? absl::StrCat(static_cast<std::int64_t>(end))
                                  : absl::StrCat(end);
  };
  const std::string zero = rules.or_zero() ? " or 0" : "";
  if (rules.has_least() && rules.has_most()) {
    return absl::StrCat(shown(rules.least()), "..", shown(rules.most()), zero);
  }
  if (rules.has_above() && rules.has_below()) {
    return absl::StrCat("more than ", shown(rules.above()), " and less than ",
                        shown(rules.below()));
  }
  const std::string low = rules.has_above() ? absl::StrCat("> ", shown(rules.above()))
                                            : absl::StrCat(">= ", shown(rules.least()));
  return rules.has_most() ? absl::StrCat(low, " and <= ", shown(rules.most())) : low;
}

// The rules of one message.
class RuleChecker {
 public:
  RuleChecker(const Message& message, const std::string& path, RuleScope scope,
              std::vector<Violation>& violations)
      : message_(message),
        reflection_(*message.GetReflection()),
        path_(path),
        scope_(scope),
        violations_(violations) {}

  void Check() {
    const Descriptor& type = *message_.GetDescriptor();
    for (const RuledField& one : FieldsOf(type)) CheckField(*one.field, *one.rules);
    for (int i = 0; scope_.required && i < type.real_oneof_decl_count(); ++i) {
      CheckChoice(*type.oneof_decl(i));
    }
  }

 private:
  template <typename... Parts>
  void Add(const std::string& field, const Parts&... description) {
    Violate(violations_, Join(path_, field), description...);
  }

  void CheckChoice(const OneofDescriptor& choice) {
    if (!choice.options().GetExtension(rpc::one_required) ||
        reflection_.HasOneof(message_, &choice)) {
      return;
    }
    std::vector<std::string> names;
    names.reserve(static_cast<std::size_t>(choice.field_count()));
    for (int i = 0; i < choice.field_count(); ++i) names.push_back(choice.field(i)->name());
    Add(choice.name(), "is not set, expected one of ", absl::StrJoin(names, ", "));
  }

  [[nodiscard]] bool IsSet(const FieldDescriptor& field) const {
    return field.is_repeated() ? reflection_.FieldSize(message_, &field) > 0
                               : reflection_.HasField(message_, &field);
  }
  [[nodiscard]] bool IsSet(const std::string& name) const {
    return IsSet(*message_.GetDescriptor()->FindFieldByName(name));
  }

  [[nodiscard]] bool IsRequired(const FieldRules& rules) const {
    return scope_.required && (rules.required() || (!rules.required_without().empty() &&
                                                    !IsSet(rules.required_without())));
  }

  void CheckField(const FieldDescriptor& field, const FieldRules& rules) {
    if (!IsSet(field)) {
      if (IsRequired(rules)) CheckMissing(field, rules);
      return;
    }
    if (!rules.needs().empty() && scope_.required && !IsSet(rules.needs())) {
      const bool is_long = field.cpp_type() == FieldDescriptor::CPPTYPE_INT64;
      const bool is_short = field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
      Add(field.name(), "is ",
          is_long    ? absl::StrCat(reflection_.GetInt64(message_, &field))
          : is_short ? absl::StrCat(reflection_.GetInt32(message_, &field))
                     : std::string("set"),
          ", expected none without a ", rules.needs());
      return;
    }
    if (field.is_repeated()) {
      CheckList(field, rules);
    } else {
      CheckValue(field, rules, -1, field.name());
    }
  }

  // A field that is missing has the value 0.
  void CheckMissing(const FieldDescriptor& field, const FieldRules& rules) {
    if (field.is_repeated() && rules.rows().empty()) {
      CheckList(field, rules);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE || field.is_repeated()) {
      if (!rules.apart()) Add(field.name(), "is missing, expected a value");
    } else {
      CheckValue(field, rules, -1, field.name());
    }
  }

  void CheckList(const FieldDescriptor& field, const FieldRules& rules) {
    if (!rules.rows().empty() && !rules.distinct()) return;
    const int count = reflection_.FieldSize(message_, &field);
    if (count < rules.least_items() || (rules.has_most_items() && count > rules.most_items())) {
      Add(field.name(), "has ", count, " ", NounOf(field), ", expected ",
          rules.least_items() > 0 ? absl::StrCat(rules.least_items(), "..") : "at most ",
          rules.most_items());
      return;
    }
    std::set<std::string> seen;
    for (int i = 0; i < count && violations_.size() < kMaxReportedViolations; ++i) {
      const std::string name = absl::StrCat(field.name(), "[", i, "]");
      if (!CheckValue(field, rules, i, name) || !rules.distinct()) continue;
      const std::string shown = Shown(field, i);
      if (!shown.empty() && !seen.insert(shown).second) {
        Add(name, "is ", shown, " again, expected distinct ", NounOf(field));
      }
    }
  }

  // A text or an integer as errors show it. Empty for other values.
  [[nodiscard]] std::string Shown(const FieldDescriptor& field, int i) const {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      const std::string text = reflection_.GetRepeatedString(message_, &field, i);
      return Quoted(text, text.size());
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      return absl::StrCat(reflection_.GetRepeatedInt32(message_, &field, i));
    }
    return "";
  }

  // i: the element of a list, or -1. Returns false if the value is invalid, or is a message.
  bool CheckValue(const FieldDescriptor& field, const FieldRules& rules, int i,
                  const std::string& name) {
    const bool in_list = i >= 0;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return CheckNumber(in_list ? reflection_.GetRepeatedInt32(message_, &field, i)
                                   : reflection_.GetInt32(message_, &field),
                           rules, name);
      case FieldDescriptor::CPPTYPE_INT64:
        return in_list || CheckNumber(reflection_.GetInt64(message_, &field), rules, name);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return CheckNumber(in_list ? reflection_.GetRepeatedDouble(message_, &field, i)
                                   : reflection_.GetDouble(message_, &field),
                           rules, name);
      case FieldDescriptor::CPPTYPE_STRING:
        return CheckText(in_list ? reflection_.GetRepeatedString(message_, &field, i)
                                 : reflection_.GetString(message_, &field),
                         rules, name);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        CheckMessage(in_list ? reflection_.GetRepeatedMessage(message_, &field, i)
                             : reflection_.GetMessage(message_, &field),
                     rules, name);
        return false;
      default:
        return true;
    }
  }

  template <typename Number>
  bool CheckNumber(Number value, const FieldRules& rules, const std::string& name) {
    const bool valid = !HasRange(rules) || IsInRange(static_cast<double>(value), rules) ||
                       (value == 0 && rules.or_zero());
    if (!valid) {
      Add(name, "is ", value, ", expected ", DescribeRange(rules, std::is_integral_v<Number>));
    }
    return valid;
  }

  bool CheckText(const std::string& text, const FieldRules& rules, const std::string& name) {
    const auto size = static_cast<std::int64_t>(text.size());
    const bool too_long = rules.has_most_bytes() && size > rules.most_bytes();
    if (size < rules.least_bytes() || (too_long && rules.least_bytes() > 0)) {
      Add(name, "is ", Quoted(text), ", expected ", rules.least_bytes(), "..", rules.most_bytes(),
          " bytes");
    } else if (too_long) {
      Add(name, "has ", size, " bytes, expected at most ", rules.most_bytes());
    } else if (!rules.pattern().empty() && !Matches(text, rules.pattern())) {
      Add(name, "is ", Quoted(text), ", expected to match ", rules.pattern());
    } else if (const auto unprintable =
                   rules.printable() && scope_.printable ? FindUnprintable(text) : std::nullopt) {
      Add(name, *unprintable);
    } else {
      return true;
    }
    return false;
  }

  void CheckMessage(const Message& value, const FieldRules& rules, const std::string& name) {
    if (value.GetDescriptor() == Duration::descriptor()) {
      CheckDuration(static_cast<const Duration&>(value), rules, name);
    } else if (!rules.apart() && rules.rows().empty() &&
               !absl::StartsWith(value.GetDescriptor()->full_name(), "google.")) {
      CheckRules(value, Join(path_, name), scope_, violations_);
    }
  }

  void CheckDuration(const Duration& value, const FieldRules& rules, const std::string& name) {
    constexpr std::int32_t kNanos = 1000000000;
    const bool is_normal = value.seconds() >= 0 && value.nanos() >= 0 && value.nanos() < kNanos;
    const double seconds = static_cast<double>(value.seconds()) + value.nanos() / double{kNanos};
    if (!HasRange(rules) || (is_normal && IsInRange(seconds, rules))) return;
    Add(name, "is ", value.seconds(), " s and ", value.nanos(), " ns, expected ",
        DescribeRange(rules, false), " s");
  }

  const Message& message_;
  const Reflection& reflection_;
  const std::string& path_;
  const RuleScope scope_;
  std::vector<Violation>& violations_;
};

}  // namespace

void CheckRules(const Message& message, const std::string& path, RuleScope scope,
                std::vector<Violation>& violations) {
  RuleChecker(message, path, scope, violations).Check();
}

absl::Status CheckRules(const Message& message, const std::string& path) {
  std::vector<Violation> violations;
  CheckRules(message, path, {}, violations);
  return violations.empty() ? absl::OkStatus() : InvalidFieldsError("INVALID_FIELD", violations);
}

std::vector<std::string> UpdatablePaths(const Descriptor& message) {
  std::vector<std::string> paths;
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    if (RulesOf(field).updatable()) paths.push_back(field.name());
    const Descriptor* const inner = field.message_type();
    if (inner == nullptr || field.is_repeated()) continue;
    for (const std::string& path : UpdatablePaths(*inner)) {
      paths.push_back(Join(field.name(), path));
    }
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace calibd::server
