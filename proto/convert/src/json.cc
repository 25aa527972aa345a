#include "calibd/convert/json.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::convert {
namespace {

using google::protobuf::Duration;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;
using google::protobuf::util::TimeUtil;

Json EnumJson(const EnumValueDescriptor& value) {
  if (value.number() == 0) return nullptr;
  // For example, CITYBLOCK of Distance becomes "cityblock".
  const std::string zero = value.type()->FindValueByNumber(0)->name();
  const absl::string_view prefix = absl::StripSuffix(zero, "UNSPECIFIED");
  const absl::string_view name = absl::StripPrefix(value.name(), prefix);
  // A status is spelled as in text and metrics.
  return absl::EndsWith(prefix, "STATUS_") ? std::string(name) : absl::AsciiStrToLower(name);
}

// index: the index in a repeated field, or -1 for other fields.
Json ValueJson(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
  const auto pick = [&](auto single, auto repeated) {
    return index < 0 ? (reflection.*single)(message, &field)
                     : (reflection.*repeated)(message, &field, index);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return pick(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return pick(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return pick(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return pick(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return pick(&Reflection::GetDouble, &Reflection::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return pick(&Reflection::GetFloat, &Reflection::GetRepeatedFloat);
    case FieldDescriptor::CPPTYPE_BOOL:
      return pick(&Reflection::GetBool, &Reflection::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumJson(*pick(&Reflection::GetEnum, &Reflection::GetRepeatedEnum));
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = pick(&Reflection::GetString, &Reflection::GetRepeatedString);
      return text.empty() ? Json() : Json(text);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  const Message& inner = index < 0 ? reflection.GetMessage(message, &field)
                                   : reflection.GetRepeatedMessage(message, &field, index);
  if (const auto* const time = dynamic_cast<const Timestamp*>(&inner)) {
    return TimeUtil::ToString(*time);
  }
  if (const auto* const duration = dynamic_cast<const Duration*>(&inner)) {
    return static_cast<double>(TimeUtil::DurationToNanoseconds(*duration)) * 1e-9;
  }
  return ToJson(inner);
}

std::string KeyOf(const FieldDescriptor& field) {
  const bool duration = field.message_type() == Duration::descriptor();
  return duration ? absl::StrCat(field.name(), "_seconds") : field.name();
}

}  // namespace

Json ToJson(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  Json json = Json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    const std::string key = KeyOf(field);
    if (field.is_repeated()) {
      Json& array = json[key] = Json::array();
      for (int k = 0; k < reflection.FieldSize(message, &field); ++k) {
        array.push_back(ValueJson(message, field, k));
      }
    } else if (field.real_containing_oneof() != nullptr) {
      if (reflection.HasField(message, &field)) json[key] = ValueJson(message, field, -1);
    } else if (field.has_presence() && !reflection.HasField(message, &field)) {
      json[key] = nullptr;
    } else {
      json[key] = ValueJson(message, field, -1);
    }
  }
  return json;
}

}  // namespace calibd::convert
