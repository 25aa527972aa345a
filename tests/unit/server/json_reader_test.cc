#include "calibd/convert/json_reader.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/ingest_service.pb.h"
#include "calibd/v1/model_service.pb.h"
#include "calibd/v1/store_service.pb.h"

namespace calibd::convert {
namespace {

using Create = v1::CreateModelRequest;
using Observe = v1::ObserveRequest;

// Expects that the text says what it says to protobuf's parser, and returns the message.
template <typename Request>
Request Read(const std::string& json) {
  Request request;
  const auto fault = ReadJson(json, request);
  EXPECT_FALSE(fault.has_value()) << json << ": " << fault->field << " " << fault->description;
  Request expected;
  google::protobuf::util::JsonParseOptions options;
  options.case_insensitive_enum_parsing = true;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &expected, options).ok()) << json;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(request, expected)) << json;
  return request;
}

template <typename Request>
void ExpectFault(const std::string& json, const std::string& field,
                 const std::string& description) {
  Request request;
  const auto fault = ReadJson(json, request);
  ASSERT_TRUE(fault.has_value()) << json;
  EXPECT_EQ(fault->field, field) << json;
  EXPECT_EQ(fault->description, description) << json;
}

TEST(JsonReaderTest, NamesAreThoseOfJsonOrOfTheContract) {
  const auto request = Read<Create>(R"({"model": {"classes": {"count": 3, "names": ["a", "b", "c"],
      "bandwidth": {"fixed": 0.25}}, "label_grace": "3600.5s", "monitoring": null}})");
  EXPECT_EQ(request.model().classes().names_size(), 3);
  EXPECT_EQ(request.model().label_grace().nanos(), 500000000);
  EXPECT_FALSE(request.model().has_monitoring());
}

