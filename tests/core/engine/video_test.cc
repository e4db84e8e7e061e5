// Videos that an engine draws, beside pictures: frames as chunks of them are decoded, buckets of
// width, height and frames, cancellation, and memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/engine/prepare/admission.h"
#include "core/engine/requests/arrival.h"
#include "core/image/encode.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/core/pipeline/rig.h"
#include "tests/golden/video_checkpoint.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr pipeline::Size kBucket{64, 64, 5};

Config VideoConfig() {
  Config config = SmallConfig();
  config.rows = {1, 2};
  config.models = {{.name = "video",
                    .checkpoint = golden::VideoCheckpoint(),
                    .buckets = {kBucket},
                    .draws_videos = true,
                    .decode_chunk = 2}};
  return config;
}

GenerateSpec SmallVideo() {
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

std::unique_ptr<LocalEngine> LoadVideos(const Config& config) {
  auto engine =
      std::make_unique<LocalEngine>(config, *backends::cpu::CpuBackend::Create(), SystemClock());
  EXPECT_OK(engine->Load());
  engine->FinishPreparing();
  return engine;
}

// Files of the frames, by video and frame.
std::map<std::pair<int, int>, std::string> FrameFilesOf(const std::vector<Event>& events) {
  std::map<std::pair<int, int>, std::string> files;
  for (const Image& image : Only<Image>(events)) {
    EXPECT_TRUE(files.emplace(std::pair(image.index, image.frame), image.bytes).second);
  }
  return files;
}

int DecodesOf(const std::vector<Event>& events) {
  int decodes = 0;
  for (const Progress& progress : Only<Progress>(events)) {
    decodes += progress.stage == Stage::kDecode ? 1 : 0;
  }
  return decodes;
}

class VideoEngineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { engine_ = LoadVideos(VideoConfig()).release(); }
  static void TearDownTestSuite() { delete std::exchange(engine_, nullptr); }

  static LocalEngine* engine_;
};
LocalEngine* VideoEngineTest::engine_ = nullptr;

TEST_F(VideoEngineTest, DrawsEachFrameOnce) {
  ASSERT_EQ(engine_->state(), State::kReady) << engine_->status().reason;
  const int64_t compiled = CompilationsOf(*engine_);
  const std::vector<Event> events = RunOn(*engine_, SmallVideo());
  EXPECT_THAT(FrameFilesOf(events), SizeIs(5));
  EXPECT_EQ(DecodesOf(events), 3);  // chunks of 2, 2 and 1
  EXPECT_THAT(Only<Started>(events), ElementsAre(Field(&Started::executed_size, kBucket)));
  const auto completed = Only<Completed>(events);
  ASSERT_THAT(completed, SizeIs(1));
  EXPECT_EQ(completed[0].effective.video->decode_chunk_size, 2);
  EXPECT_EQ(completed[0].effective.video->num_frames, 5);
  EXPECT_EQ(CompilationsOf(*engine_), compiled);
}

TEST_F(VideoEngineTest, DrawsTheSameBesideOthers) {
  const auto alone = FrameFilesOf(RunOn(*engine_, SmallVideo()));
  const std::string picture = Only<Image>(RunOn(*engine_, SmallSpec())).at(0).bytes;
  GenerateSpec two = SmallVideo();
  two.picture.num_images_per_prompt = 2;
  const auto videos = std::make_shared<testing::RecordingSink>();
  const auto pictures = std::make_shared<testing::RecordingSink>();
  ASSERT_OK(engine_->Submit(std::move(two), videos));
  ASSERT_OK(engine_->Submit(SmallSpec(), pictures));
  const auto both = FrameFilesOf(videos->WaitForEnd());
  ASSERT_THAT(both, SizeIs(10));
  for (const auto& [place, file] : alone) EXPECT_EQ(both.at(place), file) << place.second;
  const auto drawn = Only<Image>(pictures->WaitForEnd());
  ASSERT_THAT(drawn, SizeIs(1));
  EXPECT_EQ(drawn[0].bytes, picture);
}

