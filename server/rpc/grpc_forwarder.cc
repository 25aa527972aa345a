#include "server/rpc/grpc_forwarder.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/client_callback.h>
#include <openssl/crypto.h>

#include <chrono>
#include <functional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/errors.h"
#include "server/base/status_mapping.h"

namespace calibd::server {
namespace {

using google::protobuf::Message;

// Servers allow no pings in shorter intervals.
constexpr int kForwardKeepaliveMs = 35'000;
constexpr int kForwardKeepaliveTimeoutMs = 10'000;
constexpr int kForwardReconnectMs = 1000;
constexpr unsigned kCertificateInterval = 60;
constexpr std::chrono::milliseconds kForwardRetryDelay{250};

// "/calibd.v1.ModelService/GetModel" for a GetModelRequest.
std::string PathOf(const Message& request, std::string_view method) {
  const google::protobuf::FileDescriptor& file = *request.GetDescriptor()->file();
  for (int i = 0; i < file.service_count(); ++i) {
    const google::protobuf::ServiceDescriptor& service = *file.service(i);
    if (service.FindMethodByName(std::string(method)) == nullptr) continue;
    return absl::StrCat("/", service.full_name(), "/", std::string(method));
  }
  return "";
}

// One call that the owner answers. It keeps itself alive until gRPC is done with it.
class ForwardedCall final : public grpc::ClientBidiReactor<Message, Message> {
 public:
  static void Start(const std::shared_ptr<grpc::Channel>& channel, const Store::Owner& owner,
                    const Message& request, bool endless, std::shared_ptr<void> held,
                    std::shared_ptr<AnyReply> reply) {
    const std::shared_ptr<ForwardedCall> call(
        new ForwardedCall(channel, owner, request, endless, std::move(held), std::move(reply)));
    call->Begin(call);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    bool reads = true;
    reply_->call().Guard(Stage::kProgress, [this, &reads] {
      const std::lock_guard lock(mutex_);
      if (endless_) {
        // The next message is read when the client has taken this one.
        waits_ = !reply_->Send(*read_);
        reads = false;
        return;
      }
      if (answer_ != nullptr) reply_->Send(*answer_);
      answer_ = std::exchange(read_, reply_->NewResponse());
    });
    if (reads) StartRead(read_.get());
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<ForwardedCall> self = std::move(self_);
    reply_->call().Guard(Stage::kDone, [this, &status]() -> absl::Status {
      if (!status.ok()) return ErrorOf(status);
      if (answer_ != nullptr) {
        reply_->SendLast(*answer_);
      } else {
        reply_->call().End(absl::OkStatus());
      }
      return absl::OkStatus();
    });
    held_.reset();
  }

 private:
  ForwardedCall(const std::shared_ptr<grpc::Channel>& channel, const Store::Owner& owner,
                const Message& request, bool endless, std::shared_ptr<void> held,
                std::shared_ptr<AnyReply> reply)
      : stub_(channel),
        owner_(owner),
        endless_(endless),
        request_(request.New()),
        held_(std::move(held)),
        reply_(std::move(reply)),
        read_(reply_->NewResponse()) {
    request_->CopyFrom(request);
    const CallContext& context = reply_->call().context();
    Add(kForwardedTo, owner.id);
    if (!context.identity->unrestricted()) Add(kForwardedPrincipal, context.identity->name());
    Add(kForwardedAddress, context.address);
  }

  void Add(const char* key, const std::string& value) {
    context_.AddMetadata(key, absl::WebSafeBase64Escape(value));
  }

  void Begin(const std::shared_ptr<ForwardedCall>& self) {
    self_ = self;
    const std::string path = PathOf(*request_, reply_->call().context().method);
    stub_.PrepareBidiStreamingCall(&context_, path, grpc::StubOptions(), this);
    if (endless_) {
      reply_->OnTaken([self] { self->Taken(); });
    }
    StartWriteLast(request_.get(), grpc::WriteOptions());
    StartRead(read_.get());
    StartCall();
    // At once, if the client has gone meanwhile.
    reply_->call().OnEnd([self] { self->context_.TryCancel(); });
  }

  // The client has taken a message of an endless stream.
  void Taken() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(waits_, false)) {
        waits_ = !reply_->Send(*read_);
        return;
      }
    }
    StartRead(read_.get());
  }

  [[nodiscard]] absl::Status ErrorOf(const grpc::Status& status) const {
    rpc::Status wire;
    if (wire.ParseFromString(status.error_details()) && wire.code() == status.error_code()) {
      return FromRpcStatus(wire);
    }
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          status.error_message());
    }
    return WithRetryDelay(
        MakeError(
            absl::StatusCode::kUnavailable, "NOT_OWNER",
            absl::StrCat("the calibd at ", owner_.address,
                         " has the store, and does not answer this one: ", status.error_message()),
            {{"owner", owner_.address}, {"epoch", absl::StrCat(owner_.epoch)}}),
        kForwardRetryDelay);
  }

  grpc::TemplatedGenericStub<Message, Message> stub_;
  grpc::ClientContext context_;
  const Store::Owner owner_;
  const bool endless_;
  const std::unique_ptr<Message> request_;
  std::shared_ptr<void> held_;
  const std::shared_ptr<AnyReply> reply_;
  std::shared_ptr<ForwardedCall> self_;
  std::mutex mutex_;
  // The message that gRPC reads next, or that waits until the client takes one.
  std::unique_ptr<Message> read_;
  // The newest message of a response that is not endless.
  std::unique_ptr<Message> answer_;
  // Guarded by mutex_: the client has to take a message before this one is sent.
  bool waits_ = false;
};

}  // namespace

GrpcForwarder::GrpcForwarder(const Store& store,
                             std::shared_ptr<grpc::ChannelCredentials> credentials)
    : store_(store), credentials_(std::move(credentials)) {}

std::optional<Store::Owner> GrpcForwarder::other_owner() const { return store_.other_owner(); }

bool GrpcForwarder::IsThis(std::string_view id) const {
  const std::string own = store_.owner_id();
  return !own.empty() && id.size() == own.size() &&
         CRYPTO_memcmp(id.data(), own.data(), own.size()) == 0;
}

void GrpcForwarder::Forward(const Store::Owner& owner, const Message& request, bool endless,
                            std::shared_ptr<void> held, std::shared_ptr<AnyReply> reply) {
  ForwardedCall::Start(ChannelTo(owner.address), owner, request, endless, std::move(held),
                       std::move(reply));
}

std::shared_ptr<grpc::Channel> GrpcForwarder::ChannelTo(const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (channel_ == nullptr || address_ != address) {
    grpc::ChannelArguments arguments;
    // The owner has limited its messages.
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kForwardKeepaliveMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kForwardKeepaliveTimeoutMs);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kForwardReconnectMs);
    channel_ = grpc::CreateCustomChannel(address, credentials_, arguments);
    address_ = address;
  }
  return channel_;
}

std::shared_ptr<grpc::ChannelCredentials> PeerCredentials(const std::string& certificate,
                                                          const std::string& key,
                                                          const std::string& ca) {
  if (certificate.empty()) return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(key, certificate, ca,
                                                                           kCertificateInterval));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace calibd::server
