#ifndef CALIBD_SERVER_WATCH_STATE_FIELDS_H_
#define CALIBD_SERVER_WATCH_STATE_FIELDS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/reflection.h>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace calibd::server {

// Saves a state to a message of the store, or restores it from one. A state has one function that
// lists its fields, which saves and restores alike:
//
//   void PastFields(StateFields& fields, PastState& past) {
//     using Stored = store::v1::PastState;
//     fields(Stored::kWeightFieldNumber, past.weight);
//     fields(Stored::kWitnessFieldNumber, past.witness);
//   }
//
//   SaveFields(past, message, PastFields);
//   CALIBD_RETURN_IF_ERROR(RestoreFields(message, past, PastFields));
//
// A field that a message lacks has its default value, and fields that are not listed are ignored: a
// state may gain and lose fields. Restored reals are finite, and restored integers are counts or
// times in [0, kGreatestInteger], so that their sums do not overflow. The first value that cannot
// be is the error; the values after it are not read. The functions may throw bad_alloc.
class StateFields {
 public:
  using Time = std::chrono::system_clock::time_point;
  // The largest integer that a double represents exactly; in microseconds since 1970, the year
  // 2255.
  static constexpr std::int64_t kGreatestInteger = std::int64_t{1} << 53;
  // True for a count that clients report, such as dropped_rows. It may be any number >= 0.
  [[nodiscard]] static bool IsReported(const google::protobuf::FieldDescriptor& field) noexcept;

  // Saves to `out`, which must outlive this object.
  explicit StateFields(google::protobuf::Message& out);
  // Restores from `stored`. error: OK; receives the first error. Both must outlive this object.
  StateFields(const google::protobuf::Message& stored, absl::Status& error);

  [[nodiscard]] bool restoring() const noexcept { return out_ == nullptr; }
  // Further values can be read: true while saving.
  [[nodiscard]] bool ok() const { return error_ == nullptr || error_->ok(); }

  // A field with one value. number: of the field. Integers may be of any type that holds the values
  // of the field; the field of a time has microseconds since 1970.
  void operator()(int number, double& value);
  void operator()(int number, bool& value);
  void operator()(int number, std::string& value);
  void operator()(int number, Time& value);
  template <std::integral Integer>
  void operator()(int number, Integer& value) {
    auto stored = static_cast<std::int64_t>(value);
    Visit(number, stored);
    value = static_cast<Integer>(stored);
  }
  // A value that the message has only if it is set. A field without presence is unset if it is 0.
  template <typename Value>
  void operator()(int number, std::optional<Value>& value) {
    if (restoring()) value = Has(number) ? std::optional<Value>(std::in_place) : std::nullopt;
    if (value.has_value()) (*this)(number, *value);
  }
  // A repeated field of any size.
  template <typename Value>
  void operator()(int number, std::vector<Value>& values) {
    if (restoring() && ok()) values.resize(Size(number));
    Column(number, values);
  }
  // A repeated field of this size, row after row.
  template <typename Value, std::size_t kColumns, std::size_t kRows>
  void operator()(int number, std::array<std::array<Value, kColumns>, kRows>& values) {
    std::array<Value, kColumns * kRows> flat{};
    for (std::size_t i = 0; i < flat.size(); ++i) flat[i] = values[i / kColumns][i % kColumns];
    Column(number, flat);
    for (std::size_t i = 0; i < flat.size(); ++i) values[i / kColumns][i % kColumns] = flat[i];
  }
  // A repeated field that holds one value for each element of `range`, or one member of each.
  template <typename Range, typename Member = std::identity>
  void Column(int number, Range& range, Member member = {}) {
    using Value = std::remove_cvref_t<std::invoke_result_t<Member&, decltype(*std::begin(range))>>;
    const google::protobuf::FieldDescriptor& field = Field(number);
    if (!restoring()) {
      const auto values = reflection().GetMutableRepeatedFieldRef<Value>(out_, &field);
      for (auto& one : range) values.Add(std::invoke(member, one));
      return;
    }
    RequireSize(number, std::size(range));
    if (!ok()) return;
    const auto values = reflection().GetRepeatedFieldRef<Value>(stored_, &field);
    int index = 0;
    for (auto& one : range) {
      const Value value = values.Get(index++);
      if (!Check(field, value)) return;
      std::invoke(member, one) = value;
    }
  }

