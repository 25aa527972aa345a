#include "server/access/access_control.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/read_file.h"

namespace calibd::server {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// The store reserves room for ids of this length. The longest name of a principal leaves room for a
// hash.
constexpr std::size_t kLongestId = 128;

// The method in the entries of the audit log about the access file.
constexpr char kReloadMethod[] = "ReloadAccessFile";

// More than a policy of ten thousand principals needs.
constexpr std::size_t kMostBytes = std::size_t{4} << 20;

// The token of an authorization header; empty if the header has another form.
std::string TokenOf(std::string_view authorization) {
  const absl::string_view text = absl::StripAsciiWhitespace(View(authorization));
  const std::size_t space = text.find(' ');
  if (space == absl::string_view::npos) return "";
  const absl::string_view scheme = text.substr(0, space);
  const absl::string_view value = absl::StripAsciiWhitespace(text.substr(space));
  if (absl::EqualsIgnoreCase(scheme, "Bearer")) return std::string(value);
  std::string pair;
  if (!absl::EqualsIgnoreCase(scheme, "Basic") || !absl::Base64Unescape(value, &pair)) return "";
  const std::size_t colon = pair.find(':');
  return colon == std::string::npos ? "" : pair.substr(colon + 1);
}

absl::Status NoCredentialsError() {
  return MakeError(absl::StatusCode::kUnauthenticated, "NO_CREDENTIALS",
                   "this server wants to know who calls: send a token in the header "
                   "\"authorization: Bearer TOKEN\" (calibctl --token-file FILE) or a client "
                   "certificate; `calibctl token create` makes a token for the server's "
                   "--access-file");
}

absl::Status RevokedError(std::string_view resource) {
  return MakeError(absl::StatusCode::kPermissionDenied, "ACCESS_REVOKED",
                   absl::StrCat("the right to this call on ", View(resource),
                                " was revoked or has expired: ask whoever keeps the server's "
                                "--access-file, and call again with a valid token"));
}

// Errors: InvalidArgument.
absl::StatusOr<std::string> ReadText(const std::string& file) {
  absl::StatusOr<std::string> text = ReadFile(file, kMostBytes);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(absl::StrCat(
      file, " cannot be read: ", std::string(text.status().message()), "; name a TOML file"));
}

// The hash of a text, or of the error that prevented reading it.
TokenHash HashOf(const absl::StatusOr<std::string>& text) {
  return HashToken(text.ok() ? *text
                             : absl::StrCat("error: ", std::string(text.status().message())));
}

absl::StatusOr<std::shared_ptr<Policy>> ParsePolicy(const std::string& file,
                                                    const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return text.status();
  absl::StatusOr<std::shared_ptr<Policy>> policy = Policy::Parse(*text);
  if (policy.ok()) return policy;
  return absl::InvalidArgumentError(
      absl::StrCat(file, ", ", std::string(policy.status().message())));
}

}  // namespace

const std::string& Identity::name() const noexcept {
  static const std::string kNobody;
  return principal_ == nullptr ? kNobody : principal_->name;
}

Quota* Identity::quota() const noexcept {
  return principal_ == nullptr ? nullptr : principal_->quota.get();
}

absl::Status Identity::Check(const char* method, Role role, std::string_view resource) const {
  if (Has(role, resource)) return absl::OkStatus();
  if (resource != kAllModels && !principal_->Knows(resource)) return ModelNotFoundError(resource);
  return MakeError(
      absl::StatusCode::kPermissionDenied, "MISSING_ROLE",
      absl::StrCat(method, " needs the role ", View(RoleName(role)), " on ", View(resource),
                   ", which ", principal_->name, " does not have: ask for the grant \"",
                   View(RoleName(role)), " ", View(resource), "\" in the server's --access-file"));
}

std::string Identity::Scoped(std::string_view id) const {
  if (unrestricted()) return std::string(id);
  // Ids of clients and names of principals do not contain "@".
  std::string scoped = absl::StrCat(View(id), "@", name());
  if (scoped.size() <= kLongestId) return scoped;
  const TokenHash hash = HashToken(id);
  return absl::StrCat(absl::BytesToHexString(absl::string_view(
                          reinterpret_cast<const char*>(hash.data()), hash.size())),
                      "@", name());
}

