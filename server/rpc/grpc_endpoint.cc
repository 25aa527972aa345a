#include "server/rpc/grpc_endpoint.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <utility>

#include "calibd/core/status_macros.h"
#include "server/base/listen_address.h"
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
// Time for the clients to be sent the last bytes at a stop: at least, and at most.
constexpr std::chrono::milliseconds kLeastDelivery{100};
constexpr std::chrono::milliseconds kMostDelivery{1000};
// File descriptors for everything but connections: epoll, events, logs, listeners, and sockets that
// wait for their client to close.
constexpr std::int64_t kOtherDescriptors = 512;
// Number of connections beyond max-connections on which only health checks are served.
constexpr std::size_t kReservedConnections = 8;

// The reflection library enables itself at the start of a process; this disables it again.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins,
                  [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

// The number of connections for which there are file descriptors, at most max-connections. An
// evicted connection keeps its descriptors for a moment, in addition to those of its replacement.
std::size_t MaxConnections(const Options& options) {
  constexpr std::int64_t kPerConnection = 3;  // The client's socket and a pair.
  const std::int64_t others = options.max_http_connections + kOtherDescriptors;
  const std::int64_t wanted = 2 * kPerConnection * options.max_connections + others;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return static_cast<std::size_t>(options.max_connections);
  }
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
  const auto available =
      static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_max, static_cast<rlim_t>(1) << 30));
  if (available >= wanted) return static_cast<std::size_t>(options.max_connections);
  const std::int64_t connections = std::max<std::int64_t>(
      1, (available - std::min(others, available / 2)) / (2 * kPerConnection));
  spdlog::warn("{} file descriptors are enough for {} connections, not max-connections = {}",
               available, connections, options.max_connections);
  return static_cast<std::size_t>(connections);
}

Relay::Settings RelaySettings(const Options& options) {
  const std::size_t total = MaxConnections(options);
  return {
      .limits = {.max_message_bytes = static_cast<std::size_t>(options.max_message_bytes),
                 .max_concurrent_streams =
                     static_cast<std::size_t>(options.max_concurrent_streams)},
      .slots = {.total = total,
                .per_address = options.max_connections_per_address > 0
                                   ? static_cast<std::size_t>(options.max_connections_per_address)
                                   : std::max<std::size_t>(1, total / 2),
                .reserve = kReservedConnections}};
}

void SetLimits(const Options& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  // Compression is disabled, because a small compressed message may expand to the largest accepted
  // size.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  // The relay refuses calls before this number is reached.
  builder.AddChannelArgument(
      GRPC_ARG_MAX_CONCURRENT_STREAMS,
      static_cast<int>(options.max_concurrent_streams) + static_cast<int>(Http2Guard::kExtraCalls));
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
    std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> interceptor,
    ByteBudget& call_memory, RelayStatistics& statistics, TlsServer* tls) {
  CALIBD_ASSIGN_OR_RETURN(const auto endpoint, ParseListenAddress(options.listen));
  auto context = std::make_unique<boost::asio::io_context>(1);
  CALIBD_ASSIGN_OR_RETURN(boost::asio::ip::tcp::acceptor listener, Listen(*context, endpoint));
  std::unique_ptr<GrpcEndpoint> result(new GrpcEndpoint());
  result->context_ = std::move(context);
  result->address_ = FormatAddress(listener.local_endpoint());

  // This reference keeps gRPC's threads until the process ends. Without it, the end of the server
  // would join them, and one of them polls for 10 s after a socket took no more bytes.
  grpc_init();
  grpc::EnableDefaultHealthCheckService(true);
  // This reference makes the linker keep the library.
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetLimits(options, builder);
  if (!options.reflection) builder.SetOption(std::make_unique<WithoutReflection>());
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  if (interceptor != nullptr) interceptors.push_back(std::move(interceptor));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  for (grpc::Service* service : services) builder.RegisterService(service);
  auto connections = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  result->server_ = builder.BuildAndStart();
  if (result->server_ == nullptr) return absl::UnavailableError("gRPC did not start");
  grpc::HealthCheckServiceInterface* health = result->server_->GetHealthCheckService();
  for (const google::protobuf::ServiceDescriptor* service : ApiServices()) {
    health->SetServingStatus(service->full_name(), false);
  }
  // This also sets the status of the server as a whole, which has an empty name.
  health->SetServingStatus(false);
  result->StartRelay(options, std::move(listener), std::move(connections), call_memory, statistics,
                     tls);
  return result;
}

void GrpcEndpoint::StartRelay(
    const Options& options, boost::asio::ip::tcp::acceptor listener,
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections,
    ByteBudget& call_memory, RelayStatistics& statistics, TlsServer* tls) {
  connections_ = std::move(connections);
  relay_ = std::make_unique<Relay>(
      RelaySettings(options), call_memory, statistics, tls,
      [server = connections_.get()](int socket) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.fd = socket;
        server->HandleNewConnection(&connection);
      });
  Listener::Start(std::move(listener), [relay = relay_.get()](boost::asio::ip::tcp::socket socket,
                                                              const std::string& address) {
    relay->Add(std::move(socket), address);
  });
  thread_ = std::thread([this] { context_->run(); });
}

void GrpcEndpoint::StopListening() {
  if (context_ != nullptr) {
    context_->stop();
    if (thread_.joinable()) thread_.join();
    context_.reset();
  }
}

GrpcEndpoint::~GrpcEndpoint() {
  StopListening();
  if (server_ != nullptr) Shutdown(std::chrono::system_clock::now());
}

void GrpcEndpoint::SetServing(bool serving) {
  const std::lock_guard lock(server_mutex_);
  if (server_ != nullptr) server_->GetHealthCheckService()->SetServingStatus(serving);
}

void GrpcEndpoint::StopServing() {
  const std::lock_guard lock(server_mutex_);
  if (server_ != nullptr) server_->GetHealthCheckService()->Shutdown();
}

void GrpcEndpoint::Shutdown(std::chrono::system_clock::time_point deadline) {
  StopListening();
  if (relay_ != nullptr) relay_->BeginDrain();
  server_->Shutdown(deadline);
  if (relay_ != nullptr) {
    // gRPC has written the ends of all calls, but the relay may not have passed them on yet.
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::system_clock::now());
    relay_->AwaitDelivery(std::clamp(left, kLeastDelivery, kMostDelivery));
  }
  relay_.reset();
  const std::lock_guard lock(server_mutex_);
  server_.reset();
}

}  // namespace calibd::server
