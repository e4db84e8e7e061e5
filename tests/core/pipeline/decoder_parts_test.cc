// Videos whose decoder runs in parts, each a unit: the frames are those of the decoder as a whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/families/family/video_family.h"
#include "core/image/encode.h"
#include "core/pipeline/plan/video_plan.h"
#include "core/weights/containers/checkpoint.h"
#include "tests/core/pipeline/rig.h"
#include "tests/golden/video_checkpoint.h"
#include "tests/support/separate_device.h"

namespace latentd::pipeline {
namespace {

using device::DType;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Size kClip{64, 64, 5};
constexpr int64_t kPixels = int64_t{64} * 64;  // pixels of a frame
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

LoadOptions PartedOptions(int64_t pixels_in_parts, DType decoder = DType::kF32) {
  LoadOptions options{.models = {{.name = "video",
                                  .checkpoint = golden::VideoCheckpoint(),
                                  .buckets = {kClip},
                                  .draws_videos = true}}};
  options.pixels_in_parts = pixels_in_parts;
  options.precision = {{"vae_decoder", decoder}};
  return options;
}

Asked ClipInChunks(int chunk) {
  image::Image image{50, 40, {}};
  for (int i = 0; i < 50 * 40 * 3; ++i) image.rgb.push_back(static_cast<uint8_t>(i * 7));
  Asked asked;
  asked.num_inference_steps = 2;
  asked.seed = 4;
  asked.video.emplace();
  asked.video->decode_chunk_size = chunk;
  asked.inputs.image = image::Encode(image, {}, /*parameters=*/"").value();
  asked.executed_size = kClip;
  return asked;
}

std::vector<image::Image> TakeFrames(Picture& video) {
  return std::exchange(video.video->frames, {});
}

std::vector<image::Image> DrawFrames(Picture& video) {
  std::vector<image::Image> frames;
  while (video.next != UnitKind::kDone) {
    EXPECT_OK(testing::RunUnit(video));
    for (image::Image& frame : TakeFrames(video)) frames.push_back(std::move(frame));
  }
  return frames;
}

void RunUntilDecode(Picture& video) {
  while (video.next != UnitKind::kDecode) ASSERT_OK(testing::RunUnit(video));
}

using BackendAndDType = std::tuple<std::string, DType>;

class DecoderPartsTest : public ::testing::TestWithParam<BackendAndDType> {
 protected:
  static std::unique_ptr<backends::Backend> Backend() {
    if (std::get<0>(GetParam()) == "cpu") return backends::cpu::CpuBackend::Create().value();
    return std::make_unique<backends::reference::ReferenceBackend>();
  }
  static Rig RigWith(int64_t pixels_in_parts) {
    return Rig(PartedOptions(pixels_in_parts, std::get<1>(GetParam())), "", Backend());
  }

