#include "fuzz/message_mutator.h"

#include <google/protobuf/descriptor.h>

#include <array>
#include <bit>
#include <limits>
#include <type_traits>

// libFuzzer's own mutation of bytes.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace calibd::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMaxDepth = 6;
constexpr int kMaxChanges = 4;
constexpr std::size_t kMaxAddedBytes = 64;

// Adds the message and all messages in its fields.
void Collect(Message& message, std::vector<Message*>& out) {
  out.push_back(&message);
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      Collect(*reflection.MutableMessage(&message, field), out);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      Collect(*reflection.MutableRepeatedMessage(&message, field, i), out);
    }
  }
}

template <typename Number>
std::vector<Number> NotableNumbers() {
  using Limits = std::numeric_limits<Number>;
  std::vector<Number> numbers{0, 1, 2, 3, 10, 64, 100, Limits::max(), Limits::lowest()};
  if constexpr (std::is_floating_point_v<Number>) {
    numbers.insert(numbers.end(),
                   {-1, static_cast<Number>(0.5), static_cast<Number>(0.1), 1 + Limits::epsilon(),
                    1 - Limits::epsilon(), Limits::min(), Limits::denorm_min(), Limits::epsilon(),
                    Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()});
  } else {
    numbers.insert(numbers.end(), {static_cast<Number>(-1), 15, 24, 128, 1000, 65536});
  }
  return numbers;
}

}  // namespace

std::size_t MessageMutator::Below(std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
}

void MessageMutator::Mutate(Message& message) {
  for (std::size_t changes = 1 + Below(kMaxChanges); changes > 0; --changes) ChangeOnce(message);
}

void MessageMutator::CrossOver(const Message& other, Message& message) {
  std::vector<Message*> targets;
  Collect(message, targets);
  Message& target = *targets[Below(targets.size())];
  const std::unique_ptr<Message> copy(other.New());
  copy->CopyFrom(other);
  std::vector<Message*> sources;
  Collect(*copy, sources);
  std::erase_if(sources, [&target](const Message* source) {
    return source->GetDescriptor() != target.GetDescriptor();
  });
  if (sources.empty()) return;
  const Message& source = *sources[Below(sources.size())];
  if (OneIn(3)) {
    target.MergeFrom(source);
  } else {
    target.CopyFrom(source);
  }
}

void MessageMutator::ChangeOnce(Message& message) {
  constexpr int kAttempts = 20;
  std::vector<Message*> messages;
  Collect(message, messages);
  for (int i = 0; i < kAttempts; ++i) {
    if (ChangeField(*messages[Below(messages.size())], 0)) return;
  }
}

bool MessageMutator::ChangeField(Message& message, int depth) {
  const int count = message.GetDescriptor()->field_count();
  if (count == 0 || depth > kMaxDepth) return false;
  const Field& field =
      *message.GetDescriptor()->field(static_cast<int>(Below(static_cast<std::size_t>(count))));
  return field.is_repeated() ? ChangeRepeated(message, field, depth)
                             : ChangeSingular(message, field, depth);
}

bool MessageMutator::ChangeSingular(Message& message, const Field& field, int depth) {
  const Reflection& reflection = *message.GetReflection();
  const bool is_message = field.cpp_type() == Field::CPPTYPE_MESSAGE;
  const bool present = is_message ? reflection.HasField(message, &field) : OneIn(2);
  if (present && OneIn(4)) {
    reflection.ClearField(&message, &field);
    return true;
  }
  if (!is_message) {
    ChangeScalar(message, field, -1);
    return true;
  }
  if (present) {
    return false;  // Its contents are drawn separately.
  }
  Message& added = *reflection.MutableMessage(&message, &field);
  for (std::size_t i = Below(3); i > 0; --i) ChangeField(added, depth + 1);
  return true;
}

