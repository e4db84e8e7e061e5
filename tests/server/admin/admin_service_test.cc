// latent.v1.Admin over a real connection.
#include "server/admin/admin_service.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <signal.h>
#include <unistd.h>

#include <optional>

#include "core/base/process/stop_signals.h"
#include "server/process/lifetime/signals.h"
#include "server/process/logs/log.h"
#include "tests/server/running_server.h"

namespace latentd::server::admin {
namespace {

namespace v1 = ::latent::v1;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AdminServiceTest : public RunningServer {
 protected:
  void SetUp() override {
    engine_.set_status(Warming(0));
    Start({.request_stop = [this](std::optional<absl::Duration> timeout) {
      stops_.push_back(timeout);
    }});
  }

  static engine::ServerStatus Warming(int done) {
    engine::ServerStatus status = {.state = engine::State::kWarming};
    status.reason = "base unet step 256x256 rows 2";
    status.graphs_done = done;
    status.graphs_total = 100;
    status.buckets = {{.size = {256, 256}, .ready = true},
                      {.size = {320, 192}, .reason = "no memory"}};
    status.started = absl::FromUnixSeconds(1000);
    status.ready = absl::InfiniteFuture();
    return status;
  }

  grpc::Status Drain(const v1::DrainRequest& request) {
    grpc::ClientContext context;
    v1::DrainResponse response;
    return admin_->Drain(&context, request, &response);
  }

  grpc::Status SetLogLevel(v1::LogLevel level, v1::LogLevel* previous = nullptr) {
    grpc::ClientContext context;
    v1::SetLogLevelRequest request;
    request.set_level(level);
    v1::SetLogLevelResponse response;
    const grpc::Status status = admin_->SetLogLevel(&context, request, &response);
    if (previous != nullptr) *previous = response.previous();
    return status;
  }

