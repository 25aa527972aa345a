#ifndef CALIBD_TESTS_FUZZ_TEXT_INPUT_H_
#define CALIBD_TESTS_FUZZ_TEXT_INPUT_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace calibd::testing {

// Returns false if the text is not such a message.
[[nodiscard]] bool ParseText(const std::uint8_t* data, std::size_t size,
                             google::protobuf::Message& message);

// The functions of libFuzzer that mutate and combine inputs, for messages in text format. scratch:
// has the inputs' type; its content is overwritten.
[[nodiscard]] std::size_t MutateText(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                     unsigned seed, google::protobuf::Message& scratch);
[[nodiscard]] std::size_t CrossOverTexts(const std::uint8_t* data1, std::size_t size1,
                                         const std::uint8_t* data2, std::size_t size2,
                                         std::uint8_t* out, std::size_t max_size, unsigned seed,
                                         google::protobuf::Message& scratch);

// Returns true if no real in the message is NaN or has a larger magnitude.
[[nodiscard]] bool HasRealsWithin(const google::protobuf::Message& message, double greatest);
[[nodiscard]] inline bool IsFinite(const google::protobuf::Message& message) {
  return HasRealsWithin(message, std::numeric_limits<double>::max());
}

}  // namespace calibd::testing

// Defines a fuzz target whose inputs are messages of this type in protobuf's text format, which
// people can read and write. It is followed by the body of a function void(const Type& input).
#define CALIBD_FUZZ_MESSAGE(Type, input)                                                          \
  static void FuzzMessage(const Type& input);                                                     \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {             \
    Type parsed;                                                                                  \
    if (calibd::testing::ParseText(data, size, parsed)) {                                         \
      FuzzMessage(parsed);                                                                        \
    }                                                                                             \
    return 0;                                                                                     \
  }                                                                                               \
  extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,            \
                                                 std::size_t max_size, unsigned seed) {           \
    Type scratch;                                                                                 \
    return calibd::testing::MutateText(data, size, max_size, seed, scratch);                      \
  }                                                                                               \
  extern "C" std::size_t LLVMFuzzerCustomCrossOver(                                               \
      const std::uint8_t* data1, std::size_t size1, const std::uint8_t* data2, std::size_t size2, \
      std::uint8_t* out, std::size_t max_size, unsigned seed) {                                   \
    Type scratch;                                                                                 \
    return calibd::testing::CrossOverTexts(data1, size1, data2, size2, out, max_size, seed,       \
                                           scratch);                                              \
  }                                                                                               \
  static void FuzzMessage(const Type& input)

#endif  // CALIBD_TESTS_FUZZ_TEXT_INPUT_H_
