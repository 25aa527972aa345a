#ifndef CALIBD_SERVER_ACCESS_POLICY_H_
#define CALIBD_SERVER_ACCESS_POLICY_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/quota.h"

namespace calibd::server {

// Who may do what: the content of the file that --access-file names.

// writer: sends predictions and labels. reader: reads. operator: reader, and creates and updates
// models and acknowledges alarms. admin: everything.
enum class Role { kWriter, kReader, kOperator, kAdmin };

// "writer" and so on.
[[nodiscard]] std::string_view RoleName(Role role);

// The resource whose grants cover every model.
inline constexpr std::string_view kAllModels = "models/*";

// A role on the models that a pattern covers: "models/fraud" covers this model and its versions,
// "models/fraud-*" all names that begin with "models/fraud-".
struct Grant {
  Role role = Role::kReader;
  std::string pattern;

  // resource: the name of a model, or kAllModels.
  [[nodiscard]] bool Covers(std::string_view resource) const;
};

struct Principal {
  std::string name;
  std::vector<Grant> grants;
  QuotaLimits limits{};
  // Null before Policy::SetQuotas.
  std::shared_ptr<Quota> quota{};

  // True if one of the grants includes the role on the resource.
  [[nodiscard]] bool Has(Role role, std::string_view resource) const;
  // True if any grant covers the resource. Other principals do not learn whether it exists.
  [[nodiscard]] bool Knows(std::string_view resource) const;
};

// SHA-256 of a token.
using TokenHash = std::array<std::uint8_t, 32>;
[[nodiscard]] TokenHash HashToken(std::string_view token);

// Immutable once it applies.
class Policy {
 public:
  using Time = std::chrono::system_clock::time_point;

  // text: TOML. Errors: InvalidArgument naming the line, the field and the value, and what was
  // expected.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<Policy>> Parse(std::string_view text);
  // The quotas of principals by their names, with what is in use and what is to be paid.
  using Quotas = std::map<std::string, std::shared_ptr<Quota>>;
  // Gives each principal its quota with the limits of this policy. The quotas of names that the
  // policy does not have stay as long as something of them is to be paid: a principal that comes
  // back finds it. Call it when this policy applies.
  void SetQuotas(Quotas& quotas, Quota::Clock::time_point now);

  // The principal of a token. Null if no principal has the token, or if it has expired. The lookup
  // is by the hash, so that its time tells nothing about other tokens.
  [[nodiscard]] const Principal* FindToken(const TokenHash& token, Time now) const;
  // True if the policy has the token, although it may have expired.
  [[nodiscard]] bool HasToken(const TokenHash& token) const { return tokens_.contains(token); }
  // The principal with this name, or null.
  [[nodiscard]] const Principal* FindPrincipal(std::string_view name) const;
  // The principal of a client certificate whose alternative names are "URI", for example
  // "spiffe://corp/ns/fraud", or "dns:NAME". The longest pattern decides. Null if no pattern
  // matches, or if equally long ones of several principals do.
  [[nodiscard]] const Principal* FindCertificate(const std::vector<std::string>& names) const;

  // The earliest time after `now` at which a token expires.
  [[nodiscard]] std::optional<Time> NextExpiry(Time now) const;
  [[nodiscard]] const std::vector<Principal>& principals() const noexcept { return principals_; }

 private:
  friend class PolicyReader;
  struct TokenHashHash {
    std::size_t operator()(const TokenHash& token) const noexcept;
  };
  struct Token {
    std::size_t principal = 0;
    Time expiry;
  };
  struct Certificate {
    std::string pattern;
    std::size_t principal = 0;
  };

  std::vector<Principal> principals_;
  std::unordered_map<TokenHash, Token, TokenHashHash> tokens_;
  std::vector<Certificate> certificates_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ACCESS_POLICY_H_