  // The parts that graphs of that shape are declared in, or the whole; with their outputs of the
  // same latents.
  static NamedBuffers Decode(const Rig& rig, const StepShape& shape, int parts) {
    const LoadedModel& model = rig.pipeline->first();
    const device::Buffer latents = device::Buffer::Allocate(
        DType::kF32, {shape.frames, model.latent_channels(), shape.height, shape.width});
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    for (float& number : latents.as<float>()) number = normal(random);
    NamedBuffers ports = {{"latents", latents}};
    for (int part = std::min(parts, 1); part <= parts; ++part) {
      const GraphHandle graph =
          model.graphs().Find({.kind = GraphKind::kDecode, .shape = shape, .part = part}).value();
      rig.kept.push_back(graph);
      ports = testing::RunNamed(model.graphs().Get(graph).value(), ports, {}).value();
      if (part == parts) break;
      EXPECT_THAT(ports, SizeIs(1));
      const device::Buffer features = ports.at(families::kNextFeatures);
      EXPECT_EQ(features.dtype(), std::get<1>(GetParam()));
      ports = {{families::kFeatures, features}};
    }
    return ports;
  }
};

std::vector<uint8_t> BytesOf(const device::Buffer& buffer) {
  const device::Buffer copy = testing::OnHost(buffer);
  const auto bytes = copy.as<uint8_t>();
  return {bytes.begin(), bytes.end()};
}

TEST_P(DecoderPartsTest, GiveTheBytesOfTheWhole) {
  const Rig rig = RigWith(kNever);
  for (const StepShape& shape : {StepShape{.height = 8, .width = 8, .frames = 5},
                                 StepShape{.height = 9, .width = 5, .frames = 2},
                                 StepShape{.height = 8, .width = 8, .frames = 1}}) {
    const NamedBuffers whole = Decode(rig, shape, /*parts=*/0);
    const NamedBuffers parts = Decode(rig, shape, /*parts=*/3);
    const std::vector<uint8_t> pixels = BytesOf(whole.at("pixels"));
    EXPECT_EQ(BytesOf(parts.at("pixels")), pixels) << shape.frames;
    EXPECT_EQ(BytesOf(parts.at("finite")), BytesOf(whole.at("finite")));
    EXPECT_NE(*absl::c_min_element(pixels), *absl::c_max_element(pixels));
  }
}

// The last chunk of 5 frames in chunks of 2 has one.
TEST_P(DecoderPartsTest, DrawTheVideoOfTheWhole) {
  const Rig whole = RigWith(kNever), parts = RigWith(0), mixed = RigWith(2 * kPixels);
  for (int chunk : {5, 2}) {
    const auto frames = DrawFrames(*whole.Start(ClipInChunks(chunk)));
    ASSERT_THAT(frames, SizeIs(5));
    EXPECT_EQ(DrawFrames(*parts.Start(ClipInChunks(chunk))), frames);
    EXPECT_EQ(DrawFrames(*mixed.Start(ClipInChunks(chunk))), frames);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, DecoderPartsTest,
                         ::testing::Combine(::testing::Values("cpu", "reference"),
                                            ::testing::Values(DType::kF32, DType::kBF16,
                                                              DType::kF16)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  std::string(device::Name(std::get<1>(info.param)));
                         });

class DecoderUnitsTest : public ::testing::Test {
 protected:
  static std::vector<int> Works(const Picture& video) {
    std::vector<int> works;
    for (const batching::OtherUnit& one : video.ahead().after) works.push_back(one.rows);
    return works;
  }
};

// Chunks of 4 and 1 frames, of which the second is too small.
TEST_F(DecoderUnitsTest, EachPartIsAUnitOfAThirdOfTheWork) {
  const Rig rig(PartedOptions(2 * kPixels));
  const std::unique_ptr<Picture> video = rig.Start(ClipInChunks(4));
  EXPECT_THAT(video->request->chunks.at(4), SizeIs(3));
  EXPECT_THAT(video->request->chunks.at(1), SizeIs(1));
  RunUntilDecode(*video);
  ASSERT_OK_AND_ASSIGN(const auto stream, video->stage().device().NewStream(SystemClock()));
  Lanes lanes;
  std::vector<size_t> frames;
  std::vector<bool> ends;
  for (const std::vector<int>& ahead :
       {std::vector{2, 2, 2, 1}, std::vector{2, 2, 1}, std::vector{2, 1}, std::vector{1}}) {
    EXPECT_EQ(Works(*video), ahead);
    ASSERT_OK_AND_ASSIGN(PendingUnit unit, EnqueueUnit({video.get()}, lanes, *stream));
    EXPECT_EQ(unit.parts[0].amount, ahead.front());
    // The next unit does not depend on how a part ends.
    EXPECT_EQ(video->next, ahead.size() > 2 ? UnitKind::kDecode : UnitKind::kWait);
    ASSERT_OK(CompleteUnit(unit, *video, unit.parts[0]));
    frames.push_back(TakeFrames(*video).size());
    ends.push_back(unit.parts[0].ends_stage);
  }
  EXPECT_THAT(frames, ElementsAre(0, 0, 4, 1));
  EXPECT_THAT(ends, ElementsAre(false, false, false, true));
  EXPECT_EQ(video->next, UnitKind::kDone);
  EXPECT_FALSE(video->video->features.has_memory());
}

TEST_F(DecoderUnitsTest, AreNamedByTheirNumber) {
  const Rig rig(PartedOptions(0));
  const ModelId model = rig.pipeline->table().first().id;
  ASSERT_OK_AND_ASSIGN(const auto graphs, rig.pipeline->GraphsOf(model, kClip, 2));
  std::vector<std::string> labels;
  for (const GraphHandle& graph : graphs) {
    const compiler::GraphLabel label = compiler::GraphStore::LabelOf(graph);
    if (label.component == "vae_decoder") labels.push_back(label.ToText());
    EXPECT_EQ(compiler::GraphLabel::FromText(label.ToText()), label);
  }
  EXPECT_THAT(labels, ElementsAre("video vae_decoder 1_of_3 64x64x5 rows 1",
                                  "video vae_decoder 2_of_3 64x64x5 rows 1",
                                  "video vae_decoder 3_of_3 64x64x5 rows 1"));
}

// Two are enqueued at a time, the second before the first has run.
TEST_F(DecoderUnitsTest, LeaveNoMemoryOnADeviceOfItsOwn) {
  testing::SeparateDevice device;
  {
    const Rig rig(PartedOptions(0), "",
                  backends::cpu::CpuBackend::Create({.device = &device}).value());
    const Rig here(PartedOptions(kNever), "", backends::cpu::CpuBackend::Create().value());
    const auto expected = DrawFrames(*here.Start(ClipInChunks(5)));
    const std::unique_ptr<Picture> video = rig.Start(ClipInChunks(5));
    RunUntilDecode(*video);
    ASSERT_OK_AND_ASSIGN(const auto stream, device.NewStream(SystemClock()));
    Lanes lanes;
    std::vector<PendingUnit> units;
    for (int part = 0; part < 3; ++part) {
      ASSERT_OK_AND_ASSIGN(PendingUnit unit, EnqueueUnit({video.get()}, lanes, *stream));
      EXPECT_FALSE(unit.done->Reached());
      units.push_back(std::move(unit));
    }
    for (PendingUnit& unit : units) ASSERT_OK(CompleteUnit(unit, *video, unit.parts[0]));
    EXPECT_EQ(TakeFrames(*video), expected);
  }
  EXPECT_EQ(device.allocations(), 0u);
}

// f16 holds no more than 65504: what overflows is decoded again as a whole, in f32.
TEST_F(DecoderUnitsTest, WhatIsNotFiniteIsDecodedAgainInFloat32) {
  const Rig parts(PartedOptions(0, DType::kF16)), exact(PartedOptions(kNever));
  const std::unique_ptr<Picture> video = parts.Start(ClipInChunks(5));
  const std::unique_ptr<Picture> expected = exact.Start(ClipInChunks(5));
  EXPECT_THAT(video->request->chunk_fallbacks.at(5), SizeIs(1));
  for (Picture* one : {video.get(), expected.get()}) RunUntilDecode(*one);
  const device::Buffer latents = testing::OnHost(expected->latents);
  for (float& number : latents.as<float>()) number *= 1e7f;
  video->latents = expected->latents = latents;
  for (int part = 0; part < 3; ++part) ASSERT_OK(testing::RunUnit(*video));
  EXPECT_TRUE(video->decode_redone);
  EXPECT_THAT(TakeFrames(*video), IsEmpty());
  EXPECT_THAT(Works(*video), ElementsAre(5));
  EXPECT_EQ(DrawFrames(*video), DrawFrames(*expected));
}

// Memory for one part says nothing of another's.
TEST_F(DecoderUnitsTest, CoverThoseOfTheirNumber) {
  const auto part = [](int number, int frames) {
    return std::vector<PlannedGraph>{
        {{}, {.kind = GraphKind::kDecode, .shape = {.frames = frames}, .part = number}}};
  };
  EXPECT_TRUE(Covers(part(2, 5), part(2, 4), /*grows=*/true));
  EXPECT_FALSE(Covers(part(2, 4), part(2, 5), /*grows=*/true));
  EXPECT_FALSE(Covers(part(2, 5), part(1, 4), /*grows=*/true));
  EXPECT_FALSE(Covers(part(0, 5), part(1, 4), /*grows=*/true));
  EXPECT_FALSE(Covers(part(3, 5), part(0, 4), /*grows=*/true));
}

// A bucket's lane of two rows has two videos at most, and a guided request one.
TEST_F(DecoderUnitsTest, WhatPartsLeaveForEachOtherIsMemoryOfVideos) {
  const Rig parts(PartedOptions(2 * kPixels, DType::kBF16));
  const Rig whole(PartedOptions(kNever, DType::kBF16));
  const auto more = [&](int chunk) {
    return parts.pipeline->StateBytes(kClip, 2, 1, chunk) -
           whole.pipeline->StateBytes(kClip, 2, 1, chunk);
  };
  const LoadedModel& model = parts.pipeline->first();
  const auto features = [&](int frames) {
    int64_t elements = 0;
    for (int part : {2, 3}) {
      elements += model.family()
                      .videos->features_shape(model.configs(), {1, frames, 8, 8}, part)
                      .elements();
    }
    return 2 * elements;
  };
  EXPECT_GE(features(5), 2 * 5 * (16 * 16 + 32 * 32) * 32);
  EXPECT_EQ(more(/*chunk=*/0), 2 * features(5));
  EXPECT_EQ(more(4), 2 * features(4));
  EXPECT_EQ(more(1), 0);
  ASSERT_OK_AND_ASSIGN(const SharedPlan in_parts, parts.Resolve(ClipInChunks(4)));
  ASSERT_OK_AND_ASSIGN(const SharedPlan at_once, whole.Resolve(ClipInChunks(4)));
  EXPECT_EQ(in_parts->state_bytes - at_once->state_bytes, features(4));
}

class DecoderPartsRuleTest : public ::testing::Test {
 protected:
  // Elements of [5, 16, 16, c] and [5, 32, 32, c] of the checkpoint's channels.
  static int64_t FeatureElements(const Rig& rig) {
    const LoadedModel& model = rig.pipeline->first();
    const families::FramesShape shape = {1, 5, 8, 8};
    const families::VideoFamily& videos = *model.family().videos;
    return videos.features_shape(model.configs(), shape, 2).elements() +
           videos.features_shape(model.configs(), shape, 3).elements();
  }
  static int PartsOf(const LoadOptions& options) {
    const Rig rig(options);
    return rig.pipeline->first().graphs().DecoderPartsOf(
        {.height = 8, .width = 8, .frames = kClip.frames});
  }
};

TEST_F(DecoderPartsRuleTest, LargeChunksHaveParts) {
  EXPECT_EQ(PartsOf(PartedOptions(5 * kPixels)), 3);
  EXPECT_EQ(PartsOf(PartedOptions(5 * kPixels + 1)), 1);
}

// 14 and 25 frames of 1024x576 have parts where requests say nothing; 7 of them are few.
TEST_F(DecoderPartsRuleTest, VideosAsTheyAreDrawnMostlyHaveParts) {
  const Rig rig(PartedOptions(kPixelsDecodedInParts));
  const auto parts = [&](int frames) {
    return rig.pipeline->first().graphs().DecoderPartsOf(
        {.height = 576 / 8, .width = 1024 / 8, .frames = frames});
  };
  EXPECT_EQ(parts(25), 3);
  EXPECT_EQ(parts(14), 3);
  EXPECT_EQ(parts(7), 1);
}

TEST_F(DecoderPartsRuleTest, WithoutMemoryThereIsOne) {
  LoadOptions options = PartedOptions(0);
  const Rig rig(options);
  const int64_t bytes = FeatureElements(rig) * 4;
  ASSERT_OK_AND_ASSIGN(const weights::Checkpoint checkpoint,
                       weights::Checkpoint::Open({.path = golden::VideoCheckpoint()}));
  int64_t weights = 0;
  for (const char* folder : {"image_encoder", "unet", "vae"}) {
    weights += 4 * checkpoint.SizeOf(folder).value().elements;
  }
  options.memory_bytes = weights + 12 * bytes;
  EXPECT_EQ(PartsOf(options), 3);
  options.memory_bytes -= 12;
  EXPECT_EQ(PartsOf(options), 1);
  // Several devices say the same: what the one that has least can do.
  options.memory_bytes = 0;
  const int64_t enough = weights + 12 * bytes;
  for (const int64_t other : {enough, enough - 12}) {
    options.devices = {{"a", enough}, {"b", other}};
    for (options.device = 0; options.device < 2; ++options.device) {
      EXPECT_EQ(PartsOf(options), other == enough ? 3 : 1) << options.device;
    }
  }
}

}  // namespace
}  // namespace latentd::pipeline
