// A device that has failed for good ends serving, in any work: all requests get the error, nothing
// hangs, and neither a graph nor its artifact is blamed.
#include "core/device/device_fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/base/errors/error_details.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/separate_device.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;
using ::latentd::testing::StatusIs;
using ::latentd::testing::TemporaryDirectory;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using pipeline::BucketPolicy;

constexpr char kWhat[] = "the GPU's work: an illegal memory access was encountered";

// Fails for good when a test says so, in what the test has chosen.
struct Fault {
  absl::Status Check() const { return happened ? device::FaultError(kWhat) : absl::OkStatus(); }
  std::atomic<bool> happened = false;
};

// A device that does not know how much memory it has, either.
class FailingDevice : public SeparateDevice {
 public:
  explicit FailingDevice(const Fault& asking) : asking_(asking) {}

  absl::StatusOr<AvailableMemory> Available() const override {
    if (absl::Status failed = asking_.Check(); !failed.ok()) return failed;
    return SeparateDevice::Available();
  }

 private:
  const Fault& asking_;
};

class FailingBackend : public RunWatch {
 public:
  FailingBackend(const Fault& planning, const Fault& loading, const OnRun& on_run,
                 device::HostDevice& device)
      : RunWatch(on_run, device), planning_(planning), loading_(loading) {}

  absl::StatusOr<backends::Plan> MakePlan(const graph::Graph& graph) const override {
    if (absl::Status failed = planning_.Check(); !failed.ok()) return failed;
    return RunWatch::MakePlan(graph);
  }
  absl::StatusOr<std::unique_ptr<backends::Executable>> Load(
      std::shared_ptr<const graph::Graph> graph, const backends::Plan& plan,
      const weights::WeightSet& weights) override {
    if (absl::Status failed = loading_.Check(); !failed.ok()) return failed;
    return RunWatch::Load(std::move(graph), plan, weights);
  }

 private:
  const Fault &planning_, &loading_;
};

class DeviceFaultTest : public ::testing::Test {
 protected:
  ~DeviceFaultTest() override { engine_.reset(); }

  // One that finds in the cache what those before it have compiled.
  void Make() {
    engine_.reset();
    told_ = 0;
    last_ = {};
    Config config = SmallConfig();
    config.cache_dir = directory_.File("cache");
    engine_ = std::make_unique<LocalEngine>(
        config, std::make_unique<FailingBackend>(planning_, loading_, on_run_, device_),
        SystemClock());
    engine_->OnStatusChange([this](const ServerStatus& status) {
      if (!status.device_fault.empty() && last_.device_fault.empty()) ++told_;
      last_ = status;
    });
  }
  void MakeAndLoad() {
    Make();
    ASSERT_OK(engine_->Load());
    ASSERT_EQ(engine_->state(), State::kReady);
  }
  std::shared_ptr<RecordingSink> Submit(const GenerateSpec& spec) {
    const auto sink = std::make_shared<RecordingSink>();
    EXPECT_OK(engine_->Submit(spec, sink));
    return sink;
  }

  // The device fails in the first run that begins after this stage has come to this step.
  std::shared_ptr<RecordingSink> SubmitToFailAfter(Stage stage, int step, int steps) {
    on_run_.work = [this] { return running_.Check(); };
    const auto sink = std::make_shared<WatchedSink>([this, stage, step](const Event& event) {
      const auto* progress = std::get_if<Progress>(&event);
      if (progress == nullptr || progress->stage != stage || progress->step != step) return;
      running_.happened = true;
    });
    EXPECT_OK(engine_->Submit(SmallSpec(steps), sink));
    return sink;
  }

