#ifndef CALIBD_SERVER_ACCESS_ACCESS_CONTROL_H_
#define CALIBD_SERVER_ACCESS_ACCESS_CONTROL_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/audit_log.h"
#include "server/access/page_sessions.h"
#include "server/access/policy.h"

namespace calibd::server {

// What a client shows to prove who it is. The header decides if there is one, then a session that
// is valid, then the certificate: a browser also sends a session that has expired.
struct Credentials {
  // The header "authorization": "Bearer TOKEN", or "Basic" with the token as the password and any
  // name of a user. May be empty.
  std::string_view authorization{};
  // The id of a session of the page; may be empty.
  std::string_view session{};
  // The alternative names of the verified client certificate; see Policy::FindCertificate.
  std::vector<std::string> certificate_names{};
  // What the audit log says about a refused call: the client's address, and the method or path.
  std::string address{};
  std::string method{};
};

// Who makes a call. Cheap to copy.
class Identity {
 public:
  // A caller of a server without --access-file, who may do everything.
  [[nodiscard]] static Identity Unrestricted() { return Identity(); }

  [[nodiscard]] bool unrestricted() const noexcept { return principal_ == nullptr; }
  // The name of the principal; empty if the identity is unrestricted.
  [[nodiscard]] const std::string& name() const noexcept;
  // What the principal may use, which the identity keeps alive; null if the identity is
  // unrestricted.
  [[nodiscard]] Quota* quota() const noexcept;
  [[nodiscard]] std::uint64_t policy_version() const noexcept { return version_; }
  [[nodiscard]] bool Has(Role role, std::string_view resource) const {
    return unrestricted() || principal_->Has(role, resource);
  }

  // Errors: NotFound, with the error of an unknown model, if no grant covers the resource;
  // PermissionDenied that names the missing role. method: of the API, for the error. resource: the
  // name of a model, which is valid, or kAllModels.
  [[nodiscard]] absl::Status Check(const char* method, Role role, std::string_view resource) const;

  // The id in the store of a producer or request of this caller: principals do not share them. An
  // id that would have more than 128 bytes is replaced by its hash.
  [[nodiscard]] std::string Scoped(std::string_view id) const;

 private:
  friend class AccessControl;
  // What proved the identity: one of them.
  struct Proof {
    std::optional<TokenHash> token{};
    // The hash of the id of a session of the page.
    std::optional<TokenHash> session{};
    std::vector<std::string> certificate_names{};
    // The name of the principal that another server has identified.
    std::optional<std::string> forwarded{};
  };

  Identity() = default;

  // Null if unrestricted. Keeps its policy alive.
  std::shared_ptr<const Principal> principal_;
  std::shared_ptr<const Proof> proof_;
  // The version of the policy.
  std::uint64_t version_ = 0;
};

// Whose share of computations, watches and the like a call takes: its principal's, or without one
// that of the address by which the caller is counted.
[[nodiscard]] std::string OwnerOf(const absl::StatusOr<Identity>& identity, std::string address);

// Identifies callers by the policy of a file, which is read again when its content changes. Without
// a file, everyone is unrestricted. Thread-safe.
class AccessControl {
 public:
  // The right of one long call, which is checked again after each change of the policy.
  // Thread-safe.
  class Held;

  // Without a file. audit: outlives this object.
  explicit AccessControl(AuditLog& audit) : audit_(audit) {}
  // file: the path of the policy; empty for none. Errors: those of ReadPolicy.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AccessControl>> Open(const std::string& file,
                                                                           AuditLog& audit);
  // Joins the thread that reads the file.
  ~AccessControl();
  AccessControl(const AccessControl&) = delete;
  AccessControl& operator=(const AccessControl&) = delete;

  // True if there is a policy.
  [[nodiscard]] bool enabled() const noexcept { return !file_.empty(); }

  // Errors: Unauthenticated, with what to do.
  [[nodiscard]] absl::StatusOr<Identity> Identify(const Credentials& credentials) const;
  // The principal with this name, which another server that this one trusts has identified; nothing
  // for a caller that is unrestricted there. call: its address and method, for the audit log.
  // Errors: Unauthenticated.
  [[nodiscard]] absl::StatusOr<Identity> Forwarded(const std::optional<std::string>& name,
                                                   const Credentials& call) const;
  // Begins a session of the page for a caller, and returns its id. The session ends with the
  // caller's token, and if another principal gets the token. Empty if the caller has not sent a
  // token.
  [[nodiscard]] std::string BeginSession(const Identity& caller);
  // Also ends the streams and watches of the session, with the next check of those that are held.
  void EndSession(std::string_view id);
  // Counts and records a call without valid credentials, and returns the status.
  [[nodiscard]] absl::Status Refuse(const Credentials& credentials, absl::Status status) const;

  // Checks a right as Identity::Check does, by the present policy even if the caller was identified
  // by a former one. Every call goes through this function, which counts and records those that it
  // refuses. address: of the client. Errors: those of Identity::Check; Unauthenticated if the
  // credentials are no longer valid; PermissionDenied if they belong to another principal now.
  [[nodiscard]] absl::Status Check(const Identity& caller, const std::string& address,
                                   const char* method, Role role,
                                   const std::string& resource) const;

