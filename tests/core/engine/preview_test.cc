// Previews of requests: when they come and when not, and that nothing waits for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/engine/loop/picture_loop.h"
#include "core/engine/loop/preview_encoder.h"
#include "core/image/decode.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/separate_device.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

GenerateSpec SpecWithPreviews(int every, int steps, int pictures = 1) {
  GenerateSpec spec = SmallSpec(steps);
  spec.picture.num_images_per_prompt = pictures;
  spec.picture.previews_every = every;
  return spec;
}

std::vector<std::pair<int, int>> PicturesAndSteps(const std::vector<Event>& events) {
  std::vector<std::pair<int, int>> found;
  for (const Preview& preview : Only<Preview>(events)) {
    found.emplace_back(preview.image_index, preview.step);
  }
  return found;
}

class PreviewEncoderTest : public LoopTest {
 protected:
  PreviewEncoderTest() {
    job_ = model_->MakeJob(loop_, sink_, SpecWithPreviews(1, 9, /*pictures=*/2), clock_);
    job_->pictures[0]->request->colors = pipeline::LatentColors{.factors = {{1, 1, 1}}};
  }

  static pipeline::Prediction After(int step) {
    device::Buffer latents = device::Buffer::Allocate(device::DType::kF32, {1, 1, 8, 8});
    return {.step = step, .terms = {{std::move(latents), 1}}};
  }

  PictureLoop loop_{{}, device::Host(), metrics_, clock_};
  ThreadWatch watch_{"previews", clock_};
  const std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
  const std::shared_ptr<PictureBytes> results_ =
      std::make_shared<PictureBytes>(/*budget=*/1 << 20, [] {});
  std::shared_ptr<Job> job_;
};

TEST_F(PreviewEncoderTest, ANewerOneTakesThePlaceOfOneThatWaits) {
  absl::Notification busy, go_on;
  const std::function<bool(const Job&)> is_wanted = [&](const Job&) {
    if (busy.HasBeenNotified()) return true;
    busy.Notify();
    go_on.WaitForNotification();
    return true;
  };
  {
    PreviewEncoder encoder(is_wanted, results_, watch_);
    encoder.Add({job_, 0}, After(1));
    busy.WaitForNotification();
    const int64_t one = results_->results();
    EXPECT_GT(one, 0);
    for (int step = 2; step <= 5; ++step) encoder.Add({job_, 0}, After(step));
    encoder.Add({job_, 1}, After(3));
    EXPECT_EQ(results_->results(), 3 * one);
    go_on.Notify();
  }
  const std::vector<Event> events = sink_->events();
  EXPECT_THAT(PicturesAndSteps(events), ElementsAre(Pair(0, 1), Pair(0, 5), Pair(1, 3)));
  EXPECT_EQ(results_->results(), 3 * static_cast<int64_t>(Only<Preview>(events)[0].bytes.size()));
  sink_->Clear();
}

TEST_F(PreviewEncoderTest, NoneIsMadeOfARequestThatIsNotWantedAnyMore) {
  const std::function<bool(const Job&)> is_wanted = [](const Job&) { return false; };
  {
    PreviewEncoder encoder(is_wanted, results_, watch_);
    encoder.Add({job_, 0}, After(1));
  }
  EXPECT_THAT(sink_->events(), IsEmpty());
  EXPECT_EQ(results_->results(), 0);
}

TEST_F(PreviewEncoderTest, NoneComesAfterItsPicture) {
  job_->Publish(Preview{.image_index = 0, .step = 1});
  job_->Publish(Image{.index = 0});
  job_->Publish(Preview{.image_index = 0, .step = 2});
  job_->Publish(Preview{.image_index = 1, .step = 2});
  EXPECT_THAT(PicturesAndSteps(sink_->events()), ElementsAre(Pair(0, 1), Pair(1, 2)));
}

