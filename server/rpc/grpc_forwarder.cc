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

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
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

// The method GetModel for a GetModelRequest. The file of the request has it.
const google::protobuf::MethodDescriptor& MethodOf(const Message& request,
                                                   const std::string& name) {
  const google::protobuf::FileDescriptor& file = *request.GetDescriptor()->file();
  const google::protobuf::MethodDescriptor* method = nullptr;
  for (int i = 0; method == nullptr; ++i) method = file.service(i)->FindMethodByName(name);
  return *method;
}

absl::Status TooManyCalls(std::string_view of_whom) {
  return WithRetryDelay(
      MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_CALLS",
                absl::StrCat("this calibd stands by, and passes on as many calls ",
                             std::string(of_whom), " as it can")),
      kForwardRetryDelay);
}

// One call that the owner answers. It keeps itself alive until gRPC is done with it.
class ForwardedCall final : public grpc::ClientBidiReactor<Message, Message> {
 public:
  // channel: its place is kept until the call has ended.
  static absl::Status Start(std::shared_ptr<grpc::Channel> channel, CallMemory& memory,
                            const Store::Owner& owner,
                            const google::protobuf::MethodDescriptor& method,
                            const Message& request, bool endless, std::shared_ptr<void> held,
                            std::shared_ptr<AnyReply> reply) {
    const std::shared_ptr<ForwardedCall> call(new ForwardedCall(
        std::move(channel), memory, owner, endless, std::move(held), std::move(reply)));
    CALIBD_RETURN_IF_ERROR(call->TakeRequest(request));
    call->Begin(call, absl::StrCat("/", method.service()->full_name(), "/", method.name()));
    return absl::OkStatus();
  }

  void OnWriteDone(bool /*ok*/) override {
    request_.reset();
    reservation_.Release(reservation_.bytes());
  }

  void OnReadDone(bool ok) override {
    if (!ok) return StopReading();
    bool reads = true;
    reply_->call().Guard(Stage::kProgress, [this, &reads] {
      if (endless_) {
        // The next message is read when the client has taken this one.
        const std::lock_guard lock(mutex_);
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
    reply_.reset();
    channel_.reset();
  }

 private:
  ForwardedCall(std::shared_ptr<grpc::Channel> channel, CallMemory& memory,
                const Store::Owner& owner, bool endless, std::shared_ptr<void> held,
                std::shared_ptr<AnyReply> reply)
      : channel_(std::move(channel)),
        stub_(channel_),
        owner_(owner),
        endless_(endless),
        reservation_(memory, reply->call().context().caller),
        held_(std::move(held)),
        reply_(std::move(reply)),
        read_(reply_->NewResponse()) {
    const CallContext& context = reply_->call().context();
    Add(kForwardedTo, owner.id);
    if (!context.identity->unrestricted()) Add(kForwardedPrincipal, context.identity->name());
    Add(kForwardedAddress, context.address);
  }

  void Add(const char* key, const std::string& value) {
    context_.AddMetadata(key, absl::WebSafeBase64Escape(value));
  }

  // Copies a request, which waits until the owner takes it.
  [[nodiscard]] absl::Status TakeRequest(const Message& request) {
    CALIBD_RETURN_IF_ERROR(reservation_.Add(ResponseMemory(request)));
    request_.reset(request.New());
    request_->CopyFrom(request);
    return absl::OkStatus();
  }

  void Begin(const std::shared_ptr<ForwardedCall>& self, const std::string& path) {
    self_ = self;
    const std::shared_ptr<AnyReply> reply = reply_;
    stub_.PrepareBidiStreamingCall(&context_, path, grpc::StubOptions(), this);
    if (endless_) {
      // Taken reads from other threads.
      AddHold();
      reply->OnTaken([self] { self->Taken(); });
    }
    StartWriteLast(request_.get(), grpc::WriteOptions());
    StartRead(read_.get());
    StartCall();
    // At once, if the client has gone meanwhile.
    reply->call().OnEnd([self] {
      self->context_.TryCancel();
      self->StopReading();
    });
  }

  // The client has taken a message of an endless stream.
  void Taken() {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    if (std::exchange(waits_, false)) {
      waits_ = !reply_->Send(*read_);
    } else {
      StartRead(read_.get());
    }
  }

  void StopReading() {
    const std::lock_guard lock(mutex_);
    if (endless_ && !std::exchange(stopped_, true)) RemoveHold();
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
    return NotOwnerError(
        absl::StrCat("the calibd at ", owner_.address,
                     " has the store, and does not answer this one: ", status.error_message()),
        {{"owner", owner_.address}, {"epoch", absl::StrCat(owner_.epoch)}});
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::TemplatedGenericStub<Message, Message> stub_;
  grpc::ClientContext context_;
  const Store::Owner owner_;
  const bool endless_;
  // The memory of request_.
  CallReservation reservation_;
  std::unique_ptr<Message> request_;
  std::shared_ptr<void> held_;
  std::shared_ptr<AnyReply> reply_;
  std::shared_ptr<ForwardedCall> self_;
  // The message that gRPC reads next, or that waits until the client takes one.
  std::unique_ptr<Message> read_;
  // The newest message of a response that is not endless.
  std::unique_ptr<Message> answer_;
  // Guards the reads of an endless response.
  std::mutex mutex_;
  // The client has to take a message before this one is sent.
  bool waits_ = false;
  bool stopped_ = false;
};

}  // namespace

GrpcForwarder::GrpcForwarder(const Store& store, CallMemory& memory,
                             std::shared_ptr<grpc::ChannelCredentials> credentials,
                             std::int64_t connection_calls)
    : store_(store),
      memory_(memory),
      credentials_(std::move(credentials)),
      connection_calls_(connection_calls) {}

GrpcForwarder::~GrpcForwarder() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return calls_ == 0; });
}

