#include "client/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "absl/strings/match.h"

namespace latentd::client {
namespace {

constexpr int kConnectMillis = 5'000;
// Of one message: a chunk, a list of graphs, or the capabilities.
constexpr int kMaxMessageBytes = 64 << 20;

// A proxy for the world outside is of no use for these.
bool IsLocal(const std::string& server) {
  return absl::StartsWith(server, "unix:") || absl::StartsWith(server, "localhost:") ||
         absl::StartsWith(server, "127.") || absl::StartsWith(server, "[::1]");
}

}  // namespace

std::shared_ptr<grpc::Channel> Connect(const std::string& server) {
  grpc::ChannelArguments arguments;
  // How long one attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMillis);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  if (IsLocal(server)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace latentd::client