// Its units are not all of one turn: the picture's steps come between them.
TEST_F(VideoEngineTest, TakesTurnsWithPictures) {
  GenerateSpec video = SmallVideo();
  video.picture.num_inference_steps = 20;
  std::atomic<bool> pictures_end = false;
  int decodes_before = 0;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    const bool decodes = progress != nullptr && progress->stage == Stage::kDecode;
    if (decodes && !pictures_end) ++decodes_before;
  });
  const auto picture = std::make_shared<WatchedSink>([&](const Event& event) {
    if (std::holds_alternative<Image>(event)) pictures_end = true;
  });
  ASSERT_OK(engine_->Submit(std::move(video), sink));
  ASSERT_OK(engine_->Submit(SmallSpec(), picture));
  EXPECT_THAT(Only<Image>(picture->WaitForEnd()), SizeIs(1));
  EXPECT_THAT(FrameFilesOf(sink->WaitForEnd()), SizeIs(5));
  EXPECT_EQ(decodes_before, 0);
}

TEST_F(VideoEngineTest, EndsBetweenChunksWhenItIsCancelled) {
  std::atomic<uint64_t> handle = 0;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress != nullptr && progress->stage == Stage::kDecode) engine_->Cancel(handle);
  });
  GenerateSpec spec = SmallVideo();
  spec.picture.num_inference_steps = 40;  // the handle is known by the end of them
  const auto submitted = engine_->Submit(std::move(spec), sink);
  ASSERT_OK(submitted);
  handle = *submitted;
  const std::vector<Event> events = sink->WaitForEnd();
  const auto failed = Only<Failed>(events);
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_TRUE(absl::IsCancelled(failed[0].status)) << failed[0].status;
  EXPECT_EQ(DecodesOf(events), 1);
  EXPECT_THAT(RunOn(*engine_, SmallVideo()), SizeIs(::testing::Gt(5)));  // the lane is free again
}

TEST_F(VideoEngineTest, EndsByItsDeadline) {
  GenerateSpec spec = SmallVideo();
  spec.deadline = SystemClock().Monotonic() - absl::Seconds(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(SubmitTo(*engine_, std::move(spec))));
}

TEST_F(VideoEngineTest, HasBucketsOfFrames) {
  GenerateSpec spec = SmallVideo();
  spec.picture.video->num_frames = 4;
  const absl::Status refused = SubmitTo(*engine_, std::move(spec));
  EXPECT_EQ(GetReason(refused), "NO_SUCH_BUCKET");
  EXPECT_THAT(GetFieldViolations(refused),
              ElementsAre(Field(&FieldViolation::field, "num_frames")));
  EXPECT_THAT(
      GetFieldViolations(refused),
      ElementsAre(Field(&FieldViolation::description, HasSubstr("64x64x4 is not one of 64x64x5"))));
  bool served = false;
  for (const ServerStatus::Bucket& bucket : engine_->status().buckets) {
    served = served || (bucket.model == "video" && bucket.size == kBucket && bucket.ready);
  }
  EXPECT_TRUE(served);
}

TEST_F(VideoEngineTest, CompilesForAnotherChunkWhereItMay) {
  GenerateSpec spec = SmallVideo();
  spec.picture.video->decode_chunk_size = 3;
  const absl::Status cold = SubmitTo(*engine_, spec);
  EXPECT_EQ(GetReason(cold), "BUCKET_COLD") << cold;
  EXPECT_THAT(cold, StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("for chunks of 3 frames (it is for those of 2)")));
  spec.picture.bucket_policy = pipeline::BucketPolicy::kColdOk;
  const std::vector<Event> events = RunOn(*engine_, spec);
  EXPECT_THAT(FrameFilesOf(events), SizeIs(5));
  EXPECT_EQ(DecodesOf(events), 2);
  EXPECT_NE(FrameFilesOf(events), FrameFilesOf(RunOn(*engine_, SmallVideo())));
}

TEST_F(VideoEngineTest, CountsWhatIsAskedForAgain) {
  GenerateSpec one = SmallVideo(), other = SmallVideo();
  EXPECT_EQ(ContentOf(one), ContentOf(other));
  other.picture.video->motion_bucket_id = 5;
  EXPECT_NE(ContentOf(one), ContentOf(other));
}

