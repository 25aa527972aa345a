#include "calibd/convert/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::convert {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;
using google::protobuf::util::TimeUtil;

// Prints messages, or counts an upper bound of their length.
class Printer {
 public:
  // text: null to count only.
  explicit Printer(std::string* text) : text_(text) {}

  void Print(const Message& message) {
    // These two calls take long, so that they are made once for a message and not for each field.
    const Descriptor& type = *message.GetDescriptor();
    const Reflection& reflection = *message.GetReflection();
    if (&type == Timestamp::descriptor()) {
      return PrintText(TimeUtil::ToString(static_cast<const Timestamp&>(message)));
    }
    if (&type == Duration::descriptor()) {
      return PrintText(TimeUtil::ToString(static_cast<const Duration&>(message)));
    }
    Add("{");
    std::string_view separator;
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (field.has_presence() && !reflection.HasField(message, &field)) continue;
      Add(std::exchange(separator, ","));
      Add("\"");
      Add(field.json_name());
      Add("\":");
      if (field.is_repeated()) {
        PrintElements(message, reflection, field);
      } else {
        PrintValue(message, reflection, field, -1);
      }
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

  // `reflection` is that of the message.
  void PrintElements(const Message& message, const Reflection& reflection,
                     const FieldDescriptor& field) {
    const int count = reflection.FieldSize(message, &field);
    Add(field.is_map() ? "{" : "[");
    for (int i = 0; i < count; ++i) {
      if (i > 0) Add(",");
      if (field.is_map()) {
        const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
        const Reflection& of_entry = *entry.GetReflection();
        PrintValue(entry, of_entry, *field.message_type()->map_key(), -1);
        Add(":");
        PrintValue(entry, of_entry, *field.message_type()->map_value(), -1);
      } else {
        PrintValue(message, reflection, field, i);
      }
    }
    Add(field.is_map() ? "}" : "]");
  }

  // index: the index in a repeated field, or -1 for other fields.
  void PrintValue(const Message& message, const Reflection& reflection,
                  const FieldDescriptor& field, int index) {
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
      case FieldDescriptor::CPPTYPE_ENUM: {
        const int number = pick(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue);
        const auto* const value = field.enum_type()->FindValueByNumber(number);
        return value == nullptr ? PrintNumber(number) : PrintText(value->name());
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string copy;
        const std::string& text =
            index < 0 ? reflection.GetStringReference(message, &field, &copy)
                      : reflection.GetRepeatedStringReference(message, &field, index, &copy);
        const bool is_bytes = field.type() == FieldDescriptor::TYPE_BYTES;
        return PrintText(is_bytes ? absl::Base64Escape(text) : text);
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Print(index < 0 ? reflection.GetMessage(message, &field)
                               : reflection.GetRepeatedMessage(message, &field, index));
    }
  }

  std::string* const text_;
  std::size_t length_ = 0;
};

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

Json ToJson(const Message& message) { return Json::parse(ToJsonText(message)); }

}  // namespace calibd::convert
