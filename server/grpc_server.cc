#include "server/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/listen_address.h"

namespace latentd::server {
namespace {

// A client that vanished without closing its connection is found by pings.
constexpr int kKeepaliveMillis = 60'000;
constexpr int kKeepaliveTimeoutMillis = 20'000;
constexpr int kMinClientPingMillis = 10'000;
// Of one connection.
constexpr int kMaxConcurrentStreams = 256;
// For messages that are on their way when everything else has ended.
constexpr absl::Duration kLastWords = absl::Seconds(1);

void SetChannelArguments(grpc::ServerBuilder& builder) {
  // Shared ports would let a second server start beside this one and take half of the requests.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinClientPingMillis);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConcurrentStreams);
}

// For all servers of the process, and to be asked for once only.
void EnableReflection() {
  static const bool enabled = [] {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  static_cast<void>(enabled);
}

std::string WithPort(const std::string& listen, int port) {
  if (absl::StartsWith(listen, "unix:")) return listen;
  return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
}

}  // namespace

GrpcServer::GrpcServer(const Options& options, engine::Engine& engine, const Clock& clock)
    : engine_(engine), clock_(clock), image_generation_({engine, clock, calls_}, options.version) {}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Options& options,
                                                              engine::Engine& engine,
                                                              const Clock& clock) {
  std::unique_ptr<GrpcServer> server(new GrpcServer(options, engine, clock));
  RETURN_IF_ERROR(server->Listen(options));
  return server;
}

absl::Status GrpcServer::Listen(const Options& options) {
  RETURN_IF_ERROR(CheckUnixSocketIsFree(options.listen));
  EnableReflection();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_request_bytes));
  SetChannelArguments(builder);
  builder.RegisterService(&image_generation_);
  builder.RegisterService(&health_);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) return ExplainListenFailure(options.listen);
  address_ = WithPort(options.listen, port);
  return absl::OkStatus();
}

void GrpcServer::SetReady() {
  absl::MutexLock lock(&mutex_);
  if (!draining_) health_.SetServing(true);
}

void GrpcServer::Drain(absl::Duration timeout) {
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    health_.SetServing(false);
  }
  const absl::Time deadline = clock_.Monotonic() + timeout;
  engine_.Drain(deadline);
  // The engine is done; its last pictures may still be on their way to clients that read slowly.
  if (!calls_.WaitUntilEmpty(std::max(deadline - clock_.Monotonic(), kLastWords))) {
    calls_.CancelAll();
    calls_.WaitUntilEmpty(kLastWords);
  }
  health_.EndWatches();
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kLastWords));
}

GrpcServer::~GrpcServer() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

}  // namespace latentd::server
