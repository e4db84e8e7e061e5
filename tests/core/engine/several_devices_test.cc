// An engine of several devices.
#include "tests/core/engine/several_devices.h"

#include <gmock/gmock.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/base/errors/error_details.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

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

TEST_F(SeveralDevicesTest, ARequestGoesToTheDeviceThatIsFree) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  Request first;
  const size_t busy = HoldOne(first);
  // While the first one runs.
  EXPECT_THAT(Only<Completed>(RunOn(*engine_, SmallSpec())), SizeIs(1));
  EXPECT_THAT(Only<Completed>(RunOn(*engine_, SmallSpec())), SizeIs(1));
  EXPECT_GT(devices_[1 - busy].runs, 0);
  EXPECT_THAT(Only<Completed>(first.sink->events()), IsEmpty());
  devices_[busy].gate.Open();
  EXPECT_THAT(Only<Completed>(first.sink->WaitForEnd()), SizeIs(1));
}

// Also what was foreseen on the other, which takes longer than was foreseen.
TEST_F(SeveralDevicesTest, WhoeverIsFreeFirstTakesWhatWaits) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  const auto [first, second] = HoldBoth();
  const Request third = Submit(), fourth = Submit();
  devices_[0].gate.Open();
  EXPECT_THAT(Only<Completed>(third.sink->WaitForEnd()), SizeIs(1));
  EXPECT_THAT(Only<Completed>(fourth.sink->WaitForEnd()), SizeIs(1));
  EXPECT_EQ(
      Only<Completed>(first.sink->events()).size() + Only<Completed>(second.sink->events()).size(),
      1);
  devices_[1].gate.Open();
  EXPECT_THAT(Only<Completed>(first.sink->WaitForEnd()), SizeIs(1));
  EXPECT_THAT(Only<Completed>(second.sink->WaitForEnd()), SizeIs(1));
}

// They differ by their seeds, which the server chooses once for both devices.
TEST_F(SeveralDevicesTest, ARequestIsDrawnByOneDevice) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  Request first;
  const size_t busy = HoldOne(first);
  GenerateSpec two = SmallSpec();
  two.picture.seed.reset();
  two.picture.num_images_per_prompt = 2;
  const std::vector<Event> events = RunOn(*engine_, two);
  const auto completed = Only<Completed>(events);
  ASSERT_THAT(completed, SizeIs(1));
  const auto images = Only<Image>(events);
  ASSERT_THAT(images, SizeIs(2));
  for (const Image& image : images) {
    EXPECT_EQ(image.seed, completed[0].effective.seeds[image.index]);
  }
  EXPECT_EQ(devices_[busy].runs, 1);
}

TEST_F(SeveralDevicesTest, HangsAsItsDevicesDo) {
  ASSERT_NO_FATAL_FAILURE(Make(SmallConfig(), clock_));
  ASSERT_OK(engine_->Load());
  Request first;
  HoldOne(first);
  absl::Notification hangs, go_on;
  const auto second = std::make_shared<WatchedSink>([&](const Event& event) {
    if (!std::holds_alternative<Started>(event)) return;
    hangs.Notify();
    go_on.WaitForNotification();
  });
  ASSERT_OK(engine_->Submit(SmallSpec(), second));
  hangs.WaitForNotification();
  clock_.Advance(ThreadWatch::kLimit);
  EXPECT_THAT(engine_->FindHangs().threads, ElementsAre(Field(&OverdueThread::name, "loop")));
  EXPECT_FALSE(engine_->FindHangs().unit.has_value());
  clock_.Advance(UnitWatchdog::kFirstLimit);
  EXPECT_TRUE(engine_->FindHangs().unit.has_value());
  go_on.Notify();
  EXPECT_THAT(Only<Completed>(second->WaitForEnd()), SizeIs(1));
}

TEST_F(SeveralDevicesTest, AUnitThatHangsOnEitherIsFound) {
  ASSERT_NO_FATAL_FAILURE(Make(SmallConfig(), clock_));
  ASSERT_OK(engine_->Load());
  for (const size_t device : {0, 1}) {
    std::pair<Request, Request> held;
    HoldOn(device, held);
    clock_.Advance(UnitWatchdog::kFirstLimit);
    EXPECT_TRUE(engine_->FindHangs().unit.has_value()) << device;
    devices_[device].gate.Open();
    held.first.sink->WaitForEnd();
    held.second.sink->WaitForEnd();
    EXPECT_FALSE(engine_->FindHangs().unit.has_value()) << device;
  }
}

