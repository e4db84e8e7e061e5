// An engine of two devices of which one fails: it takes what it draws with it, and the other goes
// on.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/base/errors/error_details.h"
#include "core/device/device_fault.h"
#include "core/engine/api/serving.h"
#include "tests/core/engine/several_devices.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::TemporaryDirectory;
using ::testing::AllOf;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class LostDeviceTest : public SeveralDevicesTest {
 protected:
  // Nothing runs or is planned behind the start, so that tests may change what they let fail.
  void MakeAllReady(const Config& config = SmallConfig()) {
    ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
    engine_->FinishPreparing();
  }
  // The device fails, in a run of a request that ends with that.
  void FailFree(size_t device) {
    devices_[device].on_run.work = [] { return device::FaultError("the test's fault"); };
    const auto failed = Only<Failed>(RunOn(*engine_, SmallSpec()));
    ASSERT_THAT(failed, SizeIs(1));
    EXPECT_TRUE(absl::IsUnavailable(failed[0].status)) << failed[0].status;
    EXPECT_EQ(GetReason(failed[0].status), "DEVICE_FAULT");
    EXPECT_TRUE(GetRetryDelay(failed[0].status).has_value());
  }
  // The last of it is that the queue is shorter.
  void WaitUntilRetired() {
    const int left = SmallConfig().queue_capacity;
    while (Count(metrics::kQueueCapacity) != left) std::this_thread::yield();
  }
  // The thread that prepares its graphs finds out that the device has failed. The other's is to
  // come through.
  void FailToWarm(size_t device) {
    devices_[device].plan = [](const graph::Graph&) {
      return device::FaultError("the test's fault");
    };
    const auto go_on = [](const WarmProgress&) { return true; };
    engine_->graphs()
        .Warm({.buckets = {{96, 64}}}, /*dry_run=*/false, go_on)
        .status()
        .IgnoreError();
  }
  void ExpectEndsWithTheFault(const Request& request) {
    const auto failed = Only<Failed>(request.sink->WaitForEnd());
    ASSERT_THAT(failed, SizeIs(1));
    EXPECT_EQ(GetReason(failed[0].status), "DEVICE_FAULT");
  }
};

TEST_F(LostDeviceTest, AFaultOfOneEndsWhatItDrawsAndTheOtherGoesOn) {
  ASSERT_NO_FATAL_FAILURE(MakeAllReady());
  Request first;
  const size_t busy = HoldOne(first);
  const size_t lost = 1 - busy;
  const std::string name = absl::StrCat("device ", lost);
  FailFree(lost);
  const ServerStatus status = engine_->status();
  EXPECT_EQ(status.state, State::kDegraded);
  EXPECT_EQ(status.reason, absl::StrCat(name, " has failed: the test's fault"));
  EXPECT_EQ(status.device_fault, "");
  EXPECT_TRUE(CanServe(status));
  EXPECT_THAT(status.devices[lost], AllOf(Field(&ServerStatus::Device::name, name),
                                          Field(&ServerStatus::Device::fault, "the test's fault")));
  WaitUntilRetired();
  EXPECT_EQ(Count(metrics::kDeviceFaulted, absl::StrCat(lost)), 1);
  EXPECT_EQ(Count(metrics::kDeviceFaulted), 1);
  devices_[busy].gate.Open();
  EXPECT_THAT(Only<Completed>(first.sink->WaitForEnd()), SizeIs(1));
  EXPECT_THAT(Only<Completed>(RunOn(*engine_, SmallSpec())), SizeIs(1));
  ExpectCountsAddUp();
}

// A thread that hears of it may let go of what the device had, which would ask its driver.
TEST_F(LostDeviceTest, ADeviceIsGivenUpBeforeItsFaultIsTold) {
  ASSERT_NO_FATAL_FAILURE(MakeAllReady());
  const auto told_before = std::make_shared<std::atomic<int>>(0);
  engine_->OnStatusChange([this, told_before](const ServerStatus& status) {
    for (size_t i = 0; i < status.devices.size(); ++i) {
      const bool is_told = !status.devices[i].fault.empty();
      if (is_told && !devices_[i].given_up) ++*told_before;
    }
  });
  Request first;
  const size_t busy = HoldOne(first);
  FailFree(1 - busy);
  EXPECT_EQ(*told_before, 0);
  EXPECT_TRUE(devices_[1 - busy].given_up);
  EXPECT_FALSE(devices_[busy].given_up);
}

