#include "server/server_port.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "server/process/ports/listen_address.h"
#include "server/process/ports/plain_text_ports.h"

namespace latentd::server {
namespace {

// A client that vanished without closing its connection is found by pings.
constexpr int kKeepaliveMillis = 60'000;
constexpr int kKeepaliveTimeoutMillis = 20'000;
constexpr int kMinClientPingMillis = 10'000;
// Most streams of one connection.
constexpr int kMaxConcurrentStreams = 256;
// For a client to say its first words (its TLS handshake and its settings): they take a few round
// trips.
constexpr int kHandshakeMillis = 20'000;
// Idle limit of a connection without calls; clients connect again when they have one.
constexpr int kMaxIdleMillis = 15 * 60'000;

// As gRPC takes it: its largest number is for ever.
int ToMillis(absl::Duration duration) {
  return static_cast<int>(
      std::min<int64_t>(absl::ToInt64Milliseconds(duration), std::numeric_limits<int>::max()));
}

void SetChannelArguments(grpc::ServerBuilder& builder, const ServerPort::Options& options) {
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMillis);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kMaxIdleMillis);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, ToMillis(options.max_connection_age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             ToMillis(options.max_connection_age_grace));
  // Shared ports would let a second server start beside this one and take half of the requests.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinClientPingMillis);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConcurrentStreams);
  // Bytes of a call before it is read do not grow with the connection's speed: 64 KiB.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
}

void LimitMemory(grpc::ServerBuilder& builder, int64_t bytes) {
  grpc::ResourceQuota quota;
  quota.Resize(static_cast<size_t>(bytes));
  builder.SetResourceQuota(quota);
}

// gRPC inflates a message without a bound, whatever it counts against its quota: 32 MiB become as
// much as 32 GiB. A client that compresses is told what this server takes.
void RefuseCompression(grpc::ServerBuilder& builder) {
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
}

// For all servers of the process, and to be asked for once only.
void EnableReflection() {
  static const bool enabled = [] {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  static_cast<void>(enabled);
}

// Option that every builder of the process gets, once one has asked for it.
class NoReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
  }
};

// Restricts the mode: gRPC makes a Unix socket open to all users, but for the process's mask.
std::unique_ptr<grpc::Server> Start(grpc::ServerBuilder& builder, bool owner_only) {
  if (!owner_only) return builder.BuildAndStart();
  const mode_t mask = umask(S_IXUSR | S_IRWXG | S_IRWXO);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  umask(mask);
  return server;
}

std::string WithPort(const std::string& listen, int port) {
  if (process::IsUnixSocket(listen)) return listen;
  return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerPort>> ServerPort::Open(const Options& options) {
  RETURN_IF_ERROR(process::CheckUnixSocketIsFree(options.listen));
  EnableReflection();
  grpc::ServerBuilder builder;
  if (!options.reflection) builder.SetOption(std::make_unique<NoReflection>());
  int port = 0;
  builder.AddListeningPort(
      options.listen,
      options.credentials != nullptr ? options.credentials : grpc::InsecureServerCredentials(),
      &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  SetChannelArguments(builder, options);
  RefuseCompression(builder);
  LimitMemory(builder, options.received_bytes);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = Start(builder, options.owner_only);
  if (server == nullptr || port == 0) return process::ExplainListenFailure(options.listen);
  const bool plain_text = options.credentials == nullptr && !process::IsUnixSocket(options.listen);
  if (plain_text) process::ExpectPlainText(port);
  return std::unique_ptr<ServerPort>(
      new ServerPort(std::move(server), WithPort(options.listen, port)));
}

ServerPort::ServerPort(std::unique_ptr<grpc::Server> server, std::string address)
    : server_(std::move(server)), address_(std::move(address)) {}

ServerPort::~ServerPort() { Close(absl::ZeroDuration()); }

void ServerPort::Close(absl::Duration timeout) {
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
}

}  // namespace latentd::server
