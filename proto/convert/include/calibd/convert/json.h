#ifndef CALIBD_CONVERT_JSON_H_
#define CALIBD_CONVERT_JSON_H_

#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace calibd::convert {

using Json = nlohmann::ordered_json;

// Converts a message of the contract to JSON as calibctl prints it: fields in their order under
// their names, numbers that read back as the same doubles, enum values in lower case without their
// prefix, times as RFC 3339, durations as "..._seconds". Unset fields and empty strings are null.
// Of a oneof, only the member that is set is printed.
[[nodiscard]] Json ToJson(const google::protobuf::Message& message);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_JSON_H_