// Its thread does not come back from the driver.
TEST_F(LostDeviceTest, WhatADeviceThatHangsHasBegunEndsWithItsFault) {
  ASSERT_NO_FATAL_FAILURE(Make(SmallConfig(), clock_));
  ASSERT_OK(engine_->Load());
  engine_->FinishPreparing();
  Request held;
  const size_t lost = HoldOne(held);
  clock_.Advance(UnitWatchdog::kFirstLimit);
  EXPECT_TRUE(engine_->FindHangs().unit.has_value());
  FailToWarm(lost);
  ExpectEndsWithTheFault(held);
  EXPECT_FALSE(engine_->FindHangs().unit.has_value());
  EXPECT_THAT(Only<Completed>(RunOn(*engine_, SmallSpec())), SizeIs(1));
  ExpectCountsAddUp();
}

TEST_F(LostDeviceTest, ALoopThatHangsIsNoneOfTheServerOnceItsDeviceHasFailed) {
  ASSERT_NO_FATAL_FAILURE(Make(SmallConfig(), clock_));
  ASSERT_OK(engine_->Load());
  engine_->FinishPreparing();
  Request first;
  const size_t busy = HoldOne(first);
  absl::Notification hangs, go_on;
  Request second;
  second.sink = std::make_shared<WatchedSink>([&](const Event& event) {
    if (!std::holds_alternative<Started>(event)) return;
    hangs.Notify();
    go_on.WaitForNotification();
  });
  ASSERT_OK(engine_->Submit(SmallSpec(), second.sink));
  hangs.WaitForNotification();
  clock_.Advance(ThreadWatch::kLimit);
  EXPECT_THAT(engine_->FindHangs().threads, SizeIs(1));
  devices_[busy].gate.Open();
  first.sink->WaitForEnd();
  FailToWarm(1 - busy);
  EXPECT_THAT(engine_->FindHangs().threads, IsEmpty());
  go_on.Notify();
  ExpectEndsWithTheFault(second);
  engine_.reset();  // before what its threads look at
}

TEST_F(LostDeviceTest, WhatWaitsForADeviceThatFailsGoesToTheOther) {
  ASSERT_NO_FATAL_FAILURE(MakeAllReady());
  const auto [first, second] = HoldBoth();
  const Request third = Submit(), fourth = Submit();
  devices_[1].on_run.work = [] { return device::FaultError("the test's fault"); };
  devices_[1].gate.Open();
  WaitUntilRetired();
  devices_[0].gate.Open();
  for (const Request& waited : {third, fourth}) {
    EXPECT_THAT(Only<Completed>(waited.sink->WaitForEnd()), SizeIs(1));
  }
  first.sink->WaitForEnd();
  second.sink->WaitForEnd();
  EXPECT_EQ(Count(metrics::kRequestsFinished, "completed"), 3);
  ExpectCountsAddUp();
}

// Its driver may wait for ever.
TEST_F(LostDeviceTest, ADeviceThatHasFailedIsAskedForNothing) {
  TemporaryDirectory directory;
  Config config = SmallConfig();
  config.cache_dir = directory.File("cache");
  ASSERT_NO_FATAL_FAILURE(MakeAllReady(config));
  const int64_t weights = engine_->memory().weight_bytes;
  Request first;
  const size_t busy = HoldOne(first), lost = 1 - busy;
  FailFree(lost);
  WaitUntilRetired();
  devices_[busy].gate.Open();
  first.sink->WaitForEnd();
  while (devices_[busy].runs == 0 || Count(metrics::kRequestsInFlight) > 0) {
    std::this_thread::yield();
  }
  engine_->FinishPreparing();
  devices_[lost].plan = [](const graph::Graph&) { return absl::InternalError("planned"); };
  const int calls = devices_[lost].device.calls, runs = devices_[lost].runs;
  EXPECT_THAT(Only<Completed>(RunOn(*engine_, SmallSpec())), SizeIs(1));
  engine_->RefreshMetrics();
  engine_->CheckFiles();
  engine_->GiveBackMemory();
  GraphAdmin& graphs = engine_->graphs();
  EXPECT_EQ(engine_->memory().weight_bytes, weights / 2);
  EXPECT_EQ(Count(metrics::kDeviceMemoryHeld, absl::StrCat(lost)), 0);
  EXPECT_GT(Count(metrics::kDeviceMemoryHeld, absl::StrCat(busy)), 0);
  EXPECT_EQ(Count(metrics::kMemoryBytes, "weights"), weights / 2);
  ASSERT_OK_AND_ASSIGN(
      const WarmOutcome warmed,
      graphs.Warm({.buckets = {{96, 64}}}, /*dry_run=*/false, [](const WarmProgress& progress) {
        EXPECT_EQ(progress.entry.status, absl::OkStatus());
        return true;
      }));
  EXPECT_GT(warmed.compiled, 0);
  ASSERT_OK(graphs.Load({.all = true}));
  ASSERT_OK(graphs.Verify({.all = true}));
  ASSERT_OK(graphs.Evict({.buckets = {{96, 64}}}, CacheTier::kBoth, /*force=*/true));
  ASSERT_OK(engine_->models().List());
  EXPECT_EQ(engine_->capabilities().queue_capacity, SmallConfig().queue_capacity);
  EXPECT_THAT(engine_->Validate(SmallSpec()), IsEmpty());
  EXPECT_EQ(devices_[lost].device.calls, calls);
  EXPECT_EQ(devices_[lost].runs, runs);
}

