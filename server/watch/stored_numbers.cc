#include "server/watch/stored_numbers.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/reflection.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"

namespace calibd::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The largest integer that a double represents exactly; in microseconds since 1970, the year 2255.
constexpr std::int64_t kGreatestInteger = std::int64_t{1} << 53;

absl::Status OutOfRange(const FieldDescriptor& field, const std::string& value) {
  return absl::InvalidArgumentError(
      absl::StrCat("has ", std::string(field.full_name()), " = ", value, ", which cannot be"));
}

absl::Status Check(const FieldDescriptor& field, double value) {
  return std::isfinite(value) ? absl::OkStatus() : OutOfRange(field, absl::StrCat(value));
}

absl::Status Check(const FieldDescriptor& field, std::int64_t value) {
  const std::int64_t greatest =
      field.name() == "dropped_rows" ? std::numeric_limits<std::int64_t>::max() : kGreatestInteger;
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

void PutMoments(const RunningMoments& moments, store::v1::Moments& out) {
  out.set_count(moments.count);
  out.set_mean(moments.mean);
  out.set_m2(moments.m2);
}

RunningMoments GetMoments(const store::v1::Moments& stored) {
  return {.count = stored.count(), .mean = stored.mean(), .m2 = stored.m2()};
}

void PutMaximum(const RunningMaximum& maximum, store::v1::RunningMaximum& out) {
  out.set_log_value(maximum.log_value);
  out.set_at(maximum.at);
}

RunningMaximum GetMaximum(const store::v1::RunningMaximum& stored) {
  return {.log_value = stored.log_value(), .at = stored.at()};
}

bool IsSum(double value) { return std::isfinite(value) && value >= 0; }

void PutSums(const ReliabilitySums& reliability, store::v1::ReliabilityState& out) {
  for (const ReliabilitySums::Bin& bin : reliability.bins) {
    out.add_counts(bin.count);
    out.add_correct(bin.correct);
    out.add_confidences(bin.confidence);
  }
  out.set_square_sum(reliability.square_sum);
}

bool GetSums(const store::v1::ReliabilityState& stored, ReliabilitySums& out) {
  const auto bins = static_cast<int>(out.bins.size());
  if (stored.counts_size() != bins || stored.correct_size() != bins ||
      stored.confidences_size() != bins || !IsSum(stored.square_sum())) {
    return false;
  }
  for (int i = 0; i < bins; ++i) {
    ReliabilitySums::Bin& bin = out.bins[static_cast<std::size_t>(i)];
    bin = {.count = stored.counts(i),
           .correct = stored.correct(i),
           .confidence = stored.confidences(i),
           .variance = 0};
    if (bin.correct < 0 || bin.correct > bin.count || !IsSum(bin.confidence)) return false;
  }
  out.square_sum = stored.square_sum();
  return true;
}

}  // namespace calibd::server
