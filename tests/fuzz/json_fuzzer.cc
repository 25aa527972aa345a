// The reader of JSON. The first byte of an input selects the message. What the reader takes,
// protobuf's parser takes too, as the same message; and the message survives being printed.
#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "calibd/convert/json.h"
#include "calibd/convert/json_reader.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/ingest_service.pb.h"
#include "calibd/v1/model_service.pb.h"
#include "fuzz/require.h"
#include "google/protobuf/util/field_comparator.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace calibd;
  using google::protobuf::Message;
  using testing::Require;
  static const std::array<const Message*, 6> kMessages{
      &v1::ObserveRequest::default_instance(),     &v1::CreateModelRequest::default_instance(),
      &v1::UpdateModelRequest::default_instance(), &v1::GetHistoryRequest::default_instance(),
      &v1::EvaluateRequest::default_instance(),    &v1::LossSettings::default_instance()};
  if (size == 0) return 0;
  const Message& prototype = *kMessages[data[0] % kMessages.size()];
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::unique_ptr<Message> message(prototype.New());
  if (const auto fault = convert::ReadJson(text, *message)) {
    Require(!fault->description.empty(), "a fault is described");
    return 0;
  }
  // Masks are never printed, and protobuf reads names that no mask has in another way.
  if (&prototype == &v1::UpdateModelRequest::default_instance()) return 0;
  google::protobuf::util::JsonParseOptions options;
  options.case_insensitive_enum_parsing = true;
  const std::unique_ptr<Message> expected(prototype.New());
  // The two differ in numbers written as texts and in masks with names of the contract.
  if (google::protobuf::util::JsonStringToMessage(text, expected.get(), options).ok()) {
    google::protobuf::util::DefaultFieldComparator comparator;
    comparator.set_treat_nan_as_equal(true);
    google::protobuf::util::MessageDifferencer differencer;
    differencer.set_field_comparator(&comparator);
    Require(differencer.Compare(*message, *expected), "the message is that of protobuf's parser");
  }
  const std::unique_ptr<Message> again(prototype.New());
  const std::string printed = convert::ToJsonText(*message);
  Require(!convert::ReadJson(printed, *again).has_value(), "what is printed can be read");
  Require(convert::ToJsonText(*again) == printed, "a message survives being printed");
  return 0;
}
