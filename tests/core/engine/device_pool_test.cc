// Several devices behind one door. They are the tests' own, and held back by a gate each: what a
// device is at does not end before a test lets it.
#include "core/engine/device_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/base/error_details.h"
#include "core/device/device_fault.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/separate_device.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;
using ::latentd::testing::TemporaryDirectory;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

using Plan = std::function<absl::Status(const graph::Graph&)>;

struct TestDevice {
  SeparateDevice device;
  Gate gate;  // holds every run
  std::atomic<int> runs = 0;
  OnRun on_run = {.enqueue = [this] {
    ++runs;
    gate.Pass();
  }};
  Plan plan;  // an error is of planning the graph; may be empty
};

class TestBackend : public RunWatch {
 public:
  explicit TestBackend(TestDevice& device)
      : RunWatch(device.on_run, device.device), device_(device) {}

  absl::StatusOr<backends::Plan> MakePlan(const graph::Graph& graph) const override {
    if (device_.plan) {
      if (absl::Status failed = device_.plan(graph); !failed.ok()) return failed;
    }
    return RunWatch::MakePlan(graph);
  }

 private:
  TestDevice& device_;
};

// A place in a pool's queues.
struct Request {
  uint64_t handle = 0;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
};

class DevicePoolTest : public ::testing::Test {
 protected:
  ~DevicePoolTest() override {
    for (TestDevice& device : devices_) device.gate.Open();
    pool_.reset();
  }

  void Make(const Config& config = SmallConfig(), const Clock& clock = SystemClock()) {
    std::vector<DevicePool::Device> devices;
    for (int i = 0; i < 2; ++i) {
      devices.push_back({i, std::make_unique<TestBackend>(devices_[i])});
    }
    ASSERT_OK_AND_ASSIGN(pool_, DevicePool::Create(config, std::move(devices), clock));
  }
  void MakeAndLoad(const Config& config = SmallConfig()) {
    ASSERT_NO_FATAL_FAILURE(Make(config));
    ASSERT_OK(pool_->Load());
    ASSERT_EQ(pool_->state(), State::kReady) << pool_->status().reason;
    for (TestDevice& device : devices_) device.runs = 0;
  }

  // Goes to the device that has fewer pictures: nothing is measured while a gate is closed.
  Request Submit(const GenerateSpec& spec = SmallSpec()) {
    Request request;
    const absl::StatusOr<uint64_t> handle = pool_->Submit(spec, request.sink);
    EXPECT_OK(handle);
    request.handle = handle.value_or(0);
    return request;
  }
  // One on each device, where they wait for the gates.
  std::pair<Request, Request> HoldBoth() {
    for (TestDevice& device : devices_) device.gate.Close();
    std::pair<Request, Request> held = {Submit(), Submit()};
    for (TestDevice& device : devices_) device.gate.WaitForSomebody();
    return held;
  }
  double Count(const metrics::Family& family, const std::string& label = "") {
    return MetricOf(*pool_, family, label);
  }
  void ExpectCountsAddUp() {
    EXPECT_EQ(Count(metrics::kRequestsReceived),
              Count(metrics::kRequestsRejected) + Count(metrics::kRequestsInFlight) +
                  Count(metrics::kRequestsFinished) + Count(metrics::kRequestsCancelled) +
                  Count(metrics::kDeadlineMisses));
  }

  std::array<TestDevice, 2> devices_;
  FakeClock clock_;  // clock of pools that are made with it
  std::unique_ptr<DevicePool> pool_;
};

TEST_F(DevicePoolTest, ARequestGoesToTheDeviceThatIsFree) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  devices_[0].gate.Close();
  const Request first = Submit();
  devices_[0].gate.WaitForSomebody();
  // While the first one runs.
  EXPECT_THAT(Only<Completed>(RunOn(*pool_, SmallSpec())), SizeIs(1));
  EXPECT_THAT(Only<Completed>(RunOn(*pool_, SmallSpec())), SizeIs(1));
  EXPECT_GT(devices_[1].runs, 0);
  EXPECT_THAT(Only<Completed>(first.sink->events()), IsEmpty());
  devices_[0].gate.Open();
  EXPECT_THAT(Only<Completed>(first.sink->WaitForEnd()), SizeIs(1));
}

