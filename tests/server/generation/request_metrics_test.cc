// Metrics that calls over a real connection leave in the engine's registry.
#include "server/generation/request_metrics.h"

#include <grpcpp/client_context.h>

#include <thread>

#include "tests/server/no_memory.h"
#include "tests/server/running_server.h"

namespace latentd::server::generation {
namespace {

namespace v1 = ::latent::v1;

class RequestMetricsTest : public RunningServer {
 protected:
  double Requests(const std::string& method, const std::string& code) {
    return engine_.metrics().GetCounter(metrics::kRequests, {method, code}).Value();
  }
  double Rejected(const std::string& reason) {
    return engine_.metrics().GetCounter(metrics::kRequestsRejected, {reason}).Value();
  }
  prometheus::ClientMetric::Histogram Seconds(const std::string& method,
                                              const std::string& bucket) {
    return engine_.metrics()
        .GetHistogram(metrics::kRequestSeconds, {method, bucket})
        .Collect()
        .histogram;
  }

  // The server counts a call after the client has its answer, and goes when all are counted.
  void ExpectOnly(const std::string& method, const std::string& code) {
    server_.reset();
    EXPECT_EQ(Requests(method, code), 1);
  }

  grpc::Status Generate() {
    grpc::ClientContext context;
    v1::GenerateResponse response;
    return stub_->Generate(&context, Request(), &response);
  }
};

TEST_F(RequestMetricsTest, APictureIsCountedInItsBucketWithItsTime) {
  engine_.metrics().Declare(metrics::Declared::kBuckets, {"64x32"});
  std::thread client([&] { EXPECT_TRUE(Generate().ok()); });
  engine_.WaitForSpec();
  clock_.Advance(absl::Milliseconds(1500));
  SendPicture("picture");
  client.join();
  ExpectOnly("Generate", "OK");
  EXPECT_EQ(Requests("GenerateStream", "OK"), 0);
  EXPECT_EQ(Seconds("Generate", "64x32").sample_count, 1u);
  EXPECT_EQ(Seconds("Generate", "64x32").sample_sum, 1.5);
}

// For a fair share of the device.
TEST_F(RequestMetricsTest, TheEngineIsToldWhoTheCallIsFrom) {
  std::thread client([&] { EXPECT_TRUE(Generate().ok()); });
  EXPECT_EQ(engine_.WaitForSpec().caller, "ipv4:127.0.0.1");
  SendPicture("picture");
  client.join();
}

TEST_F(RequestMetricsTest, ACancelledRequestIsCountedAsItsClientSeesIt) {
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Request());
  engine_.WaitForSpec();
  engine_.Send(engine::Started{{64, 32}});
  v1::GenerateEvent event;
  ASSERT_TRUE(reader->Read(&event));
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  ExpectOnly("GenerateStream", "CANCELLED");
  EXPECT_EQ(Seconds("GenerateStream", "other").sample_count, 1u);
}

TEST_F(RequestMetricsTest, WhatTheEngineRefusesIsTheEnginesToCount) {
  engine_.set_submit_status(WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL"));
  EXPECT_FALSE(Generate().ok());
  ExpectOnly("Generate", "RESOURCE_EXHAUSTED");
  EXPECT_EQ(Rejected("queue_full"), 0);
  EXPECT_EQ(Seconds("Generate", "other").sample_count, 0u);
}

TEST_F(RequestMetricsTest, WhatTheServerHasNoMemoryToReadIsCounted) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  grpc::ClientContext context;
  v1::GenerateRequest request = Request();
  request.set_image(std::string(3 << 20, 'i'));
  v1::GenerateResponse response;
  {
    const testing::NoMemoryFrom none(2 << 20);
    EXPECT_FALSE(stub_->Generate(&context, request, &response).ok());
  }
  ExpectOnly("Generate", "RESOURCE_EXHAUSTED");
  EXPECT_EQ(Rejected("oom"), 1);
  EXPECT_EQ(engine_.metrics().GetCounter(metrics::kOutOfMemory, {"admission"}).Value(), 1);
}

TEST_F(RequestMetricsTest, WhatTheServerRefusesIsCountedByItsReason) {
  grpc::ClientContext context;
  v1::GenerateRequest request = Request();
  request.clear_prompt();
  v1::GenerateResponse response;
  EXPECT_FALSE(stub_->Generate(&context, request, &response).ok());
  ExpectOnly("Generate", "INVALID_ARGUMENT");
  EXPECT_EQ(Rejected("invalid"), 1);
  EXPECT_EQ(Seconds("Generate", "other").sample_count, 0u);
}

TEST_F(RequestMetricsTest, WhoComesTooEarlyOrTooLateIsCountedAsSuch) {
  engine_.set_state(engine::State::kLoading);
  EXPECT_FALSE(Generate().ok());
  engine_.set_state(engine::State::kDraining);
  EXPECT_FALSE(Generate().ok());
  server_.reset();
  EXPECT_EQ(Requests("Generate", "UNAVAILABLE"), 2);
  EXPECT_EQ(Rejected("loading"), 1);
  EXPECT_EQ(Rejected("draining"), 1);
}

TEST(CountRefusedTest, WhatHasNoReasonOfItsOwnIsOther) {
  metrics::Registry registry;
  CountRefused(registry, absl::InternalError("broken"));
  EXPECT_EQ(registry.GetCounter(metrics::kRequestsRejected, {"other"}).Value(), 1);
}

}  // namespace
}  // namespace latentd::server::generation
