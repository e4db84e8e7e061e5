// Running and next calls of a connection that is too old.
#include <grpcpp/client_context.h>

#include <chrono>
#include <string>

#include "tests/server/running_server.h"

namespace latentd::server {
namespace {

namespace v1 = ::latent::v1;

// Long enough for a call to arrive, on a machine that is busy too.
constexpr absl::Duration kShort = absl::Milliseconds(200);

class ConnectionAgeTest : public RunningServer {
 protected:
  // Until the client has been told to give up its connection.
  void WaitUntilGivenUp() {
    const auto deadline = std::chrono::system_clock::now() + std::chrono::minutes(1);
    while (channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) {
      ASSERT_TRUE(channel_->WaitForStateChange(GRPC_CHANNEL_READY, deadline));
    }
  }
};

TEST_F(ConnectionAgeTest, AStreamOutlivesItsConnectionAndTheNextCallConnectsAnew) {
  Start({.max_connection_age = kShort});
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Request());
  engine_.Send(engine::Started{{64, 32}});
  v1::GenerateEvent event;
  ASSERT_TRUE(reader->Read(&event));
  WaitUntilGivenUp();
  engine_.Send(engine::Image{.index = 0, .seed = 7, .size = {64, 32}, .bytes = "picture"});
  engine_.Send(engine::Completed{});
  while (reader->Read(&event)) {
  }
  EXPECT_TRUE(event.has_completed());
  const grpc::Status finished = reader->Finish();
  EXPECT_TRUE(finished.ok()) << finished.error_message();

  grpc::ClientContext next;
  v1::GetCapabilitiesResponse capabilities;
  const grpc::Status asked = stub_->GetCapabilities(&next, {}, &capabilities);
  EXPECT_TRUE(asked.ok()) << asked.error_message();
}

TEST_F(ConnectionAgeTest, CallsAreCancelledWhenTheGraceIsOver) {
  Start({.max_connection_age = kShort, .max_connection_age_grace = absl::Seconds(2)});
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Request());
  engine_.WaitUntilCancelled();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace latentd::server