  static void ExpectUnavailable(const absl::Status& status) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("started again")));
    EXPECT_EQ(GetReason(status), "DEVICE_FAULT");
    EXPECT_TRUE(GetRetryDelay(status).has_value());
  }
  static void ExpectEndsUnavailable(RecordingSink& sink) {
    const auto failed = Only<Failed>(sink.WaitForEnd());
    ASSERT_THAT(failed, SizeIs(1));
    ExpectUnavailable(failed[0].status);
  }
  // The engine is of no more use, and says so.
  void ExpectFailed() {
    const ServerStatus status = engine_->status();
    EXPECT_EQ(status.state, State::kFailed);
    EXPECT_EQ(status.device_fault, kWhat);
    EXPECT_THAT(status.reason, HasSubstr(kWhat));
    EXPECT_EQ(told_, 1);
    EXPECT_EQ(MetricOf(*engine_, metrics::kServerState, "failed"), 1);
    ExpectUnavailable(SubmitTo(*engine_, SmallSpec()));
    ExpectUnavailable(SubmitTo(*engine_, SpecOf({96, 64}, BucketPolicy::kColdOk)));
  }
  void ExpectNoGraphBlamed() {
    const auto graphs = engine_->graphs().List({.all = true});
    ASSERT_OK(graphs);
    for (const GraphEntry& graph : *graphs) EXPECT_NE(graph.state, GraphState::kFailed);
    EXPECT_EQ(MetricOf(*engine_, metrics::kGraphCompileFailures), 0);
    EXPECT_EQ(MetricOf(*engine_, metrics::kGraphCacheLookups, "corrupt"), 0);
    std::error_code error;
    const std::string quarantine = directory_.File("cache/quarantine");
    EXPECT_TRUE(std::filesystem::is_empty(quarantine, error) || error);
  }
  // Expects that the supervisor's next process finds all compiled graphs, and serves.
  void ExpectNextServes(int64_t compilations) {
    engine_.reset();
    for (Fault* fault : {&planning_, &loading_, &running_, &asking_}) fault->happened = false;
    on_run_ = {};
    MakeAndLoad();
    EXPECT_EQ(CompilationsOf(*engine_), compilations);
    EXPECT_THAT(Only<Completed>(RunOn(*engine_, SmallSpec())), SizeIs(1));
  }

  const TemporaryDirectory directory_;
  Fault planning_, loading_, running_, asking_;
  FailingDevice device_{asking_};
  OnRun on_run_;
  ServerStatus last_;
  int told_ = 0;
  std::unique_ptr<LocalEngine> engine_;
};

TEST_F(DeviceFaultTest, InTheMiddleOfStepsEndsWhatRunsAndWhatWaits) {
  MakeAndLoad();
  const auto running = SubmitToFailAfter(Stage::kSteps, /*step=*/3, /*steps=*/150);
  const auto waiting = Submit(SmallSpec(150));
  ExpectEndsUnavailable(*running);
  ExpectEndsUnavailable(*waiting);
  EXPECT_EQ(Only<Progress>(running->WaitForEnd()).back().step, 3);
  ExpectFailed();
  EXPECT_EQ(MetricOf(*engine_, metrics::kRequestsInFlight), 0);
  EXPECT_EQ(MetricOf(*engine_, metrics::kRequestsCancelled), 0);
  EXPECT_EQ(MetricOf(*engine_, metrics::kRequestsRejected, "other"), 2);
  ExpectNoGraphBlamed();
  ExpectNextServes(/*compilations=*/0);
}

TEST_F(DeviceFaultTest, InADecodeEndsServing) {
  MakeAndLoad();
  const auto sink = SubmitToFailAfter(Stage::kSteps, /*step=*/2, /*steps=*/2);
  ExpectEndsUnavailable(*sink);
  EXPECT_THAT(Only<Image>(sink->WaitForEnd()), SizeIs(0));
  ExpectFailed();
  ExpectNoGraphBlamed();
}

TEST_F(DeviceFaultTest, WhenAUnitIsEnqueuedEndsServing) {
  MakeAndLoad();
  on_run_.refuse = [this] { return running_.Check(); };
  running_.happened = true;
  ExpectEndsUnavailable(*Submit(SmallSpec()));
  ExpectFailed();
  ExpectNoGraphBlamed();
}

TEST_F(DeviceFaultTest, LeavesWhatWasCancelledBeforeCancelled) {
  MakeAndLoad();
  absl::Notification both_there;
  on_run_.work = [&] {
    both_there.WaitForNotification();
    return running_.Check();
  };
  uint64_t waits = 0;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    if (!std::holds_alternative<Progress>(event)) return;
    engine_->Cancel(waits);
    running_.happened = true;
  });
  const auto waiting = std::make_shared<RecordingSink>();
  EXPECT_OK(engine_->Submit(SmallSpec(150), sink));
  ASSERT_OK_AND_ASSIGN(waits, engine_->Submit(SmallSpec(150), waiting));
  both_there.Notify();
  ExpectEndsUnavailable(*sink);
  const auto failed = Only<Failed>(waiting->WaitForEnd());
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_TRUE(absl::IsCancelled(failed[0].status)) << failed[0].status;
  engine_.reset();  // before what its runs look at
}

