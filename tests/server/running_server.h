// A GrpcServer on a free port with an engine and a clock that the test moves, and stubs to call it.
#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "latent/v1/admin.grpc.pb.h"
#include "latent/v1/graph_cache.grpc.pb.h"
#include "latent/v1/image_generation.grpc.pb.h"
#include "server/grpc_server.h"
#include "tests/server/fake_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::server {

class RunningServer : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(GrpcServer::Options options) { Start(std::move(options), clock_); }
  void Start(GrpcServer::Options options, const Clock& clock) {
    options.listen = "127.0.0.1:0";
    options.admin_folder = folder_.path();
    options.version = "test";
    auto server = GrpcServer::Start(options, engine_, clock);
    ASSERT_OK(server);
    server_ = *std::move(server);
    channel_ = ChannelTo(server_->address());
    stub_ = latent::v1::ImageGeneration::NewStub(channel_);
    health_ = grpc::health::v1::Health::NewStub(channel_);
    admin_channel_ = ChannelTo(server_->admin_address());
    graph_cache_ = latent::v1::GraphCache::NewStub(admin_channel_);
    admin_ = latent::v1::Admin::NewStub(admin_channel_);
  }

  static std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
    // A channel of its own, not one that gRPC shares with other tests.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    // A window that does not grow, so that what waits for a reader waits in the server.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

  static latent::v1::GenerateRequest Request() {
    latent::v1::GenerateRequest request;
    request.set_prompt("a star");
    return request;
  }

  // An Image's `unread` that notifies `gone` when the picture has no reader any more.
  static std::shared_ptr<const void> NotifyWhenGone(absl::Notification& gone) {
    return {&gone, [](absl::Notification* notified) { notified->Notify(); }};
  }

  // Sends the events of a request that goes well.
  void SendPicture(const std::string& bytes, size_t number = 0) {
    engine_.Send(engine::Queued{"", 0}, number);
    engine_.Send(engine::Started{{64, 32}}, number);
    engine_.Send(engine::Progress{.step = 1, .total_steps = 1}, number);
    engine_.Send(engine::Image{.index = 0, .seed = 7, .size = {64, 32}, .bytes = bytes}, number);
    engine_.Send(engine::Completed{}, number);
  }

  template <typename Detail>
  static Detail DetailOf(const grpc::Status& status) {
    google::rpc::Status details;
    details.ParseFromString(status.error_details());
    Detail detail;
    for (const auto& any : details.details()) {
      if (any.Is<Detail>()) any.UnpackTo(&detail);
    }
    return detail;
  }

  static std::string ReasonOf(const grpc::Status& status) {
    return DetailOf<google::rpc::ErrorInfo>(status).reason();
  }

  const testing::TemporaryDirectory folder_;
  FakeEngine engine_;
  testing::FakeClock clock_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<grpc::Channel> admin_channel_;
  std::unique_ptr<latent::v1::ImageGeneration::Stub> stub_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
  std::unique_ptr<latent::v1::GraphCache::Stub> graph_cache_;
  std::unique_ptr<latent::v1::Admin::Stub> admin_;
};

}  // namespace latentd::server
