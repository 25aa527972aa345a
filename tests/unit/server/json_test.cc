#include "calibd/convert/json.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "calibd/rpc/rules.pb.h"
#include "calibd/rpc/status.pb.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/store_service.pb.h"
#include "nlohmann/json.hpp"
#include "server/rpc/registered_methods.h"

namespace calibd::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Fills messages with random values. Of a message that contains itself, four levels are filled.
class Filler {
 public:
  explicit Filler(unsigned seed) : random_(seed) {}

  void Fill(Message& message, int depth = 0) {
    if (message.GetDescriptor()->full_name() == "google.protobuf.Timestamp" ||
        message.GetDescriptor()->full_name() == "google.protobuf.Duration") {
      const auto* const seconds = message.GetDescriptor()->FindFieldByName("seconds");
      message.GetReflection()->SetInt64(&message, seconds, Below(1 << 30));
      const auto* const nanos = message.GetDescriptor()->FindFieldByName("nanos");
      message.GetReflection()->SetInt32(&message, nanos, Below(3) * 250000000);
      return;
    }
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor& field = *message.GetDescriptor()->field(i);
      if (Below(3) == 0 || (field.message_type() != nullptr && depth == 4)) continue;
      const int count = field.is_repeated() ? Below(4) : 1;
      for (int k = 0; k < count; ++k) FillField(message, field, depth);
    }
  }

 private:
  int Below(int limit) { return std::uniform_int_distribution(0, limit - 1)(random_); }

  // Numbers that are equal in float and double, so that their digits are the same value in both.
  double Number() {
    constexpr std::array kNumbers{0.0, -0.0, 0.125, -3.5, 1e22, 4e-30, 1.0};
    return kNumbers[static_cast<std::size_t>(Below(kNumbers.size()))];
  }

  std::string Text() {
    constexpr std::array kTexts{"",
                                "plain",
                                "\"quoted\" \\ /",
                                "line\nbreak\t\r\x01\x1f",
                                "</script>",
                                "Gr\u00fc\u00dfe \u2028 \U0001f600"};
    return kTexts[static_cast<std::size_t>(Below(kTexts.size()))];
  }

  void FillField(Message& message, const FieldDescriptor& field, int depth) {
    const Reflection& reflection = *message.GetReflection();
    const auto set = [&](auto single, auto repeated, auto value) {
      if (field.is_repeated()) {
        (reflection.*repeated)(&message, &field, value);
      } else {
        (reflection.*single)(&message, &field, value);
      }
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return set(&Reflection::SetInt32, &Reflection::AddInt32, Below(9) - 4);
      case FieldDescriptor::CPPTYPE_UINT32:
        return set(&Reflection::SetUInt32, &Reflection::AddUInt32, std::uint32_t{4000000000});
      case FieldDescriptor::CPPTYPE_INT64:
        return set(&Reflection::SetInt64, &Reflection::AddInt64, std::int64_t{Below(9) - 4} << 60);
      case FieldDescriptor::CPPTYPE_UINT64:
        return set(&Reflection::SetUInt64, &Reflection::AddUInt64, std::uint64_t{1} << 63);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return set(&Reflection::SetDouble, &Reflection::AddDouble, Number());
      case FieldDescriptor::CPPTYPE_FLOAT:
        return set(&Reflection::SetFloat, &Reflection::AddFloat, static_cast<float>(Below(9)) / 8);
      case FieldDescriptor::CPPTYPE_BOOL:
        return set(&Reflection::SetBool, &Reflection::AddBool, Below(2) == 1);
      case FieldDescriptor::CPPTYPE_ENUM:
        return set(&Reflection::SetEnum, &Reflection::AddEnum,
                   field.enum_type()->value(Below(field.enum_type()->value_count())));
      case FieldDescriptor::CPPTYPE_STRING:
        return set(&Reflection::SetString, &Reflection::AddString, Text());
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Fill(*(field.is_repeated() ? reflection.AddMessage(&message, &field)
                                          : reflection.MutableMessage(&message, &field)),
                    depth + 1);
    }
  }

  std::mt19937 random_;
};

void ExpectSameAsProtobuf(const Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string expected;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(message, &expected, options).ok());
  const std::string text = convert::ToJsonText(message);
  EXPECT_EQ(nlohmann::json::parse(text), nlohmann::json::parse(expected))
      << message.GetDescriptor()->full_name();
  EXPECT_EQ(text.find_first_of("\r\n"), std::string::npos);
  EXPECT_LE(text.size(), convert::MaxJsonLength(message));
}

TEST(JsonTest, AnswersHaveTheJsonOfProtobuf) {
  Filler filler(3);
  for (const auto* const service : ApiServices()) {
    for (int k = 0; k < service->method_count(); ++k) {
      if (service->method(k)->options().ExtensionSize(rpc::http) == 0) continue;
      const Message* const prototype =
          google::protobuf::MessageFactory::generated_factory()->GetPrototype(
              service->method(k)->output_type());
      ExpectSameAsProtobuf(*prototype);
      for (int i = 0; i < 20; ++i) {
        const std::unique_ptr<Message> message(prototype->New());
        filler.Fill(*message);
        ExpectSameAsProtobuf(*message);
      }
    }
  }
}

TEST(JsonTest, DetailsOfErrorsHaveTheJsonOfProtobuf) {
  rpc::ErrorInfo info;
  ExpectSameAsProtobuf(info);
  (*info.mutable_metadata())["key"] = "value \"1\"";
  (*info.mutable_metadata())["other"] = "";
  ExpectSameAsProtobuf(info);
}

TEST(JsonTest, AnEnumValueWithoutANameIsItsNumber) {
  v1::Verdict verdict;
  verdict.set_status(static_cast<v1::Verdict::Status>(77));
  ExpectSameAsProtobuf(verdict);
}

TEST(JsonTest, BytesAreInBase64) {
  v1::BackupResponse response;
  response.set_data("\xff\xfe?");
  ExpectSameAsProtobuf(response);
}

TEST(JsonTest, NumbersReadBackAsTheSame) {
  v1::DoubleValues message;
  std::mt19937_64 random(5);
  for (const double value :
       {-2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 1.0 / 3, 5e-324}) {
    message.add_values(value);
  }
  for (int i = 0; i < 1000; ++i) message.add_values(std::generate_canonical<double, 64>(random));
  const std::string text = convert::ToJsonText(message);
  const std::vector<double> read = nlohmann::json::parse(text)["values"];
  EXPECT_THAT(read, ::testing::ElementsAreArray(message.values()));
  EXPECT_LE(text.size(), convert::MaxJsonLength(message));
  // A number takes at most 24 characters and a comma.
  EXPECT_LE(convert::MaxJsonLength(message), 25 * read.size() + 12);
}

}  // namespace
}  // namespace calibd::server
