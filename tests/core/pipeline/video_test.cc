// Videos by units of work; that they are diffusers' the golden cases say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/image/decode.h"
#include "core/image/encode.h"
#include "core/image/pixels/fit.h"
#include "core/noise/noise_generator.h"
#include "core/pipeline/plan/video_plan.h"
#include "core/pipeline/units/lanes.h"
#include "tests/core/pipeline/rig.h"
#include "tests/golden/video_checkpoint.h"
#include "tests/support/safetensors_writer.h"

namespace latentd::pipeline {
namespace {

using golden::VideoCheckpoint;
using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr Size kVideoSize{64, 64, 5};

ModelSource VideoSource(int decode_chunk = 0) {
  return {.name = "video",
          .checkpoint = VideoCheckpoint(),
          .buckets = {kVideoSize},
          .draws_videos = true,
          .decode_chunk = decode_chunk};
}

std::string Striped(int width, int height) {
  image::Image image{width, height, {}};
  for (int i = 0; i < width * height * 3; ++i) image.rgb.push_back(static_cast<uint8_t>(i * 7));
  return image::Encode(image, {}, /*parameters=*/"").value();
}

Asked SmallVideo() {
  Asked asked;
  asked.num_inference_steps = 2;
  asked.seed = 4;
  asked.video.emplace();
  asked.inputs.image = Striped(50, 40);
  asked.executed_size = kVideoSize;
  return asked;
}

using Frames = std::vector<image::Image>;

// The video, finished, and its frames.
Frames FramesOf(Picture& video) {
  Frames frames;
  while (video.next != UnitKind::kDone) {
    EXPECT_OK(testing::RunUnit(video));
    for (image::Image& frame : video.video->frames) frames.push_back(std::move(frame));
    video.video->frames.clear();
  }
  return frames;
}

std::vector<std::string> FrameBytesOf(const Frames& frames) {
  std::vector<std::string> bytes;
  for (const image::Image& frame : frames) bytes.emplace_back(frame.rgb.begin(), frame.rgb.end());
  return bytes;
}

std::vector<std::string> VideoFieldsOf(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : GetFieldViolations(status)) {
    fields.push_back(violation.field);
  }
  return fields;
}

class VideoTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { rig_ = new Rig({.models = {VideoSource()}}); }
  static void TearDownTestSuite() { delete std::exchange(rig_, nullptr); }

  static absl::Status Refusal(const Asked& asked) { return rig_->Resolve(asked).status(); }

  static Rig* rig_;
};
Rig* VideoTest::rig_ = nullptr;

TEST_F(VideoTest, HasTheDefaultsOfItsModelAndBucket) {
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, rig_->Resolve(SmallVideo()));
  EXPECT_EQ(plan->executed_size, kVideoSize);
  EXPECT_EQ(plan->spec.model, "video");
  EXPECT_EQ(plan->spec.video->num_frames, 5);
  EXPECT_EQ(plan->spec.video->decode_chunk_size, 5);
  EXPECT_EQ(plan->rows, 2);
  EXPECT_THAT(plan->warnings, IsEmpty());
  Asked asked = SmallVideo();
  asked.num_inference_steps.reset();
  ASSERT_OK_AND_ASSIGN(const SharedPlan unset, rig_->Resolve(asked));
  EXPECT_EQ(unset->spec.num_inference_steps, 25);
}

TEST_F(VideoTest, HasTheFramesOfTheBucketOfItsSides) {
  ModelSource source = VideoSource();
  source.buckets = {{64, 64, 100}, {64, 64, 2}, {72, 64, 7}};
  const Rig rig({.models = {source}});
  Asked asked = SmallVideo();
  asked.width = 64;
  asked.executed_size = Size{64, 64, 2};
  ASSERT_OK_AND_ASSIGN(const SharedPlan nearest, rig.Resolve(asked));
  EXPECT_EQ(nearest->spec.video->num_frames, 2);
  asked.width = 72;
  asked.executed_size = Size{72, 64, 7};
  ASSERT_OK_AND_ASSIGN(const SharedPlan wide, rig.Resolve(asked));
  EXPECT_EQ(wide->spec.video->num_frames, 7);
}

TEST_F(VideoTest, StartsWithTheFirstModelThatDrawsVideosWhereItNamesNone) {
  ModelSource other = VideoSource();
  other.name = "other";
  const Rig rig({.base = testing::kDemoBase, .models = {VideoSource(), other}});
  PictureSpec spec;
  EXPECT_EQ(rig.pipeline->StartOf(spec).name, "base");
  spec.video.emplace();
  EXPECT_EQ(rig.pipeline->StartOf(spec).name, "video");
  spec.model = "other";
  EXPECT_EQ(rig.pipeline->StartOf(spec).name, "other");
  spec.model = "nothing";
  EXPECT_EQ(rig.pipeline->StartOf(spec).name, "base");
}

