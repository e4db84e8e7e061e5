// The pipeline on the demo checkpoint and the reference backend, with small pictures and few steps.
#include "core/pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/backends/reference/evaluate.h"
#include "core/backends/reference/reference_backend.h"
#include "core/base/clock.h"
#include "core/compiler/graph_store.h"
#include "core/pipeline/loading.h"
#include "core/weights/weight_store.h"
#include "tests/support/status_matchers.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::HasSubstr;

const std::string kBase = LATENTD_SOURCE_DIR "/deploy/demo-model/base";
const std::string kRefiner = LATENTD_SOURCE_DIR "/deploy/demo-model/refiner";

// What an engine would own.
struct Rig {
  backends::reference::ReferenceBackend backend;
  weights::WeightStore weights{backends::reference::EvaluateRecipe};
  compiler::GraphStore graphs{backend, SystemClock()};
  std::unique_ptr<const Pipeline> pipeline;

  explicit Rig(const std::string& refiner) {
    auto loaded = LoadPipeline({.base = kBase, .refiner = refiner}, weights, graphs);
    EXPECT_OK(loaded);
    if (loaded.ok()) pipeline = *std::move(loaded);
  }

  std::unique_ptr<Picture> Start(const PictureSpec& spec) {
    auto resolved = pipeline->Resolve(spec);
    EXPECT_OK(resolved);
    return std::move(pipeline->Start(*resolved).value().front());
  }

  void Finish(Picture& picture) {
    while (picture.next != UnitKind::kDone) ASSERT_OK(pipeline->Run(picture));
  }

  std::vector<float> Latents(const PictureSpec& spec) {
    const auto picture = Start(spec);
    Finish(*picture);
    const auto values = picture->latents.as<float>();
    return {values.begin(), values.end()};
  }
};

PictureSpec SmallSpec() {
  PictureSpec spec;
  spec.prompt = "a red circle on a blue background";
  spec.width = 64;
  spec.height = 72;
  spec.num_inference_steps = 4;
  spec.seed = 3;
  return spec;
}

class PipelineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { rig_ = new Rig(kRefiner); }
  static void TearDownTestSuite() { delete rig_; }
  static inline Rig* rig_ = nullptr;
};

TEST_F(PipelineTest, DrawsFinitePixelsOfTheSizeAskedFor) {
  const auto picture = rig_->Start(SmallSpec());
  rig_->Finish(*picture);
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
      ASSERT_OK(rig_->pipeline->Run(*picture));
    }
  }
  const auto latents = a->latents.as<float>();
  EXPECT_EQ(rig_->Latents(SmallSpec()), std::vector<float>(latents.begin(), latents.end()));
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
  rig_->Finish(*picture);
  EXPECT_EQ(picture->model(), Model::kRefiner);
  EXPECT_TRUE(picture->handed_over.has_memory());
  EXPECT_EQ(picture->steps_done, picture->total_steps());
}

// A changed parameter has to change the picture, and to compile nothing within a shape.
struct Change {
  const char* name;
  std::function<void(PictureSpec&)> apply;
};

class ParameterTest : public PipelineTest, public ::testing::WithParamInterface<Change> {};

TEST_P(ParameterTest, ChangesThePictureAndCompilesNothing) {
  const std::vector<float> before = rig_->Latents(SmallSpec());
  const int64_t compilations = rig_->graphs.counts().compilations;
  PictureSpec changed = SmallSpec();
  GetParam().apply(changed);
  EXPECT_NE(rig_->Latents(changed), before);
  EXPECT_EQ(rig_->graphs.counts().compilations, compilations);
}

INSTANTIATE_TEST_SUITE_P(
    Parameters, ParameterTest,
    ::testing::Values(
        Change{"prompt", [](PictureSpec& s) { s.prompt = "a blue ring on a pink background"; }},
        Change{"prompt_2", [](PictureSpec& s) { s.prompt_2 = "a blue ring"; }},
        Change{"negative_prompt", [](PictureSpec& s) { s.negative_prompt = "a star"; }},
        Change{"negative_prompt_2",
               [](PictureSpec& s) {
                 s.negative_prompt = "";
                 s.negative_prompt_2 = "a star";
               }},
        Change{"num_inference_steps", [](PictureSpec& s) { s.num_inference_steps = 5; }},
        Change{"guidance_scale", [](PictureSpec& s) { s.guidance_scale = 7; }},
        Change{"guidance_rescale", [](PictureSpec& s) { s.guidance_rescale = 0.7; }},
        Change{"clip_skip", [](PictureSpec& s) { s.clip_skip = 1; }},
        Change{"seed", [](PictureSpec& s) { s.seed = 5; }},
        Change{"original_size",
               [](PictureSpec& s) {
                 s.original_size = Size{512, 512};
               }},
        Change{"target_size",
               [](PictureSpec& s) {
                 s.target_size = Size{512, 512};
               }},
        Change{"crops",
               [](PictureSpec& s) {
                 s.crops_coords_top_left = Offset{16, 0};
               }},
        Change{"negative_sizes",
               [](PictureSpec& s) {
                 s.negative_original_size = Size{512, 512};
                 s.negative_target_size = Size{64, 64};
               }},
        Change{"denoising_end", [](PictureSpec& s) { s.denoising_end = 0.5; }},
        Change{"scheduler", [](PictureSpec& s) { s.scheduler.name = "dpmpp_2m"; }},
        Change{"timestep_spacing",
               [](PictureSpec& s) { s.scheduler.timestep_spacing = "trailing"; }},
        Change{"eta",
               [](PictureSpec& s) {
                 s.scheduler.name = "ddim";
                 s.eta = 0.5;
               }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(LoadPipelineTest, HoldsTheVaeAndTheTextEncoderThatBothModelsShareOnce) {
  PictureSpec spec = SmallSpec();
  spec.num_inference_steps = 10;
  Rig alone("");
  alone.Latents(spec);
  const size_t base_bytes = alone.weights.bytes_held();
  Rig both(kRefiner);
  spec.refine = true;
  both.Latents(spec);
  // The refiner's UNet in float32 is all that may come on top: 4,312,836 parameters.
  EXPECT_EQ(both.weights.bytes_held() - base_bytes, 4312836 * sizeof(float));
}

TEST(LoadPipelineTest, NamesWhatIsNoCheckpoint) {
  backends::reference::ReferenceBackend backend;
  weights::WeightStore weights(backends::reference::EvaluateRecipe);
  compiler::GraphStore graphs(backend, SystemClock());
  EXPECT_THAT(LoadPipeline({.base = "/nowhere"}, weights, graphs),
              StatusIs(_, HasSubstr("/nowhere")));
}

}  // namespace
}  // namespace latentd::pipeline
