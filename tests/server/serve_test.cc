// How the process ends, and what clients have heard by then: each case in a process of its own.
#include "server/serve.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "absl/synchronization/notification.h"
#include "core/base/process/stop_signals.h"
#include "core/engine/api/serving.h"
#include "server/process/logs/log.h"
#include "tests/server/running_server.h"
#include "tests/support/temporary_directory.h"

namespace latentd::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::AllOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFault[] = "the GPU's work: an illegal memory access was encountered";

// Fails as the engine does.
class FailingEngine : public FakeEngine {
 public:
  absl::Status Load() override { return load_ ? load_(*this) : absl::OkStatus(); }
  // The process goes on with its end once the test's client has seen enough.
  void Drain(absl::Time deadline) override {
    if (client_ != nullptr) client_->WaitForNotification();
    if (on_drain_) on_drain_(*this);
    FakeEngine::Drain(deadline);
  }

  void FailDevice() {
    engine::ServerStatus failed = status();
    if (failed.state != engine::State::kDraining) failed.state = engine::State::kFailed;
    failed.device_fault = kFault;
    set_status(failed);
  }

  // Set before it is served.
  std::function<absl::Status(FailingEngine&)> load_;
  std::function<void(FailingEngine&)> on_drain_;
  absl::Notification* client_ = nullptr;
};

config::Options OptionsFor(const std::string& directory) {
  latent::v1::ServerConfig config = config::DefaultConfig();
  config.set_listen(absl::StrCat("unix:", directory, "/latentd"));
  return *config::ToOptions(config);
}

// Serves until it ends. REQUIRES: a process of its own.
[[noreturn]] void ServeAndEnd(const config::Options& options,
                              std::unique_ptr<FailingEngine> engine) {
  process::SetUpLogging(latent::v1::TEXT, latent::v1::INFO);
  std::_Exit(Serve(options, "test", [&](const engine::Config&, const Clock&) {
    return absl::StatusOr<std::unique_ptr<engine::Engine>>(std::move(engine));
  }));
}

class Probe {
 public:
  Probe(grpc::health::v1::Health::Stub& health, const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    context_.set_wait_for_ready(true);
    reader_ = health.Watch(&context_, request);
  }
  std::string Next() {
    HealthCheckResponse response;
    return reader_->Read(&response) ? HealthCheckResponse::ServingStatus_Name(response.status())
                                    : "ended";
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader_;
};

class ServeTest : public RunningServer {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // Has a call run and health watched when the device fails, and writes what they are told.
  static void Call(const std::string& address, FailingEngine& engine) {
    const auto channel = ChannelTo(address);
    const auto health = grpc::health::v1::Health::NewStub(channel);
    Probe serving(*health, ""), alive(*health, "liveness");
    const std::string before = absl::StrCat(serving.Next(), " ", alive.Next());
    grpc::ClientContext context;
    const auto reader =
        latent::v1::ImageGeneration::NewStub(channel)->GenerateStream(&context, Request());
    engine.WaitForSpec();
    engine.FailDevice();
    engine.Send(engine::Failed{engine::DeviceFaultError()});
    latent::v1::GenerateEvent event;
    while (reader->Read(&event)) continue;
    const grpc::Status status = reader->Finish();
    const std::string after = absl::StrCat(serving.Next(), " ", alive.Next());
    // At once: the server logs to the same place.
    std::cerr << absl::StrCat(
        "health was ", before, ", then ", after, "; the call ended with ",
        static_cast<int>(status.error_code()), " ", ReasonOf(status), ", retry in ",
        DetailOf<google::rpc::RetryInfo>(status).retry_delay().seconds(), " s\n");
  }
  static void FailInTheMiddleOfACall() {
    BlockStopSignals();
    const testing::TemporaryDirectory directory;
    const config::Options options = OptionsFor(directory.path());
    auto engine = std::make_unique<FailingEngine>();
    absl::Notification told;
    engine->client_ = &told;
    std::thread client([&, raw = engine.get()] {
      Call(options.listen, *raw);
      told.Notify();
    });
    ServeAndEnd(options, std::move(engine));
  }

  static void FailWhileLoading() {
    BlockStopSignals();
    const testing::TemporaryDirectory directory;
    auto engine = std::make_unique<FailingEngine>();
    engine->load_ = [](FailingEngine& loading) {
      loading.FailDevice();
      return absl::InternalError("the caller's");
    };
    ServeAndEnd(OptionsFor(directory.path()), std::move(engine));
  }