TEST_F(VideoTest, IsRefusedForItsFramesAlone) {
  Asked asked = SmallVideo();
  asked.video->num_frames = 0;
  EXPECT_THAT(VideoFieldsOf(Refusal(asked)), ElementsAre("num_frames"));
}

TEST_F(VideoTest, IsRefusedWithEveryFieldAtFault) {
  Asked asked = SmallVideo();
  asked.inputs.image = "no image";
  asked.width = 20;
  asked.sigmas = {1, 0};
  asked.num_images_per_prompt = 17;
  asked.bucket_policy = BucketPolicy::kSnap;
  asked.video->fps = 0;
  asked.video->decode_chunk_size = 0;
  EXPECT_THAT(VideoFieldsOf(Refusal(asked)),
              UnorderedElementsAre("image", "width", "sigmas", "num_videos_per_prompt",
                                   "bucket_policy", "fps", "decode_chunk_size"));
}

// The answer says all seeds, and how many there are.
TEST_F(VideoTest, MayBeAskedForAgainAsItWasUsed) {
  Asked asked = SmallVideo();
  asked.num_images_per_prompt = 2;
  ASSERT_OK_AND_ASSIGN(const SharedPlan used, rig_->Resolve(asked));
  asked.seed.reset();
  asked.seeds = used->spec.seeds;
  EXPECT_OK(rig_->Resolve(asked));
  asked.num_images_per_prompt = 3;
  EXPECT_THAT(VideoFieldsOf(Refusal(asked)), ElementsAre("seeds"));
}

TEST_F(VideoTest, NeedsAnImageOfTwoPixelsASide) {
  Asked asked = SmallVideo();
  asked.inputs.image = Striped(1, 9);
  EXPECT_THAT(VideoFieldsOf(Refusal(asked)), ElementsAre("image"));
  asked.inputs.image.clear();
  EXPECT_THAT(GetFieldViolations(Refusal(asked)),
              ElementsAre(Field(&FieldViolation::description, HasSubstr("is required"))));
}

