// The pipeline on the demo checkpoint and the reference backend, with small pictures and few steps.
#include "core/pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/image/encode.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::HasSubstr;

std::string Png(const image::Image& image) { return image::Encode(image, {}).value(); }

class PipelineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { rig_ = new Rig; }
  static void TearDownTestSuite() { delete rig_; }
  static inline Rig* rig_ = nullptr;
};

TEST_F(PipelineTest, DrawsFinitePixelsOfTheSizeAskedFor) {
  const auto picture = rig_->Finish(SmallSpec());
  EXPECT_EQ(picture->pixels.width, 64);
  EXPECT_EQ(picture->pixels.height, 72);
  EXPECT_EQ(picture->steps_done, 4);
}

TEST_F(PipelineTest, KeepsPicturesApartWhoseUnitsAreInterleaved) {
  PictureSpec other = SmallSpec();
  other.seed = 4;
  other.prompt = "a green star on a white background";
  const auto a = rig_->Start(SmallSpec());
  const auto b = rig_->Start(other);
  while (a->next != UnitKind::kDone || b->next != UnitKind::kDone) {
    for (Picture* picture : {a.get(), b.get()}) {
      if (picture->next == UnitKind::kDone) continue;
      ASSERT_OK(testing::RunUnit(*picture));
    }
  }
  EXPECT_EQ(rig_->Latents(SmallSpec()), ValuesOf(a->latents));
}

TEST_F(PipelineTest, RunsOneRowWithoutGuidance) {
  PictureSpec spec = SmallSpec();
  spec.guidance_scale = 1;
  EXPECT_EQ(rig_->Start(spec)->rows(), 1);
  EXPECT_EQ(rig_->Start(SmallSpec())->rows(), 2);
}

TEST_F(PipelineTest, HandsTheBasesLatentsToTheRefiner) {
  PictureSpec spec = SmallSpec();
  spec.num_inference_steps = 10;
  spec.refine = true;
  const auto picture = rig_->Start(spec);
  EXPECT_EQ(picture->model().name, "base");
  ASSERT_OK(rig_->Run(*picture));
  EXPECT_EQ(picture->model().name, "refiner");
  EXPECT_TRUE(picture->handed_over.has_memory());
  EXPECT_EQ(picture->steps_done, picture->total_steps());
}

// Bytes that the request parts of all stages made.
size_t RequestBytes(const Request& request) {
  size_t bytes = 0;
  for (const auto& conditioning : request.conditioning) {
    for (const auto& [name, packed] : *conditioning) bytes += packed.bytes();
  }
  return bytes;
}

// Bytes that the stage's encoders make for one row.
size_t TextBytes(const Stage& stage) {
  size_t bytes = 0;
  for (const auto& encoder : stage.text) {
    for (const backends::Port& port : encoder->outputs()) {
      if (port.name != "finite") bytes += port.shape.elements() * sizeof(float);
    }
  }
  return bytes;
}

// With as many rows as the picture has; its lane has more.
int64_t LaneBytes(const Picture& picture) {
  return StepLane::Bytes(StepPortsOf(picture.stage().steps.begin()->second->info()),
                         picture.rows());
}

TEST_F(PipelineTest, CountsWhatAPictureHolds) {
  Asked spec = SmallSpec();
  spec.inputs.image = Png(rig_->Finish(SmallSpec())->pixels);
  spec.strength = 0.5;
  const Rig alone({.base = testing::kDemoBase});
  const auto picture = alone.Start(spec);
  ASSERT_OK(testing::RunUnit(*picture));  // text
  ASSERT_OK(testing::RunUnit(*picture));  // encode
  ASSERT_EQ(picture->next, UnitKind::kStep);
  ASSERT_OK(testing::RunUnit(*picture));
  const Request& request = *picture->request;
  const size_t pixels = size_t{64} * 72 * 3;
  size_t kept = RequestBytes(request) + request.encoded_image->bytes() + picture->latents.bytes();
  kept += 2 * TextBytes(picture->stage());
  kept += picture->latents.bytes();  // latents of the stage's end, beside those of its beginning
  kept += 3 * pixels;
  EXPECT_EQ(request.plan->state_bytes, static_cast<int64_t>(kept));
  // Two rows may be two pictures', each with latents and an image of its own.
  const size_t other = request.encoded_image->bytes() + 2 * picture->latents.bytes();
  EXPECT_EQ(alone.pipeline->StateBytes({64, 72}, 2),
            static_cast<int64_t>(kept + other) + LaneBytes(*picture));
}

TEST_F(PipelineTest, CountsWhatAPictureOfBothModelsHolds) {
  PictureSpec spec = SmallSpec();
  spec.num_inference_steps = 10;
  spec.refine = true;
  const auto picture = rig_->Start(spec);
  size_t text = 0, lane = 0;
  while (picture->next != UnitKind::kDecode) {
    ASSERT_OK(testing::RunUnit(*picture));
    text = std::max(text, TextBytes(picture->stage()));
    if (picture->place) lane = std::max(lane, static_cast<size_t>(LaneBytes(*picture)));
  }
  EXPECT_EQ(picture->model().name, "refiner");
  const size_t latents = picture->latents.bytes();
  ASSERT_EQ(picture->handed_over.bytes(), latents);
  // The latents before and after a stage, and the base's; and an encoded image, which it has not.
  const size_t kept =
      RequestBytes(*picture->request) + 2 * text + (2 + 1 + 2) * latents + size_t{3} * 64 * 72 * 3;
  EXPECT_EQ(picture->plan().state_bytes, static_cast<int64_t>(kept));
  EXPECT_EQ(rig_->pipeline->StateBytes({64, 72}, 2),
            static_cast<int64_t>(kept + (2 + 1 + 2) * latents + lane));
}

TEST(LoadPipelineTest, HoldsTheVaeAndTheTextEncoderThatBothModelsShareOnce) {
  PictureSpec spec = SmallSpec();
  spec.num_inference_steps = 10;
  const Rig alone({.base = testing::kDemoBase});
  alone.Latents(spec);
  const size_t base_bytes = alone.weights.bytes_held();
  const Rig both;
  spec.refine = true;
  both.Latents(spec);
  // The refiner's UNet in float32 is all that may come on top: 4,312,836 parameters.
  EXPECT_EQ(both.weights.bytes_held() - base_bytes, 4312836 * sizeof(float));
}

TEST(LoadPipelineTest, NamesWhatIsNoCheckpoint) {
  Rig rig;
  EXPECT_THAT(LoadPipeline({.base = "/nowhere"}, rig.weights, rig.graphs),
              StatusIs(_, HasSubstr("/nowhere")));
}

}  // namespace
}  // namespace latentd::pipeline
