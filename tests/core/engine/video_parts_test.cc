// Videos whose decoder runs in parts, which an engine draws beside images: what may happen between
// two parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/image/encode.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/golden/video_checkpoint.h"

namespace latentd::engine {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr pipeline::Size kFrames{64, 64, 5};

Config PartsConfig() {
  Config config = SmallConfig();
  config.rows = {1, 2};
  config.models = {{.name = "video",
                    .checkpoint = golden::VideoCheckpoint(),
                    .buckets = {kFrames},
                    .draws_videos = true}};
  config.pixels_in_parts = 0;
  config.load_waits_for_shared_steps = true;
  return config;
}

GenerateSpec VideoInParts() {
  image::Image image{40, 30, {}};
  for (int i = 0; i < 40 * 30 * 3; ++i) image.rgb.push_back(static_cast<uint8_t>(i * 5));
  GenerateSpec spec;
  spec.picture.num_inference_steps = 3;
  spec.picture.seed = 7;
  spec.picture.video.emplace();
  spec.inputs = std::make_shared<const pipeline::Inputs>(
      pipeline::Inputs{.image = image::Encode(image, {}, /*parameters=*/"").value()});
  return spec;
}

bool IsDecoded(const Event& event) {
  const auto* progress = std::get_if<Progress>(&event);
  return progress != nullptr && progress->stage == Stage::kDecode;
}

std::vector<std::string> FramesOf(const std::vector<Event>& events) {
  std::vector<std::string> frames;
  for (const Image& image : Only<Image>(events)) frames.push_back(image.bytes);
  std::sort(frames.begin(), frames.end());
  return frames;
}

int PartsOf(const std::vector<Event>& events) {
  return static_cast<int>(std::count_if(events.begin(), events.end(), IsDecoded));
}

// An engine whose runs a test may refuse.
class VideoPartsTest : public ::testing::Test {
 protected:
  VideoPartsTest() {
    EXPECT_OK(engine_.Load());
    on_run_.refuse = [this] {
      return refuses_ ? OutOfMemoryError("no memory in this test") : absl::OkStatus();
    };
  }

