#include "client/rpc/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "absl/strings/match.h"
#include "core/base/text/host_port.h"

namespace latentd::client {
namespace {

constexpr int kConnectMillis = 5'000;
// Pauses between attempts to connect: no longer than those of client/rpc/retry.h, whose tries would
// otherwise meet the failure of the last one.
constexpr int kFirstReconnectMillis = 200;
constexpr int kLongestReconnectMillis = 2'000;
// Limit for one message: a chunk, a list of graphs, or the capabilities.
constexpr int kMaxMessageBytes = 64 << 20;

std::shared_ptr<grpc::ChannelCredentials> Credentials(const std::optional<Tls>& tls) {
  if (!tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({tls->authorities, tls->key, tls->certificate});
}

}  // namespace

std::shared_ptr<grpc::Channel> Connect(const std::string& server, const std::optional<Tls>& tls) {
  grpc::ChannelArguments arguments;
  // How long one attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMillis);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMillis);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestReconnectMillis);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // A proxy for the world outside is of no use for these.
  const bool is_local = absl::StartsWith(server, "unix:") || IsLoopback(server);
  if (is_local) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (tls && !tls->server_name.empty()) arguments.SetSslTargetNameOverride(tls->server_name);
  return grpc::CreateCustomChannel(server, Credentials(tls), arguments);
}

}  // namespace latentd::client