TEST(JsonReaderTest, NumbersMayBeTexts) {
  const auto request = Read<Observe>(R"({"observations": {"labels": [1, 2, 3.0, 4e0],
      "probabilities": {"values": [0, 1, -1, 0.5, "0.25", 1e-3, "1E-3", "Infinity", "-Infinity",
                                   18446744073709551615, 123456789012345678901234567890]}}})");
  EXPECT_THAT(request.observations().labels(), ::testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(request.observations().probabilities().values(7),
            std::numeric_limits<double>::infinity());
  const auto seed = Read<v1::RunTestRequest>(R"({"seed": 18446744073709551615, "window": "200"})");
  EXPECT_EQ(seed.seed(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(Read<v1::RunTestRequest>(R"({"seed": "18446744073709551615"})").seed(), seed.seed());
  Observe nan;
  ASSERT_FALSE(
      ReadJson(R"({"observations": {"probabilities": {"values": ["NaN"]}}})", nan).has_value());
  EXPECT_TRUE(std::isnan(nan.observations().probabilities().values(0)));
}

// Most numbers of an array are read without the parser; its form of a number must be kept.
TEST(JsonReaderTest, NumbersOfArraysHaveTheFormOfJson) {
  const auto request = Read<Observe>(
      "{\"observations\": {\"probabilities\": {\"values\": [ -0 ,-0.0,\t0e5\n,1.5E+3, 5e-324, "
      "1e-999, 0.1234567890123456789, -12.5e-3, 7]}, \"labels\": [ -2147483648 ,2147483647, 1 ]}}");
  const auto& values = request.observations().probabilities().values();
  EXPECT_TRUE(std::signbit(values[0]) && std::signbit(values[1]));
  EXPECT_EQ(values[4], std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(values[6], 0.1234567890123456789);
  const auto narrow = Read<Observe>(
      R"({"observations": {"probabilitiesFloat32": {"values": [0.1, 3.4028234e38, 1e-60, 0.3]}}})");
  EXPECT_EQ(narrow.observations().probabilities_float32().values(0), 0.1F);
  for (const std::string number : {"01", ".5", "1.", "+1", "1e", "1e+", "-", "0x1", "inf", "1_0"}) {
    Observe read;
    const std::string text = absl::StrCat(R"({"observations": {"probabilities": {"values": [0.5, )",
                                          number, ", 0.5]}}}");
    EXPECT_TRUE(ReadJson(text, read).has_value()) << number;
  }
  ExpectFault<Observe>(R"({"observations": {"labels": [0, 2147483648, 1]}})",
                       "observations.labels[1]", "is 2147483648, expected an integer of 32 bits");
  ExpectFault<Observe>(R"({"observations": {"labels": [0, 1.5, 1]}})", "observations.labels[1]",
                       "is 1.5, expected an integer of 32 bits");
}

TEST(JsonReaderTest, EnumValuesAreNamesInAnyCaseOrNumbers) {
  using History = v1::GetHistoryRequest;
  EXPECT_EQ(Read<History>(R"({"resolution": "DAY"})").resolution(), History::DAY);
  EXPECT_EQ(Read<History>(R"({"resolution": "day"})").resolution(), History::DAY);
  EXPECT_EQ(Read<History>(R"({"resolution": 3})").resolution(), History::DAY);
  EXPECT_EQ(Read<History>(R"({"resolution": 77})").resolution(), 77);
  const auto estimate = Read<v1::EstimateCalibrationErrorRequest>(R"({"estimators": ["BINS", 3]})");
  EXPECT_EQ(estimate.estimators(1), v1::EstimatorOutcome::KERNEL_DENSITY);
}

TEST(JsonReaderTest, TextsOfTimesMasksAndBytesAreMessages) {
  const auto history = Read<v1::GetHistoryRequest>(
      R"({"startTime": "2026-01-31T12:00:00.25Z", "endTime": "2026-01-31T13:00:00+01:00"})");
  EXPECT_EQ(history.start_time().nanos(), 250000000);
  EXPECT_EQ(history.end_time().seconds(), history.start_time().seconds());
  const auto update = Read<v1::UpdateModelRequest>(
      R"({"model": {"description": "of pets"}, "updateMask": "description,monitoring.errorLimit"})");
  EXPECT_THAT(update.update_mask().paths(),
              ::testing::ElementsAre("description", "monitoring.error_limit"));
  v1::UpdateModelRequest snake;
  ASSERT_FALSE(ReadJson(R"({"updateMask": "label_grace"})", snake).has_value());
  EXPECT_THAT(snake.update_mask().paths(), ::testing::ElementsAre("label_grace"));
  EXPECT_EQ(Read<v1::BackupResponse>(R"({"data": "//4/"})").data(), "\xff\xfe?");
  ExpectFault<v1::BackupResponse>(R"({"data": "?"})", "data",
                                  "is \"?\", expected a text in base64");
}

TEST(JsonReaderTest, TextsKeepTheirEscapes) {
  const auto request = Read<Create>(
      R"({"model": {"description": "\"a\" \\ \/ \u00fc \ud83d\ude00 Gr\u00fc\u00dfe"}})");
  EXPECT_EQ(request.model().description(), "\"a\" \\ / ü 😀 Grüße");
}

TEST(JsonReaderTest, FaultsOfValuesNameTheFieldAndWhatIsExpected) {
  ExpectFault<Create>(R"({"model": 5})", "model", "is 5, expected an object");
  ExpectFault<Create>(R"({"model": []})", "model", "is an array, expected an object");
  ExpectFault<Create>(R"({"model": {"name": 5}})", "model.name", "is 5, expected a text");
  ExpectFault<Create>(R"({"model": {"name": {}}})", "model.name", "is an object, expected a text");
  ExpectFault<Create>(R"({"model": {"classes": {"names": {}}}})", "model.classes.names",
                      "is an object, expected an array");
  ExpectFault<Create>(R"({"model": {"classes": {"names": "a"}}})", "model.classes.names",
                      "is \"a\", expected an array");
  ExpectFault<Create>(R"({"model": {"classes": {"names": ["a", {}]}}})", "model.classes.names[1]",
                      "is an object, expected a text");
  ExpectFault<Observe>(R"({"observations": {"probabilitiesFloat32": {"values": [0, 1e39]}}})",
                       "observations.probabilities_float32.values[1]",
                       "is 1e39, expected a number in the range of float");
  ExpectFault<Observe>(R"({"observations": {"probabilities": {"values": [0.5, 1e999]}}})",
                       "observations.probabilities.values[1]",
                       "is 1e999, expected a number in the range of double");
  ExpectFault<Create>(R"({"model": {"classes": {"count": [2]}}})", "model.classes.count",
                      "is an array, expected an integer of 32 bits");
  for (const std::string value :
       {"2.5", "4294967296", "\"a for type b\"", "true", "\"1 \"", "\"\""}) {
    ExpectFault<Create>(absl::StrCat("{\"model\": {\"classes\": {\"count\": ", value, "}}}"),
                        "model.classes.count",
                        absl::StrCat("is ", value, ", expected an integer of 32 bits"));
  }
  ExpectFault<Create>(R"({"model": {"labelsComeWithPredictions": "x"}})",
                      "model.labels_come_with_predictions", "is \"x\", expected true or false");
  ExpectFault<Create>(R"({"model": {"classes": {"bandwidth": {"fixed": "0x1"}}}})",
                      "model.classes.bandwidth.fixed", "is \"0x1\", expected a number");
  ExpectFault<v1::GetHistoryRequest>(R"({"resolution": "WEEK"})", "resolution",
                                     "is \"WEEK\", expected one of MINUTE, HOUR, DAY");
  ExpectFault<v1::GetHistoryRequest>(R"({"startTime": "now"})", "start_time",
                                     "is \"now\", expected RFC 3339, such as 2026-01-31T12:00:00Z");
  ExpectFault<Create>(R"({"model": {"labelGrace": "1h"}})", "model.label_grace",
                      "is \"1h\", expected seconds as a text, such as 3600s");
  ExpectFault<Create>(R"({"model": {"labelGrace": {"seconds": 1}}})", "model.label_grace",
                      "is an object, expected seconds as a text, such as 3600s");
  ExpectFault<v1::ListModelsRequest>(R"({"PageSize": 1})", "PageSize",
                                     "is unknown, expected one of page_size, page_token");
}

TEST(JsonReaderTest, OnlyOneFieldOfAChoiceIsTaken) {
  ExpectFault<Observe>(R"({"observations": {}, "labels": {}})", "labels",
                       "is given with observations, expected only one of observations, labels");
  ExpectFault<Observe>(R"({"observations": {"logits": {}, "logitsFloat32": {}}})",
                       "observations.logits_float32",
                       "is given with logits, expected only one of probabilities, "
                       "probabilities_float32, logits, logits_float32, forecasts");
  EXPECT_TRUE(Read<Observe>(R"({"observations": null, "labels": {}})").has_labels());
}

TEST(JsonReaderTest, ANameThatAnObjectHasTwiceIsRefused) {
  const std::string expected = "is given twice, expected once";
  ExpectFault<Observe>(R"({"observations": {}, "observations": {}})", "observations", expected);
  ExpectFault<Observe>(R"({"requestId": "a", "request_id": "b"})", "request_id", expected);
  ExpectFault<Observe>(R"({"observations": {"labels": [0], "features": {}, "labels": [1]}})",
                       "observations.labels", expected);
}

TEST(JsonReaderTest, ElementsThatMoveOthersToAnotherRowAreRefused) {
  const std::string array =
      "is an array, expected one value: write the values of all rows one after the other, in one "
      "array";
  ExpectFault<Observe>(
      R"({"observations": {"probabilities": {"values": [[0.7, 0.2], [0.1, 0.1, 0.8, 0.1]]}}})",
      "observations.probabilities.values[0]", array);
  ExpectFault<Observe>(R"({"observations": {"labels": [0, 1, [2]]}})", "observations.labels[2]",
                       array);
  ExpectFault<Observe>(R"({"observations": {"predictionIds": ["a,[\"", "b", null]}})",
                       "observations.prediction_ids[2]",
                       "is null, expected a value; leave out the whole row");
  const auto request = Read<Observe>(R"({"requestId": "[[null", "observations": {"labels": [1, 2],
                                         "predictionIds": ["null", "[["], "features": null}})");
  EXPECT_EQ(request.observations().labels_size(), 2);
}

