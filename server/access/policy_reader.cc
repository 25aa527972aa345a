#include <toml++/toml.h>

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "calibd/core/status_macros.h"
#include "server/access/policy.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr std::size_t kLongestName = 63;
constexpr std::string_view kTokenForm =
    "\"sha256:HEX:YYYY-MM-DD\", as `calibctl token create` prints";
constexpr std::string_view kGrantForm =
    "\"ROLE PATTERN\" with the role writer, reader, operator or admin and a pattern such as "
    "models/fraud, models/fraud-* or models/*";
constexpr std::string_view kQuotaForm =
    "a table such as { rows_per_second = 200000, models = 20, pending_bytes = \"64MiB\", "
    "streams = 32, watches = 20, compute_seconds_per_hour = 600 }";
constexpr std::uint64_t kLargestQuota = std::uint64_t{1} << 50;
constexpr std::string_view kCertificateForm =
    "a URI such as spiffe://corp/ns/fraud, optionally with /* at its end, or dns:NAME";

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// where: the node whose line the error names.
absl::Status Fault(const toml::node& where, std::string_view field, std::string_view value,
                   std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("line ", where.source().begin.line, ": ",
                                                 Absl(field), " is ", Absl(value), ", expected ",
                                                 Absl(expected)));
}

bool IsNameByte(char byte, bool first) {
  return absl::ascii_isalnum(static_cast<unsigned char>(byte)) ||
         (!first && (byte == '.' || byte == '_' || byte == '-' || byte == ':'));
}

bool IsPrincipalName(std::string_view name) {
  if (name.empty() || name.size() > kLongestName) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!IsNameByte(name[i], i == 0)) return false;
  }
  return true;
}

// "models/" and ids of a name, without control characters; "*" is at most the last byte.
bool IsModelPattern(std::string_view pattern) {
  constexpr std::string_view kModels = "models/";
  if (!pattern.starts_with(kModels) || pattern.size() == kModels.size()) return false;
  const std::string_view rest = pattern.substr(kModels.size());
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const bool last = i + 1 == rest.size();
    if (!IsNameByte(rest[i], false) && rest[i] != '/' && !(last && rest[i] == '*')) return false;
  }
  return true;
}

// Printable ASCII without quotation marks; a "*" is at most the last part.
bool IsCertificatePattern(std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  for (const char byte : pattern) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(byte))) return false;
  }
  constexpr std::string_view kDns = "dns:";
  if (pattern.starts_with(kDns)) {
    return pattern.size() > kDns.size() && star == std::string_view::npos;
  }
  const std::size_t authority = pattern.find("://");
  if (authority == std::string_view::npos || authority == 0 || authority + 3 >= pattern.size()) {
    return false;
  }
  // The pattern names at least an authority.
  return star == std::string_view::npos ||
         (star + 1 == pattern.size() && pattern[star - 1] == '/' && star - 1 > authority + 3);
}

// A number of bytes such as "64MiB"; nothing if the text has another form.
std::optional<std::uint64_t> ParseBytes(std::string_view text) {
  absl::string_view digits = Absl(text);
  unsigned shift = 0;
  for (const auto& [unit, bits] :
       {std::pair{"KiB", 10U}, std::pair{"MiB", 20U}, std::pair{"GiB", 30U}}) {
    if (absl::ConsumeSuffix(&digits, unit)) shift = bits;
  }
  std::uint32_t value = 0;
  if (digits.size() == text.size() || !absl::SimpleAtoi(digits, &value)) return std::nullopt;
  return std::uint64_t{value} << shift;
}

// The first moment after the day; nothing if there is no such day.
std::optional<Policy::Time> EndOfDay(std::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(Absl(text), '-');
  int year = 0;
  int month = 0;
  int day = 0;
  if (text.size() != 10 || parts.size() != 3 || parts[0].size() != 4 || parts[1].size() != 2 ||
      !absl::SimpleAtoi(parts[0], &year) || !absl::SimpleAtoi(parts[1], &month) ||
      !absl::SimpleAtoi(parts[2], &day)) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  // The clock counts nanoseconds until 2262.
  if (year > 2200) return Policy::Time::max();
  return std::chrono::sys_days(date) + std::chrono::days(1);
}

}  // namespace

