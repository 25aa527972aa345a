#include "server/watch/stored_numbers.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/reflection.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "calibd/store/v1/store.pb.h"

namespace calibd::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

absl::Status OutOfRange(const FieldDescriptor& field, const std::string& value) {
  return absl::InvalidArgumentError(
      absl::StrCat("has ", std::string(field.full_name()), " = ", value, ", which cannot be"));
}

absl::Status Check(const FieldDescriptor& field, double value) {
  return std::isfinite(value) ? absl::OkStatus() : OutOfRange(field, absl::StrCat(value));
}

absl::Status Check(const FieldDescriptor& field, std::int64_t value) {
  const std::int64_t greatest = StateFields::IsReported(field)
                                    ? std::numeric_limits<std::int64_t>::max()
                                    : StateFields::kGreatestInteger;
  return value >= 0 && value <= greatest ? absl::OkStatus()
                                         : OutOfRange(field, absl::StrCat(value));
}

absl::Status Check(const FieldDescriptor& field, std::int32_t value) {
  return Check(field, std::int64_t{value});
}

absl::Status Check(const FieldDescriptor& /*field*/, const Message& value) {
  return CheckStoredNumbers(value);
}

// The elements of a repeated field.
template <typename Element>
absl::Status CheckAll(const Message& message, const FieldDescriptor& field) {
  for (const Element& element :
       message.GetReflection()->GetRepeatedFieldRef<Element>(message, &field)) {
    CALIBD_RETURN_IF_ERROR(Check(field, element));
  }
  return absl::OkStatus();
}

absl::Status CheckField(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const bool repeated = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return repeated ? CheckAll<double>(message, field)
                      : Check(field, reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return repeated ? CheckAll<std::int64_t>(message, field)
                      : Check(field, reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_INT32:
      return repeated ? CheckAll<std::int32_t>(message, field)
                      : Check(field, reflection.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return repeated ? CheckAll<Message>(message, field)
                      : Check(field, reflection.GetMessage(message, &field));
    default:
      return absl::OkStatus();
  }
}

}  // namespace

absl::Status CheckStoredNumbers(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    CALIBD_RETURN_IF_ERROR(CheckField(message, *field));
  }
  return absl::OkStatus();
}

void MomentsFields(StateFields& fields, RunningMoments& moments) {
  using Stored = store::v1::Moments;
  fields(Stored::kCountFieldNumber, moments.count);
  fields(Stored::kMeanFieldNumber, moments.mean);
  fields(Stored::kM2FieldNumber, moments.m2);
  fields.Require(moments.m2 >= 0, "has a sum of squares below 0");
}

void MaximumFields(StateFields& fields, RunningMaximum& maximum) {
  using Stored = store::v1::RunningMaximum;
  fields(Stored::kLogValueFieldNumber, maximum.log_value);
  fields(Stored::kAtFieldNumber, maximum.at);
}

void SumsFields(StateFields& fields, ReliabilitySums& sums) {
  using Stored = store::v1::ReliabilityState;
  using Bin = ReliabilitySums::Bin;
  fields.Column(Stored::kCountsFieldNumber, sums.bins, &Bin::count);
  fields.Column(Stored::kCorrectFieldNumber, sums.bins, &Bin::correct);
  fields.Column(Stored::kConfidencesFieldNumber, sums.bins, &Bin::confidence);
  fields(Stored::kSquareSumFieldNumber, sums.square_sum);
  const bool fits = std::ranges::all_of(
      sums.bins, [](const Bin& bin) { return bin.correct <= bin.count && bin.confidence >= 0; });
  fields.Require(fits && sums.square_sum >= 0, "has sums of reliability that cannot be");
}

}  // namespace calibd::server
