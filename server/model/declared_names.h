#ifndef CALIBD_SERVER_MODEL_DECLARED_NAMES_H_
#define CALIBD_SERVER_MODEL_DECLARED_NAMES_H_

#include <string>
#include <vector>

#include "calibd/core/validation.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace calibd::server {

// Returns the declared names, of classes or of features, which must be distinct and of 1..64 bytes
// that can be printed. A stored name was valid by the rules when it was declared: it is new if
// is_new. field: the path of the names in the declaration.
[[nodiscard]] std::vector<std::string> CheckNames(
    const char* field, const google::protobuf::RepeatedPtrField<std::string>& names, bool is_new,
    std::vector<Violation>& violations);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_MODEL_DECLARED_NAMES_H_