// A budget between what decoding eight frames at once needs, and four.
class VideoRoomTest : public ::testing::Test {
 protected:
  VideoRoomTest()
      : rig_({.models = {{.name = "video",
                          .checkpoint = golden::VideoCheckpoint(),
                          .buckets = {{128, 128, 8}},
                          .draws_videos = true,
                          .decode_chunk = 1}}},
             /*cache_dir=*/"", *backends::cpu::CpuBackend::Create()) {
    config_.allow_cold_requests = true;
    models_.pipeline = std::move(rig_.pipeline);
    models_.buckets = std::make_unique<BucketGraphs>(*models_.pipeline, rig_.graphs);
    const int64_t all = TotalOf(*PlanWith(8)), half = TotalOf(*PlanWith(4));
    EXPECT_GT(all, half);
    budget_.Open({.bytes = (all + half) / 2,
                  .configured = {},
                  .state_bytes = [](pipeline::Size, int) { return 0; }});
  }

  pipeline::SharedPlan PlanWith(int chunk) const {
    GenerateSpec spec = SmallVideo();
    spec.picture.bucket_policy = pipeline::BucketPolicy::kColdOk;
    spec.picture.video->decode_chunk_size = chunk;
    return models_.pipeline->Resolve(spec.picture, *spec.inputs).value();
  }
  GraphHandles HandlesOf(const pipeline::Plan& plan) const {
    return models_.pipeline->HandlesOf(plan, pipeline::ModelGraphs::IfUnknown::kBuild).value();
  }
  int64_t TotalOf(const pipeline::Plan& plan) {
    MemoryTally tally;
    tally.AddState(models_.pipeline->StateBytes(plan.executed_size, plan.rows));
    for (const compiler::GraphHandle& graph : HandlesOf(plan)) {
      tally.Add(compiler::GraphStore::IdOf(graph), rig_.graphs.Predict(graph).value());
    }
    return tally.prediction().total();
  }
  absl::Status CheckFits(const pipeline::Plan& plan) {
    return admission_.CheckFits(plan, HandlesOf(plan), /*evict_unused_since=*/0,
                                [] { return true; });
  }

  Config config_;
  pipeline::Rig rig_;
  Models models_;
  MemoryBudget budget_;
  Admission admission_{config_, models_, rig_.graphs, budget_};
};

TEST_F(VideoRoomTest, NamesTheChunkThatFits) {
  const pipeline::SharedPlan all = PlanWith(8);
  const absl::Status refused = CheckFits(*all);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("with decode_chunk_size 4 it would fit")));
  EXPECT_EQ(GetReason(refused), "OUT_OF_MEMORY");
  EXPECT_THAT(GetFacts(refused), ::testing::Contains(ErrorFact{"decode_chunk_size", "4"}));
  EXPECT_OK(CheckFits(*PlanWith(4)));
  // It is known from now on, before anything is built.
  EXPECT_THAT(admission_.CheckCold(*all),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("decode_chunk_size 4")));
  EXPECT_OK(admission_.CheckCold(*PlanWith(4)));
  // Once more, from a request that waited beside it: the chunk is said once.
  const absl::Status again = CheckFits(*all);
  EXPECT_EQ(again.message(), admission_.CheckCold(*all).message());
}

TEST_F(VideoRoomTest, NamesTheChunkThatFitsForThoseThatWereTriedToo) {
  budget_.Open({.bytes = (TotalOf(*PlanWith(4)) + TotalOf(*PlanWith(2))) / 2,
                .configured = {},
                .state_bytes = [](pipeline::Size, int) { return 0; }});
  EXPECT_THAT(CheckFits(*PlanWith(8)), StatusIs(absl::StatusCode::kResourceExhausted,
                                                HasSubstr("with decode_chunk_size 2")));
  EXPECT_THAT(GetFacts(admission_.CheckCold(*PlanWith(4))),
              ::testing::Contains(ErrorFact{"decode_chunk_size", "2"}));
}

}  // namespace
}  // namespace latentd::engine