  // A part with a message of its own. fields: lists the fields of the part. Without a message all
  // of them have their default values.
  template <typename Part, typename Fields>
  void operator()(int number, Part& part, const Fields& fields) {
    if (!ok()) return;
    StateFields inner =
        restoring() ? StateFields(Stored(number), *error_) : StateFields(Add(number));
    std::invoke(fields, inner, part);
  }
  // A part that the message has only if it is set.
  template <typename Part, typename Fields>
  void operator()(int number, std::optional<Part>& part, const Fields& fields) {
    if (restoring()) part = Has(number) ? std::optional<Part>(std::in_place) : std::nullopt;
    if (part.has_value()) (*this)(number, *part, fields);
  }
  // A part whose values are the default ones unless `is_set`; it is saved only then.
  template <typename Part, typename Fields>
  void If(bool is_set, int number, Part& part, const Fields& fields) {
    if (restoring() || is_set) (*this)(number, part, fields);
  }
  // Parts, each with a message of its own: of any number, or of a fixed one.
  template <typename Part, typename Fields>
  void Each(int number, std::vector<Part>& parts, const Fields& fields) {
    if (restoring() && ok()) parts.assign(Size(number), Part());
    Each(number, std::span(parts), fields);
  }
  template <typename Part, typename Fields>
  void Each(int number, std::span<Part> parts, const Fields& fields) {
    RequireSize(number, parts.size());
    for (std::size_t i = 0; i < parts.size() && ok(); ++i) {
      StateFields inner =
          restoring() ? StateFields(StoredAt(number, i), *error_) : StateFields(Add(number));
      std::invoke(fields, inner, parts[i]);
    }
  }

  // Restored values that do not fulfil the condition are an error. reason: such as "has ... that
  // cannot be", or a function that makes it.
  void Require(bool condition, std::string_view reason) {
    Require(condition, [reason] { return std::string(reason); });
  }
  template <std::invocable Reason>
  void Require(bool condition, const Reason& reason) {
    if (restoring() && ok() && !condition) *error_ = absl::InvalidArgumentError(reason());
  }

 private:
  [[nodiscard]] const google::protobuf::Reflection& reflection() const {
    return *stored_.GetReflection();
  }
  [[nodiscard]] const google::protobuf::FieldDescriptor& Field(int number) const;
  [[nodiscard]] bool Has(int number) const;
  [[nodiscard]] std::size_t Size(int number) const;
  [[nodiscard]] const google::protobuf::Message& Stored(int number) const;
  [[nodiscard]] const google::protobuf::Message& StoredAt(int number, std::size_t index) const;
  // Adds a message to a repeated field, or sets that of another one.
  [[nodiscard]] google::protobuf::Message& Add(int number);
  void Visit(int number, std::int64_t& value);
  void RequireSize(int number, std::size_t size);
  // Return true if the restored value can be one.
  bool Check(const google::protobuf::FieldDescriptor& field, double value);
  bool Check(const google::protobuf::FieldDescriptor& field, std::int64_t value);
  bool Check(const google::protobuf::FieldDescriptor& field, std::int32_t value) {
    return Check(field, std::int64_t{value});
  }

  // Null while restoring.
  google::protobuf::Message* out_ = nullptr;
  // While saving the same message.
  const google::protobuf::Message& stored_;
  // Null while saving.
  absl::Status* error_ = nullptr;
};

// Saves a state. fields: lists its fields; it leaves the state unchanged.
template <typename State, typename Fields>
void SaveFields(State state, google::protobuf::Message& out, const Fields& fields) {
  StateFields visitor(out);
  std::invoke(fields, visitor, state);
}

// Restores a state. Errors: InvalidArgument; `state` must not be used then.
template <typename State, typename Fields>
[[nodiscard]] absl::Status RestoreFields(const google::protobuf::Message& stored, State& state,
                                         const Fields& fields) {
  absl::Status error;
  StateFields visitor(stored, error);
  std::invoke(fields, visitor, state);
  return error;
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_STATE_FIELDS_H_