TEST_F(SeveralDevicesTest, GraphsAreMadeReadyOnTheDeviceThatHasLeastToDo) {
  Config config = SmallConfig();
  config.allow_cold_requests = true;
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  for (const size_t device : {0, 1}) {
    std::pair<Request, Request> held;
    HoldOn(device, held);
    const pipeline::Size cold = {64 + 8 * (1 + static_cast<int>(device)), 64};
    EXPECT_THAT(Only<Completed>(RunOn(*engine_, SpecOf(cold, pipeline::BucketPolicy::kColdOk))),
                SizeIs(1));
    devices_[device].gate.Open();
    held.first.sink->WaitForEnd();
    held.second.sink->WaitForEnd();
  }
}

TEST_F(SeveralDevicesTest, RequestsWaitInTheShorterQueue) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  const auto held = HoldBoth();
  for (int position : {1, 1, 2, 2}) {
    const auto queued = Only<Queued>(Submit().sink->events());
    ASSERT_FALSE(queued.empty());
    EXPECT_EQ(queued.front().position, position);
  }
}

TEST_F(SeveralDevicesTest, EitherDrawsTheSameBytes) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  const auto [first, second] = HoldBoth();
  for (TestDevice& device : devices_) device.gate.Open();
  const auto of_first = Only<Image>(first.sink->WaitForEnd());
  const auto of_second = Only<Image>(second.sink->WaitForEnd());
  ASSERT_THAT(of_first, SizeIs(1));
  ASSERT_THAT(of_second, SizeIs(1));
  EXPECT_EQ(of_first[0].bytes, of_second[0].bytes);
}

TEST_F(SeveralDevicesTest, IsFullWhenAllOfThemAreAndCountsTheRefusalOnce) {
  Config config = SmallConfig();
  config.queue_capacity = 1;
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  EXPECT_EQ(engine_->capabilities().queue_capacity, 2);
  const auto [first, second] = HoldBoth();
  const absl::Status refused = SubmitTo(*engine_, SmallSpec());
  EXPECT_EQ(GetReason(refused), "QUEUE_FULL");
  EXPECT_TRUE(GetRetryDelay(refused).has_value());
  EXPECT_EQ(Count(metrics::kRequestsRejected, "queue_full"), 1);
  EXPECT_EQ(Count(metrics::kRequestsReceived), 3);
  EXPECT_EQ(Count(metrics::kRequestsInFlight), 2);
  ExpectCountsAddUp();
}

TEST_F(SeveralDevicesTest, BadFieldsAreRefusedOnce) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  GenerateSpec bad = SmallSpec();
  bad.picture.num_inference_steps = 0;
  EXPECT_THAT(GetFieldViolations(SubmitTo(*engine_, bad)), SizeIs(1));
  EXPECT_THAT(engine_->Validate(bad), SizeIs(1));
  EXPECT_EQ(Count(metrics::kRequestsRejected, "invalid"), 1);
  EXPECT_EQ(Count(metrics::kRequestsReceived), 1);
}

// The second device cannot draw 104x64, and has nothing to do.
TEST_F(SeveralDevicesTest, WhatOneCannotDrawWaitsForTheOther) {
  devices_[1].plan = [](const graph::Graph& graph) {
    return DrawsSide(graph, 104) ? absl::InternalError("the test's reason") : absl::OkStatus();
  };
  Config config = SmallConfig();
  config.buckets = {{64, 64}, {104, 64}};
  ASSERT_NO_FATAL_FAILURE(Make(config));
  ASSERT_OK(engine_->Load());
  const ServerStatus status = engine_->status();
  EXPECT_EQ(status.state, State::kDegraded);
  EXPECT_THAT(status.reason,
              AllOf(StartsWith("device 1: 104x64: "), HasSubstr("the test's reason")));
  EXPECT_THAT(status.buckets, AllOf(SizeIs(2), Each(Field(&ServerStatus::Bucket::ready, true))));
  EXPECT_EQ(Count(metrics::kBucketWarm, "104x64"), 0);
  EXPECT_EQ(Count(metrics::kBucketWarm, "64x64"), 1);

  const GenerateSpec spec = SpecOf({104, 64}, pipeline::BucketPolicy::kExact);
  devices_[0].gate.Close();
  const Request first = Submit(spec);
  devices_[0].gate.WaitForSomebody();
  const Request wide = Submit(spec);
  const auto queued = Only<Queued>(wide.sink->events());
  ASSERT_FALSE(queued.empty());
  EXPECT_EQ(queued.front().position, 1);
  EXPECT_EQ(Count(metrics::kRequestsRejected), 0);
  devices_[0].gate.Open();
  EXPECT_THAT(Only<Completed>(wide.sink->WaitForEnd()), SizeIs(1));
}

