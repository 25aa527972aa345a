#include "server/http/json_text.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/rpc/status.pb.h"
#include "nlohmann/json.hpp"
#include "server/base/errors.h"
#include "server/http/json_api.h"

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
  const std::string text = ToJsonText(message);
  EXPECT_EQ(nlohmann::json::parse(text), nlohmann::json::parse(expected))
      << message.GetDescriptor()->full_name();
  EXPECT_EQ(text.find_first_of("\r\n"), std::string::npos);
  EXPECT_LE(text.size(), MaxJsonLength(message));
}

TEST(JsonTextTest, AnswersHaveTheJsonOfProtobuf) {
  Filler filler(3);
  for (const JsonRoute& route : JsonRoutes()) {
    const Message* const prototype =
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(route.response());
    ExpectSameAsProtobuf(*prototype);
    for (int i = 0; i < 20; ++i) {
      const std::unique_ptr<Message> message(prototype->New());
      filler.Fill(*message);
      ExpectSameAsProtobuf(*message);
    }
  }
}

TEST(JsonTextTest, DetailsOfErrorsHaveTheJsonOfProtobuf) {
  rpc::ErrorInfo info;
  ExpectSameAsProtobuf(info);
  (*info.mutable_metadata())["key"] = "value \"1\"";
  (*info.mutable_metadata())["other"] = "";
  ExpectSameAsProtobuf(info);
}

TEST(JsonTextTest, NumbersReadBackAsTheSame) {
  v1::DoubleValues message;
  std::mt19937_64 random(5);
  for (const double value :
       {-2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 1.0 / 3, 5e-324}) {
    message.add_values(value);
  }
  for (int i = 0; i < 1000; ++i) message.add_values(std::generate_canonical<double, 64>(random));
  const std::string text = ToJsonText(message);
  const std::vector<double> read = nlohmann::json::parse(text)["values"];
  EXPECT_THAT(read, ::testing::ElementsAreArray(message.values()));
  EXPECT_LE(text.size(), MaxJsonLength(message));
  // A number takes at most 24 characters and a comma.
  EXPECT_LE(MaxJsonLength(message), 25 * read.size() + 12);
}

// Parses JSON that has a fault, and checks that the message and the BadRequest name the field.
template <typename Request>
void ExpectFault(const std::string& json, const std::string& field, const std::string& expected) {
  Request request;
  const absl::Status status = ParseJsonText(json, "the body", request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json;
  EXPECT_EQ(std::string(status.message()), field + " " + expected);
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.BadRequest");
  rpc::BadRequest bad_request;
  ASSERT_TRUE(payload.has_value() && bad_request.ParseFromString(std::string(*payload))) << json;
  ASSERT_EQ(bad_request.field_violations_size(), 1);
  EXPECT_EQ(bad_request.field_violations(0).field(), field);
  EXPECT_EQ(GetErrorInfo(status)->reason(), "INVALID_JSON");
}

TEST(JsonTextTest, FaultsOfValuesNameTheFieldAndWhatIsExpected) {
  using Create = v1::CreateModelRequest;
  ExpectFault<Create>(R"({"model": 5})", "model", "is 5, expected an object");
  ExpectFault<Create>(R"({"model": []})", "model", "is an array, expected an object");
  ExpectFault<Create>(R"({"model": {"name": 5}})", "model.name", "is 5, expected a text");
  ExpectFault<Create>(R"({"model": {"classes": {"names": {}}}})", "model.classes.names",
                      "is an object, expected an array");
  ExpectFault<Create>(R"({"model": {"classes": {"names": [{}, "b"]}}})", "model.classes.names",
                      "has an object as an element, expected a text");
  ExpectFault<Create>(R"({"model": {"classes": {"names": ["a", {}]}}})", "model.classes.names",
                      "has an object as an element, expected a text");
  ExpectFault<Create>(R"({"model": {"name": {}}})", "model.name", "is an object, expected a text");
  ExpectFault<v1::ObserveRequest>(R"({"labels": {"labels": {}}})", "labels.labels",
                                  "is an object, expected an array");
  ExpectFault<v1::ObserveRequest>(
      R"({"observations": {"probabilitiesFloat32": {"values": [1e39]}}})",
      "observations.probabilities_float32.values[0]",
      "is 1e+39, expected a number in the range of float");
  ExpectFault<Create>(R"({"model": {"classes": {"count": [2]}}})", "model.classes.count",
                      "is an array, expected an integer of 32 bits");
  ExpectFault<Create>(R"({"model": {"classes": {"count": "a for type b"}}})", "model.classes.count",
                      "is \"a for type b\", expected an integer of 32 bits");
  ExpectFault<Create>(R"({"model": {"labelsComeWithPredictions": "x"}})",
                      "model.labels_come_with_predictions", "is \"x\", expected true or false");
  ExpectFault<Create>(R"({"model": {"classes": {"bandwidth": {"fixed": "x"}}}})",
                      "model.classes.bandwidth.fixed", "is \"x\", expected a number");
  ExpectFault<Create>(R"({"model": {"classes": {"inferenceOutput": {"transform": "LOG"}}}})",
                      "model.classes.inference_output.transform",
                      "is \"LOG\", expected one of NONE, SOFTMAX, "
                      "SIGMOID");
  ExpectFault<v1::GetHistoryRequest>(R"({"resolution": "minute"})", "resolution",
                                     "is \"minute\", expected one of MINUTE, HOUR, DAY");
  ExpectFault<v1::GetHistoryRequest>(
      R"({"startTime": "now"})", "start_time",
      "is invalid: \"Invalid time format: now\", expected RFC 3339, such as "
      "2026-01-31T12:00:00Z");
  ExpectFault<Create>(R"({"model": {"labelGrace": "1h"}})", "model.label_grace",
                      "is invalid: \"Illegal duration format; duration must end with \\'s\\'\", "
                      "expected seconds as a text, such as 3600s");
  ExpectFault<v1::ListModelsRequest>(R"({"PageSize": 1})", "PageSize",
                                     "is unknown, expected one of page_size, page_token");
}

TEST(JsonTextTest, AFieldThatIsGivenTwiceIsNamedWithItsAlternatives) {
  const std::string expected =
      "is given twice or with another field, expected only one of observations, labels";
  using Observe = v1::ObserveRequest;
  ExpectFault<Observe>(R"({"observations": {}, "labels": {}})", "labels", expected);
  ExpectFault<Observe>(R"({"observations": {"logits": {}, "logitsFloat32": {}}})",
                       "observations.logits_float32",
                       "is given twice or with another field, expected only one of probabilities, "
                       "probabilities_float32, logits, logits_float32, forecasts");
}

TEST(JsonTextTest, ANameThatAnObjectHasTwiceIsRefused) {
  const std::string expected = "is given twice, expected once";
  using Observe = v1::ObserveRequest;
  ExpectFault<Observe>(R"({"observations": {}, "observations": {}})", "observations", expected);
  ExpectFault<Observe>(R"({"requestId": "a", request_id: "b"})", "request_id", expected);
  ExpectFault<Observe>(R"({"observations": {"labels": [0], "features": [{}], "labels": [1]}})",
                       "observations.labels", expected);
  Observe request;
  // The names that are kept are bounded: further ones are unknown.
  std::string names = "{\"observations\": {";
  for (int i = 0; i < 1000; ++i) names += absl::StrCat("n", i, ": 1, ");
  EXPECT_THAT(std::string(ParseJsonText(names + "n999: 1}}", "the body", request).message()),
              ::testing::HasSubstr(" is unknown, expected one of "));
  EXPECT_TRUE(ParseJsonText(R"({"requestId": "requestId", "observations": {"labels": [1],
                                "probabilities": {"values": [1]},
                                "baselineProbabilities": {"values": [1]}}})",
                            "the body", request)
                  .ok());
}