  std::atomic<bool> refuses_ = false;
  OnRun on_run_;
  device::HostDevice device_;
  LocalEngine engine_{PartsConfig(), std::make_unique<RunWatch>(on_run_, device_), SystemClock()};
};

TEST_F(VideoPartsTest, GiveTheFramesOfTheWhole) {
  Config config = PartsConfig();
  config.pixels_in_parts = pipeline::kPixelsDecodedInParts;
  LocalEngine whole(config, *backends::cpu::CpuBackend::Create(), SystemClock());
  ASSERT_OK(whole.Load());
  const std::vector<Event> expected = RunOn(whole, VideoInParts());
  const std::vector<Event> events = RunOn(engine_, VideoInParts());
  EXPECT_THAT(FramesOf(events), SizeIs(5));
  EXPECT_EQ(FramesOf(events), FramesOf(expected));
  EXPECT_EQ(PartsOf(events), 3);
  EXPECT_EQ(PartsOf(expected), 1);
}

// Each video's decoding is one stage of its, however many parts it has.
TEST_F(VideoPartsTest, AreOneStage) {
  const auto decoded = [&] {
    double count = 0;
    for (const auto& series : SeriesOf(engine_.metrics(), metrics::kStageSeconds)) {
      for (const auto& label : series.label) {
        if (label.value == "decode") {
          count += static_cast<double>(series.histogram.sample_count);
        }
      }
    }
    return count;
  };
  RunOn(engine_, VideoInParts());
  RunOn(engine_, VideoInParts());
  EXPECT_EQ(decoded(), 2);
}

// The image comes while the loop reports the first part.
TEST_F(VideoPartsTest, LetUnitsOfAnImageRunBetweenThem) {
  absl::Mutex mutex;
  std::vector<std::string> order;
  absl::Notification first_is_decoded, image_is_there;
  const auto note = [&](const char* of, const Event& event) {
    if (!std::holds_alternative<Progress>(event)) return;
    absl::MutexLock lock(&mutex);
    order.emplace_back(of);
  };
  const auto video = std::make_shared<WatchedSink>([&](const Event& event) {
    if (!IsDecoded(event)) return;
    note("part", event);
    if (first_is_decoded.HasBeenNotified()) return;
    first_is_decoded.Notify();
    image_is_there.WaitForNotification();
  });
  const auto image =
      std::make_shared<WatchedSink>([&](const Event& event) { note("image", event); });
  ASSERT_OK(engine_.Submit(VideoInParts(), video));
  first_is_decoded.WaitForNotification();
  EXPECT_OK(engine_.Submit(SmallSpec(), image));
  image_is_there.Notify();
  EXPECT_THAT(FramesOf(video->WaitForEnd()), SizeIs(5));
  EXPECT_THAT(Only<Image>(image->WaitForEnd()), SizeIs(1));
  absl::MutexLock lock(&mutex);
  order.resize(order.size() - static_cast<size_t>(std::find(order.rbegin(), order.rend(), "part") -
                                                  order.rbegin()));
  EXPECT_EQ(std::count(order.begin(), order.end(), "part"), 3);
  EXPECT_THAT(order, Contains("image"));
}

TEST_F(VideoPartsTest, EndWithTheirVideoWhenItIsCancelled) {
  std::atomic<uint64_t> handle = 0;
  absl::Notification is_known;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    if (!IsDecoded(event)) return;
    is_known.WaitForNotification();
    engine_.Cancel(handle);
  });
  const auto submitted = engine_.Submit(VideoInParts(), sink);
  ASSERT_OK(submitted);
  handle = *submitted;
  is_known.Notify();
  const std::vector<Event> events = sink->WaitForEnd();
  const auto failed = Only<Failed>(events);
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_TRUE(absl::IsCancelled(failed[0].status)) << failed[0].status;
  EXPECT_EQ(PartsOf(events), 1);
  EXPECT_THAT(FramesOf(events), SizeIs(0));
  EXPECT_EQ(PartsOf(RunOn(engine_, VideoInParts())), 3);
  EXPECT_EQ(engine_.memory().state_bytes, 0);
}

TEST_F(VideoPartsTest, WithoutMemoryForOneTheirVideoAloneFails) {
  const std::vector<std::string> expected = FramesOf(RunOn(engine_, VideoInParts()));
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    if (IsDecoded(event)) refuses_ = true;
  });
  ASSERT_OK(engine_.Submit(VideoInParts(), sink));
  const std::vector<Event> events = sink->WaitForEnd();
  refuses_ = false;
  const auto failed = Only<Failed>(events);
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_TRUE(absl::IsResourceExhausted(failed[0].status)) << failed[0].status;
  EXPECT_EQ(GetReason(failed[0].status), "OUT_OF_MEMORY");
  EXPECT_EQ(PartsOf(events), 1);
  EXPECT_EQ(FramesOf(RunOn(engine_, VideoInParts())), expected);
  EXPECT_EQ(engine_.memory().state_bytes, 0);
}

// The prediction for the bucket has what parts leave for each other.
TEST_F(VideoPartsTest, AreInThePredictedMemory) {
  const auto predicted = [](int64_t pixels_in_parts) {
    Config config = PartsConfig();
    config.base.clear();  // its images' state is larger
    config.pixels_in_parts = pixels_in_parts;
    LocalEngine engine(config, *backends::cpu::CpuBackend::Create(), SystemClock());
    EXPECT_OK(engine.Load());
    return engine.memory().predicted.state;
  };
  EXPECT_GE(predicted(0) - predicted(pipeline::kPixelsDecodedInParts),
            2 * 4 * 5 * (16 * 16 + 32 * 32) * 32);  // two videos of one row
}

}  // namespace
}  // namespace latentd::engine