TEST_F(DevicePoolTest, HangsAsItsDevicesDo) {
  ASSERT_NO_FATAL_FAILURE(Make(SmallConfig(), clock_));
  ASSERT_OK(pool_->Load());
  devices_[0].gate.Close();
  const Request first = Submit();
  devices_[0].gate.WaitForSomebody();
  absl::Notification hangs, go_on;
  const auto second = std::make_shared<WatchedSink>([&](const Event& event) {
    if (!std::holds_alternative<Started>(event)) return;
    hangs.Notify();
    go_on.WaitForNotification();
  });
  ASSERT_OK(pool_->Submit(SmallSpec(), second));
  hangs.WaitForNotification();
  clock_.Advance(ThreadWatch::kLimit);
  EXPECT_THAT(pool_->FindHangs().threads, ElementsAre(Field(&OverdueThread::name, "loop")));
  EXPECT_FALSE(pool_->FindHangs().unit.has_value());
  clock_.Advance(UnitWatchdog::kFirstLimit);
  EXPECT_TRUE(pool_->FindHangs().unit.has_value());
  go_on.Notify();
  EXPECT_THAT(Only<Completed>(second->WaitForEnd()), SizeIs(1));
}

TEST_F(DevicePoolTest, RequestsWaitInTheShorterQueue) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  const auto held = HoldBoth();
  for (int position : {1, 1, 2, 2}) {
    const auto queued = Only<Queued>(Submit().sink->events());
    ASSERT_FALSE(queued.empty());
    EXPECT_EQ(queued.front().position, position);
  }
}

TEST_F(DevicePoolTest, EitherDrawsTheSameBytes) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  const auto [first, second] = HoldBoth();
  for (TestDevice& device : devices_) device.gate.Open();
  const auto of_first = Only<Image>(first.sink->WaitForEnd());
  const auto of_second = Only<Image>(second.sink->WaitForEnd());
  ASSERT_THAT(of_first, SizeIs(1));
  ASSERT_THAT(of_second, SizeIs(1));
  EXPECT_EQ(of_first[0].bytes, of_second[0].bytes);
}

TEST_F(DevicePoolTest, IsFullWhenAllOfThemAreAndCountsTheRefusalOnce) {
  Config config = SmallConfig();
  config.queue_capacity = 1;
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  EXPECT_EQ(pool_->capabilities().queue_capacity, 2);
  const auto [first, second] = HoldBoth();
  const absl::Status refused = SubmitTo(*pool_, SmallSpec());
  EXPECT_EQ(GetReason(refused), "QUEUE_FULL");
  EXPECT_TRUE(GetRetryDelay(refused).has_value());
  EXPECT_EQ(Count(metrics::kRequestsRejected, "queue_full"), 1);
  EXPECT_EQ(Count(metrics::kRequestsReceived), 3);
  EXPECT_EQ(Count(metrics::kRequestsInFlight), 2);
  ExpectCountsAddUp();
}

TEST_F(DevicePoolTest, BadFieldsAreRefusedOnce) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  GenerateSpec bad = SmallSpec();
  bad.picture.num_inference_steps = 0;
  EXPECT_THAT(GetFieldViolations(SubmitTo(*pool_, bad)), SizeIs(1));
  EXPECT_THAT(pool_->Validate(bad), SizeIs(1));
  EXPECT_EQ(Count(metrics::kRequestsRejected, "invalid"), 1);
  EXPECT_EQ(Count(metrics::kRequestsReceived), 1);
}

// The second device cannot draw 104x64, and has less to do.
TEST_F(DevicePoolTest, WhatOneRefusesIsAskedOfTheOther) {
  devices_[1].plan = [](const graph::Graph& graph) {
    return DrawsSide(graph, 104) ? absl::InternalError("the test's reason") : absl::OkStatus();
  };
  Config config = SmallConfig();
  config.buckets = {{64, 64}, {104, 64}};
  ASSERT_NO_FATAL_FAILURE(Make(config));
  ASSERT_OK(pool_->Load());
  const ServerStatus status = pool_->status();
  EXPECT_EQ(status.state, State::kDegraded);
  EXPECT_THAT(status.reason,
              AllOf(StartsWith("device 1: 104x64: "), HasSubstr("the test's reason")));
  EXPECT_THAT(status.buckets, AllOf(SizeIs(2), Each(Field(&ServerStatus::Bucket::ready, true))));
  EXPECT_EQ(Count(metrics::kBucketWarm, "104x64"), 0);
  EXPECT_EQ(Count(metrics::kBucketWarm, "64x64"), 1);

  devices_[0].gate.Close();
  const Request first = Submit();
  devices_[0].gate.WaitForSomebody();
  const Request wide = Submit(SpecOf({104, 64}, pipeline::BucketPolicy::kExact));
  const auto queued = Only<Queued>(wide.sink->events());
  ASSERT_FALSE(queued.empty());
  EXPECT_EQ(queued.front().position, 1);
  EXPECT_EQ(Count(metrics::kRequestsRejected), 0);
  devices_[0].gate.Open();
  EXPECT_THAT(Only<Completed>(wide.sink->WaitForEnd()), SizeIs(1));
}

