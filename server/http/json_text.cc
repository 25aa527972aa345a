#include "server/http/json_text.h"

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "server/base/errors.h"
#include "server/base/status_mapping.h"

namespace calibd::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Duration;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;
using google::protobuf::util::TimeUtil;
using Json = nlohmann::ordered_json;

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

// Prints messages, or counts an upper bound of their length.
class Printer {
 public:
  // text: null to count only.
  explicit Printer(std::string* text) : text_(text) {}

  void Print(const Message& message) {
    if (message.GetDescriptor() == Timestamp::descriptor()) {
      return PrintText(TimeUtil::ToString(static_cast<const Timestamp&>(message)));
    }
    if (message.GetDescriptor() == Duration::descriptor()) {
      return PrintText(TimeUtil::ToString(static_cast<const Duration&>(message)));
    }
    Add("{");
    std::string_view separator;
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor& field = *message.GetDescriptor()->field(i);
      if (field.has_presence() && !message.GetReflection()->HasField(message, &field)) continue;
      Add(std::exchange(separator, ","));
      PrintText(field.json_name());
      Add(":");
      field.is_repeated() ? PrintElements(message, field) : PrintValue(message, field, -1);
    }
    Add("}");
  }

  [[nodiscard]] std::size_t length() const { return length_; }

 private:
  void Add(std::string_view part) {
    length_ += part.size();
    if (text_ != nullptr) text_->append(part);
  }

  void PrintText(std::string_view text) {
    Add("\"");
    std::size_t begin = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      const bool control = static_cast<unsigned char>(c) < 0x20;
      if (c != '"' && c != '\\' && !control) continue;
      Add(text.substr(begin, i - begin));
      if (control) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        Add(c < 0x10 ? "\\u000" : "\\u001");
        Add(kDigits.substr(c & 15, 1));
        begin = i + 1;
      } else {
        Add("\\");
        begin = i;
      }
    }
    Add(text.substr(begin));
    Add("\"");
  }

  template <typename Number>
  void PrintNumber(Number value) {
    constexpr std::size_t kLongest = 24;  // -2.2250738585072014e-308
    if (text_ == nullptr) {
      length_ += kLongest;
      return;
    }
    std::array<char, kLongest> digits{};
    char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    Add({digits.data(), end});
  }

  template <typename Real>
  void PrintReal(Real value) {
    if (std::isfinite(value)) return PrintNumber(value);
    PrintText(std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
  }

  // JavaScript has no integers of 64 bits.
  template <typename Integer>
  void PrintInt64(Integer value) {
    Add("\"");
    PrintNumber(value);
    Add("\"");
  }

  void PrintElements(const Message& message, const FieldDescriptor& field) {
    const int count = message.GetReflection()->FieldSize(message, &field);
    Add(field.is_map() ? "{" : "[");
    for (int i = 0; i < count; ++i) {
      if (i > 0) Add(",");
      if (field.is_map()) {
        const Message& entry = message.GetReflection()->GetRepeatedMessage(message, &field, i);
        PrintValue(entry, *field.message_type()->map_key(), -1);
        Add(":");
        PrintValue(entry, *field.message_type()->map_value(), -1);
      } else {
        PrintValue(message, field, i);
      }
    }
    Add(field.is_map() ? "}" : "]");
  }

  // index: the index in a repeated field, or -1 for other fields.
  void PrintValue(const Message& message, const FieldDescriptor& field, int index) {
    const Reflection& reflection = *message.GetReflection();
    const auto pick = [&](auto single, auto repeated) {
      return index < 0 ? (reflection.*single)(message, &field)
                       : (reflection.*repeated)(message, &field, index);
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return PrintNumber(pick(&Reflection::GetInt32, &Reflection::GetRepeatedInt32));
      case FieldDescriptor::CPPTYPE_UINT32:
        return PrintNumber(pick(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32));
      case FieldDescriptor::CPPTYPE_INT64:
        return PrintInt64(pick(&Reflection::GetInt64, &Reflection::GetRepeatedInt64));
      case FieldDescriptor::CPPTYPE_UINT64:
        return PrintInt64(pick(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return PrintReal(pick(&Reflection::GetDouble, &Reflection::GetRepeatedDouble));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return PrintReal(pick(&Reflection::GetFloat, &Reflection::GetRepeatedFloat));
      case FieldDescriptor::CPPTYPE_BOOL:
        return Add(pick(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? "true" : "false");
      case FieldDescriptor::CPPTYPE_ENUM:
        return PrintText(pick(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name());
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string copy;
        return PrintText(
            index < 0 ? reflection.GetStringReference(message, &field, &copy)
                      : reflection.GetRepeatedStringReference(message, &field, index, &copy));
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Print(index < 0 ? reflection.GetMessage(message, &field)
                               : reflection.GetRepeatedMessage(message, &field, index));
    }
  }

  std::string* const text_;
  std::size_t length_ = 0;
};

unsigned HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 405;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

// The reasons that have a status of their own in HTTP.
struct ReasonStatus {
  std::string_view reason;
  unsigned status;
};
constexpr std::array<ReasonStatus, 5> kReasonStatuses{{
    {.reason = "LENGTH_REQUIRED", .status = 411},
    {.reason = "MESSAGE_TOO_LARGE", .status = 413},
    {.reason = "UNEXPECTED_BODY", .status = 413},
    {.reason = "UNSUPPORTED_MEDIA_TYPE", .status = 415},
    {.reason = "HEADER_TOO_LARGE", .status = 431},
}};

template <typename Detail>
Json DetailJson(const google::protobuf::Any& any) {
  Detail detail;
  detail.ParseFromString(any.value());
  Json json = Json::parse(ToJsonText(detail));
  json["@type"] = any.type_url();
  return json;
}

Json DetailJson(const google::protobuf::Any& any) {
  if (absl::EndsWith(any.type_url(), ".BadRequest")) return DetailJson<rpc::BadRequest>(any);
  if (absl::EndsWith(any.type_url(), ".ErrorInfo")) return DetailJson<rpc::ErrorInfo>(any);
  if (absl::EndsWith(any.type_url(), ".RetryInfo")) return DetailJson<rpc::RetryInfo>(any);
  return DetailJson<rpc::ResourceInfo>(any);
}

// A name of a JSON text as that of a field: "predictionIds" is prediction_ids.
std::string FieldName(std::string_view name) {
  std::string field;
  for (const char c : name) {
    if (absl::ascii_isupper(static_cast<unsigned char>(c))) field += '_';
    field += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  return field;
}

// An array or object of a JSON text, of which the end is not reached.
struct Open {
  char bracket;
  // Of the last element or member.
  std::size_t index = 0;
  std::string_view name{};
  // The names of an object before, as those of fields; at most kMostNames.
  std::vector<std::string> names{};
};

// No message has so many fields: an object with more names has an unknown one.
constexpr std::size_t kMostNames = 64;

// Sets the name of the next member. Returns false if the object has this name already.
bool SetName(std::string_view name, Open& object) {
  object.name = name;
  if (object.names.size() == kMostNames) return true;
  std::string field = FieldName(name);
  if (std::find(object.names.begin(), object.names.end(), field) != object.names.end()) {
    return false;
  }
  object.names.push_back(std::move(field));
  return true;
}

std::string JoinPath(std::string_view path, std::string_view name) {
  constexpr std::size_t kMaxName = 80;
  return absl::StrCat(ToAbsl(path), path.empty() ? "" : ".",
                      absl::CHexEscape(ToAbsl(name.substr(0, kMaxName))));
}

std::string PathOf(const std::vector<Open>& open) {
  std::string path;
  for (const Open& one : open) {
    path = one.bracket == '[' ? absl::StrCat(path, "[", one.index, "]")
                              : JoinPath(path, FieldName(one.name));
  }
  return path;
}

bool IsWord(char c) { return c == '_' || absl::ascii_isalnum(static_cast<unsigned char>(c)); }

// The first element of an array that is null or an array, or a name that an object has twice. The
// parser of protobuf would leave out the null, and put the elements of the array in its place: the
// values would move to other rows. It would keep the last value of the name, or join its arrays.
std::optional<Violation> FindFault(std::string_view json) {
  // More than the parser takes.
  constexpr std::size_t kMostOpen = 256;
  std::vector<Open> open;
  std::string_view word;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    const std::size_t begin = i;
    const bool is_element = !open.empty() && open.back().bracket == '[';
    if (c == '"' || c == '\'') {
      // The parser takes both quotation marks, and names without any.
      for (++i; i < json.size() && json[i] != c; ++i) {
        if (json[i] == '\\') ++i;
      }
      word = json.substr(begin + 1, i - begin - 1);
    } else if (IsWord(c)) {
      while (i + 1 < json.size() && IsWord(json[i + 1])) ++i;
      word = json.substr(begin, i + 1 - begin);
      if (is_element && word == "null") {
        return Violation{.field = PathOf(open),
                         .description = "is null, expected a value; leave out the whole row"};
      }
    } else if (c == '[' && is_element) {
      return Violation{.field = PathOf(open),
                       .description =
                           "is an array, expected one value: write the values of all "
                           "rows one after the other, in one array"};
    } else if (c == '[' || c == '{') {
      if (open.size() == kMostOpen) return std::nullopt;
      open.push_back({.bracket = c});
    } else if ((c == ']' || c == '}') && !open.empty()) {
      open.pop_back();
    } else if (c == ':' && !open.empty()) {
      if (!SetName(word, open.back())) {
        return Violation{.field = PathOf(open), .description = "is given twice, expected once"};
      }
    } else if (c == ',' && !open.empty()) {
      ++open.back().index;
    }
  }
  return std::nullopt;
}

// Returns the field at a path such as "model.class_names[0]", or null.
const FieldDescriptor* FindField(const Descriptor* type, std::string_view path) {
  const FieldDescriptor* field = nullptr;
  for (const absl::string_view part : absl::StrSplit(ToAbsl(path), '.')) {
    if (type == nullptr) return nullptr;
    field = type->FindFieldByName(std::string(part.substr(0, part.find('['))));
    type = field == nullptr ? nullptr : field->message_type();
  }
  return field;
}

// Returns the message at a path, or null.
const Descriptor* FindMessage(const Descriptor* type, std::string_view path) {
  if (path.empty()) return type;
  const FieldDescriptor* const field = FindField(type, path);
  return field == nullptr ? nullptr : field->message_type();
}

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

// What the JSON of a field must be.
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
      return "a text";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat("one of ", NamesOf(*field.enum_type()));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  const std::string& type = field.message_type()->full_name();
  if (type == "google.protobuf.Timestamp") return "RFC 3339, such as 2026-01-31T12:00:00Z";
  if (type == "google.protobuf.Duration") return "seconds as a text, such as 3600s";
  if (type == "google.protobuf.FieldMask") return "a text of names with commas between them";
  return "an object";
}

// Removes the end of a text; returns false if it ends otherwise.
bool ConsumeEnd(std::string_view end, std::string_view& text) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

// What is between the last two apostrophes.
std::string_view LastQuoted(std::string_view text) {
  text = text.substr(0, text.rfind('\''));
  return text.substr(text.rfind('\'') + 1);
}

// Describes a value that the parser of protobuf refuses: "\"x\"", "5" or, for texts with a form of
// their own, "Field 'startTime', Invalid time format: x".
std::string DescribeValue(std::string_view value) {
  constexpr std::size_t kMaxLength = 80;
  if (value.starts_with("Field '")) {
    return absl::StrCat("is invalid: ", Quoted(value.substr(value.find("', ") + 3)));
  }
  if (value.size() > 1 && value.front() == '"') {
    return absl::StrCat("is ", Quoted(value.substr(1, value.size() - 2)));
  }
  return absl::StrCat("is ", absl::CHexEscape(ToAbsl(value.substr(0, kMaxLength))));
}

// The violation of an error of protobuf's parser, whose form is "(PATH): invalid value VALUE for
// type TYPE" or "(PATH) NAME: MESSAGE", without "(PATH)" at the root. Nothing for other errors.
std::optional<Violation> ReadParserError(std::string_view error, const Descriptor* type) {
  std::string_view path;
  if (error.starts_with('(')) {
    const std::size_t end = std::min(error.find(')'), error.size() - 1);
    path = error.substr(1, end - 1);
    error.remove_prefix(end + 1);
  }
  if (error.starts_with(' ')) error.remove_prefix(1);
  if (ConsumeEnd(": Cannot find field.", error)) {
    const Descriptor* const message = FindMessage(type, path);
    if (message == nullptr) return std::nullopt;
    return Violation{
        .field = JoinPath(path, error),
        .description = absl::StrCat("is unknown, expected one of ", NamesOf(*message))};
  }
  if (ConsumeEnd(": Proto field is not repeating, cannot start list.", error)) {
    const std::string name = JoinPath(path, FieldName(error));
    const FieldDescriptor* const field = FindField(type, name);
    if (field == nullptr) return std::nullopt;
    return Violation{.field = name,
                     .description = absl::StrCat("is an array, expected ", Expected(*field))};
  }
  constexpr std::string_view kInvalid = ": invalid value ";
  constexpr std::string_view kForType = " for type ";
  const std::size_t middle = error.rfind(kForType);
  if (!error.starts_with(kInvalid) || middle == std::string_view::npos) return std::nullopt;
  const std::string_view value = error.substr(kInvalid.size(), middle - kInvalid.size());
  const std::string_view value_type = error.substr(middle + kForType.size());
  if (value_type == "oneof") {
    // "oneof field 'content' is already set. Cannot set 'labels'"
    const Descriptor* const message = FindMessage(type, path);
    const std::string name = JoinPath(path, FieldName(LastQuoted(value)));
    const FieldDescriptor* const field = FindField(type, name);
    if (message == nullptr || field == nullptr) return std::nullopt;
    return Violation{
        .field = name,
        .description = absl::StrCat("is given twice or with another field, expected ",
                                    "only one of ", NamesOf(*field->containing_oneof()))};
  }
  if (value == "Starting an object on a scalar field") {
    const FieldDescriptor* const array = FindField(type, path);
    if (array != nullptr && array->message_type() == nullptr) {
      // The index in the path, if there is one, is that of the element before the object.
      const std::size_t length = path.ends_with(']') ? path.rfind('[') : path.size();
      return Violation{
          .field = std::string(path.substr(0, length)),
          .description = absl::StrCat("has an object as an element, expected ", Expected(*array))};
    }
    const std::string name = JoinPath(path, value_type);
    const FieldDescriptor* const field = FindField(type, name);
    if (field == nullptr) return std::nullopt;
    return Violation{
        .field = name,
        .description = absl::StrCat("is an object, expected ",
                                    field->is_repeated() ? "an array" : Expected(*field))};
  }
  const FieldDescriptor* const field = FindField(type, path);
  if (field == nullptr) return std::nullopt;
  return Violation{
      .field = std::string(path),
      .description = absl::StrCat(DescribeValue(value), ", expected ", Expected(*field))};
}

absl::Status InvalidJsonFieldError(const Violation& violation) {
  return InvalidFieldsError("INVALID_JSON", std::span(&violation, 1));
}

}  // namespace

std::size_t MaxJsonLength(const Message& message) {
  Printer counter(nullptr);
  counter.Print(message);
  return counter.length();
}

void AppendJson(const Message& message, std::string& text) { Printer(&text).Print(message); }

std::string ToJsonText(const Message& message) {
  std::string text;
  AppendJson(message, text);
  return text;
}

absl::Status ParseJsonText(const std::string& text, std::string_view what, Message& message) {
  if (const auto wrong = FindFault(text)) return InvalidJsonFieldError(*wrong);
  google::protobuf::util::JsonParseOptions options;
  options.case_insensitive_enum_parsing = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(text, &message, options);
  if (parsed.ok()) return absl::OkStatus();
  const std::string_view error(parsed.message().data(), parsed.message().size());
  if (error == ": Root element must be a message.") {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "INVALID_JSON",
        absl::StrCat(ToAbsl(what), " is not an object, expected one with the fields of ",
                     "the request"));
  }
  const auto violation = ReadParserError(error, message.GetDescriptor());
  return violation.has_value() ? InvalidJsonFieldError(*violation) : InvalidJsonError(what, error);
}

std::string JsonErrorText(const absl::Status& status) {
  const rpc::Status wire = ToRpcStatus(status);
  Json details = Json::array();
  for (const google::protobuf::Any& any : wire.details()) details.push_back(DetailJson(any));
  const Json error = {{"code", HttpStatusOf(status)},
                      {"status", absl::StatusCodeToString(status.code())},
                      {"message", wire.message()},
                      {"details", std::move(details)}};
  return Json{{"error", error}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

unsigned HttpStatusOf(const absl::Status& status) {
  if (const std::optional<rpc::ErrorInfo> info = GetErrorInfo(status)) {
    for (const ReasonStatus& one : kReasonStatuses) {
      if (one.reason == info->reason()) return one.status;
    }
  }
  return HttpStatusOf(status.code());
}

std::optional<std::int64_t> RetrySeconds(const absl::Status& status) {
  const rpc::Status wire = ToRpcStatus(status);
  for (const google::protobuf::Any& any : wire.details()) {
    rpc::RetryInfo info;
    if (absl::EndsWith(any.type_url(), ".RetryInfo") && info.ParseFromString(any.value())) {
      return info.retry_delay().seconds() + (info.retry_delay().nanos() > 0 ? 1 : 0);
    }
  }
  return status.code() == absl::StatusCode::kUnavailable ? std::optional<std::int64_t>(1)
                                                         : std::nullopt;
}

}  // namespace calibd::server