std::optional<Store::Owner> GrpcForwarder::other_owner() const { return store_.other_owner(); }

bool GrpcForwarder::IsThis(std::string_view id) const {
  const std::string own = store_.owner_id();
  return !own.empty() && id.size() == own.size() &&
         CRYPTO_memcmp(id.data(), own.data(), own.size()) == 0;
}

absl::Status GrpcForwarder::Forward(const Store::Owner& owner, const Message& request, bool endless,
                                    std::shared_ptr<void> held, std::shared_ptr<AnyReply> reply) {
  const google::protobuf::MethodDescriptor& method =
      MethodOf(request, reply->call().context().method);
  CALIBD_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                          TakePlace(owner.address, reply, method.server_streaming()));
  return ForwardedCall::Start(std::move(channel), memory_, owner, method, request, endless,
                              std::move(held), std::move(reply));
}

void GrpcForwarder::Drain() {
  std::vector<std::shared_ptr<AnyReply>> replies;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    for (const auto& [number, reply] : streams_) replies.push_back(reply.lock());
  }
  // Without the lock: a call that ends gives its place back.
  for (const std::shared_ptr<AnyReply>& reply : replies) {
    if (reply != nullptr) reply->call().End(DrainingError());
  }
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> GrpcForwarder::TakePlace(
    const std::string& address, const std::shared_ptr<AnyReply>& reply, bool streams) {
  const std::string& caller = reply->call().context().owner;
  const std::lock_guard lock(mutex_);
  if (streams && draining_) return DrainingError();
  const auto quarter =
      std::max<std::int64_t>(1, connection_calls_ * static_cast<std::int64_t>(kMaxConnections) / 4);
  const auto of_caller = callers_.find(caller);
  if (of_caller != callers_.end() && of_caller->second >= quarter) {
    return TooManyCalls("of this caller");
  }
  if (address != address_) {
    connections_.clear();
    address_ = address;
  }
  auto free = std::ranges::find_if(connections_,
                                   [&](const auto& one) { return one->calls < connection_calls_; });
  if (free == connections_.end()) {
    if (connections_.size() == kMaxConnections) return TooManyCalls("in total");
    connections_.push_back(
        std::make_shared<Connection>(Connection{.channel = NewChannel(address)}));
    free = connections_.end() - 1;
  }
  const std::shared_ptr<Connection> connection = *free;
  ++connection->calls;
  ++callers_[caller];
  ++calls_;
  const std::int64_t number = next_number_++;
  if (streams) streams_.emplace(number, reply);
  return std::shared_ptr<grpc::Channel>(
      connection->channel.get(), [this, connection, caller, number](grpc::Channel* /*channel*/) {
        GiveBack(*connection, caller, number);
      });
}

void GrpcForwarder::GiveBack(Connection& connection, const std::string& caller,
                             std::int64_t number) {
  const std::lock_guard lock(mutex_);
  streams_.erase(number);
  --connection.calls;
  if (const auto of_caller = callers_.find(caller); --of_caller->second == 0) {
    callers_.erase(of_caller);
  }
  --calls_;
  // With the lock: this object may be destroyed as soon as there are no calls.
  ended_.notify_all();
}

std::shared_ptr<grpc::Channel> GrpcForwarder::NewChannel(const std::string& address) const {
  grpc::ChannelArguments arguments;
  // The owner has limited its messages.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kForwardKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kForwardKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kForwardReconnectMs);
  // Channels to one address would share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials_, arguments);
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