// Reads the tables of the file.
class PolicyReader {
 public:
  absl::StatusOr<std::shared_ptr<Policy>> Read(const toml::table& file) {
    for (const auto& [key, node] : file) {
      if (key.str() != "principal") {
        return Fault(node, "the key", Quoted(key.str()), "only [[principal]] tables");
      }
      const toml::array* const tables = node.as_array();
      if (tables == nullptr || !node.is_array_of_tables()) {
        return Fault(node, "principal", "not a list of tables", "[[principal]]");
      }
      for (const toml::node& table : *tables) {
        CALIBD_RETURN_IF_ERROR(ReadPrincipal(*table.as_table()));
      }
    }
    if (policy_->principals_.empty()) {
      return absl::InvalidArgumentError(
          "line 1: there is no [[principal]], expected at least one: without one, nobody could "
          "make a call");
    }
    return std::move(policy_);
  }

 private:
  absl::Status ReadPrincipal(const toml::table& table) {
    Principal principal;
    const toml::node* const name = table.get("name");
    if (name == nullptr) return Fault(table, "name", "missing", "a name of this principal");
    principal.name = name->value_or(std::string());
    if (!name->is_string() || !IsPrincipalName(principal.name)) {
      return Fault(*name, "name", Quoted(principal.name),
                   "1 to 63 letters, digits or any of . _ - : that begin with a letter or digit");
    }
    if (!names_.insert(principal.name).second) {
      return Fault(*name, "name", Quoted(principal.name), "a name that no other principal has");
    }
    for (const auto& [key, node] : table) {
      const std::string_view field = key.str();
      if (field == "name") continue;
      if (field == "grants") {
        CALIBD_RETURN_IF_ERROR(ReadTexts(node, field, [&](const toml::node& at, const auto& text) {
          return ReadGrant(at, text, principal);
        }));
      } else if (field == "tokens") {
        CALIBD_RETURN_IF_ERROR(ReadTexts(node, field, [&](const toml::node& at, const auto& text) {
          return ReadToken(at, text);
        }));
      } else if (field == "certificates") {
        CALIBD_RETURN_IF_ERROR(ReadTexts(node, field, [&](const toml::node& at, const auto& text) {
          return ReadCertificate(at, text);
        }));
      } else if (field == "quota") {
        CALIBD_RETURN_IF_ERROR(ReadQuota(node, principal.limits));
      } else {
        return Fault(node, "the key", Quoted(field), "name, grants, tokens, certificates or quota");
      }
    }
    policy_->principals_.push_back(std::move(principal));
    return absl::OkStatus();
  }

  template <typename ReadOne>
  absl::Status ReadTexts(const toml::node& node, std::string_view field, const ReadOne& read) {
    const toml::array* const list = node.as_array();
    if (list == nullptr) return Fault(node, field, "not a list", "a list of texts");
    for (const toml::node& one : *list) {
      const auto text = one.value_exact<std::string>();
      if (!text.has_value()) return Fault(one, field, "not a text", "a list of texts");
      CALIBD_RETURN_IF_ERROR(read(one, *text));
    }
    return absl::OkStatus();
  }

  absl::Status ReadGrant(const toml::node& at, const std::string& text, Principal& principal) {
    const std::vector<std::string> parts = absl::StrSplit(text, ' ', absl::SkipEmpty());
    std::optional<Role> role;
    for (const Role one : {Role::kWriter, Role::kReader, Role::kOperator, Role::kAdmin}) {
      if (!parts.empty() && parts[0] == RoleName(one)) role = one;
    }
    if (parts.size() != 2 || !role.has_value() || !IsModelPattern(parts[1])) {
      return Fault(at, "grants", Quoted(text), kGrantForm);
    }
    principal.grants.push_back({.role = *role, .pattern = parts[1]});
    return absl::OkStatus();
  }

