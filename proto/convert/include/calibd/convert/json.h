#ifndef CALIBD_CONVERT_JSON_H_
#define CALIBD_CONVERT_JSON_H_

#include <cstddef>
#include <string>

#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace calibd::convert {

using Json = nlohmann::ordered_json;

// Messages in protobuf's JSON mapping, as HTTP and calibctl print them: fields without presence are
// always included. protobuf's own printer builds a tree of such a message, which takes hundreds of
// bytes for each number.

// Upper bound of the length of the JSON of a message. Allocates no memory that grows with it.
[[nodiscard]] std::size_t MaxJsonLength(const google::protobuf::Message& message);
// Appends the JSON on one line.
void AppendJson(const google::protobuf::Message& message, std::string& text);
[[nodiscard]] std::string ToJsonText(const google::protobuf::Message& message);
// Returns this JSON as a tree.
[[nodiscard]] Json ToJson(const google::protobuf::Message& message);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_JSON_H_
