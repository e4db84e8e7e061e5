#include "client/latent_client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "client/image_assembler.h"

namespace latentd::client {
namespace {

constexpr int kConnectMillis = 5'000;
constexpr std::chrono::seconds kShortCall(10);
// Of one message: a chunk, or the capabilities.
constexpr int kMaxMessageBytes = 64 << 20;

bool StartsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

// A proxy for the world outside is of no use for these.
bool IsLocal(const std::string& server) {
  return StartsWith(server, "unix:") || StartsWith(server, "localhost:") ||
         StartsWith(server, "127.") || StartsWith(server, "[::1]");
}

std::shared_ptr<grpc::Channel> Connect(const std::string& server) {
  grpc::ChannelArguments arguments;
  // How long one attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMillis);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  if (IsLocal(server)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

class Client::Cancellable {
 public:
  Cancellable(Client& client, grpc::ClientContext& context) : client_(client), context_(context) {
    const std::lock_guard lock(client_.mutex_);
    client_.running_.insert(&context_);
    if (client_.cancelled_) context_.TryCancel();
  }
  ~Cancellable() {
    const std::lock_guard lock(client_.mutex_);
    client_.running_.erase(&context_);
  }
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;

 private:
  Client& client_;
  grpc::ClientContext& context_;
};

Client::Client(const std::string& server)
    : channel_(Connect(server)),
      images_(v1::ImageGeneration::NewStub(channel_)),
      health_(grpc::health::v1::Health::NewStub(channel_)) {}

grpc::Status Client::Generate(const v1::GenerateRequest& request,
                              const GenerateCallbacks& callbacks,
                              std::optional<std::chrono::milliseconds> timeout) {
  grpc::ClientContext context;
  if (timeout) context.set_deadline(std::chrono::system_clock::now() + *timeout);
  const Cancellable cancellable(*this, context);
  const auto reader = images_->GenerateStream(&context, request);
  ImageAssembler assembler;
  v1::GenerateEvent event;
  while (reader->Read(&event)) {
    if (!event.has_image_chunk()) {
      if (callbacks.on_event) callbacks.on_event(event);
      continue;
    }
    const grpc::Status added = assembler.Add(std::move(*event.mutable_image_chunk()));
    if (!added.ok()) {
      context.TryCancel();
      reader->Finish();
      return added;
    }
    if (assembler.complete() && callbacks.on_image) callbacks.on_image(assembler.Take());
  }
  return reader->Finish();
}

grpc::Status Client::GetCapabilities(v1::GetCapabilitiesResponse& capabilities) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kShortCall);
  const Cancellable cancellable(*this, context);
  return images_->GetCapabilities(&context, v1::GetCapabilitiesRequest(), &capabilities);
}

grpc::Status Client::CheckHealth(const std::string& service,
                                 grpc::health::v1::HealthCheckResponse::ServingStatus& status) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kShortCall);
  const Cancellable cancellable(*this, context);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status called = health_->Check(&context, request, &response);
  status = response.status();
  return called;
}

void Client::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : running_) context->TryCancel();
}

}  // namespace latentd::client