TEST_F(DevicePoolTest, CancelEndsTheRequestThatIsMeant) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  const auto [first, second] = HoldBoth();
  const Request third = Submit(), fourth = Submit();
  pool_->Cancel(second.handle);
  pool_->Cancel(third.handle);
  for (TestDevice& device : devices_) device.gate.Open();
  for (const Request* request : {&second, &third}) {
    const auto failed = Only<Failed>(request->sink->WaitForEnd());
    ASSERT_THAT(failed, SizeIs(1));
    EXPECT_TRUE(absl::IsCancelled(failed[0].status));
  }
  EXPECT_THAT(Only<Completed>(first.sink->WaitForEnd()), SizeIs(1));
  EXPECT_THAT(Only<Completed>(fourth.sink->WaitForEnd()), SizeIs(1));
  EXPECT_EQ(Count(metrics::kRequestsCancelled), 2);
  EXPECT_EQ(Count(metrics::kRequestsFinished, "completed"), 2);
  ExpectCountsAddUp();
}

TEST_F(DevicePoolTest, DrainWaitsForBothAndTakesNothingNew) {
  ASSERT_NO_FATAL_FAILURE(Make());
  const auto draining = std::make_shared<absl::Notification>();
  pool_->OnStatusChange([draining](const ServerStatus& status) {
    if (status.state == State::kDraining && !draining->HasBeenNotified()) draining->Notify();
  });
  ASSERT_OK(pool_->Load());
  const auto [first, second] = HoldBoth();
  std::thread drain([&] { pool_->Drain(absl::InfiniteFuture()); });
  draining->WaitForNotification();
  EXPECT_EQ(GetReason(SubmitTo(*pool_, SmallSpec())), "DRAINING");
  for (TestDevice& device : devices_) device.gate.Open();
  drain.join();
  EXPECT_THAT(Only<Completed>(first.sink->WaitForEnd()), SizeIs(1));
  EXPECT_THAT(Only<Completed>(second.sink->WaitForEnd()), SizeIs(1));
  EXPECT_EQ(Count(metrics::kRequestsRejected, "draining"), 1);
  ExpectCountsAddUp();
}

TEST_F(DevicePoolTest, ShowsTheSumOfWhatItsDevicesAreAndDo) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  SeparateDevice alone;
  LocalEngine lone(SmallConfig(), *backends::cpu::CpuBackend::Create({.device = &alone}),
                   SystemClock());
  ASSERT_OK(lone.Load());
  EXPECT_EQ(pool_->graphs().memory().weight_bytes, 2 * lone.graphs().memory().weight_bytes);
  EXPECT_EQ(pool_->status().graphs_done, 2 * lone.status().graphs_done);
  pool_->RefreshMetrics();
  lone.RefreshMetrics();
  EXPECT_EQ(Count(metrics::kMemoryBytes, "weights"),
            2 * MetricOf(lone, metrics::kMemoryBytes, "weights"));
  EXPECT_EQ(Count(metrics::kServerState), 1);
  EXPECT_EQ(Count(metrics::kServerState, "ready"), 1);
  EXPECT_EQ(Count(metrics::kQueueCapacity), 2 * SmallConfig().queue_capacity);
  EXPECT_EQ(Count(metrics::kBackendInfo), 1);
  EXPECT_EQ(Count(metrics::kReadyTimestamp),
            absl::ToDoubleSeconds(pool_->status().ready - absl::UnixEpoch()));
  const auto held = HoldBoth();
  EXPECT_EQ(Count(metrics::kQueueDepth, "64x64"), 2);
}