TEST_F(VideoTest, IsNoPictureNorThatAVideo) {
  PictureSpec picture = SmallSpec();
  EXPECT_THAT(GetFieldViolations(rig_->pipeline->Resolve(picture).status()),
              ElementsAre(Field(&FieldViolation::description, HasSubstr("draws videos"))));
  Asked asked = SmallVideo();
  asked.model = "other";
  EXPECT_THAT(GetFieldViolations(Refusal(asked)),
              ElementsAre(Field(&FieldViolation::description, HasSubstr("there are video"))));
  const Rig pictures({.base = testing::kDemoBase});
  EXPECT_THAT(pictures.Resolve(SmallVideo()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--video")));
}

TEST_F(VideoTest, ClampsItsChunkAndSaysSo) {
  Asked asked = SmallVideo();
  asked.video->decode_chunk_size = 9;
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, rig_->Resolve(asked));
  EXPECT_EQ(plan->spec.video->decode_chunk_size, 5);
  EXPECT_THAT(plan->warnings, ElementsAre(HasSubstr("decode_chunk_size 9")));
}

// A graph for each number of frames that occurs, and a unit for each chunk.
TEST_F(VideoTest, IsDecodedInChunks) {
  Asked asked = SmallVideo();
  asked.video->decode_chunk_size = 2;
  const std::unique_ptr<Picture> video = rig_->Start(asked);
  EXPECT_THAT(video->request->chunks, SizeIs(2));
  while (video->next != UnitKind::kDecode) ASSERT_OK(testing::RunUnit(*video));
  std::vector<size_t> chunks;
  std::vector<int> left;
  while (video->next != UnitKind::kDone) {
    for (const batching::OtherUnit& one : video->ahead().after) left.push_back(one.rows);
    ASSERT_OK(testing::RunUnit(*video));
    chunks.push_back(std::exchange(video->video->frames, {}).size());
  }
  EXPECT_THAT(chunks, ElementsAre(2, 2, 1));
  EXPECT_THAT(left, ElementsAre(2, 2, 1, 2, 1, 1));
}

TEST_F(VideoTest, OfACroppedImageIsThatOfItsMiddle) {
  Asked cropped = SmallVideo();
  cropped.inputs.image = Striped(90, 40);
  const auto stretched = FrameBytesOf(FramesOf(*rig_->Start(cropped)));
  ASSERT_OK_AND_ASSIGN(const image::Image image, image::Decode(cropped.inputs.image));
  ASSERT_OK_AND_ASSIGN(const image::Image middle, image::ResizeToCover(image, 64, 64));
  cropped.video->resize_mode = ResizeMode::kCrop;
  const auto frames = FrameBytesOf(FramesOf(*rig_->Start(cropped)));
  Asked cut = SmallVideo();
  cut.inputs.image = image::Encode(middle, {}, /*parameters=*/"").value();
  EXPECT_EQ(frames, FrameBytesOf(FramesOf(*rig_->Start(cut))));
  EXPECT_NE(frames, stretched);
}

TEST_F(VideoTest, IsRefusedWhereAnImageIsTooNarrowToBeCropped) {
  Asked asked = SmallVideo();
  asked.inputs.image = Striped(2, 400);
  asked.video->resize_mode = ResizeMode::kCrop;
  const std::unique_ptr<Picture> video = rig_->Start(asked);
  EXPECT_THAT(VideoFieldsOf(testing::RunUnit(*video)), ElementsAre("image"));
}

// Rows of the evaluations of a video.
std::vector<int> RowsOfSteps(Picture& video) {
  while (video.next != UnitKind::kStep) EXPECT_OK(testing::RunUnit(video));
  std::vector<int> rows;
  while (video.next == UnitKind::kStep) {
    rows.push_back(video.next_rows());
    EXPECT_OK(testing::RunUnit(video));
  }
  return rows;
}

TEST_F(VideoTest, IsGuidedInAnIntervalOfItsSteps) {
  Asked asked = SmallVideo();
  asked.num_inference_steps = 4;
  asked.guidance_interval = {0.25, 0.75};
  const std::unique_ptr<Picture> partly = rig_->Start(asked);
  EXPECT_THAT(partly->stage().steps, SizeIs(2));  // one row and two
  EXPECT_THAT(RowsOfSteps(*partly), ElementsAre(1, 2, 2, 1));
  const auto frames = FrameBytesOf(FramesOf(*partly));
  asked.guidance_interval = {0, 1};
  const std::unique_ptr<Picture> always = rig_->Start(asked);
  EXPECT_THAT(always->stage().steps, SizeIs(1));
  EXPECT_THAT(RowsOfSteps(*always), ElementsAre(2, 2, 2, 2));
  EXPECT_NE(frames, FrameBytesOf(FramesOf(*always)));
}

// As a video that has no guidance, whose steps have one row all the same.
TEST_F(VideoTest, IsUnguidedWhereNoStepIsInTheInterval) {
  Asked asked = SmallVideo();
  asked.guidance_interval = {0, 0.4};  // int(2 * 0.4) steps
  const auto none = FrameBytesOf(FramesOf(*rig_->Start(asked)));
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, rig_->Resolve(asked));
  EXPECT_THAT(plan->warnings, ElementsAre(HasSubstr("guidance_interval has none of the steps")));
  asked.guidance_interval.reset();
  asked.video->max_guidance_scale = 1;
  EXPECT_EQ(none, FrameBytesOf(FramesOf(*rig_->Start(asked))));
  asked.guidance_interval = {0, 0.5};
  ASSERT_OK_AND_ASSIGN(const SharedPlan unguided, rig_->Resolve(asked));
  EXPECT_THAT(unguided->warnings, ElementsAre(HasSubstr("guidance_interval has no effect")));
}

TEST_F(VideoTest, IsRefusedForAnIntervalThatIsNone) {
  Asked asked = SmallVideo();
  asked.video->fps = 0;
  for (const GuidanceInterval wrong : {GuidanceInterval{0.5, 0.5}, GuidanceInterval{0, 1.5}}) {
    asked.guidance_interval = wrong;
    EXPECT_THAT(VideoFieldsOf(Refusal(asked)), UnorderedElementsAre("guidance_interval", "fps"));
  }
}

std::string GivenLatents(const std::vector<int64_t>& shape, uint64_t seed) {
  const device::Buffer noise = noise::NoiseGenerator(seed).Normal(device::Shape(shape));
  return testing::SafetensorsBytes({testing::F32Tensor("latents", shape, ValuesOf(noise))});
}