bool MessageMutator::ChangeRepeated(Message& message, const Field& field, int depth) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  const auto drawn = [&] { return static_cast<int>(Below(static_cast<std::size_t>(size))); };
  const bool is_message = field.cpp_type() == Field::CPPTYPE_MESSAGE;
  switch (size == 0 ? 0 : Below(6)) {
    case 0:
      if (is_message) {
        const int model = size == 0 ? -1 : drawn();
        Message& added = *reflection.AddMessage(&message, &field);
        if (model >= 0) added.CopyFrom(reflection.GetRepeatedMessage(message, &field, model));
        ChangeField(added, depth + 1);
      } else {
        ChangeScalar(message, field, size);
      }
      return true;
    case 1:
      reflection.SwapElements(&message, &field, drawn(), size - 1);
      reflection.RemoveLast(&message, &field);
      return true;
    case 2:
      reflection.SwapElements(&message, &field, drawn(), drawn());
      return true;
    case 3:
      if (!OneIn(4)) return false;
      for (int kept = drawn(); reflection.FieldSize(message, &field) > kept;) {
        reflection.RemoveLast(&message, &field);
      }
      return true;
    default:
      if (is_message) return false;
      ChangeScalar(message, field, drawn());
      return true;
  }
}

void MessageMutator::ChangeScalar(Message& message, const Field& field, int index) {
  const Reflection& reflection = *message.GetReflection();
  const int size = field.is_repeated() ? reflection.FieldSize(message, &field) : 0;
  switch (field.cpp_type()) {
#define CALIBD_CHANGE(TYPE, NAME)                                                                  \
  case Field::CPPTYPE_##TYPE:                                                                      \
    if (index < 0) {                                                                               \
      reflection.Set##NAME(&message, &field, Changed(reflection.Get##NAME(message, &field)));      \
    } else if (index < size) {                                                                     \
      reflection.SetRepeated##NAME(&message, &field, index,                                        \
                                   Changed(reflection.GetRepeated##NAME(message, &field, index))); \
    } else {                                                                                       \
      reflection.Add##NAME(                                                                        \
          &message, &field,                                                                        \
          Changed(size == 0 ? decltype(reflection.Get##NAME(message, &field)){}                    \
                            : reflection.GetRepeated##NAME(message, &field, size - 1)));           \
    }                                                                                              \
    return;
    CALIBD_CHANGE(INT32, Int32)
    CALIBD_CHANGE(INT64, Int64)
    CALIBD_CHANGE(UINT32, UInt32)
    CALIBD_CHANGE(UINT64, UInt64)
    CALIBD_CHANGE(DOUBLE, Double)
    CALIBD_CHANGE(FLOAT, Float)
    CALIBD_CHANGE(BOOL, Bool)
    CALIBD_CHANGE(ENUM, EnumValue)
    CALIBD_CHANGE(STRING, String)
#undef CALIBD_CHANGE
    case Field::CPPTYPE_MESSAGE:
      return;
  }
}

template <typename Number>
Number MessageMutator::Changed(Number value) {
  using Bits = std::conditional_t<sizeof(Number) == 8, std::uint64_t, std::uint32_t>;
  switch (Below(5)) {
    case 0: {
      const std::vector<Number> notable = NotableNumbers<Number>();
      return notable[Below(notable.size())];
    }
    case 1:
      return std::bit_cast<Number>(std::bit_cast<Bits>(value) + Bits{1});
    case 2:
      return std::bit_cast<Number>(std::bit_cast<Bits>(value) - Bits{1});
    case 3:
      if constexpr (std::is_floating_point_v<Number>) {
        return value * (OneIn(2) ? Number{2} : Number{-1});
      }
      return static_cast<Number>(Below(20));
    default:
      return std::bit_cast<Number>(std::bit_cast<Bits>(value) ^ Bits{1} << Below(8 * sizeof(Bits)));
  }
}

std::string MessageMutator::Changed(std::string value) {
  const std::size_t size = value.size();
  value.resize(size + kMaxAddedBytes);
  value.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(value.data()), size, value.size()));
  return value;
}

}  // namespace calibd::testing
