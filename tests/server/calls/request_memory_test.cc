// Tests of the host memory that requests hold on their way to the engine, over a real connection.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include <map>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "core/base/process/memory_room.h"
#include "tests/server/running_server.h"
#include "tests/support/recording_sink.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;

using testing::kLongestWait;

constexpr size_t kLarge = size_t{2} << 20;  // one is read at a time

class RequestMemoryTest : public RunningServer {
 protected:
  static v1::GenerateRequest LargeRequest() {
    v1::GenerateRequest request = Request();
    request.set_image(std::string(kLarge, 'x'));
    return request;
  }
  grpc::Status Generate(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    v1::GenerateResponse response;
    return stub_->Generate(&context, request, &response);
  }
  grpc::Status Stream(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    const auto reader = stub_->GenerateStream(&context, request);
    for (v1::GenerateEvent event; reader->Read(&event);) continue;
    return reader->Finish();
  }

  int64_t Held(absl::string_view kind) const {
    for (const process::ClientBytes& bytes : server_->client_memory()) {
      if (bytes.kind == kind) return bytes.held;
    }
    return -1;
  }
  // As a scrape would show it.
  double Shown(const std::string& kind) {
    server_->ShowClientMemory();
    return engine_.metrics().GetGauge(metrics::kClientMemory, {kind}).Value();
  }
  bool WaitUntilHeld(absl::string_view kind, int64_t bytes) const {
    const absl::Time give_up = absl::Now() + kLongestWait;
    while (Held(kind) != bytes && absl::Now() < give_up) std::this_thread::yield();
    return Held(kind) == bytes;
  }
  void ExpectNothingIsHeld() {
    EXPECT_EQ(Held("received_requests"), 0);
    EXPECT_EQ(Held("read_requests"), 0);
    EXPECT_EQ(Shown("received_requests"), 0);
    EXPECT_EQ(Shown("read_requests"), 0);
  }
};

// The engine is at one, which it has not got yet, and another waits to be read.
TEST_F(RequestMemoryTest, LargeRequestsCountUntilTheEngineHasThem) {
  const v1::GenerateRequest request = LargeRequest();
  const auto each = static_cast<int64_t>(request.ByteSizeLong());
  absl::Notification submitted, go_on;
  engine_.OnNextSubmit([&] {
    submitted.Notify();
    go_on.WaitForNotificationWithTimeout(kLongestWait);
  });
  std::thread first([&] { EXPECT_TRUE(Generate(request).ok()); });
  EXPECT_TRUE(submitted.WaitForNotificationWithTimeout(kLongestWait));
  EXPECT_EQ(Held("received_requests"), 0);
  EXPECT_EQ(Held("read_requests"), each);
  std::thread second([&] { EXPECT_TRUE(Stream(request).ok()); });
  EXPECT_TRUE(WaitUntilHeld("received_requests", each));
  EXPECT_EQ(Shown("received_requests"), each);
  EXPECT_EQ(Shown("read_requests"), each);
  go_on.Notify();
  engine_.WaitForSpec(1);
  EXPECT_TRUE(WaitUntilHeld("read_requests", 0));
  ExpectNothingIsHeld();  // though both calls go on
  for (size_t number = 0; number < 2; ++number) SendPicture("picture", number);
  first.join();
  second.join();
}

TEST_F(RequestMemoryTest, WhatIsRefusedIsHeldNoLonger) {
  v1::GenerateRequest wrong = LargeRequest();
  wrong.clear_prompt();
  EXPECT_EQ(Generate(wrong).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  engine_.set_submit_status(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(Stream(LargeRequest()).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  engine_.RunOutOfMemory();
  EXPECT_EQ(Generate(LargeRequest()).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectNothingIsHeld();
}

TEST_F(RequestMemoryTest, EncodersOfVideosAreCountedBesideImages) {
  ASSERT_OK_AND_ASSIGN(const MemoryRoom room,
                       MemoryRoom::Take(5, "an encoder", MemoryRoom::Purpose::kEncodeVideo));
  EXPECT_EQ(Shown("video_encoders"), 5);
  EXPECT_EQ(Shown("decoded_images"), 0);
}

TEST_F(RequestMemoryTest, ImagesThatAreDecodedAreCountedAndLimitsShown) {
  ASSERT_OK_AND_ASSIGN(const MemoryRoom room, MemoryRoom::Take(5, "an image"));
  EXPECT_EQ(Shown("decoded_images"), 5);
  const auto limit = [&](const std::string& kind) {
    return engine_.metrics().GetGauge(metrics::kClientMemoryLimit, {kind}).Value();
  };
  EXPECT_EQ(limit("received_requests"), 256 << 20);
  EXPECT_EQ(limit("read_requests"), 32 << 20);
  EXPECT_EQ(limit("decoded_images"), 0);
  EXPECT_EQ(Held("video_files"), -1) << "without HTTP there are none";
  EXPECT_EQ(limit("log"), 4 << 20);
}

}  // namespace
}  // namespace latentd::server::calls