TEST(JsonReaderTest, DeepTextsEndAtTheirFirstFault) {
  ExpectFault<v1::ListModelsRequest>("{\"pageSize\": " + std::string(100000, '['), "page_size",
                                     "is an array, expected an integer of 32 bits");
  ExpectFault<Observe>(R"({"observations": {"labels": )" + std::string(100000, '['),
                       "observations.labels[0]",
                       "is an array, expected one value: write the values of all rows one after "
                       "the other, in one array");
}

TEST(JsonReaderTest, FaultsOfTheFormNameTheirPosition) {
  ExpectFault<Observe>("{\"observations\":", "",
                       "is not JSON at line 1, column 17, where it ends, in observations");
  ExpectFault<Observe>("{\"requestId\": \"a\",\n \"observations\": {\"labels\": [0, ]}}", "",
                       "is not JSON at line 2, column 33, in observations.labels[1]");
  // Also behind numbers that are read without the parser.
  ExpectFault<Observe>("{\"observations\": {\"labels\": [1, 2,\n  3, x]}}", "",
                       "is not JSON at line 2, column 6, in observations.labels[3]");
  ExpectFault<Observe>("x", "", "is not JSON at line 1, column 1");
  ExpectFault<Observe>("", "", "is not JSON at line 1, column 1, where it ends");
  ExpectFault<Observe>("{} {}", "", "is not JSON at line 1, column 4");
  ExpectFault<Observe>("{} // c", "", "is not JSON at line 1, column 4");
  ExpectFault<Observe>(R"({"labels": {"labels": [1, 2,]}})", "",
                       "is not JSON at line 1, column 29, in labels.labels[2]");
  ExpectFault<Observe>(R"({"labels": {"labels": [01]}})", "",
                       "is not JSON at line 1, column 25, in labels.labels[1]");
  ExpectFault<Observe>(R"({"requestId": "a",})", "",
                       "is not JSON at line 1, column 19, in request_id");
  ExpectFault<Observe>(R"({"requestId": NaN})", "",
                       "is not JSON at line 1, column 15, in request_id");
  ExpectFault<Observe>(R"({"requestId": "\ud800"})", "",
                       "is not JSON at line 1, column 22, in request_id");
  ExpectFault<Observe>("{\"requestId\": \"a\tb\"}", "",
                       "is not JSON at line 1, column 17, in request_id");
  ExpectFault<Observe>("{requestId: \"a\"}", "", "is not JSON at line 1, column 2");
  ExpectFault<Observe>("{\"requestId\": \"\xff\"}", "",
                       "is not JSON at line 1, column 16, in request_id");
  ExpectFault<Observe>("[1]", "", "is an array, expected an object");
  ExpectFault<Observe>("null", "", "is null, expected an object");
  ExpectFault<Observe>("5", "", "is 5, expected an object");
}

}  // namespace
}  // namespace calibd::convert
