#include "calibd/convert/json_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "calibd/rpc/rules.pb.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/field_mask.pb.h"
#include "google/protobuf/reflection.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/time_util.h"
#include "nlohmann/json.hpp"

namespace calibd::convert {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Duration;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FieldMask;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;
using google::protobuf::util::TimeUtil;

constexpr std::size_t kMaxShown = 80;

// The names of the fields of a message, or of a choice.
template <typename Fields>
std::string NamesOf(const Fields& fields) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(fields.field_count()));
  for (int i = 0; i < fields.field_count(); ++i) names.push_back(fields.field(i)->name());
  return absl::StrJoin(names, ", ");
}

std::string NamesOf(const EnumDescriptor& type) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(type.value_count()));
  for (int i = 0; i < type.value_count(); ++i) {
    // 0 means that no value is set.
    if (type.value(i)->number() != 0) names.push_back(type.value(i)->name());
  }
  return absl::StrJoin(names, ", ");
}

// The list of the message that holds names in place of the numbers of this list; null without one.
const FieldDescriptor* NamesFor(const Descriptor& type, const FieldDescriptor& numbers) {
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string& field = type.field(i)->options().GetExtension(rpc::rules).names_for();
    if (field == numbers.name()) return type.field(i);
  }
  return nullptr;
}

// A message that JSON writes as a text.
bool IsText(const Descriptor& type) {
  return &type == Timestamp::descriptor() || &type == Duration::descriptor() ||
         &type == FieldMask::descriptor();
}

// What the JSON of one value of a field must be.
std::string Expected(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_UINT32:
      return "an integer of 32 bits";
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
      return "an integer of 64 bits";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_FLOAT:
      return "a number in the range of float";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING:
      return field.type() == FieldDescriptor::TYPE_BYTES ? "a text in base64" : "a text";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat("one of ", NamesOf(*field.enum_type()));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  const Descriptor* const type = field.message_type();
  if (type == Timestamp::descriptor()) return "RFC 3339, such as 2026-01-31T12:00:00Z";
  if (type == Duration::descriptor()) return "seconds as a text, such as 3600s";
  if (type == FieldMask::descriptor()) return "a text of names with commas between them";
  return "an object";
}

// A value of JSON that is neither an object nor an array.
struct Scalar {
  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, absl::string_view> value;
  // The digits of a number that is no integer of 64 bits.
  absl::string_view digits{};

  template <typename T>
  [[nodiscard]] const T* As() const {
    return std::get_if<T>(&value);
  }
  [[nodiscard]] bool is_null() const { return As<std::nullptr_t>() != nullptr; }
};

std::string Shown(absl::string_view text) {
  return absl::StrCat(absl::CHexEscape(text.substr(0, kMaxShown)),
                      text.size() > kMaxShown ? "..." : "");
}

std::string Describe(const Scalar& scalar) {
  if (const auto* const text = scalar.As<absl::string_view>()) {
    return absl::StrCat("\"", Shown(*text), "\"");
  }
  if (const auto* const truth = scalar.As<bool>()) return *truth ? "true" : "false";
  if (const auto* const number = scalar.As<std::int64_t>()) return absl::StrCat(*number);
  if (const auto* const number = scalar.As<std::uint64_t>()) return absl::StrCat(*number);
  return scalar.is_null() ? "null" : Shown(scalar.digits);
}