TEST_F(DevicePoolTest, AFaultOfOneEndsServingAndNotWhatTheOtherIsAt) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  devices_[1].on_run.work = [] { return device::FaultError("the test's fault"); };
  devices_[0].gate.Close();
  const Request first = Submit();
  devices_[0].gate.WaitForSomebody();
  const auto failed = Only<Failed>(RunOn(*pool_, SmallSpec()));
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(GetReason(failed[0].status), "DEVICE_FAULT");
  EXPECT_EQ(pool_->state(), State::kFailed);
  EXPECT_THAT(pool_->status().device_fault,
              AllOf(StartsWith("device 1: "), HasSubstr("the test's fault")));
  EXPECT_EQ(GetReason(SubmitTo(*pool_, SmallSpec())), "DEVICE_FAULT");
  devices_[0].gate.Open();
  EXPECT_THAT(Only<Completed>(first.sink->WaitForEnd()), SizeIs(1));
}

TEST_F(DevicePoolTest, OfEqualDevicesOneCompilesWhatTheOthersLoad) {
  TemporaryDirectory directory;
  Config config = SmallConfig();
  config.cache_dir = directory.File("cache");
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  ASSERT_OK_AND_ASSIGN(const std::vector<GraphEntry> graphs, pool_->graphs().List({.all = true}));
  EXPECT_THAT(graphs, Each(Field(&GraphEntry::state, GraphState::kReady)));
  EXPECT_EQ(CompilationsOf(*pool_), static_cast<int64_t>(graphs.size()));
  EXPECT_EQ(pool_->status().graphs_done, 2 * static_cast<int>(graphs.size()));
  EXPECT_GT(Count(metrics::kGraphCacheBytes, "disk"), 0);
  EXPECT_EQ(Count(metrics::kGraphCacheBudget, "disk"), config.cache_max_bytes);
}

TEST_F(DevicePoolTest, OperatorsSeeEachGraphOnceAndChangeItEverywhere) {
  TemporaryDirectory directory;
  Config config = SmallConfig();
  config.cache_dir = directory.File("cache");
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  GraphAdmin& graphs = pool_->graphs();
  const GraphSelector wide{.buckets = {{96, 64}}};
  EXPECT_TRUE(absl::IsNotFound(graphs.List(wide).status()));

  std::vector<int> done;
  int total = 0;
  ASSERT_OK_AND_ASSIGN(const WarmOutcome warmed,
                       graphs.Warm(wide, /*dry_run=*/false, [&](const WarmProgress& progress) {
                         EXPECT_OK(progress.entry.status);
                         done.push_back(progress.done);
                         total = progress.total;
                         return true;
                       }));
  EXPECT_GT(warmed.compiled, 0);
  EXPECT_EQ(warmed.loaded, warmed.compiled);
  EXPECT_EQ(warmed.failed, 0);
  EXPECT_THAT(done, SizeIs(total));
  EXPECT_EQ(done.back(), total);

  ASSERT_OK_AND_ASSIGN(const std::vector<GraphEntry> all, graphs.List({.all = true}));
  std::set<std::string> ids;
  for (const GraphEntry& graph : all) ids.insert(graph.id);
  EXPECT_THAT(ids, SizeIs(all.size()));
  EXPECT_THAT(all, Each(Field(&GraphEntry::state, GraphState::kReady)));
  for (const auto& results :
       {graphs.Save({.all = true}), graphs.Verify({.all = true}), graphs.SetPinned(wide, true)}) {
    ASSERT_OK(results);
    EXPECT_THAT(*results, Each(Field(&EntryResult::status, absl::OkStatus())));
  }
  ASSERT_OK_AND_ASSIGN(const GraphEntry one, graphs.Find(all.front().id));
  EXPECT_EQ(one.component, all.front().component);

  std::vector<std::string> exported;
  ASSERT_OK(graphs.Export({.all = true}, [&](std::string artifact) {
    exported.push_back(std::move(artifact));
    return true;
  }));
  EXPECT_THAT(exported, SizeIs(all.size()));
  ASSERT_OK_AND_ASSIGN(const EntryResult imported, graphs.Import(exported.front()));
  EXPECT_OK(imported.status);

  ASSERT_OK(graphs.SetPinned(wide, false));
  ASSERT_OK(graphs.Evict(wide, CacheTier::kMemory, /*force=*/false));
  ASSERT_OK_AND_ASSIGN(const std::vector<GraphEntry> left, graphs.List(wide));
  EXPECT_THAT(left, ::testing::Contains(Field(&GraphEntry::state, GraphState::kCompiled)));
}

}  // namespace
}  // namespace latentd::engine