TEST_F(VideoTest, BeginsWithGivenLatents) {
  Asked asked = SmallVideo();
  const auto own = FrameBytesOf(FramesOf(*rig_->Start(asked)));
  // As the seed's generator draws them, behind the noise on the image.
  noise::NoiseGenerator generator(4);
  generator.Normal({1, 3, 64, 64});
  const std::vector<int64_t> shape = {1, 5, 4, 8, 8};
  asked.inputs.latents = testing::SafetensorsBytes(
      {testing::F32Tensor("latents", shape, ValuesOf(generator.Normal(device::Shape(shape))))});
  EXPECT_EQ(own, FrameBytesOf(FramesOf(*rig_->Start(asked))));
  asked.inputs.latents = GivenLatents(shape, 6);
  const auto given = FrameBytesOf(FramesOf(*rig_->Start(asked)));
  EXPECT_NE(own, given);
  asked.seed = 5;  // the noise on the image alone is another
  EXPECT_NE(given, FrameBytesOf(FramesOf(*rig_->Start(asked))));
}

TEST_F(VideoTest, OfSeveralBeginsWithItsOwnOfTheGivenLatents) {
  Asked asked = SmallVideo();
  asked.seed.reset();
  asked.seeds = {4, 4};
  asked.inputs.latents = GivenLatents({2, 5, 4, 8, 8}, 6);
  ASSERT_OK_AND_ASSIGN(const auto videos, rig_->Begin(asked));
  const auto first = FrameBytesOf(FramesOf(*videos.at(0)));
  EXPECT_NE(first, FrameBytesOf(FramesOf(*videos.at(1))));
  asked.inputs.latents = GivenLatents({1, 5, 4, 8, 8}, 6);  // the first half of those numbers
  ASSERT_OK_AND_ASSIGN(const auto alike, rig_->Begin(asked));
  EXPECT_EQ(first, FrameBytesOf(FramesOf(*alike.at(0))));
  EXPECT_EQ(first, FrameBytesOf(FramesOf(*alike.at(1))));
}

TEST_F(VideoTest, IsRefusedForLatentsOfAnotherShape) {
  Asked asked = SmallVideo();
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {1, 4, 4, 8, 8}, {2, 5, 4, 8, 8}, {1, 5, 4, 8, 9}, {5, 4, 8, 8}, {1, 20, 8, 8}}) {
    asked.inputs.latents = GivenLatents(shape, 6);
    EXPECT_THAT(GetFieldViolations(Refusal(asked)),
                ElementsAre(AllOf(Field(&FieldViolation::field, "latents"),
                                  Field(&FieldViolation::description, HasSubstr("[1,5,4,8,8]")))));
  }
}

TEST_F(VideoTest, OfSeveralIsEachThatOfItsSeed) {
  Asked both = SmallVideo();
  both.num_images_per_prompt = 2;
  ASSERT_OK_AND_ASSIGN(const auto videos, rig_->Begin(both));
  ASSERT_THAT(videos, SizeIs(2));
  // The first makes the conditioning of both.
  const auto first = FrameBytesOf(FramesOf(*videos[0]));
  const auto second = FrameBytesOf(FramesOf(*videos[1]));
  Asked alone = SmallVideo();
  alone.seed = 5;
  EXPECT_EQ(second, FrameBytesOf(FramesOf(*rig_->Start(alone))));
  EXPECT_NE(second, first);
  EXPECT_THAT(first, SizeIs(5));
}

// The reference backend, which draws here, rounds otherwise where a step has other rows.
void ExpectAlike(const std::vector<std::string>& frames, const std::vector<std::string>& expected) {
  ASSERT_EQ(frames.size(), expected.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    ASSERT_EQ(frames[i].size(), expected[i].size());
    int most = 0;
    for (size_t at = 0; at < frames[i].size(); ++at) {
      const int byte = static_cast<uint8_t>(frames[i][at]);
      most = std::max(most, std::abs(byte - static_cast<uint8_t>(expected[i][at])));
    }
    EXPECT_LE(most, 1) << "frame " << i;
  }
}

