#include "server/tracing/otlp_client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "core/base/text/host_port.h"

namespace latentd::server::tracing {
namespace {

namespace otlp = ::opentelemetry::proto::collector::trace::v1;

// Pauses between attempts to connect: no longer than a span should wait for a collector that is
// there again.
constexpr int kLongestReconnectMillis = 5'000;
// A collector that vanished is found out by what it does not acknowledge, which gRPC looks at where
// there is a keepalive. The pings themselves come no more often than servers let clients send them.
constexpr int kKeepaliveMillis = 5 * 60'000;
constexpr int kKeepaliveTimeoutMillis = 20'000;

std::shared_ptr<grpc::Channel> Connect(const Endpoint& endpoint) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestReconnectMillis);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMillis);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMillis);
  // A proxy for the world outside is of no use for this machine.
  if (IsLoopback(endpoint.address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // By name, whatever the host is called: "unix:4317" would be something else to gRPC.
  return grpc::CreateCustomChannel(
      absl::StrCat("dns:///", endpoint.address),
      endpoint.tls ? grpc::SslCredentials({}) : grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

OtlpClient::OtlpClient(const Endpoint& endpoint)
    : stub_(otlp::TraceService::NewStub(Connect(endpoint))) {}

absl::StatusOr<int64_t> OtlpClient::Send(const ExportRequest& request, absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
  if (!Begin(context)) return absl::CancelledError("spans are not sent any more");
  otlp::ExportTraceServiceResponse response;
  const grpc::Status status = stub_->Export(&context, request, &response);
  End();
  if (status.ok()) return response.partial_success().rejected_spans();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

void OtlpClient::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (under_way_ != nullptr) under_way_->TryCancel();
}

bool OtlpClient::Begin(grpc::ClientContext& context) {
  absl::MutexLock lock(&mutex_);
  if (cancelled_) return false;
  under_way_ = &context;
  return true;
}

void OtlpClient::End() {
  absl::MutexLock lock(&mutex_);
  under_way_ = nullptr;
}

SpanSender::Collector CollectorAt(const Endpoint& endpoint) {
  const auto client = std::make_shared<OtlpClient>(endpoint);
  return {.address = endpoint.address,
          .send = [client](const ExportRequest& request,
                           absl::Duration timeout) { return client->Send(request, timeout); },
          .cancel = [client] { client->Cancel(); }};
}

}  // namespace latentd::server::tracing
