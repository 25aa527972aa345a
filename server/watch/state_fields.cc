#include "server/watch/state_fields.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace calibd::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string Impossible(const FieldDescriptor& field, const std::string& value) {
  return absl::StrCat("has ", std::string(field.full_name()), " = ", value, ", which cannot be");
}

}  // namespace

StateFields::StateFields(Message& out) : out_(&out), stored_(out) {}

StateFields::StateFields(const Message& stored, absl::Status& error)
    : stored_(stored), error_(&error) {}

void StateFields::operator()(int number, double& value) {
  const FieldDescriptor& field = Field(number);
  if (!restoring()) return reflection().SetDouble(out_, &field, value);
  const double stored = reflection().GetDouble(stored_, &field);
  if (Check(field, stored)) value = stored;
}

void StateFields::operator()(int number, bool& value) {
  const FieldDescriptor& field = Field(number);
  if (!restoring()) return reflection().SetBool(out_, &field, value);
  value = reflection().GetBool(stored_, &field);
}

void StateFields::operator()(int number, std::string& value) {
  const FieldDescriptor& field = Field(number);
  if (!restoring()) return reflection().SetString(out_, &field, value);
  value = reflection().GetString(stored_, &field);
}

void StateFields::operator()(int number, Time& value) {
  std::int64_t us =
      std::chrono::duration_cast<std::chrono::microseconds>(value.time_since_epoch()).count();
  Visit(number, us);
  if (!ok()) return;
  value = Time(std::chrono::microseconds(us));
}

void StateFields::Visit(int number, std::int64_t& value) {
  const FieldDescriptor& field = Field(number);
  const bool is_short = field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
  if (restoring()) {
    value =
        is_short ? reflection().GetInt32(stored_, &field) : reflection().GetInt64(stored_, &field);
    Check(field, value);
  } else if (is_short) {
    reflection().SetInt32(out_, &field, static_cast<std::int32_t>(value));
  } else {
    reflection().SetInt64(out_, &field, value);
  }
}

const FieldDescriptor& StateFields::Field(int number) const {
  return *stored_.GetDescriptor()->FindFieldByNumber(number);
}

bool StateFields::Has(int number) const {
  return Field(number).is_repeated() ? Size(number) > 0
                                     : reflection().HasField(stored_, &Field(number));
}

std::size_t StateFields::Size(int number) const {
  return static_cast<std::size_t>(reflection().FieldSize(stored_, &Field(number)));
}

const Message& StateFields::Stored(int number) const {
  return reflection().GetMessage(stored_, &Field(number));
}

const Message& StateFields::StoredAt(int number, std::size_t index) const {
  return reflection().GetRepeatedMessage(stored_, &Field(number), static_cast<int>(index));
}

Message& StateFields::Add(int number) {
  const FieldDescriptor& field = Field(number);
  return field.is_repeated() ? *reflection().AddMessage(out_, &field)
                             : *reflection().MutableMessage(out_, &field);
}

void StateFields::RequireSize(int number, std::size_t size) {
  Require(!restoring() || Size(number) == size, [&] {
    return absl::StrCat("has ", Size(number), " values of ", std::string(Field(number).full_name()),
                        ", expected ", size);
  });
}

bool StateFields::Check(const FieldDescriptor& field, double value) {
  Require(std::isfinite(value), [&] { return Impossible(field, absl::StrCat(value)); });
  return ok();
}

bool StateFields::IsReported(const FieldDescriptor& field) noexcept {
  return field.name() == "dropped_rows" || field.name() == "dropped_labels";
}

bool StateFields::Check(const FieldDescriptor& field, std::int64_t value) {
  const std::int64_t greatest =
      IsReported(field) ? std::numeric_limits<std::int64_t>::max() : kGreatestInteger;
  Require(value >= 0 && value <= greatest, [&] { return Impossible(field, absl::StrCat(value)); });
  return ok();
}

}  // namespace calibd::server