  // Counts a call that exceeds a quota of its caller, and returns its error; see Quota::ErrorOf.
  [[nodiscard]] absl::Status CountRefusal(const Identity& caller,
                                          const QuotaRefusal& refusal) const;
  // The same for a call that the audit log does not record anyway.
  [[nodiscard]] absl::Status Refuse(const Identity& caller, const std::string& address,
                                    const char* method, const std::string& resource,
                                    const QuotaRefusal& refusal) const;
  // Counts a batch of a stream that waits because of a quota.
  void CountDelay(QuotaKind kind) { ++quota_delayed_[static_cast<std::size_t>(kind)]; }

  // Returns the right of a call, which Check has allowed, to go on. on_revoked: called on the
  // thread of the policy if the right is lost, at the latest in the second poll after a change of
  // the file or the expiry of the token. It may be called again, and must not block. The right ends
  // with the object. Errors: PermissionDenied if the right was lost since it was checked.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Held>> Hold(
      Identity identity, const char* method, Role role, std::string resource,
      std::function<void(const absl::Status&)> on_revoked);

  // Increases when the policy changes and when a token expires.
  [[nodiscard]] std::uint64_t version() const noexcept {
    return version_.load(std::memory_order_acquire);
  }

  // Starts a thread that calls Poll every kPollInterval if there is a file. Call it once.
  void StartPolling();
  // Reads the file. A content that was there in the former
  // poll too applies: a file that is being written is not read in the middle.
  void Poll();
  static constexpr std::chrono::milliseconds kPollInterval{2000};

  struct Statistics {
    // Calls without valid credentials, and calls of principals without the role.
    std::int64_t unauthenticated = 0;
    std::int64_t denied = 0;
    std::int64_t reloads = 0;
    std::int64_t failed_reloads = 0;
    // The file cannot be read or is invalid, so that an older policy applies.
    bool file_invalid = false;
    std::size_t principals = 0;
    // Calls that a quota refused, and batches of streams that waited for one, by its kind.
    std::array<std::int64_t, kQuotaKinds> quota_refused{};
    std::array<std::int64_t, kQuotaKinds> quota_delayed{};
  };
  [[nodiscard]] Statistics statistics() const;

 private:
  [[nodiscard]] std::shared_ptr<const Policy> policy() const;
  [[nodiscard]] absl::StatusOr<Identity> Resolve(
      std::shared_ptr<const Identity::Proof> proof) const;
  // The principal that has the token of the session, if it began the session; null otherwise.
  [[nodiscard]] const Principal* FindSession(const Policy& policy, const TokenHash& session) const;
  // The caller by the present policy. Errors: those of Resolve; PermissionDenied if another
  // principal has the credentials now. resource: of the call, for the error.
  [[nodiscard]] absl::StatusOr<Identity> Renew(const Identity& caller,
                                               std::string_view resource) const;
  void Run();
  // Replaces the policy if the file has another one.
  void Reload();
  // Ends the calls that have lost their right. Returns false if one could not be ended.
  bool CheckHeld();

  AuditLog& audit_;
  PageSessions sessions_;
  std::string file_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Policy> policy_;   // guarded by mutex_
  std::vector<std::weak_ptr<Held>> held_;  // guarded by mutex_
  std::size_t cleanup_size_ = 64;          // guarded by mutex_
  std::condition_variable stopped_;
  bool stopping_ = false;  // guarded by mutex_
  std::atomic<std::uint64_t> version_ = 1;
  mutable std::atomic<std::int64_t> unauthenticated_ = 0;
  mutable std::atomic<std::int64_t> denied_ = 0;
  mutable std::array<std::atomic<std::int64_t>, kQuotaKinds> quota_refused_{};
  std::array<std::atomic<std::int64_t>, kQuotaKinds> quota_delayed_{};
  std::atomic<std::int64_t> reloads_ = 0;
  std::atomic<std::int64_t> failed_reloads_ = 0;
  std::atomic<bool> file_invalid_ = false;
  // Serializes Poll. Everything below is guarded by it.
  std::mutex poll_;
  Policy::Quotas quotas_;
  // The hash of the file whose policy applies or was refused, and of the file in the last poll.
  TokenHash content_{};
  TokenHash seen_{};
  Policy::Time polled_;
  // The version for which all held rights were checked.
  std::uint64_t checked_ = 1;
  std::thread thread_;
};

class AccessControl::Held {
 public:
  Held(const AccessControl& control, Identity identity, const char* method, Role role,
       std::string resource, std::function<void(const absl::Status&)> on_revoked);

  // Compares one number unless the policy has changed. Errors: PermissionDenied after the right was
  // lost.
  [[nodiscard]] absl::Status Check();

 private:
  friend class AccessControl;

  const AccessControl& control_;
  const Identity identity_;
  const char* const method_;
  const Role role_;
  const std::string resource_;
  const std::function<void(const absl::Status&)> on_revoked_;
  // The version of the policy by which the right was checked last.
  std::atomic<std::uint64_t> version_;
};

// Reads and checks a policy, which has at most 4 MiB. Errors: InvalidArgument naming the file, the
// line and the field.
[[nodiscard]] absl::StatusOr<std::shared_ptr<const Policy>> ReadPolicy(const std::string& file);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ACCESS_ACCESS_CONTROL_H_