  static void FailWhileDraining() {
    BlockStopSignals();
    const testing::TemporaryDirectory directory;
    auto engine = std::make_unique<FailingEngine>();
    engine->load_ = [](FailingEngine&) {
      kill(getpid(), SIGTERM);
      return absl::OkStatus();
    };
    engine->on_drain_ = [](FailingEngine& draining) {
      draining.set_state(engine::State::kDraining);
      draining.FailDevice();
    };
    ServeAndEnd(OptionsFor(directory.path()), std::move(engine));
  }

  static void Hang() {
    BlockStopSignals();
    const testing::TemporaryDirectory directory;
    const config::Options options = OptionsFor(directory.path());
    auto engine = std::make_unique<FailingEngine>();
    std::thread client([&, raw = engine.get()] {
      const auto health = grpc::health::v1::Health::NewStub(ChannelTo(options.listen));
      Probe alive(*health, "liveness");
      const std::string before = alive.Next();
      raw->set_hangs({.threads = {{"encoder", "encoding a picture"}}});
      std::cerr << absl::StrCat("liveness was ", before, ", then ", alive.Next(), "\n");
      kill(getpid(), SIGTERM);
    });
    ServeAndEnd(options, std::move(engine));
  }

  static void StartWithoutKeys() {
    BlockStopSignals();
    const testing::TemporaryDirectory directory;
    config::Options options = OptionsFor(directory.path());
    options.api_key_file = directory.File("missing-keys");
    process::SetUpLogging(latent::v1::TEXT, latent::v1::INFO);
    std::_Exit(Serve(options, "test", [](const engine::Config&, const Clock&) {
      std::cerr << "a model is read\n";
      return absl::StatusOr<std::unique_ptr<engine::Engine>>(std::make_unique<FailingEngine>());
    }));
  }

  static void FailToStart() {
    BlockStopSignals();
    const testing::TemporaryDirectory directory;
    auto engine = std::make_unique<FailingEngine>();
    engine->load_ = [](FailingEngine& loading) {
      loading.set_state(engine::State::kFailed);
      return absl::NotFoundError("no such checkpoint");
    };
    ServeAndEnd(OptionsFor(directory.path()), std::move(engine));
  }
};

TEST_F(ServeTest, ADeviceThatFailsEndsTheProcessOnceClientsAreTold) {
  EXPECT_EXIT(FailInTheMiddleOfACall(), ExitedWithCode(4),
              AllOf(HasSubstr("health was SERVING SERVING, then NOT_SERVING NOT_SERVING; the call "
                              "ended with 14 DEVICE_FAULT, retry in 1 s"),
                    HasSubstr("error the device has failed"), HasSubstr("supervisor"),
                    HasSubstr("exit_code=4"), HasSubstr(kFault)));
}

TEST_F(ServeTest, ADeviceThatFailsWhileLoadingEndsItWithTheSameCode) {
  EXPECT_EXIT(FailWhileLoading(), ExitedWithCode(4),
              AllOf(HasSubstr("exit_code=4"), HasSubstr(kFault), Not(HasSubstr("the caller's"))));
}

TEST_F(ServeTest, ADeviceThatFailsWhileDrainingDoesToo) {
  EXPECT_EXIT(FailWhileDraining(), ExitedWithCode(4),
              AllOf(HasSubstr("cause=SIGTERM"), HasSubstr("exit_code=4"), HasSubstr(kFault)));
}

TEST_F(ServeTest, WhatHangsIsToldByTheLogAndToWhoWatchesLiveness) {
  EXPECT_EXIT(Hang(), ExitedWithCode(0),
              AllOf(HasSubstr("error a thread hangs: liveness is NOT_SERVING thread=encoder"),
                    HasSubstr("liveness was SERVING, then NOT_SERVING")));
}

TEST_F(ServeTest, KeysThatCannotBeUsedEndItBeforeAModelIsRead) {
  EXPECT_EXIT(StartWithoutKeys(), ExitedWithCode(1),
              AllOf(HasSubstr("missing-keys"), Not(HasSubstr("a model is read"))));
}

TEST_F(ServeTest, AnotherFailureToStartHasAnotherCode) {
  EXPECT_EXIT(FailToStart(), ExitedWithCode(1), HasSubstr("no such checkpoint"));
}

}  // namespace
}  // namespace latentd::server