std::string OwnerOf(const absl::StatusOr<Identity>& identity, std::string address) {
  // Addresses have no "@".
  return identity.ok() && !identity->unrestricted() ? absl::StrCat("@", identity->name())
                                                    : std::move(address);
}

absl::StatusOr<std::shared_ptr<const Policy>> ReadPolicy(const std::string& file) {
  return ParsePolicy(file, ReadText(file));
}

absl::StatusOr<std::unique_ptr<AccessControl>> AccessControl::Open(const std::string& file,
                                                                   AuditLog& audit) {
  auto control = std::make_unique<AccessControl>(audit);
  if (file.empty()) return control;
  control->file_ = file;
  control->polled_ = std::chrono::system_clock::now();
  const absl::StatusOr<std::string> text = ReadText(file);
  CALIBD_ASSIGN_OR_RETURN(const std::shared_ptr<Policy> policy, ParsePolicy(file, text));
  policy->SetQuotas(control->quotas_, Quota::Clock::now());
  control->policy_ = policy;
  control->content_ = control->seen_ = HashOf(text);
  return control;
}

void AccessControl::StartPolling() {
  if (enabled()) thread_ = std::thread([this] { Run(); });
}

AccessControl::~AccessControl() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const Policy> AccessControl::policy() const {
  const std::lock_guard lock(mutex_);
  return policy_;
}

absl::StatusOr<Identity> AccessControl::Identify(const Credentials& credentials) const {
  if (!enabled()) return Identity::Unrestricted();
  absl::StatusOr<Identity> identity = NoCredentialsError();
  const bool has_header = !credentials.authorization.empty();
  if (has_header || !credentials.session.empty()) {
    auto proof = std::make_shared<Identity::Proof>();
    if (has_header) {
      proof->token = HashToken(TokenOf(credentials.authorization));
    } else {
      proof->session = HashToken(credentials.session);
    }
    identity = Resolve(std::move(proof));
  }
  if (!identity.ok() && !has_header && !credentials.certificate_names.empty()) {
    auto proof = std::make_shared<Identity::Proof>();
    proof->certificate_names = credentials.certificate_names;
    identity = Resolve(std::move(proof));
  }
  return identity.ok() ? identity : Refuse(credentials, identity.status());
}

absl::StatusOr<Identity> AccessControl::Forwarded(const std::optional<std::string>& name,
                                                  const Credentials& call) const {
  if (!enabled()) return Identity::Unrestricted();
  absl::StatusOr<Identity> identity = NoCredentialsError();
  if (name.has_value()) {
    auto proof = std::make_shared<Identity::Proof>();
    proof->forwarded = name;
    identity = Resolve(std::move(proof));
  }
  return identity.ok() ? identity : Refuse(call, identity.status());
}

std::string AccessControl::BeginSession(const Identity& caller) {
  if (caller.unrestricted() || !caller.proof_->token.has_value()) return "";
  PageSessions::Begun begun =
      sessions_.Begin(*caller.proof_->token, caller.name(), PageSessions::Clock::now());
  if (begun.ended_another) version_.fetch_add(1, std::memory_order_acq_rel);
  return std::move(begun.id);
}

void AccessControl::EndSession(std::string_view id) {
  if (sessions_.End(id)) version_.fetch_add(1, std::memory_order_acq_rel);
}

absl::Status AccessControl::Refuse(const Credentials& credentials, absl::Status status) const {
  ++unauthenticated_;
  audit_.RecordDenial(
      {.address = credentials.address, .method = credentials.method, .status = status.code()});
  return status;
}