TEST_F(DeviceFaultTest, WhileACompilationTriesWhatIsFastestEndsLoading) {
  Make();
  planning_.happened = true;
  EXPECT_THAT(engine_->Load(), StatusIs(absl::StatusCode::kInternal, kWhat));
  ExpectFailed();
  ExpectNoGraphBlamed();
  ExpectNextServes(/*compilations=*/7);
}

TEST_F(DeviceFaultTest, WhileGraphsAreLoadedOrRunOnceEndsLoading) {
  MakeAndLoad();
  for (Fault* fault : {&loading_, &running_}) {
    Make();
    on_run_.work = [this] { return running_.Check(); };
    fault->happened = true;
    EXPECT_THAT(engine_->Load(), StatusIs(absl::StatusCode::kInternal, kWhat));
    ExpectFailed();
    ExpectNoGraphBlamed();
    ExpectNextServes(/*compilations=*/0);
  }
}

TEST_F(DeviceFaultTest, WhenItsMemoryIsAskedForEndsLoading) {
  Make();
  asking_.happened = true;
  EXPECT_THAT(engine_->Load(), StatusIs(absl::StatusCode::kInternal, kWhat));
  ExpectFailed();
  ExpectNextServes(/*compilations=*/7);
}

TEST_F(DeviceFaultTest, WhenRoomForALaneIsAskedForEndsServing) {
  MakeAndLoad();
  asking_.happened = true;
  ExpectEndsUnavailable(*Submit(SmallSpec()));
  ExpectFailed();
  ExpectNoGraphBlamed();
}

TEST_F(DeviceFaultTest, WhileAColdRequestIsPreparedEndsWhatRunsToo) {
  for (Fault* fault : {&planning_, &loading_, &asking_}) {
    MakeAndLoad();
    const auto running = Submit(SmallSpec(150));
    running->WaitFor<Progress>();
    fault->happened = true;
    ExpectEndsUnavailable(*Submit(SpecOf({96, 64}, BucketPolicy::kColdOk)));
    ExpectEndsUnavailable(*running);
    ExpectFailed();
    ExpectNoGraphBlamed();
    fault->happened = false;
  }
  ExpectNextServes(/*compilations=*/0);
}

TEST_F(DeviceFaultTest, WhileAnOperatorWarmsEndsServing) {
  MakeAndLoad();
  planning_.happened = true;
  int tried = 0;
  const auto count = [&](const WarmProgress&) { return ++tried > 0; };
  const auto warmed = engine_->graphs().Warm({.buckets = {{96, 64}}}, /*dry_run=*/false, count);
  EXPECT_THAT(warmed.status(), StatusIs(absl::StatusCode::kInternal, kWhat));
  EXPECT_LE(tried, 3 + 1);  // the ready ones, and the first of the others
  ExpectFailed();
  ExpectNoGraphBlamed();
}

TEST_F(DeviceFaultTest, WhileDrainingIsToldToo) {
  MakeAndLoad();
  absl::Notification draining;
  engine_->OnStatusChange([&](const ServerStatus& status) {
    if (status.state == State::kDraining && !draining.HasBeenNotified()) draining.Notify();
  });
  on_run_.work = [&] {
    draining.WaitForNotification();
    return device::FaultError(kWhat);
  };
  const auto sink = Submit(SmallSpec());
  engine_->Drain(absl::InfiniteFuture());
  ExpectEndsUnavailable(*sink);
  EXPECT_EQ(engine_->state(), State::kDraining);
  EXPECT_EQ(engine_->status().device_fault, kWhat);
  EXPECT_EQ(told_, 1);
  EXPECT_EQ(GetReason(SubmitTo(*engine_, SmallSpec())), "DRAINING");
  engine_.reset();
}

}  // namespace
}  // namespace latentd::engine
