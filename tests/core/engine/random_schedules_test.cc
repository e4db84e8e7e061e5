// Random schedules of requests on one device: each picture is what it is alone, and nothing is
// left.
//
// LATENTD_SCHEDULES=10000 says how many schedules.
#include "tests/core/engine/random_schedule.h"
#include "tests/support/separate_device.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;

class RandomSchedulesTest : public ::testing::Test {
 protected:
  RandomSchedulesTest() {
    model_.on_run.computes = false;
    model_.on_run.instead = [](const RunPorts& ports) { HashedRun(ports).Run(); };
    model_.MakeReady({64, 64});
    PictureLoop loop(bench_.Options(), bench_.Devices(), metrics_, clock_);
    for (Kind& kind : kinds_) {
      const auto sink = std::make_shared<RecordingSink>();
      EXPECT_OK(loop.Admit(bench_.MakeJob(loop, sink, kind.spec), 0));
      kind.alone = FilesOf(sink->WaitForEnd());
      EXPECT_EQ(kind.alone.size(), static_cast<size_t>(*kind.spec.picture.num_images_per_prompt));
    }
  }

  SeparateDevice device_;
  FakeClock clock_;
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  LoopModel model_{device_, {1, 2, 4}, EnsembleConfig()};
  Bench bench_{.models = {&model_}, .clock = clock_, .metrics = metrics_};
  std::vector<Kind> kinds_ = AllKinds();
};

TEST_F(RandomSchedulesTest, EachPictureIsWhatItIsAloneAndNothingIsLeft) {
  const size_t allocations = device_.allocations();
  std::map<absl::StatusCode, int> ends;
  const int schedules = ScheduleCount();
  for (int seed = 0; seed < schedules; ++seed) {
    for (absl::StatusCode end : RandomSchedule(seed, kinds_, bench_).Run()) ++ends[end];
    EXPECT_EQ(device_.allocations(), allocations);
    EXPECT_EQ(MetricOf(registry_, metrics::kQueueDepth), 0);
    EXPECT_EQ(MetricOf(registry_, metrics::kRequestsInFlight), 0);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  for (absl::StatusCode code : {absl::StatusCode::kOk, absl::StatusCode::kCancelled,
                                absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kInternal}) {
    EXPECT_GT(ends[code], 0) << code;
  }
  const auto [evaluations, rows] = HistogramOf(registry_, metrics::kStepRows);
  EXPECT_GT(rows, 2 * evaluations);
  EXPECT_GT(MetricOf(registry_, metrics::kSkippedRows), 0);
}

}  // namespace
}  // namespace latentd::engine