  // The principal that is read will get the next index.
  absl::Status ReadToken(const toml::node& at, const std::string& text) {
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    const bool formed = parts.size() == 3 && parts[0] == "sha256" && parts[1].size() == 64 &&
                        std::all_of(parts[1].begin(), parts[1].end(),
                                    [](unsigned char byte) { return absl::ascii_isxdigit(byte); });
    const std::optional<Policy::Time> expiry = formed ? EndOfDay(parts[2]) : std::nullopt;
    if (!expiry.has_value()) {
      // A token in place of its hash must not appear in a log.
      return Fault(at, "tokens", formed ? Quoted(parts[2]) : "of another form", kTokenForm);
    }
    const std::string bytes = absl::HexStringToBytes(parts[1]);
    TokenHash hash{};
    std::copy_n(bytes.begin(), hash.size(), hash.begin());
    const Policy::Token token{.principal = policy_->principals_.size(), .expiry = *expiry};
    return policy_->tokens_.emplace(hash, token).second
               ? absl::OkStatus()
               : Fault(at, "tokens", "there twice", "each token once in the file");
  }

  absl::Status ReadCertificate(const toml::node& at, std::string text) {
    if (!IsCertificatePattern(text)) {
      return Fault(at, "certificates", Quoted(text), kCertificateForm);
    }
    // Names of hosts have no case. Certificates have them in lower case; see CertificateNames.
    if (absl::StartsWith(text, "dns:")) absl::AsciiStrToLower(&text);
    if (!certificates_.insert(text).second) {
      return Fault(at, "certificates", Quoted(text), "each pattern once in the file");
    }
    policy_->certificates_.push_back(
        {.pattern = std::move(text), .principal = policy_->principals_.size()});
    return absl::OkStatus();
  }

  static absl::Status ReadQuota(const toml::node& node, QuotaLimits& limits) {
    const toml::table* const table = node.as_table();
    if (table == nullptr) return Fault(node, "quota", "not a table", kQuotaForm);
    for (const auto& [key, value] : *table) {
      std::size_t kind = 0;
      while (kind < kQuotaKinds && QuotaKey(static_cast<QuotaKind>(kind)) != key.str()) ++kind;
      if (kind == kQuotaKinds) return Fault(value, "the quota", Quoted(key.str()), kQuotaForm);
      const std::string field = absl::StrCat("quota.", Absl(key.str()));
      const bool bytes = static_cast<QuotaKind>(kind) == QuotaKind::kPendingBytes;
      std::optional<std::uint64_t> limit;
      if (const auto number = value.value_exact<std::int64_t>(); number.has_value()) {
        if (*number >= 0) limit = static_cast<std::uint64_t>(*number);
      } else if (const auto text = value.value_exact<std::string>(); bytes && text.has_value()) {
        limit = ParseBytes(*text);
      }
      if (!limit.has_value() || *limit < 1 || *limit > kLargestQuota) {
        std::string shown;
        if (const auto text = value.value<std::string>(); text.has_value()) {
          shown = Quoted(*text);
        } else if (const auto number = value.value<double>(); number.has_value()) {
          shown = absl::StrCat(*number);
        } else {
          shown = "of another type";
        }
        return Fault(value, field, shown,
                     bytes ? "a number of bytes from 1 to 2^50, or a text such as \"64MiB\""
                           : "a whole number from 1 to 2^50; leave it out for no limit");
      }
      limits[kind] = limit;
    }
    return absl::OkStatus();
  }

  std::shared_ptr<Policy> policy_ = std::make_shared<Policy>();
  std::set<std::string> names_;
  std::set<std::string> certificates_;
};

absl::StatusOr<std::shared_ptr<Policy>> Policy::Parse(std::string_view text) {
  try {
    return PolicyReader().Read(toml::parse(text));
  } catch (const toml::parse_error& failure) {
    return absl::InvalidArgumentError(absl::StrCat("line ", failure.source().begin.line, ": ",
                                                   std::string(failure.description())));
  }
}

}  // namespace calibd::server