TEST_F(SeveralDevicesTest, CancelEndsTheRequestThatIsMeant) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  const auto [first, second] = HoldBoth();
  const Request third = Submit(), fourth = Submit();
  engine_->Cancel(second.handle);
  engine_->Cancel(third.handle);
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

TEST_F(SeveralDevicesTest, DrainWaitsForBothAndTakesNothingNew) {
  ASSERT_NO_FATAL_FAILURE(Make());
  const auto draining = std::make_shared<absl::Notification>();
  engine_->OnStatusChange([draining](const ServerStatus& status) {
    if (status.state == State::kDraining && !draining->HasBeenNotified()) draining->Notify();
  });
  ASSERT_OK(engine_->Load());
  const auto [first, second] = HoldBoth();
  std::thread drain([&] { engine_->Drain(absl::InfiniteFuture()); });
  draining->WaitForNotification();
  EXPECT_EQ(GetReason(SubmitTo(*engine_, SmallSpec())), "DRAINING");
  for (TestDevice& device : devices_) device.gate.Open();
  drain.join();
  EXPECT_THAT(Only<Completed>(first.sink->WaitForEnd()), SizeIs(1));
  EXPECT_THAT(Only<Completed>(second.sink->WaitForEnd()), SizeIs(1));
  EXPECT_EQ(Count(metrics::kRequestsRejected, "draining"), 1);
  ExpectCountsAddUp();
}

TEST_F(SeveralDevicesTest, ShowsTheSumOfWhatItsDevicesAreAndDo) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad());
  SeparateDevice alone;
  LocalEngine lone(SmallConfig(), *backends::cpu::CpuBackend::Create({.device = &alone}),
                   SystemClock());
  ASSERT_OK(lone.Load());
  EXPECT_EQ(engine_->memory().weight_bytes, 2 * lone.memory().weight_bytes);
  EXPECT_EQ(engine_->status().graphs_done, 2 * lone.status().graphs_done);
  engine_->RefreshMetrics();
  lone.RefreshMetrics();
  EXPECT_EQ(Count(metrics::kMemoryBytes, "weights"),
            2 * MetricOf(lone, metrics::kMemoryBytes, "weights"));
  EXPECT_EQ(Count(metrics::kServerState), 1);
  EXPECT_EQ(Count(metrics::kServerState, "ready"), 1);
  EXPECT_EQ(Count(metrics::kQueueCapacity), 2 * SmallConfig().queue_capacity);
  EXPECT_EQ(Count(metrics::kBackendInfo), 1);
  EXPECT_EQ(Count(metrics::kReadyTimestamp),
            absl::ToDoubleSeconds(engine_->status().ready - absl::UnixEpoch()));
  const auto held = HoldBoth();
  EXPECT_EQ(Count(metrics::kQueueDepth, "64x64"), 2);
}

TEST_F(SeveralDevicesTest, OfEqualDevicesOneCompilesWhatTheOthersLoad) {
  TemporaryDirectory directory;
  Config config = SmallConfig();
  config.cache_dir = directory.File("cache");
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  ASSERT_OK_AND_ASSIGN(const std::vector<GraphEntry> graphs, engine_->graphs().List({.all = true}));
  EXPECT_THAT(graphs, Each(Field(&GraphEntry::state, GraphState::kReady)));
  EXPECT_EQ(CompilationsOf(*engine_), static_cast<int64_t>(graphs.size()));
  EXPECT_EQ(engine_->status().graphs_done, 2 * static_cast<int>(graphs.size()));
  EXPECT_GT(Count(metrics::kGraphCacheBytes, "disk"), 0);
  EXPECT_EQ(Count(metrics::kGraphCacheBudget, "disk"), config.cache_max_bytes);
}

TEST_F(SeveralDevicesTest, OperatorsSeeEachGraphOnceAndChangeItEverywhere) {
  TemporaryDirectory directory;
  Config config = SmallConfig();
  config.cache_dir = directory.File("cache");
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  GraphAdmin& graphs = engine_->graphs();
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
