// Random schedules of requests on one device: each picture, and each frame of a video, is what it
// is alone, and nothing is left.
//
// LATENTD_SCHEDULES=10000 says how many schedules.
#include <iterator>

#include "tests/core/engine/random_schedule.h"
#include "tests/golden/video_checkpoint.h"
#include "tests/support/separate_device.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;

// Videos of one size and two numbers of frames: as files of frames, several, and as one file.
std::vector<Kind> VideoKinds() {
  std::vector<Kind> kinds(4, Kind{.spec = {.inputs = testing::ImageInput(GreyImage())}});
  constexpr int kFrames[] = {5, 3, 5, 3}, kSteps[] = {3, 2, 4, 5};
  for (size_t i = 0; i < kinds.size(); ++i) {
    pipeline::PictureSpec& picture = kinds[i].spec.picture;
    picture.width = picture.height = 64;
    picture.num_images_per_prompt = 1;
    picture.num_inference_steps = kSteps[i];
    picture.seed = 100 + i;
    picture.video = {.width = 64, .height = 64, .num_frames = kFrames[i]};
  }
  kinds[1].spec.picture.num_images_per_prompt = 2;
  kinds[2].spec.picture.video->max_guidance_scale = 1;  // a row each
  kinds[3].spec.video_file = {.format = image::VideoFormat::kRaw};
  return kinds;
}

Config CachingConfigWithVideos() {
  Config config = EnsembleConfig();
  config.feature_cache = true;
  config.models = {{.name = "video",
                    .checkpoint = golden::VideoCheckpoint(),
                    .buckets = {{64, 64, 5}, {64, 64, 3}},
                    .draws_videos = true,
                    .decode_chunk = 2}};
  return config;
}

class RandomSchedulesTest : public ::testing::Test {
 protected:
  RandomSchedulesTest() {
    model_.on_run.computes = false;
    model_.on_run.instead = [](const RunPorts& ports) { HashedRun(ports).Run(); };
    model_.MakeReady({64, 64});
    const pipeline::ModelId video = model_.pipeline->table().Find("video")->id;
    for (const int frames : {5, 3}) {
      model_.MakeReady({64, 64, frames}, model_.row_counts, video);
    }
    absl::c_move(VideoKinds(), std::back_inserter(kinds_));
    absl::c_move(CachingKinds(), std::back_inserter(kinds_));
    PictureLoop loop(bench_.Options(), bench_.Devices(), metrics_, clock_);
    for (Kind& kind : kinds_) {
      const auto sink = std::make_shared<RecordingSink>();
      EXPECT_OK(loop.Admit(bench_.MakeJob(loop, sink, kind.spec), 0));
      kind.alone = FilesOf(sink->WaitForEnd());
      EXPECT_EQ(kind.alone.size(), FileCountOf(kind));
    }
  }

  SeparateDevice device_;
  FakeClock clock_;
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  LoopModel model_{device_, {1, 2, 4}, CachingConfigWithVideos()};
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
  const double shared = CountAbove(registry_, metrics::kStepRows, kMaxRowsOfPicture);
  EXPECT_GT(shared, schedules) << "one a schedule, and more";
  EXPECT_GT(MetricOf(registry_, metrics::kSkippedRows), 0);
  EXPECT_GT(MetricOf(registry_, metrics::kShallowEvaluations), 0);
}

}  // namespace
}  // namespace latentd::engine