TEST(JsonTextTest, ElementsThatMoveOthersToAnotherRowAreRefused) {
  using Observe = v1::ObserveRequest;
  const std::string array =
      "is an array, expected one value: write the values of all rows one after the other, in one "
      "array";
  ExpectFault<Observe>(
      R"({"observations": {"probabilities": {"values": [[0.7, 0.2], [0.1, 0.1, 0.8, 0.1]]}}})",
      "observations.probabilities.values[0]", array);
  ExpectFault<Observe>(R"({"observations": {"labels": [0, 1, [2]]}})", "observations.labels[2]",
                       array);
  const std::string deep(100000, '[');
  ExpectFault<Observe>(R"({"observations": {"labels": )" + deep, "observations.labels[0]", array);
  // The parser takes names in apostrophes, and without quotation marks.
  ExpectFault<Observe>(R"({observations: {'predictionIds': ["a,[\"", 'b', null]}})",
                       "observations.prediction_ids[2]",
                       "is null, expected a value; leave out the whole row");
  Observe request;
  EXPECT_TRUE(ParseJsonText(R"({"requestId": "[[null", "observations": {"labels": [1, 2],
                                "predictionIds": ["null", "[["], "features": null}})",
                            "the body", request)
                  .ok());
  EXPECT_EQ(request.observations().labels_size(), 2);
}

TEST(JsonTextTest, FaultsOfTheFormNameTheirPosition) {
  v1::ObserveRequest request;
  for (const std::string json : {"{\"observations\":", "x", "{\"requestId\": \"\xff\"}"}) {
    const absl::Status status = ParseJsonText(json, "the body", request);
    EXPECT_EQ(GetErrorInfo(status)->reason(), "INVALID_JSON");
    EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("the body is invalid: "));
  }
  for (const std::string json : {"[1]", "[]", "null", "5", "\"x\""}) {
    const absl::Status status = ParseJsonText(json, "the body", request);
    EXPECT_EQ(GetErrorInfo(status)->reason(), "INVALID_JSON");
    EXPECT_EQ(std::string(status.message()),
              "the body is not an object, expected one with the fields of the request");
  }
}

}  // namespace
}  // namespace calibd::server
