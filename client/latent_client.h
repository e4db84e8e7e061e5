// A client of latentd for C++ programs: calls, and pictures put together from their chunks. Knows
// the proto only.
//
//   latentd::client::Client client("127.0.0.1:50051");
//   latent::v1::GenerateRequest request;
//   request.set_prompt("a large yellow star on a purple background");
//   std::vector<latent::v1::Image> images;
//   grpc::Status status = client.Generate(request, {
//       .on_image = [&](latent::v1::Image image) { images.push_back(std::move(image)); }});
#pragma once

#include <grpcpp/channel.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/cancellation.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "latent/v1/image_generation.grpc.pb.h"

namespace latentd::client {

namespace v1 = ::latent::v1;

// Called from the thread that called Generate, in the order in which things happen. Empty ones are
// skipped.
struct GenerateCallbacks {
  std::function<void(const v1::GenerateEvent&)> on_event;  // queued, started, progress, completed
  std::function<void(v1::Image)> on_image;
};

// Thread-safe: calls may run side by side.
class Client {
 public:
  // HOST:PORT or unix:PATH. Connects when first used.
  explicit Client(const std::string& server);

  // GenerateStream, to its end; blocks. The work on the server stops when `timeout` passes or
  // Cancel is called.
  grpc::Status Generate(const v1::GenerateRequest& request, const GenerateCallbacks& callbacks,
                        std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  grpc::Status GetCapabilities(v1::GetCapabilitiesResponse& capabilities);

  // What the health service says of `service`; "" is the server as a whole.
  grpc::Status CheckHealth(const std::string& service,
                           grpc::health::v1::HealthCheckResponse::ServingStatus& status);

  // Ends what runs with CANCELLED, and what is started later.
  void Cancel() { cancellation_.Cancel(); }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::ImageGeneration::Stub> images_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
  Cancellation cancellation_;
};

}  // namespace latentd::client
