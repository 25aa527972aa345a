#include "server/rpc/grpc_endpoint.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <utility>

#include "server/listen_address.h"
#include "server/rpc/registered_methods.h"

namespace calibd::server {
namespace {

constexpr int kMaxMetadataBytes = 8 << 10;
constexpr int kHandshakeTimeoutMs = 5 * 1000;
constexpr int kKeepaliveTimeMs = 60 * 1000;
constexpr int kKeepaliveTimeoutMs = 20 * 1000;
constexpr int kMinPingIntervalMs = 30 * 1000;
constexpr int kMaxConnectionIdleMs = 10 * 60 * 1000;
constexpr int kMaxConnectionAgeMs = 30 * 60 * 1000;
constexpr int kMaxConnectionAgeGraceMs = 30 * 1000;
// Descriptors for everything but connections: epoll, events, logs, listeners.
constexpr std::int64_t kOtherDescriptors = 128;

// The reflection library switches itself on when a process starts; this takes it
// out again.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins,
                  [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

// The highest file descriptor that a gRPC connection may have.
int MaxDescriptor(const Options& options) {
  const std::int64_t wanted =
      options.max_connections + options.max_http_connections + kOtherDescriptors;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
    const auto available =
        static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_max, static_cast<rlim_t>(1) << 30));
    if (available < wanted) {
      spdlog::warn("only {} file descriptors for max-connections = {}", available,
                   options.max_connections);
      return static_cast<int>(available - std::min(available / 4, kOtherDescriptors / 2));
    }
  }
  return static_cast<int>(wanted);
}

void SetLimits(const Options& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  // A small compressed message may expand to the largest size that is accepted.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(options.max_concurrent_streams));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kMaxConnectionIdleMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, kMaxConnectionAgeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kMaxConnectionAgeGraceMs);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcEndpoint>> GrpcEndpoint::Start(
    const Options& options, const std::vector<grpc::Service*>& services,
    std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> interceptor) {
  const auto endpoint = ParseListenAddress(options.listen);
  if (!endpoint.ok()) {
    return endpoint.status();
  }
  auto context = std::make_unique<boost::asio::io_context>(1);
  absl::StatusOr<boost::asio::ip::tcp::acceptor> listener = Listen(*context, *endpoint);
  if (!listener.ok()) {
    return listener.status();
  }
  std::unique_ptr<GrpcEndpoint> result(new GrpcEndpoint());
  result->address_ = FormatAddress(listener->local_endpoint());

  grpc::EnableDefaultHealthCheckService(true);
  // Makes the linker keep the library.
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetLimits(options, builder);
  if (!options.reflection) {
    builder.SetOption(std::make_unique<WithoutReflection>());
  }
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  if (interceptor != nullptr) {
    interceptors.push_back(std::move(interceptor));
  }
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  for (grpc::Service* service : services) {
    builder.RegisterService(service);
  }
  auto connections = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  result->server_ = builder.BuildAndStart();
  if (result->server_ == nullptr) {
    return absl::UnavailableError("gRPC did not start");
  }
  result->acceptor_ = std::make_unique<ConnectionAcceptor>(
      std::move(context), *std::move(listener), std::move(connections), MaxDescriptor(options));
  grpc::HealthCheckServiceInterface* health = result->server_->GetHealthCheckService();
  for (const google::protobuf::ServiceDescriptor* service : ApiServices()) {
    health->SetServingStatus(service->full_name(), false);
  }
  // Also of the server as a whole, which has no name.
  health->SetServingStatus(false);
  result->acceptor_->Start();
  return result;
}

GrpcEndpoint::~GrpcEndpoint() {
  if (server_ != nullptr) {
    Shutdown(std::chrono::system_clock::now());
  }
}

void GrpcEndpoint::StartServing() { server_->GetHealthCheckService()->SetServingStatus(true); }

void GrpcEndpoint::StopServing() { server_->GetHealthCheckService()->Shutdown(); }

void GrpcEndpoint::Shutdown(std::chrono::system_clock::time_point deadline) {
  acceptor_.reset();
  server_->Shutdown(deadline);
  server_.reset();
}

}  // namespace calibd::server
