#include "server/access/policy.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "absl/strings/match.h"

namespace calibd::server {
namespace {

// True if the pattern ends with "*" and the text begins with the rest of it.
bool MatchesPrefix(std::string_view pattern, std::string_view text) {
  return !pattern.empty() && pattern.back() == '*' &&
         text.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool Includes(Role granted, Role needed) {
  return granted == needed || granted == Role::kAdmin ||
         (granted == Role::kOperator && needed == Role::kReader);
}

}  // namespace

std::string_view RoleName(Role role) {
  constexpr std::array<std::string_view, 4> kNames{"writer", "reader", "operator", "admin"};
  return kNames[static_cast<std::size_t>(role)];
}

bool Grant::Covers(std::string_view resource) const {
  if (resource == pattern || MatchesPrefix(pattern, resource)) return true;
  return resource.starts_with(pattern) && resource.substr(pattern.size()).starts_with("/versions/");
}

bool Principal::Has(Role role, std::string_view resource) const {
  return std::any_of(grants.begin(), grants.end(), [&](const Grant& grant) {
    return Includes(grant.role, role) && grant.Covers(resource);
  });
}

bool Principal::Knows(std::string_view resource) const {
  return std::any_of(grants.begin(), grants.end(),
                     [&](const Grant& grant) { return grant.Covers(resource); });
}

TokenHash HashToken(std::string_view token) {
  // Each use of EVP_sha256() would look the algorithm up again.
  static const EVP_MD* const kSha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  TokenHash hash{};
  unsigned size = hash.size();
  if (kSha256 == nullptr ||
      EVP_Digest(token.data(), token.size(), hash.data(), &size, kSha256, nullptr) != 1) {
    throw std::bad_alloc();
  }
  return hash;
}

std::size_t Policy::TokenHashHash::operator()(const TokenHash& token) const noexcept {
  std::size_t bytes = 0;
  std::memcpy(&bytes, token.data(), sizeof(bytes));
  return bytes;
}

void Policy::SetQuotas(Quotas& quotas, Quota::Clock::time_point now) {
  std::set<std::string_view> names;
  for (Principal& principal : principals_) {
    names.insert(principal.name);
    std::shared_ptr<Quota>& quota = quotas[principal.name];
    if (quota == nullptr) quota = std::make_shared<Quota>(principal.name);
    quota->SetLimits(principal.limits);
    principal.quota = quota;
  }
  std::erase_if(quotas, [&names, now](const auto& entry) {
    return !names.contains(entry.first) && entry.second->unused(now);
  });
}

const Principal* Policy::FindToken(const TokenHash& token, Time now) const {
  const auto found = tokens_.find(token);
  if (found == tokens_.end() || found->second.expiry <= now) return nullptr;
  return &principals_[found->second.principal];
}

const Principal* Policy::FindPrincipal(std::string_view name) const {
  const auto found =
      std::ranges::find_if(principals_, [&](const Principal& one) { return one.name == name; });
  return found == principals_.end() ? nullptr : &*found;
}

const Principal* Policy::FindCertificate(const std::vector<std::string>& names) const {
  const Certificate* best = nullptr;
  bool unique = true;
  for (const Certificate& one : certificates_) {
    const bool matches = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name == one.pattern || MatchesPrefix(one.pattern, name);
    });
    if (!matches) continue;
    if (best == nullptr || one.pattern.size() > best->pattern.size()) {
      best = &one;
      unique = true;
    } else if (one.pattern.size() == best->pattern.size() && one.principal != best->principal) {
      unique = false;
    }
  }
  return best != nullptr && unique ? &principals_[best->principal] : nullptr;
}

std::optional<Policy::Time> Policy::NextExpiry(Time now) const {
  std::optional<Time> next;
  for (const auto& [hash, token] : tokens_) {
    if (token.expiry > now && (!next.has_value() || token.expiry < *next)) next = token.expiry;
  }
  return next;
}

}  // namespace calibd::server