// Two steps are enqueued at a time. A step's run is held back until the previews of all steps that
// are done are there, so that none gives way to a newer one.
TEST(PreviewsOnTheLoopTest, ComeInTimeFromADeviceOfItsOwnAndChangeNothing) {
  SeparateDevice device;
  LoopModel model(device);
  ::latentd::testing::FakeClock clock;
  metrics::Registry registry;
  EngineMetrics metrics(registry);
  PictureLoop loop({}, device, metrics, clock);
  constexpr int kSteps = 6, kEvery = 2;

  absl::Mutex mutex;
  int told = 0;  // previews
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    absl::MutexLock lock(&mutex);
    told += std::holds_alternative<Preview>(event);
  });
  int steps_done = 0;  // the loop's
  model.on_run.enqueue = [&] {
    for (const Progress& done : Only<Progress>(sink->events())) {
      if (done.stage == Stage::kSteps) steps_done = done.step;
    }
    const auto all_there = [&] { return told >= steps_done / kEvery; };
    absl::MutexLock lock(&mutex);
    mutex.AwaitWithTimeout(absl::Condition(&all_there), ::latentd::testing::kLongestWait);
  };
  ASSERT_OK(loop.Admit(model.MakeJob(loop, sink, SpecWithPreviews(kEvery, kSteps), clock), 0));
  const std::vector<Event> events = sink->WaitForEnd();
  model.on_run.enqueue = nullptr;
  const auto previews = Only<Preview>(events);
  ASSERT_GE(previews.size(), 2u);  // the last may come too late
  for (size_t i = 0; i < previews.size(); ++i) {
    EXPECT_EQ(previews[i].step, kEvery * (static_cast<int>(i) + 1));
    EXPECT_EQ(previews[i].total_steps, kSteps);
    ASSERT_OK_AND_ASSIGN(const image::Image decoded, image::Decode(previews[i].bytes));
    EXPECT_EQ((pipeline::Size{decoded.width, decoded.height}), (pipeline::Size{8, 8}));
    EXPECT_EQ(previews[i].size, (pipeline::Size{8, 8}));
  }
  const auto plain = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(model.MakeJob(loop, plain, SmallSpec(kSteps), clock), 0));
  const std::vector<Event> without = plain->WaitForEnd();
  EXPECT_THAT(Only<Preview>(without), IsEmpty());
  EXPECT_EQ(Only<Image>(events).at(0).bytes, Only<Image>(without).at(0).bytes);
}

class PreviewsOfTheEngineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Config config = SmallConfig();
    config.rows = {1, 2};
    ASSERT_OK_AND_ASSIGN(engine_, Engine::Create(config, SystemClock()));
    ASSERT_OK(engine_->Load());
  }
  static void TearDownTestSuite() { engine_.reset(); }

  static inline std::unique_ptr<Engine> engine_;
};

TEST_F(PreviewsOfTheEngineTest, PicturesThatShareStepsAreTheSameWithAndWithout) {
  const auto with = Only<Image>(RunOn(*engine_, SpecWithPreviews(1, 4, /*pictures=*/2)));
  GenerateSpec spec = SpecWithPreviews(1, 4, /*pictures=*/2);
  spec.picture.previews_every.reset();
  const auto without = Only<Image>(RunOn(*engine_, spec));
  ASSERT_EQ(with.size(), 2u);
  ASSERT_EQ(without.size(), 2u);
  for (const Image& image : with) EXPECT_EQ(image.bytes, without[image.index].bytes);
}

TEST_F(PreviewsOfTheEngineTest, WhoCannotTakeThemIsTold) {
  GenerateSpec spec = SpecWithPreviews(1, 4);
  spec.picture.takes_previews = false;
  const std::vector<Event> events = RunOn(*engine_, spec);
  EXPECT_THAT(Only<Preview>(events), IsEmpty());
  const auto completed = Only<Completed>(events);
  ASSERT_EQ(completed.size(), 1u);
  EXPECT_THAT(completed[0].warnings,
              ElementsAre(HasSubstr("previews.every_n_steps has no effect")));
  EXPECT_FALSE(completed[0].effective.previews_every.has_value());
}

}  // namespace
}  // namespace latentd::engine
