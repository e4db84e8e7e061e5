#include "client/latent_client.h"

#include <utility>

#include "client/channel.h"
#include "client/image_assembler.h"

namespace latentd::client {
namespace {

constexpr std::chrono::seconds kShortCall(10);

}  // namespace

Client::Client(const std::string& server)
    : channel_(Connect(server)),
      images_(v1::ImageGeneration::NewStub(channel_)),
      health_(grpc::health::v1::Health::NewStub(channel_)) {}

grpc::Status Client::Generate(const v1::GenerateRequest& request,
                              const GenerateCallbacks& callbacks,
                              std::optional<std::chrono::milliseconds> timeout) {
  grpc::ClientContext context;
  if (timeout) context.set_deadline(std::chrono::system_clock::now() + *timeout);
  const Cancellation::Scope scope(cancellation_, context);
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
  const Cancellation::Scope scope(cancellation_, context);
  return images_->GetCapabilities(&context, v1::GetCapabilitiesRequest(), &capabilities);
}

grpc::Status Client::CheckHealth(const std::string& service,
                                 grpc::health::v1::HealthCheckResponse::ServingStatus& status) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kShortCall);
  const Cancellation::Scope scope(cancellation_, context);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status called = health_->Check(&context, request, &response);
  status = response.status();
  return called;
}

}  // namespace latentd::client
