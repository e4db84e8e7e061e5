// Random schedules of requests on two devices that share steps: whatever is split, joins, leaves,
// is cancelled or fails, on either of them, each picture is what one device draws of it alone, and
// nothing is left. A device that fails for good takes with it what it draws or helps with.
//
// LATENTD_SCHEDULES=10000 plays half as many by --split=always, a quarter by auto.
#include <iterator>

#include "tests/core/engine/random_schedule.h"
#include "tests/support/separate_device.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;

Config CachingConfig() {
  Config config = EnsembleConfig();
  config.feature_cache = true;
  return config;
}

class SplitSchedulesTest : public ::testing::Test {
 protected:
  SplitSchedulesTest() {
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_OK(devices_[i].Meet(devices_[1 - i]));
      models_[i].on_run.computes = false;
      models_[i].on_run.instead = [](const RunPorts& ports) { HashedRun(ports).Run(); };
      models_[i].MakeReady({64, 64});
    }
    absl::c_move(CachingKinds(), std::back_inserter(kinds_));
    const Bench one{.models = {&models_[0]}, .clock = clock_, .metrics = metrics_};
    PictureLoop loop(one.Options(), one.Devices(), metrics_, clock_);
    for (Kind& kind : kinds_) {
      const auto sink = std::make_shared<RecordingSink>();
      EXPECT_OK(loop.Admit(one.MakeJob(loop, sink, kind.spec), 0));
      kind.alone = FilesOf(sink->WaitForEnd());
    }
  }

  // The ends of requests of all schedules.
  std::map<absl::StatusCode, int> Play(Split split, int schedules, bool one_fails = false) {
    Bench bench{.models = {&models_[0], &models_[1]},
                .clock = clock_,
                .metrics = metrics_,
                .split = split,
                .devices_fail = true,
                .one_fails = one_fails};
    const size_t allocations[] = {devices_[0].allocations(), devices_[1].allocations()};
    std::map<absl::StatusCode, int> ends;
    for (int seed = 0; seed < schedules && !HasFailure(); ++seed) {
      for (absl::StatusCode end : RandomSchedule(seed, kinds_, bench).Run()) ++ends[end];
      for (size_t i = 0; i < 2; ++i) EXPECT_EQ(devices_[i].allocations(), allocations[i]);
      EXPECT_EQ(MetricOf(registry_, metrics::kQueueDepth), 0);
      EXPECT_EQ(MetricOf(registry_, metrics::kRequestsInFlight), 0);
      EXPECT_FALSE(HasFailure()) << "seed " << seed;
    }
    return ends;
  }
  double SplitSteps() const { return MetricOf(registry_, metrics::kSplitSteps); }

  SeparateDevice devices_[2];
  FakeClock clock_;
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  LoopModel models_[2] = {LoopModel(devices_[0], {1, 2, 4}, CachingConfig(), /*split=*/true),
                          LoopModel(devices_[1], {1, 2, 4}, CachingConfig(), /*split=*/true)};
  std::vector<Kind> kinds_ = AllKinds();
};

TEST_F(SplitSchedulesTest, EachPictureIsWhatItIsAloneAndNothingIsLeft) {
  std::map<absl::StatusCode, int> ends = Play(Split::kAlways, ScheduleCount() / 2);
  for (absl::StatusCode code :
       {absl::StatusCode::kOk, absl::StatusCode::kCancelled, absl::StatusCode::kInternal}) {
    EXPECT_GT(ends[code], 0) << code;
  }
  // A device fails for good in one schedule of eight or so; few deadlines pass.
  if (ScheduleCount() >= 80) {
    EXPECT_GT(ends[absl::StatusCode::kUnavailable], 0);
    EXPECT_GT(ends[absl::StatusCode::kDeadlineExceeded], 0);
  }
  const auto [evaluations, rows] = HistogramOf(registry_, metrics::kStepRows);
  // Images that cache features are not split.
  EXPECT_GT(SplitSteps(), evaluations / 20);
  EXPECT_LT(SplitSteps(), evaluations / 2);
  EXPECT_GT(MetricOf(registry_, metrics::kSkippedRows), 0);
  EXPECT_GT(MetricOf(registry_, metrics::kShallowEvaluations), 0);
}

// The other draws on whatever the failed one does not draw, each picture as it is alone; and what
// the failed one drew ends with its fault.
TEST_F(SplitSchedulesTest, LikewiseWhereADeviceFailsForGoodAndNoneHelps) {
  std::map<absl::StatusCode, int> ends =
      Play(Split::kNever, ScheduleCount() / 4, /*one_fails=*/true);
  EXPECT_GT(ends[absl::StatusCode::kOk], ends[absl::StatusCode::kUnavailable]);
  EXPECT_GT(ends[absl::StatusCode::kUnavailable], 0);
}

TEST_F(SplitSchedulesTest, LikewiseWhereADeviceFailsForGoodAndTheyHelpEachOther) {
  std::map<absl::StatusCode, int> ends =
      Play(Split::kAlways, ScheduleCount() / 4, /*one_fails=*/true);
  EXPECT_GT(ends[absl::StatusCode::kOk], 0);
  EXPECT_GT(ends[absl::StatusCode::kUnavailable], 0);
}

// A device's help comes and goes with its own work.
TEST_F(SplitSchedulesTest, LikewiseWhereADeviceHelpsWhileItIsIdle) {
  std::map<absl::StatusCode, int> ends = Play(Split::kAuto, ScheduleCount() / 4);
  EXPECT_GT(ends[absl::StatusCode::kOk], 0);
  // Only behind steps without help, of which many a schedule has too few.
  if (ScheduleCount() >= 80) EXPECT_GT(SplitSteps(), 0);
}

}  // namespace
}  // namespace latentd::engine
