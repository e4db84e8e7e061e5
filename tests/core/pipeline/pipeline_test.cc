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
  EXPECT_EQ(picture->model(), Model::kBase);
  ASSERT_OK(rig_->Run(*picture));
  EXPECT_EQ(picture->model(), Model::kRefiner);
  EXPECT_TRUE(picture->handed_over.has_memory());
  EXPECT_EQ(picture->steps_done, picture->total_steps());
}

TEST_F(PipelineTest, CountsWhatAPictureHolds) {
  PictureSpec spec = SmallSpec();
  spec.image = Png(rig_->Finish(SmallSpec())->pixels);
  spec.strength = 0.5;
  const Rig alone({.base = testing::kDemoBase});
  const auto picture = alone.Start(spec);
  ASSERT_OK(testing::RunUnit(*picture));  // text
  ASSERT_OK(testing::RunUnit(*picture));  // encode
  ASSERT_EQ(picture->next, UnitKind::kStep);
  const Request& request = *picture->request;
  const Conditioning& text = *request.conditioning[0];
  size_t shared = 0;
  for (const auto& [name, packed] : text.request) shared += packed.bytes();
  size_t kept = shared + request.encoded_image->bytes() + picture->latents.bytes();
  for (const EncodedPrompt& row : text.rows) {
    kept += row.pooled.bytes();
    for (const auto& states : row.hidden_states) kept += states.bytes();
  }
  kept += picture->latents.bytes();  // those of the stage's end, beside those of its beginning
  const size_t pixels = size_t{64} * 72 * 3;
  EXPECT_EQ(
      alone.pipeline->StateBytes({64, 72}, 2),
      static_cast<int64_t>(kept + std::max<size_t>(picture->place->lane->bytes(), 3 * pixels)));
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
