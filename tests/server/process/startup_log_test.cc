#include "server/process/logs/startup_log.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "core/metrics/families.h"
#include "tests/support/fake_clock.h"

namespace latentd::server::process {
namespace {

namespace v1 = ::latent::v1;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StartupLogTest : public ::testing::Test {
 protected:
  static engine::ServerStatus Status(engine::State state, int done, bool first, bool second) {
    engine::ServerStatus status = {.state = state};
    if (state != engine::State::kReady) status.reason = "the reason";
    status.graphs_done = done;
    status.graphs_total = 20;
    status.buckets = {{.size = {256, 256}, .ready = first},
                      {.size = {320, 192}, .ready = second, .reason = "no memory"}};
    return status;
  }

  std::vector<std::string> Note(const engine::ServerStatus& status) {
    lines_.clear();
    log_.Note(status);
    return lines_;
  }

  testing::FakeClock clock_;
  metrics::Registry registry_;
  std::vector<std::string> lines_;
  StartupLog log_{
      clock_, registry_,
      [this](v1::LogLevel level, absl::string_view message, const LogFields& fields) {
        lines_.push_back(absl::StrCat(v1::LogLevel_Name(level), " ", FormatText(message, fields)));
      }};
};

TEST_F(StartupLogTest, EachGraphIsForDebuggingAndEveryTenthAndEachBucketForAll) {
  constexpr auto kWarming = engine::State::kWarming;
  EXPECT_THAT(Note({}), IsEmpty());
  EXPECT_THAT(Note(Status(kWarming, 1, false, false)),
              ElementsAre("DEBUG warming graphs=1/20 last=\"the reason\""));
  EXPECT_THAT(Note(Status(kWarming, 2, false, false)),
              ElementsAre("INFO warming graphs=2/20 last=\"the reason\" buckets=0/2"));
  EXPECT_THAT(Note(Status(kWarming, 2, false, false)), IsEmpty());
  EXPECT_THAT(Note(Status(kWarming, 3, true, false)),
              ElementsAre("INFO warming graphs=3/20 last=\"the reason\" buckets=1/2"));
}

TEST_F(StartupLogTest, ReadyTellsHowLongItTookAndWhatWasDone) {
  registry_.GetCounter(metrics::kGraphCompilations, {"base", "unet", "startup"}).Increment(3);
  registry_.GetCounter(metrics::kGraphCompilations, {"base", "vae_decoder", "warm"}).Increment(1);
  for (const char* source : {"compile", "disk_load", "memory_load"}) {
    registry_.GetHistogram(metrics::kGraphReadySeconds, {"base", "unet", source}).Observe(1);
  }
  clock_.Advance(absl::Milliseconds(1250));
  EXPECT_THAT(Note(Status(engine::State::kReady, 20, true, true)),
              ElementsAre("INFO ready seconds=1.25 compiled=4 loaded=2"));
  EXPECT_THAT(Note(Status(engine::State::kReady, 20, true, true)), IsEmpty());
}

TEST_F(StartupLogTest, ReadyTellsWhatIsRefusedAllTheSame) {
  engine::ServerStatus status = Status(engine::State::kReady, 20, true, true);
  status.reason = "unet_base is off";
  EXPECT_THAT(
      Note(status),
      ElementsAre("INFO ready seconds=0.0 compiled=0 loaded=0 reason=\"unet_base is off\""));
}

TEST_F(StartupLogTest, WhatFollowsTheStartIsToldOnce) {
  engine::ServerStatus status = Status(engine::State::kReady, 20, true, true);
  Note(status);
  clock_.Advance(absl::Milliseconds(2500));
  status.shared_steps = {.ready = 5, .total = 6};
  EXPECT_THAT(Note(status), ElementsAre("INFO row counts above 2 ready=5/6 seconds=2.5"));
  EXPECT_THAT(Note(status), IsEmpty());
}

// The server itself tells of the last one, with which it ends.
TEST_F(StartupLogTest, EachOfSeveralDevicesThatFailsIsAnErrorOnce) {
  engine::ServerStatus status = Status(engine::State::kDegraded, 20, true, true);
  Note(status);
  status.devices = {{.name = "device 0"}, {.name = "device 1"}, {.name = "device 2"}};
  EXPECT_THAT(Note(status), IsEmpty());
  status.devices[1].fault = "an illegal address";
  EXPECT_THAT(Note(status),
              ElementsAre("ERROR a device has failed and works no more in this process; the others "
                          "go on without it device=\"device 1\" fault=\"an illegal address\""));
  EXPECT_THAT(Note(status), IsEmpty());
  status.devices[0].fault = "another";
  EXPECT_THAT(Note(status), SizeIs(1));
  status.devices[2].fault = status.device_fault = "the last";
  EXPECT_THAT(Note(status), IsEmpty());
}

TEST_F(StartupLogTest, ColdBucketsAreWarnedOf) {
  EXPECT_THAT(
      Note(Status(engine::State::kDegraded, 19, true, false)),
      ElementsAre("WARNING cold bucket bucket=320x192 reason=\"no memory\"",
                  "WARNING degraded seconds=0.0 compiled=0 loaded=0 reason=\"the reason\""));
  EXPECT_THAT(Note(Status(engine::State::kReady, 20, true, true)),
              ElementsAre("INFO ready seconds=0.0 compiled=0 loaded=0"));
}

}  // namespace
}  // namespace latentd::server::process