// Each step is of both, who are at different ones.
TEST_F(VideoTest, SharesStepsWithAnother) {
  const Rig rig({.models = {VideoSource()}, .row_counts = {2, 4}});
  Asked one = SmallVideo(), other = SmallVideo();
  one.num_inference_steps = 3;
  other.seed = 8;
  other.video->max_guidance_scale = 5;
  const auto alone = FrameBytesOf(FramesOf(*rig.Start(one)));
  const auto other_alone = FrameBytesOf(FramesOf(*rig.Start(other)));
  // The step of four rows is dispensable, so that it is there if it is ready.
  ASSERT_OK_AND_ASSIGN(const auto steps,
                       rig.pipeline->GraphsOf(rig.pipeline->table().first().id, kVideoSize, 4));
  for (const GraphHandle& graph : steps) {
    ASSERT_OK(rig.pipeline->first().graphs().Get(graph));
    rig.kept.push_back(graph);
  }
  const std::unique_ptr<Picture> a = rig.Start(one), b = rig.Start(other);
  ASSERT_EQ(a->lane(), b->lane());
  ASSERT_OK_AND_ASSIGN(const auto stream, a->stage().device().NewStream(SystemClock()));
  Lanes lanes;
  for (Picture* video : {a.get(), b.get()}) {
    while (video->next != UnitKind::kStep) ASSERT_OK(testing::RunUnit(*video));
  }
  ASSERT_OK_AND_ASSIGN(PendingUnit first, EnqueueUnit({a.get()}, lanes, *stream));
  ASSERT_OK(CompleteUnit(first, *a, first.parts[0]));
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(PendingUnit unit, EnqueueUnit({a.get(), b.get()}, lanes, *stream));
    EXPECT_EQ(unit.rows, 4);
    ASSERT_OK(CompleteUnit(unit, *a, unit.parts[0]));
    ASSERT_OK(CompleteUnit(unit, *b, unit.parts[1]));
  }
  ExpectAlike(FrameBytesOf(FramesOf(*a)), alone);
  ExpectAlike(FrameBytesOf(FramesOf(*b)), other_alone);
}

TEST_F(VideoTest, HasALaneOfItsFrames) {
  Asked asked = SmallVideo();
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, rig_->Resolve(asked));
  asked.video->num_frames = 4;
  asked.executed_size = Size{64, 64, 4};
  ASSERT_OK_AND_ASSIGN(const SharedPlan shorter, rig_->Resolve(asked));
  EXPECT_NE(rig_->pipeline->Sketch(plan)->lane(), rig_->pipeline->Sketch(shorter)->lane());
}

TEST_F(VideoTest, IsReadyInTheChunksOfItsBucket) {
  const Rig rig({.models = {VideoSource(/*decode_chunk=*/2)}});
  const ModelId model = rig.pipeline->table().first().id;
  ASSERT_OK_AND_ASSIGN(const auto graphs, rig.pipeline->GraphsOf(model, kVideoSize, 2));
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, rig.Resolve(SmallVideo()));
  EXPECT_EQ(plan->spec.video->decode_chunk_size, 2);
  ASSERT_OK_AND_ASSIGN(const auto needed,
                       rig.pipeline->HandlesOf(*plan, ModelGraphs::IfUnknown::kRefuse));
  for (const GraphHandle& graph : needed) EXPECT_THAT(graphs, ::testing::Contains(graph));
}

TEST_F(VideoTest, HoldsMoreWithMoreFrames) {
  const int64_t one = rig_->pipeline->StateBytes({64, 64, 1}, 2);
  const int64_t five = rig_->pipeline->StateBytes(kVideoSize, 2);
  // State, noise and latents of 8x8x4 numbers a frame, and pixels.
  EXPECT_GT(five - one, 4 * (2 * 5 * 256 * 4 + 3 * 64 * 64 * 3));
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, rig_->Resolve(SmallVideo()));
  EXPECT_GT(plan->state_bytes, 2 * 3 * 64 * 64 * 4);  // noise on the image alone
}

TEST_F(VideoTest, StandsBesideABase) {
  const Rig rig({.base = testing::kDemoBase, .models = {VideoSource()}, .buckets = {{64, 64}}});
  const ModelTable& table = rig.pipeline->table();
  EXPECT_THAT(rig.pipeline->BucketsOf(table.first().id), ElementsAre(Size{64, 64}));
  EXPECT_THAT(rig.pipeline->BucketsOf(table.Find("video")->id), ElementsAre(kVideoSize));
  EXPECT_EQ(FrameBytesOf(FramesOf(*rig.Start(SmallVideo()))),
            FrameBytesOf(FramesOf(*rig_->Start(SmallVideo()))));
}

TEST(VideoLoadingTest, IsRefusedByName) {
  const auto load = [](const LoadOptions& options) {
    metrics::Registry registry;
    backends::reference::ReferenceBackend backend;
    weights::WeightStore weights(backend);
    compiler::GraphStore graphs(backend, SystemClock(), registry, nullptr,
                                compiler::GraphStore::Options());
    return LoadPipeline(options, weights, graphs).status();
  };
  EXPECT_THAT(load({.base = VideoCheckpoint()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("give it as --video")));
  ModelSource picture = VideoSource();
  picture.checkpoint = testing::kDemoBase;
  EXPECT_THAT(load({.models = {picture}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("supported for videos: StableVideoDiffusionPipeline")));
  EXPECT_THAT(
      load({.models = {VideoSource()}, .components = {{"image_encoder", ComponentMode::kOff}}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("image_encoder is off")));
}

}  // namespace
}  // namespace latentd::pipeline