TEST_F(LostDeviceTest, AColdRequestThatADeviceWithAFaultPreparesGoesToTheOther) {
  Config config = SmallConfig();
  config.allow_cold_requests = true;
  ASSERT_NO_FATAL_FAILURE(MakeAllReady(config));
  std::pair<Request, Request> held;
  HoldOn(0, held);
  devices_[1].plan = [](const graph::Graph&) { return device::FaultError("the test's fault"); };
  const Request cold = Submit(SpecOf({72, 64}, pipeline::BucketPolicy::kColdOk));
  WaitUntilRetired();
  devices_[0].gate.Open();
  EXPECT_THAT(Only<Completed>(cold.sink->WaitForEnd()), SizeIs(1));
  held.first.sink->WaitForEnd();
  held.second.sink->WaitForEnd();
  EXPECT_EQ(engine_->state(), State::kDegraded);
  ExpectCountsAddUp();
}

TEST_F(LostDeviceTest, TheFaultOfTheLastDeviceEndsServing) {
  ASSERT_NO_FATAL_FAILURE(MakeAllReady());
  Request first;
  const size_t busy = HoldOne(first);
  FailFree(1 - busy);
  devices_[busy].on_run.work = [] { return device::FaultError("the last fault"); };
  devices_[busy].gate.Open();
  ExpectEndsWithTheFault(first);
  EXPECT_EQ(engine_->state(), State::kFailed);
  const std::string fault = busy == 0 ? "the last fault" : "the test's fault";
  const std::string other = busy == 0 ? "the test's fault" : "the last fault";
  EXPECT_EQ(engine_->status().device_fault,
            absl::StrCat("device 0: ", fault, "; device 1: ", other));
  EXPECT_FALSE(devices_[busy].given_up);  // the process ends
  const absl::Status refused = SubmitTo(*engine_, SmallSpec());
  EXPECT_EQ(GetReason(refused), "DEVICE_FAULT");
  EXPECT_THAT(refused.message(), HasSubstr("started again"));
}

TEST_F(LostDeviceTest, ADeviceThatFailsWhileItLoadsIsDoneWithout) {
  devices_[0].plan = [](const graph::Graph&) { return device::FaultError("the test's fault"); };
  ASSERT_NO_FATAL_FAILURE(Make());
  ASSERT_OK(engine_->Load());
  EXPECT_EQ(engine_->state(), State::kDegraded);
  EXPECT_EQ(engine_->status().reason, "device 0 has failed: the test's fault");
  EXPECT_THAT(Only<Completed>(RunOn(*engine_, SmallSpec())), SizeIs(1));
  EXPECT_GT(engine_->memory().weight_bytes, 0);
}

// It has no models then; what is asked before the process ends is answered by those of the other.
TEST_F(LostDeviceTest, AfterAFaultAtTheWeightsTheLastDevicesModelsStay) {
  ASSERT_NO_FATAL_FAILURE(Make());
  devices_[0].device.fails = true;
  ASSERT_OK(engine_->Load());
  engine_->FinishPreparing();
  EXPECT_EQ(engine_->state(), State::kDegraded);
  FailFree(1);
  EXPECT_EQ(engine_->state(), State::kFailed);
  EXPECT_THAT(engine_->Validate(SmallSpec()), IsEmpty());
  EXPECT_THAT(engine_->capabilities().models, Not(IsEmpty()));
}

TEST_F(LostDeviceTest, DevicesThatAllFailWhileTheyLoadEndTheStart) {
  for (TestDevice& device : devices_) {
    device.plan = [](const graph::Graph&) { return device::FaultError("the test's fault"); };
  }
  ASSERT_NO_FATAL_FAILURE(Make());
  EXPECT_TRUE(device::IsFault(engine_->Load()));
  EXPECT_EQ(engine_->state(), State::kFailed);
  EXPECT_THAT(engine_->status().device_fault, HasSubstr("the test's fault"));
}

}  // namespace
}  // namespace latentd::engine