absl::StatusOr<Identity> AccessControl::Resolve(
    std::shared_ptr<const Identity::Proof> proof) const {
  Identity identity;
  // Before the policy: a change in between is noticed later.
  identity.version_ = version();
  const std::shared_ptr<const Policy> policy = this->policy();
  const Principal* principal = nullptr;
  if (proof->forwarded.has_value()) {
    principal = policy->FindPrincipal(*proof->forwarded);
  } else if (proof->session.has_value()) {
    principal = FindSession(*policy, *proof->session);
  } else if (proof->token.has_value()) {
    principal = policy->FindToken(*proof->token, std::chrono::system_clock::now());
  } else {
    principal = policy->FindCertificate(proof->certificate_names);
  }
  if (principal != nullptr) {
    identity.principal_ = std::shared_ptr<const Principal>(policy, principal);
    identity.proof_ = std::move(proof);
    return identity;
  }
  if (proof->session.has_value()) return NoCredentialsError();
  if (proof->forwarded.has_value()) {
    return MakeError(absl::StatusCode::kUnauthenticated, "UNKNOWN_PRINCIPAL",
                     "the --access-file of the server that has the store lacks the principal of "
                     "the caller: give all servers the same file");
  }
  if (!proof->token.has_value()) {
    return MakeError(absl::StatusCode::kUnauthenticated, "UNKNOWN_CERTIFICATE",
                     "no principal of the server's --access-file has the names of the client "
                     "certificate: its subject alternative names count, not its common name");
  }
  if (policy->HasToken(*proof->token)) {
    return MakeError(absl::StatusCode::kUnauthenticated, "TOKEN_EXPIRED",
                     "the token has expired: `calibctl token create` makes another one for the "
                     "server's --access-file");
  }
  return MakeError(absl::StatusCode::kUnauthenticated, "UNKNOWN_TOKEN",
                   "the server's --access-file has no such token: a principal needs the line that "
                   "`calibctl token create` printed, which applies after a few seconds; or the "
                   "token was revoked or is not complete");
}

const Principal* AccessControl::FindSession(const Policy& policy, const TokenHash& session) const {
  const auto owner = sessions_.Find(session, PageSessions::Clock::now());
  if (!owner.has_value()) return nullptr;
  const Principal* const principal =
      policy.FindToken(owner->token, std::chrono::system_clock::now());
  return principal != nullptr && principal->name == owner->principal ? principal : nullptr;
}

absl::StatusOr<Identity> AccessControl::Renew(const Identity& caller,
                                              std::string_view resource) const {
  if (caller.unrestricted() || caller.version_ == version()) return caller;
  absl::StatusOr<Identity> present = Resolve(caller.proof_);
  // Another principal may have the token now. Its producers are others.
  if (present.ok() && present->name() != caller.name()) return RevokedError(resource);
  return present;
}

absl::Status AccessControl::Check(const Identity& caller, const std::string& address,
                                  const char* method, Role role,
                                  const std::string& resource) const {
  const absl::StatusOr<Identity> present = Renew(caller, resource);
  absl::Status status = present.ok() ? present->Check(method, role, resource) : present.status();
  if (!status.ok()) {
    ++denied_;
    audit_.RecordDenial({.principal = caller.name(),
                         .address = address,
                         .method = method,
                         .resource = resource,
                         .status = status.code()});
  }
  return status;
}

absl::Status AccessControl::CountRefusal(const Identity& caller,
                                         const QuotaRefusal& refusal) const {
  ++quota_refused_[static_cast<std::size_t>(refusal.kind)];
  return caller.quota()->ErrorOf(refusal);
}

absl::Status AccessControl::Refuse(const Identity& caller, const std::string& address,
                                   const char* method, const std::string& resource,
                                   const QuotaRefusal& refusal) const {
  absl::Status status = CountRefusal(caller, refusal);
  audit_.RecordDenial({.principal = caller.name(),
                       .address = address,
                       .method = method,
                       .resource = resource,
                       .status = status.code()});
  return status;
}

absl::StatusOr<std::shared_ptr<AccessControl::Held>> AccessControl::Hold(
    Identity identity, const char* method, Role role, std::string resource,
    std::function<void(const absl::Status&)> on_revoked) {
  auto held = std::make_shared<Held>(*this, std::move(identity), method, role, std::move(resource),
                                     std::move(on_revoked));
  if (!enabled()) return held;
  {
    const std::lock_guard lock(mutex_);
    if (held_.size() >= cleanup_size_) {
      std::erase_if(held_, [](const std::weak_ptr<Held>& one) { return one.expired(); });
      cleanup_size_ = std::max<std::size_t>(64, 2 * held_.size());
    }
    held_.push_back(held);
  }
  // CheckHeld has missed it if the policy changed since the caller was identified.
  CALIBD_RETURN_IF_ERROR(held->Check());
  return held;
}

