#ifndef CALIBD_CONVERT_JSON_READER_H_
#define CALIBD_CONVERT_JSON_READER_H_

#include <optional>
#include <string>
#include <string_view>

#include "google/protobuf/message.h"

namespace calibd::convert {

// Why a text is not the JSON of a message.
struct JsonFault {
  // The field in the names of the contract, such as "observations.labels[2]". Empty for a fault of
  // the whole text, such as a missing bracket.
  std::string field{};
  // What the field is and what is expected, such as "is true, expected a number"; or the line and
  // column at which the text is not JSON.
  std::string description{};
};

// Adds what a text in protobuf's JSON mapping says to a message; fields that it does not name stay.
// A name may be that of JSON or of the contract, and an enum value may have any case. Refused are
// unknown names, a name that an object has twice, and null and arrays as elements of an array (the
// values after them would move to other rows). A text in a list of numbers for which the message
// has a list of names (FieldRules.names_for) is such a name. The text can therefore not nest deeper
// than the message. Messages with maps or of the types Any, Struct and Value are not read. Returns
// the first fault. Cost: O(bytes), without a tree of the text.
[[nodiscard]] std::optional<JsonFault> ReadJson(std::string_view json,
                                                google::protobuf::Message& message);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_JSON_READER_H_