  std::vector<std::optional<absl::Duration>> stops_;
};

TEST_F(AdminServiceTest, TheStatusIsTheEnginesWithTheServersVersion) {
  grpc::ClientContext context;
  v1::ServerStatus status;
  ASSERT_TRUE(admin_->GetServerStatus(&context, {}, &status).ok());
  EXPECT_EQ(status.ShortDebugString(),
            "state: SERVER_STATE_WARMING reason: \"base unet step 256x256 rows 2\" "
            "graphs_total: 100 buckets { size { width: 256 height: 256 } ready: true } "
            "buckets { size { width: 320 height: 192 } reason: \"no memory\" } "
            "started { seconds: 1000 } version: \"test\"");
}

TEST_F(AdminServiceTest, EachOfSeveralDevicesIsToldWithItsFault) {
  engine::ServerStatus degraded = Warming(100);
  degraded.state = engine::State::kDegraded;
  degraded.devices = {
      {.name = "device 0", .state = engine::State::kReady},
      {.name = "device 1", .fault = "gone", .state = engine::State::kFailed, .reason = "why"}};
  engine_.set_status(degraded);
  grpc::ClientContext context;
  v1::ServerStatus status;
  ASSERT_TRUE(admin_->GetServerStatus(&context, {}, &status).ok());
  ASSERT_EQ(status.devices_size(), 2);
  EXPECT_EQ(status.devices(0).ShortDebugString(), "name: \"device 0\" state: SERVER_STATE_READY");
  EXPECT_EQ(status.devices(1).ShortDebugString(),
            "name: \"device 1\" state: SERVER_STATE_FAILED reason: \"why\" fault: \"gone\"");
}

TEST_F(AdminServiceTest, TheTimeOfBeingReadyIsTold) {
  engine::ServerStatus ready = Warming(100);
  ready.state = engine::State::kReady;
  ready.ready = absl::FromUnixSeconds(1007);
  engine_.set_status(ready);
  grpc::ClientContext context;
  v1::ServerStatus status;
  ASSERT_TRUE(admin_->GetServerStatus(&context, {}, &status).ok());
  EXPECT_EQ(status.state(), v1::SERVER_STATE_READY);
  EXPECT_EQ(status.ready().seconds(), 1007);
}

TEST_F(AdminServiceTest, AWatchTellsTheStatusAndItsChanges) {
  grpc::ClientContext context;
  const auto reader = admin_->WatchServerStatus(&context, {});
  v1::ServerStatus status;
  ASSERT_TRUE(reader->Read(&status));
  EXPECT_EQ(status.graphs_done(), 0);
  engine_.set_status(Warming(1));
  engine_.set_status(Warming(1));  // is nothing new
  ASSERT_TRUE(reader->Read(&status));
  EXPECT_EQ(status.graphs_done(), 1);
  engine_.set_state(engine::State::kReady);
  ASSERT_TRUE(reader->Read(&status));
  EXPECT_EQ(status.state(), v1::SERVER_STATE_READY);
  server_->Drain(absl::ZeroDuration());
  ASSERT_TRUE(reader->Read(&status));
  EXPECT_EQ(status.state(), v1::SERVER_STATE_DRAINING);
  EXPECT_FALSE(reader->Read(&status));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(AdminServiceTest, AClientThatReadsSlowlyGetsTheNewestStatus) {
  grpc::ClientContext context;
  const auto reader = admin_->WatchServerStatus(&context, {});
  v1::ServerStatus status;
  ASSERT_TRUE(reader->Read(&status));
  // Larger than the connection's buffers, all together.
  engine::ServerStatus large = Warming(0);
  large.reason = std::string(1 << 20, 'r');
  constexpr int kChanges = 100;
  for (large.graphs_done = 1; large.graphs_done <= kChanges; ++large.graphs_done) {
    engine_.set_status(large);
  }
  int messages = 0;
  for (; status.graphs_done() < kChanges; ++messages) ASSERT_TRUE(reader->Read(&status));
  EXPECT_LT(messages, kChanges);
}

TEST_F(AdminServiceTest, TheMemoryReportIsTheEnginesAndSaysWhatClientsHold) {
  GrpcServer::Options options;
  options.received_bytes = 300;
  options.max_request_bytes = 200;
  server_.reset();
  Start(options);

  engine::MemoryReport& report = engine_.report();
  report.weights = {{"", "text_encoder_2", 10, 4, {"base", "refiner"}}};
  report.weight_bytes = 1;
  report.mapped_bytes = 2;
  report.kept_tensor_bytes = 17;
  report.arena_bytes = 3;
  report.state_bytes = 4;
  report.result_bytes = 13;
  report.executable_bytes = 5;
  report.artifact_bytes = 6;
  report.allocator_bytes = 7;
  report.allocator_free_bytes = 8;
  report.resident_bytes = 9;
  report.peak_resident_bytes = 10;
  report.budget_bytes = 11;
  report.available_bytes = 12;
  report.definition_bytes = 13;
  report.waiting_image_bytes = 14;
  report.predicted = {.weights = 1, .arena = 2, .state = 3, .executables = 4};
  report.devices.push_back({.name = "a GPU",
                            .total_bytes = 20,
                            .free_bytes = 21,
                            .held_bytes = 22,
                            .idle_bytes = 23,
                            .other_bytes = 24});
  report.pinned_bytes = 15;
  report.host_available_bytes = 16;
  grpc::ClientContext context;
  v1::MemoryReport proto;
  ASSERT_TRUE(admin_->GetMemoryReport(&context, {}, &proto).ok());
  EXPECT_EQ(
      proto.ShortDebugString(),
      "weights { component: \"text_encoder_2\" bytes: 10 shared_bytes: 4 users: \"base\" "
      "users: \"refiner\" } weights_bytes: 1 mapped_bytes: 2 arena_bytes: 3 state_bytes: 4 "
      "executables_bytes: 5 artifacts_bytes: 6 allocator_bytes: 7 allocator_free_bytes: 8 "
      "resident_bytes: 9 peak_resident_bytes: 10 budget_bytes: 11 available_bytes: 12 "
      "predicted { weights_bytes: 1 arena_bytes: 2 state_bytes: 3 executables_bytes: 4 "
      "total_bytes: 10 } results_bytes: 13 graph_definitions_bytes: 13 "
      "waiting_images_bytes: 14 devices { name: \"a GPU\" total_bytes: 20 free_bytes: 21 "
      "held_bytes: 22 idle_bytes: 23 other_bytes: 24 } pinned_bytes: 15 host_available_bytes: 16 "
      "clients { kind: \"received_requests\" limit_bytes: 300 } "
      "clients { kind: \"read_requests\" limit_bytes: 200 } "
      "clients { kind: \"decoded_images\" } clients { kind: \"video_encoders\" } "
      "clients { kind: \"log\" limit_bytes: 4194304 } kept_tensors_bytes: 17");
}

TEST_F(AdminServiceTest, WithoutMemoryOfItsOwnThereIsNoDeviceInTheReport) {
  grpc::ClientContext context;
  v1::MemoryReport proto;
  ASSERT_TRUE(admin_->GetMemoryReport(&context, {}, &proto).ok());
  EXPECT_EQ(proto.devices_size(), 0);
}

TEST_F(AdminServiceTest, DrainAsksForTheStop) {
  EXPECT_TRUE(Drain({}).ok());
  v1::DrainRequest request;
  request.mutable_timeout()->set_seconds(2);
  request.mutable_timeout()->set_nanos(500'000'000);
  EXPECT_TRUE(Drain(request).ok());
  EXPECT_THAT(stops_, ElementsAre(std::nullopt, absl::Milliseconds(2500)));
}

TEST_F(AdminServiceTest, DrainNeedsATimeoutOfAtMostADay) {
  for (const auto& [seconds, nanos] : std::vector<std::pair<int64_t, int32_t>>{
           {-1, 0}, {86401, 0}, {1, -1}, {0, 2'000'000'000}, {int64_t{1} << 62, 0}}) {
    v1::DrainRequest request;
    request.mutable_timeout()->set_seconds(seconds);
    request.mutable_timeout()->set_nanos(nanos);
    const grpc::Status status = Drain(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << seconds << " " << nanos;
    EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations(0).field(), "timeout");
  }
  EXPECT_THAT(stops_, IsEmpty());
}

TEST_F(AdminServiceTest, TheLogLevelIsSetAndTheOneBeforeTold) {
  v1::LogLevel before = v1::LOG_LEVEL_UNSPECIFIED, previous = v1::LOG_LEVEL_UNSPECIFIED;
  ASSERT_TRUE(SetLogLevel(v1::ERROR, &before).ok());
  EXPECT_EQ(before, v1::INFO);
  ASSERT_TRUE(SetLogLevel(v1::DEBUG, &previous).ok());
  EXPECT_EQ(previous, v1::ERROR);
  ASSERT_TRUE(SetLogLevel(before, &previous).ok());
  EXPECT_EQ(previous, v1::DEBUG);
}

TEST_F(AdminServiceTest, ALogLevelThatIsNoneIsRefused) {
  for (const v1::LogLevel level : {v1::LOG_LEVEL_UNSPECIFIED, static_cast<v1::LogLevel>(17)}) {
    const grpc::Status status = SetLogLevel(level);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations(0).field(), "level");
  }
}

TEST(StopSignalsTest, TheFirstRequestSaysHowLongDrainingMayTake) {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  BlockStopSignals();
  {
    process::StopSignals signals;
    EXPECT_FALSE(signals.WaitForStop(absl::ZeroDuration()));
    signals.RequestStop("first", absl::Seconds(5));
    signals.RequestStop("second");
    EXPECT_TRUE(signals.WaitForStop(absl::ZeroDuration()));
    EXPECT_EQ(signals.drain_timeout(), absl::Seconds(5));
    EXPECT_EQ(signals.cause(), "first");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// In a process of its own: sends itself signals, and returns when a stop was requested.
void Receive(std::initializer_list<int> sent, bool drain_first) {
  BlockStopSignals();
  process::StopSignals signals;
  if (drain_first) signals.DrainFirst();
  for (const int signal : sent) {
    kill(getpid(), signal);
    if (!signals.WaitForStop(absl::InfiniteDuration())) std::_Exit(1);
  }
  if (sent.size() > 1) pause();  // the last of them is on its way
  std::_Exit(0);
}

TEST(StopSignalsDeathTest, ASignalEndsWhatDoesNotServeYet) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(Receive({SIGTERM}, false), ::testing::ExitedWithCode(143), "");
  EXPECT_EXIT(Receive({SIGINT}, false), ::testing::ExitedWithCode(130), "");
}

TEST(StopSignalsDeathTest, ASecondSignalEndsWhatDrains) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(Receive({SIGTERM}, true), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(Receive({SIGTERM, SIGINT}, true), ::testing::ExitedWithCode(130), "");
  EXPECT_EXIT(Receive({SIGINT, SIGTERM}, true), ::testing::ExitedWithCode(143), "");
}

}  // namespace
}  // namespace latentd::server::admin
