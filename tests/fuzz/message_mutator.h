#ifndef CALIBD_TESTS_FUZZ_MESSAGE_MUTATOR_H_
#define CALIBD_TESTS_FUZZ_MESSAGE_MUTATOR_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace calibd::testing {

// Mutates messages field by field. The same seed makes the same changes.
class MessageMutator {
 public:
  explicit MessageMutator(unsigned seed) : random_(seed) {}

  // Changes a few fields, elements or values anywhere in the message.
  void Mutate(google::protobuf::Message& message);
  // Replaces a part of the message by a part of `other` that has the same type, if there is one.
  void CrossOver(const google::protobuf::Message& other, google::protobuf::Message& message);

 private:
  using Message = google::protobuf::Message;
  using Field = google::protobuf::FieldDescriptor;

  // Draws a number in [0, bound); bound > 0.
  std::size_t Below(std::size_t bound);
  bool OneIn(std::size_t n) { return Below(n) == 0; }
  void ChangeOnce(Message& message);
  // Returns false if nothing can be changed in the field that was drawn.
  bool ChangeField(Message& message, int depth);
  bool ChangeSingular(Message& message, const Field& field, int depth);
  bool ChangeRepeated(Message& message, const Field& field, int depth);
  // index: for a repeated field; its size means that an element is appended. -1 for a singular
  // field.
  void ChangeScalar(Message& message, const Field& field, int index);

  template <typename Number>
  Number Changed(Number value);
  bool Changed(bool value) { return !value; }
  std::string Changed(std::string value);

  std::mt19937_64 random_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_FUZZ_MESSAGE_MUTATOR_H_
