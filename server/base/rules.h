#ifndef CALIBD_SERVER_BASE_RULES_H_
#define CALIBD_SERVER_BASE_RULES_H_

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/validation.h"

namespace calibd::server {

// Which rules of calibd/rpc/rules.proto are checked.
struct RuleScope {
  // Fields that a message must have. False for a part of a message.
  bool required = true;
  // Texts that people can read. False for a stored message, which was valid by the rules when it
  // was stored.
  bool printable = true;
};

// Checks the fields of a message, and of the messages in it, against the rules that the contract
// states for each of them alone. Rows, and what is checked apart, are left out. path: of the
// message in its request; empty for the request. violations: receives the invalid fields.
void CheckRules(const google::protobuf::Message& message, const std::string& path, RuleScope scope,
                std::vector<Violation>& violations);

// Errors: InvalidArgument that names the invalid fields.
[[nodiscard]] absl::Status CheckRules(const google::protobuf::Message& message,
                                      const std::string& path = "");

// The paths of the fields of the message whose rules say that they are updatable, ascending.
[[nodiscard]] std::vector<std::string> UpdatablePaths(const google::protobuf::Descriptor& message);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_BASE_RULES_H_
