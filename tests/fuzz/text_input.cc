#include "fuzz/text_input.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/message_mutator.h"

namespace calibd::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

// Most inputs that libFuzzer tries while it shrinks an input are not messages.
class IgnoreErrors final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int /*line*/, google::protobuf::io::ColumnNumber /*column*/,
                const std::string& /*message*/) override {}
};

// Returns the size of the text; 0 if there is no room for it.
std::size_t Print(const Message& message, std::uint8_t* out, std::size_t max_size) {
  TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  if (!printer.PrintToString(message, &text) || text.size() > max_size) return 0;
  std::memcpy(out, text.data(), text.size());
  return text.size();
}

}  // namespace

bool ParseText(const std::uint8_t* data, std::size_t size, Message& message) {
  IgnoreErrors errors;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  return parser.ParseFromString(std::string(reinterpret_cast<const char*>(data), size), &message);
}

std::size_t MutateText(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed,
                       Message& scratch) {
  if (!ParseText(data, size, scratch)) scratch.Clear();
  MessageMutator(seed).Mutate(scratch);
  const std::size_t printed = Print(scratch, data, max_size);
  return printed > 0 ? printed : size;
}

std::size_t CrossOverTexts(const std::uint8_t* data1, std::size_t size1, const std::uint8_t* data2,
                           std::size_t size2, std::uint8_t* out, std::size_t max_size,
                           unsigned seed, Message& scratch) {
  const std::unique_ptr<Message> other(scratch.New());
  if (!ParseText(data1, size1, scratch) || !ParseText(data2, size2, *other)) return 0;
  MessageMutator(seed).CrossOver(*other, scratch);
  return Print(scratch, out, max_size);
}

bool HasRealsWithin(const Message& message, double greatest) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const bool repeated = field->is_repeated();
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE &&
          !(std::abs(repeated ? reflection.GetRepeatedDouble(message, field, i)
                              : reflection.GetDouble(message, field)) <= greatest)) {
        return false;
      }
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
          !HasRealsWithin(repeated ? reflection.GetRepeatedMessage(message, field, i)
                                   : reflection.GetMessage(message, field),
                          greatest)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace calibd::testing