void AccessControl::Poll() {
  const std::lock_guard lock(poll_);
  const Policy::Time now = std::chrono::system_clock::now();
  const std::optional<Policy::Time> expiry = policy()->NextExpiry(polled_);
  const bool ended = sessions_.EraseEnded(PageSessions::Clock::now());
  if (ended || (expiry.has_value() && *expiry <= now)) {
    version_.fetch_add(1, std::memory_order_acq_rel);
  }
  polled_ = now;
  Reload();
  // A version that an exception kept from being checked is checked in the next poll.
  const std::uint64_t version = this->version();
  if (checked_ != version && CheckHeld()) checked_ = version;
}

void AccessControl::Reload() {
  const absl::StatusOr<std::string> text = ReadText(file_);
  const TokenHash content = HashOf(text);
  const bool settled = content == std::exchange(seen_, content);
  if (content == content_ || !settled) return;
  const absl::StatusOr<std::shared_ptr<Policy>> read = ParsePolicy(file_, text);
  if (read.ok()) {
    (*read)->SetQuotas(quotas_, Quota::Clock::now());
    const std::lock_guard lock(mutex_);
    policy_ = *read;
  }
  if (read.ok()) version_.fetch_add(1, std::memory_order_acq_rel);
  // Only now, so that a lack of memory above does not lose the change.
  content_ = content;
  file_invalid_ = !read.ok();
  audit_.Record({.method = kReloadMethod, .status = read.status().code()});
  if (!read.ok()) {
    ++failed_reloads_;
    spdlog::error("the access file is invalid, so that the former one applies: {}",
                  std::string(read.status().message()));
    return;
  }
  ++reloads_;
  spdlog::info("the access file has changed and applies: {} principals",
               (*read)->principals().size());
}

bool AccessControl::CheckHeld() {
  std::vector<std::weak_ptr<Held>> all;
  {
    const std::lock_guard lock(mutex_);
    all = held_;
  }
  bool all_checked = true;
  // Without the lock, because a call that ends may release its right.
  for (const std::weak_ptr<Held>& one : all) {
    const std::shared_ptr<Held> held = one.lock();
    if (held == nullptr) continue;
    try {
      if (absl::Status status = held->Check(); !status.ok()) held->on_revoked_(status);
    } catch (const std::exception& failure) {
      // There was no memory. The others must not stay because of this one.
      all_checked = false;
      spdlog::error("a revoked call could not be ended: {}", failure.what());
    }
  }
  return all_checked;
}

void AccessControl::Run() {
  pthread_setname_np(pthread_self(), "calibd-access");
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kPollInterval, [this] { return stopping_; })) {
    lock.unlock();
    try {
      Poll();
    } catch (const std::exception& failure) {
      // There was no memory. The next poll tries again.
      spdlog::error("the access file could not be read: {}", failure.what());
    }
    lock.lock();
  }
}

AccessControl::Statistics AccessControl::statistics() const {
  const std::shared_ptr<const Policy> present = policy();
  Statistics statistics{.unauthenticated = unauthenticated_,
                        .denied = denied_,
                        .reloads = reloads_,
                        .failed_reloads = failed_reloads_,
                        .file_invalid = file_invalid_,
                        .principals = present == nullptr ? 0 : present->principals().size()};
  std::copy(quota_refused_.begin(), quota_refused_.end(), statistics.quota_refused.begin());
  std::copy(quota_delayed_.begin(), quota_delayed_.end(), statistics.quota_delayed.begin());
  return statistics;
}

AccessControl::Held::Held(const AccessControl& control, Identity identity, const char* method,
                          Role role, std::string resource,
                          std::function<void(const absl::Status&)> on_revoked)
    : control_(control),
      identity_(std::move(identity)),
      method_(method),
      role_(role),
      resource_(std::move(resource)),
      on_revoked_(std::move(on_revoked)),
      version_(identity_.version_) {}

absl::Status AccessControl::Held::Check() {
  const std::uint64_t version = control_.version();
  if (identity_.unrestricted() || version_.load(std::memory_order_relaxed) == version) {
    return absl::OkStatus();
  }
  const absl::StatusOr<Identity> present = control_.Renew(identity_, resource_);
  if (!present.ok() || !present->Check(method_, role_, resource_).ok()) {
    return RevokedError(resource_);
  }
  version_.store(version, std::memory_order_relaxed);
  return absl::OkStatus();
}

}  // namespace calibd::server