// The number of a text that has the form of a number in JSON, or is one of the three names.
std::optional<double> RealOf(absl::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  const bool has_form = !text.empty() && text.front() != '+' &&
                        text.find_first_not_of("0123456789+-.eE") == absl::string_view::npos;
  double value = 0;
  if (!has_form || !absl::SimpleAtod(text, &value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> RealOf(const Scalar& scalar) {
  if (const auto* const number = scalar.As<double>()) return *number;
  if (const auto* const number = scalar.As<std::int64_t>()) {
    // Only negative numbers are signed: a signed 0 is "-0".
    return *number == 0 ? -0.0 : static_cast<double>(*number);
  }
  if (const auto* const number = scalar.As<std::uint64_t>()) return static_cast<double>(*number);
  if (const auto* const text = scalar.As<absl::string_view>()) return RealOf(*text);
  return std::nullopt;
}

template <typename Integer, typename Value>
std::optional<Integer> InRange(Value value) {
  if constexpr (std::is_floating_point_v<Value>) {
    // The first number above the range is a power of two, and so a double.
    const double end = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
    const bool fits = value == std::trunc(value) && value < end &&
                      value >= static_cast<double>(std::numeric_limits<Integer>::min());
    return fits ? std::optional(static_cast<Integer>(value)) : std::nullopt;
  } else {
    return std::in_range<Integer>(value) ? std::optional(static_cast<Integer>(value))
                                         : std::nullopt;
  }
}

template <typename Integer>
std::optional<Integer> IntegerOf(const Scalar& scalar) {
  if (const auto* const number = scalar.As<std::int64_t>()) return InRange<Integer>(*number);
  if (const auto* const number = scalar.As<std::uint64_t>()) return InRange<Integer>(*number);
  if (const auto* const number = scalar.As<double>()) return InRange<Integer>(*number);
  const auto* const text = scalar.As<absl::string_view>();
  if (text == nullptr || text->empty()) return std::nullopt;
  Integer exact = 0;
  const bool is_plain = text->find_first_not_of("0123456789-") == absl::string_view::npos;
  if (is_plain) return absl::SimpleAtoi(*text, &exact) ? std::optional(exact) : std::nullopt;
  const std::optional<double> real = RealOf(*text);
  return real.has_value() ? InRange<Integer>(*real) : std::nullopt;
}

std::optional<bool> TruthOf(const Scalar& scalar) {
  if (const auto* const truth = scalar.As<bool>()) return *truth;
  const auto* const text = scalar.As<absl::string_view>();
  if (text == nullptr || (*text != "true" && *text != "false")) return std::nullopt;
  return *text == "true";
}

// The number of an enum value. A number without a name is left to who checks the message.
std::optional<int> EnumOf(const Scalar& scalar, const EnumDescriptor& type) {
  if (const auto* const text = scalar.As<absl::string_view>()) {
    const EnumValueDescriptor* const value =
        type.FindValueByName(absl::AsciiStrToUpper(text->substr(0, kMaxShown)));
    if (value != nullptr) return value->number();
  }
  return IntegerOf<std::int32_t>(scalar);
}

std::optional<std::string> BytesOf(absl::string_view text) {
  std::string bytes;
  if (absl::Base64Unescape(text, &bytes) || absl::WebSafeBase64Unescape(text, &bytes)) return bytes;
  return std::nullopt;
}

// "labelGrace,description" names label_grace and description.
void SetMask(absl::string_view text, FieldMask& mask) {
  for (const absl::string_view path : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    std::string& name = *mask.add_paths();
    for (const char c : path) {
      if (absl::ascii_isupper(static_cast<unsigned char>(c))) name += '_';
      name += absl::ascii_tolower(static_cast<unsigned char>(c));
    }
  }
}

// Sets a message that JSON writes as a text. Returns false if the text has another form.
bool SetText(const std::string& text, Message& message) {
  if (message.GetDescriptor() == Timestamp::descriptor()) {
    return TimeUtil::FromString(text, static_cast<Timestamp*>(&message));
  }
  if (message.GetDescriptor() == Duration::descriptor()) {
    return TimeUtil::FromString(text, static_cast<Duration*>(&message));
  }
  SetMask(text, static_cast<FieldMask&>(message));
  return true;
}

// The place in the text up to which it was read. The parser reads through iterators that share the
// place, so that the reader can read a part of the text itself.
class SharedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  explicit SharedIterator(const char*& place) : place_(&place) {}

  reference operator*() const { return **place_; }
  SharedIterator& operator++() {
    ++*place_;
    return *this;
  }
  bool operator==(const SharedIterator& other) const { return *place_ == *other.place_; }

 private:
  const char** place_;
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Reads the number at `begin`. Returns where it ends, or null if it is out of range or does not
// have the form of a number in JSON.
template <typename Value>
const char* ReadNumber(const char* begin, const char* end, Value& value) {
  const auto [number_end, error] = std::from_chars(begin, end, value);
  if (error != std::errc()) return nullptr;
  // from_chars takes more than JSON: 01, .5, 1., 1.e5, inf and nan.
  const char* at = *begin == '-' ? begin + 1 : begin;
  const char* const digits = at;
  while (at != number_end && IsDigit(*at)) ++at;
  if (at == digits || (*digits == '0' && at != digits + 1)) return nullptr;
  const bool has_fraction = at != number_end && *at == '.';
  return has_fraction && (at + 1 == number_end || !IsDigit(at[1])) ? nullptr : number_end;
}

const char* SkipSpace(const char* at, const char* end) {
  while (at != end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) ++at;
  return at;
}

// Receives the values of the text, and sets the message. An event that returns false ends the
// reading.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Reader(std::string_view json, Message& message)
      : json_(json), message_(message), place_(json.data()), end_(json.data() + json.size()) {}

  std::optional<JsonFault> Read() {
    if (nlohmann::json::sax_parse(SharedIterator(place_), SharedIterator(end_), this)) {
      return std::nullopt;
    }
    return std::move(fault_);
  }

  bool null() override { return Take({.value = nullptr}); }
  bool boolean(bool value) override { return Take({.value = value}); }
  bool number_integer(std::int64_t value) override { return Take({.value = value}); }
  bool number_unsigned(std::uint64_t value) override { return Take({.value = value}); }
  bool number_float(double value, const std::string& digits) override {
    return Take({.value = value, .digits = digits});
  }
  bool string(std::string& value) override { return Take({.value = absl::string_view(value)}); }
  bool binary(binary_t& /*value*/) override { return Fail("is binary, expected JSON"); }

  bool start_object(std::size_t /*elements*/) override {
    if (levels_.empty()) return Open({.message = &message_});
    Level& level = levels_.back();
    const FieldDescriptor& field = *level.field;
    if (!level.is_array && field.is_repeated()) return Fail("is an object, expected an array");
    if (field.message_type() == nullptr || IsText(*field.message_type())) {
      return Fail(absl::StrCat("is an object, expected ", Expected(field)));
    }
    Message* const inner = Inner(level);
    return inner != nullptr && Open({.message = inner});
  }

  bool start_array(std::size_t /*elements*/) override {
    if (levels_.empty()) return Fail("is an array, expected an object");
    Level& level = levels_.back();
    const FieldDescriptor& field = *level.field;
    if (level.is_array && field.message_type() == nullptr) {
      return Fail(
          "is an array, expected one value: write the values of all rows one after the other, in "
          "one array");
    }
    if (level.is_array || !field.is_repeated()) {
      return Fail(absl::StrCat("is an array, expected ", Expected(field)));
    }
    Open({.is_array = true,
          .message = level.message,
          .field = &field,
          .names = NamesFor(*level.message->GetDescriptor(), field)});
    ReadNumbers(levels_.back());
    return true;
  }

  bool key(std::string& name) override {
    Level& level = levels_.back();
    const Descriptor& type = *level.message->GetDescriptor();
    level.field = type.FindFieldByCamelcaseName(name);
    if (level.field == nullptr) level.field = type.FindFieldByName(name);
    if (level.field == nullptr) {
      level.unknown = Shown(name);
      return Fail(absl::StrCat("is unknown, expected one of ", NamesOf(type)));
    }
    level.seen.resize(static_cast<std::size_t>(type.field_count()));
    const auto index = static_cast<std::size_t>(level.field->index());
    if (level.seen[index]) return Fail("is given twice, expected once");
    level.seen[index] = true;
    return true;
  }

  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    constexpr int kOutOfRange = 406;
    if (error.id == kOutOfRange) {
      return Fail(absl::StrCat("is ", Shown(token), ", expected a number in the range of double"));
    }
    // The position counts the byte that the parser has read last, without those of ReadNumbers.
    position += skipped_;
    const std::string_view read = json_.substr(0, std::max<std::size_t>(position, 1) - 1);
    const auto line = std::count(read.begin(), read.end(), '\n') + 1;
    const std::size_t column = read.size() - (read.rfind('\n') + 1) + 1;
    const std::string path = PathOf();
    fault_ = {.description = absl::StrCat("is not JSON at line ", line, ", column ", column,
                                          position > json_.size() ? ", where it ends" : "",
                                          path.empty() ? "" : absl::StrCat(", in ", path))};
    return false;
  }

 private:
  // An object or array whose end is not reached.
  struct Level {
    bool is_array = false;
    Message* message = nullptr;
    // The field of the array, or of the present member of the object. Null for an unknown one.
    const FieldDescriptor* field = nullptr;
    // The list of names whose texts stand in this array of numbers; null without one.
    const FieldDescriptor* names = nullptr;
    // Index of the present element of an array.
    std::size_t next = 0;
    // The fields of an object that have occurred, and the name of the unknown one.
    std::vector<bool> seen{};
    std::string unknown{};
  };

  bool Fail(std::string description) {
    fault_ = {.field = PathOf(), .description = std::move(description)};
    return false;
  }

  [[nodiscard]] std::string PathOf() const {
    std::string path;
    for (const Level& level : levels_) {
      if (level.is_array) {
        absl::StrAppend(&path, "[", level.next, "]");
      } else {
        const std::string& name = level.field == nullptr ? level.unknown : level.field->name();
        absl::StrAppend(&path, path.empty() || name.empty() ? "" : ".", name);
      }
    }
    return path;
  }

  // Reads the beginning of an array of numbers, several times faster than the parser. The parser
  // goes on at the first element that is not a number in range with a comma after it.
  void ReadNumbers(Level& array) {
    switch (array.field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return ReadNumbers<double>(array);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return ReadNumbers<float>(array);
      case FieldDescriptor::CPPTYPE_INT32:
        return ReadNumbers<std::int32_t>(array);
      case FieldDescriptor::CPPTYPE_INT64:
        return ReadNumbers<std::int64_t>(array);
      default:
        return;
    }
  }

  template <typename Value>
  void ReadNumbers(Level& array) {
    const auto values = array.message->GetReflection()->GetMutableRepeatedFieldRef<Value>(
        array.message, array.field);
    const char* begin = SkipSpace(place_, end_);
    while (true) {
      // A float is rounded from a double, as everywhere.
      std::conditional_t<std::is_same_v<Value, float>, double, Value> value{};
      const char* const end = ReadNumber(begin, end_, value);
      const char* const comma = end == nullptr ? end_ : SkipSpace(end, end_);
      if (comma == end_ || *comma != ',') return;
      if constexpr (std::is_same_v<Value, float>) {
        if (std::abs(value) > double{std::numeric_limits<float>::max()}) return;
      }
      begin = SkipSpace(comma + 1, end_);
      // The parser must see a comma without an element after it.
      if (begin == end_ || *begin == ']') return;
      values.Add(static_cast<Value>(value));
      ++array.next;
      skipped_ += static_cast<std::size_t>(begin - place_);
      place_ = begin;
    }
  }

  bool Open(Level level) {
    levels_.push_back(std::move(level));
    return true;
  }

  bool Close() {
    levels_.pop_back();
    if (!levels_.empty()) ++levels_.back().next;
    return true;
  }

  // Returns false if another field of the choice is set.
  bool CheckChoice(const Level& level) {
    const auto* const choice = level.field->real_containing_oneof();
    if (choice == nullptr) return true;
    const FieldDescriptor* const other =
        level.message->GetReflection()->GetOneofFieldDescriptor(*level.message, choice);
    if (other == nullptr || other == level.field) return true;
    return Fail(
        absl::StrCat("is given with ", other->name(), ", expected only one of ", NamesOf(*choice)));
  }

  // The message that the present value sets. Null after a fault.
  Message* Inner(Level& level) {
    const Reflection& reflection = *level.message->GetReflection();
    if (level.is_array) return reflection.AddMessage(level.message, level.field);
    return CheckChoice(level) ? reflection.MutableMessage(level.message, level.field) : nullptr;
  }

  bool Take(const Scalar& scalar) {
    if (levels_.empty()) return Fail(absl::StrCat("is ", Describe(scalar), ", expected an object"));
    Level& level = levels_.back();
    if (scalar.is_null()) {
      if (!level.is_array) return true;
      return Fail("is null, expected a value; leave out the whole row");
    }
    const FieldDescriptor& field = *level.field;
    if (!level.is_array && field.is_repeated()) {
      return Fail(absl::StrCat("is ", Describe(scalar), ", expected an array"));
    }
    if (field.message_type() != nullptr) {
      const auto* const text = scalar.As<absl::string_view>();
      if (text == nullptr || !IsText(*field.message_type())) return Refuse(scalar, field);
      Message* const inner = Inner(level);
      if (inner == nullptr) return false;
      if (!SetText(std::string(*text), *inner)) return Refuse(scalar, field);
    } else if ((!level.is_array && !CheckChoice(level)) || !Set(scalar, level)) {
      return false;
    }
    ++level.next;
    return true;
  }

  bool Refuse(const Scalar& scalar, const FieldDescriptor& field) {
    return Fail(absl::StrCat("is ", Describe(scalar), ", expected ", Expected(field)));
  }

  // Sets a field that is no message, or adds an element to it.
  bool Set(const Scalar& scalar, Level& level) {
    const FieldDescriptor& field = *level.field;
    const Reflection& reflection = *level.message->GetReflection();
    if (level.names != nullptr) {
      if (const auto* const name = scalar.As<absl::string_view>()) {
        reflection.AddString(level.message, level.names, std::string(*name));
        return true;
      }
    }
    const auto put = [&](auto setter, auto adder, auto value) {
      if (!value.has_value()) return Refuse(scalar, field);
      if (level.is_array) {
        (reflection.*adder)(level.message, &field, *std::move(value));
      } else {
        (reflection.*setter)(level.message, &field, *std::move(value));
      }
      return true;
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return put(&Reflection::SetInt32, &Reflection::AddInt32, IntegerOf<std::int32_t>(scalar));
      case FieldDescriptor::CPPTYPE_UINT32:
        return put(&Reflection::SetUInt32, &Reflection::AddUInt32,
                   IntegerOf<std::uint32_t>(scalar));
      case FieldDescriptor::CPPTYPE_INT64:
        return put(&Reflection::SetInt64, &Reflection::AddInt64, IntegerOf<std::int64_t>(scalar));
      case FieldDescriptor::CPPTYPE_UINT64:
        return put(&Reflection::SetUInt64, &Reflection::AddUInt64,
                   IntegerOf<std::uint64_t>(scalar));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return put(&Reflection::SetDouble, &Reflection::AddDouble, RealOf(scalar));
      case FieldDescriptor::CPPTYPE_FLOAT: {
        std::optional<float> value;
        if (const std::optional<double> real = RealOf(scalar)) {
          const bool fits = std::abs(*real) <= double{std::numeric_limits<float>::max()};
          if (fits || !std::isfinite(*real)) value = static_cast<float>(*real);
        }
        return put(&Reflection::SetFloat, &Reflection::AddFloat, value);
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        return put(&Reflection::SetBool, &Reflection::AddBool, TruthOf(scalar));
      case FieldDescriptor::CPPTYPE_ENUM:
        return put(&Reflection::SetEnumValue, &Reflection::AddEnumValue,
                   EnumOf(scalar, *field.enum_type()));
      case FieldDescriptor::CPPTYPE_STRING: {
        const auto* const text = scalar.As<absl::string_view>();
        if (text == nullptr) return Refuse(scalar, field);
        return put(&Reflection::SetString, &Reflection::AddString,
                   field.type() == FieldDescriptor::TYPE_BYTES
                       ? BytesOf(*text)
                       : std::optional<std::string>(std::string(*text)));
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        break;
    }
    return false;
  }

  const std::string_view json_;
  Message& message_;
  // The first byte that was not read, and the end of the text.
  const char* place_;
  const char* end_;
  // Number of bytes that ReadNumbers has read.
  std::size_t skipped_ = 0;
  std::vector<Level> levels_;
  std::optional<JsonFault> fault_;
};

}  // namespace

std::optional<JsonFault> ReadJson(std::string_view json, Message& message) {
  return Reader(json, message).Read();
}

}  // namespace calibd::convert
