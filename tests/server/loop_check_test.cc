// Consequences of the state of the engine's loop: liveness, and clients that read slowly.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "tests/server/running_server.h"

namespace latentd::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;
using ::testing::Not;

const engine::OverdueUnit kHang = {.request_id = "request-1",
                                   .image_index = 3,
                                   .stage = engine::Stage::kSteps,
                                   .model = "base",
                                   .executed_size = {640, 512},
                                   .running = absl::Seconds(95),
                                   .limit = absl::Seconds(60)};

const OverdueThread kHungEncoder = {.name = "encoder",
                                    .activity = "encoding a picture",
                                    .running = absl::Seconds(95),
                                    .limit = absl::Seconds(60)};

class LoopCheckTest : public RunningServer {
 protected:
  ~LoopCheckTest() override { spdlog::set_default_logger(logger_); }

  int Health(const std::string& service) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    EXPECT_TRUE(health_->Check(&context, request, &response).ok());
    return response.status();
  }
  double MainThreadGauge() {
    return engine_.metrics().GetGauge(metrics::kThreadOverdue, {"main"}).Value();
  }
  void KeepLog() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
  }

  std::ostringstream log_;
  const std::shared_ptr<spdlog::logger> logger_ = spdlog::default_logger();
};

TEST_F(LoopCheckTest, LivenessIsNotServingWhileAUnitHangs) {
  EXPECT_EQ(Health("liveness"), HealthCheckResponse::SERVING);
  engine_.set_hangs({.unit = kHang});
  EXPECT_EQ(Health("liveness"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health(""), HealthCheckResponse::SERVING);
  engine_.set_hangs({});
  EXPECT_EQ(Health("liveness"), HealthCheckResponse::SERVING);
}

TEST_F(LoopCheckTest, LivenessIsNotServingWhileAThreadOfTheEngineHangs) {
  engine_.set_hangs({.threads = {kHungEncoder}});
  EXPECT_EQ(Health("liveness"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health(""), HealthCheckResponse::SERVING);
  engine_.set_hangs({});
  EXPECT_EQ(Health("liveness"), HealthCheckResponse::SERVING);
}

TEST_F(LoopCheckTest, LivenessIsNotServingWhileTheMainThreadHangs) {
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(Health("liveness"), HealthCheckResponse::SERVING);
  {
    const ThreadWatch::Activity ticks(server_->main_watch(), "looking after the server");
    clock_.Advance(ThreadWatch::kLimit);
    EXPECT_EQ(Health("liveness"), HealthCheckResponse::NOT_SERVING);
    server_->CheckHangs();
    EXPECT_EQ(MainThreadGauge(), 1);
  }
  EXPECT_EQ(Health("liveness"), HealthCheckResponse::SERVING);
  server_->CheckHangs();
  EXPECT_EQ(MainThreadGauge(), 0);
}

TEST_F(LoopCheckTest, LivenessIsNotServingOnceTheDeviceHasFailed) {
  engine_.set_status({.state = engine::State::kFailed, .device_fault = "it fell off the bus"});
  EXPECT_EQ(Health("liveness"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health(""), HealthCheckResponse::NOT_SERVING);
  engine_.set_hangs({.unit = kHang});
  EXPECT_EQ(Health("liveness"), HealthCheckResponse::NOT_SERVING);
  engine_.set_hangs({});
  EXPECT_EQ(Health("liveness"), HealthCheckResponse::NOT_SERVING);
}

TEST_F(LoopCheckTest, WhoWatchesLivenessIsTold) {
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service("liveness");
  const auto reader = health_->Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  engine_.set_hangs({.unit = kHang});
  server_->CheckHangs();
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
}

TEST_F(LoopCheckTest, TheLogNamesTheUnitOnce) {
  KeepLog();
  engine_.set_hangs({.unit = kHang});
  server_->CheckHangs();
  const std::string first = log_.str();
  EXPECT_THAT(first, HasSubstr("error"));
  EXPECT_THAT(first, HasSubstr("id=request-1 image=3 stage=STAGE_STEPS model=base size=640x512"));
  EXPECT_THAT(first, HasSubstr("running_seconds=95"));
  EXPECT_THAT(first, HasSubstr("limit_seconds=60"));
  server_->CheckHangs();
  EXPECT_EQ(log_.str(), first);
  engine_.set_hangs({});
  server_->CheckHangs();
  EXPECT_THAT(log_.str().substr(first.size()), HasSubstr("nothing hangs any more"));
}

TEST_F(LoopCheckTest, TheLogNamesEachThreadOnce) {
  KeepLog();
  engine_.set_hangs({.threads = {kHungEncoder}});
  server_->CheckHangs();
  const std::string first = log_.str();
  EXPECT_THAT(first, HasSubstr("error"));
  EXPECT_THAT(first, HasSubstr("thread=encoder activity=\"encoding a picture\""));
  EXPECT_THAT(first, HasSubstr("running_seconds=95"));
  EXPECT_THAT(first, HasSubstr("limit_seconds=60"));
  engine_.set_hangs({.unit = kHang, .threads = {kHungEncoder}});
  server_->CheckHangs();
  const std::string second = log_.str().substr(first.size());
  EXPECT_THAT(second, HasSubstr("a unit of work hangs"));
  EXPECT_THAT(second, Not(HasSubstr("encoder")));
  engine_.set_hangs({.threads = {kHungEncoder}});
  server_->CheckHangs();
  EXPECT_EQ(log_.str(), first + second);
}

TEST_F(LoopCheckTest, ASlowReaderIsCancelledOnlyWhenOthersWaitForItsMemory) {
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Request());
  // More than the connection's buffers take.
  engine_.Send(engine::Image{.index = 0, .bytes = std::string(64 << 20, 'p')});
  latent::v1::GenerateEvent event;
  // It takes a message now and then, which is enough as long as there is room.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(reader->Read(&event));
    clock_.Advance(generation::kStallLimit - absl::Seconds(1));
    server_->MakeRoom();
    EXPECT_GT(server_->held_bytes(), 0);
  }
  engine_.set_waits_for_readers();
  server_->MakeRoom();
  engine_.WaitUntilCancelled();
  EXPECT_EQ(server_->held_bytes(), 0);
}

TEST_F(LoopCheckTest, APictureHasTheStallLimitToBeReadWhileOthersWait) {
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Request());
  engine_.Send(engine::Image{.index = 0, .bytes = std::string(64 << 20, 'p')});
  engine_.set_waits_for_readers();
  clock_.Advance(generation::kStallLimit - absl::Seconds(1));
  server_->MakeRoom();
  EXPECT_GT(server_->held_bytes(), 0);
  clock_.Advance(absl::Seconds(1));
  server_->MakeRoom();
  engine_.WaitUntilCancelled();
}

}  // namespace
}  // namespace latentd::server
