// Stable Video Diffusion: reading its checkpoints, and what a spec says. Whole videos are golden
// cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/families/families.h"
#include "core/families/svd/video_configs.h"
#include "core/families/svd/video_graphs.h"
#include "core/families/svd/video_image.h"
#include "core/families/svd/video_spec.h"
#include "core/graph/split.h"
#include "core/weights/containers/checkpoint.h"
#include "tests/golden/draw_video.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::families::svd {
namespace {

using golden::DrawVideo;
using golden::LoadGraph;
using golden::RunGraph;
using golden::Video;
using golden::VideoBuffers;
using ::latentd::testing::StatusIs;
using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kRefused = absl::StatusCode::kInvalidArgument;

json SmallUnetConfig() {
  return {{"_class_name", "UNetSpatioTemporalConditionModel"},
          {"block_out_channels", {32, 64}},
          {"down_block_types", {"CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"}},
          {"up_block_types", {"UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"}},
          {"layers_per_block", 1},
          {"num_attention_heads", {1, 2}},
          {"cross_attention_dim", 48},
          {"addition_time_embed_dim", 8},
          {"projection_class_embeddings_input_dim", 24},
          {"num_frames", 5}};
}

// The configurations of a small checkpoint: nothing reads its weights here.
class VideoFolder : public ::testing::Test {
 protected:
  VideoFolder() {
    files_["model_index.json"] = {
        {"_class_name", "StableVideoDiffusionPipeline"},
        {"feature_extractor", {"transformers", "CLIPImageProcessor"}},
        {"image_encoder", {"transformers", "CLIPVisionModelWithProjection"}},
        {"scheduler", {"diffusers", "EulerDiscreteScheduler"}},
        {"unet", {"diffusers", "UNetSpatioTemporalConditionModel"}},
        {"vae", {"diffusers", "AutoencoderKLTemporalDecoder"}}};
    files_["unet/config.json"] = SmallUnetConfig();
    files_["vae/config.json"] = {
        {"block_out_channels", {32, 32, 32, 32}},
        {"down_block_types", std::vector<std::string>(4, "DownEncoderBlock2D")},
        {"layers_per_block", 2}};
    files_["image_encoder/config.json"] = {{"hidden_size", 64},        {"intermediate_size", 64},
                                           {"num_attention_heads", 2}, {"num_hidden_layers", 1},
                                           {"patch_size", 56},         {"projection_dim", 48}};
    files_["scheduler/scheduler_config.json"] = {{"_class_name", "EulerDiscreteScheduler"},
                                                 {"prediction_type", "v_prediction"},
                                                 {"sigma_max", 700.0},
                                                 {"sigma_min", 0.002},
                                                 {"timestep_spacing", "leading"},
                                                 {"timestep_type", "continuous"},
                                                 {"use_karras_sigmas", true},
                                                 {"beta_schedule", "scaled_linear"},
                                                 {"beta_start", 0.00085},
                                                 {"beta_end", 0.012}};
    files_["feature_extractor/preprocessor_config.json"] = {{"image_mean", {0.1, 0.2, 0.3}},
                                                            {"image_std", {0.5, 0.6, 0.7}}};
  }

  absl::StatusOr<VideoConfigs> Read() {
    for (const auto& [name, content] : files_) {
      ::latentd::testing::WriteFile(directory_.File(name), content.dump());
    }
    auto checkpoint = weights::Checkpoint::Open({.path = directory_.path()});
    if (!checkpoint.ok()) return checkpoint.status();
    RETURN_IF_ERROR(FindFamily(pipeline::ModelRow{.draws_videos = true}, *checkpoint).status());
    return ReadVideoConfigs(*checkpoint);
  }

  std::map<std::string, json> files_;

 private:
  ::latentd::testing::TemporaryDirectory directory_;
};

TEST_F(VideoFolder, IsRead) {
  ASSERT_OK_AND_ASSIGN(const VideoConfigs configs, Read());
  EXPECT_EQ(configs.unet.num_frames, 5);
  EXPECT_EQ(configs.vae.downscale(), 8);
  EXPECT_EQ(configs.image_encoder.tokens(), 17);
  EXPECT_THAT(configs.image_mean, ElementsAre(0.1f, 0.2f, 0.3f));
  EXPECT_THAT(configs.image_std, ElementsAre(0.5f, 0.6f, 0.7f));
  EXPECT_THAT(configs.warnings, IsEmpty());
}

TEST_F(VideoFolder, HasClipsMeanAndDeviationWithoutAPreprocessor) {
  files_.erase("feature_extractor/preprocessor_config.json");
  ASSERT_OK_AND_ASSIGN(const VideoConfigs configs, Read());
  EXPECT_THAT(configs.image_mean, ElementsAre(0.48145466f, 0.4578275f, 0.40821073f));
  EXPECT_THAT(configs.image_std, ElementsAre(0.26862954f, 0.26130258f, 0.27577711f));
}

TEST_F(VideoFolder, TellsOfFieldsThatAreNotKnown) {
  files_["unet/config.json"]["frame_rate"] = 3;
  ASSERT_OK_AND_ASSIGN(const VideoConfigs configs, Read());
  EXPECT_THAT(configs.warnings,
              ElementsAre(HasSubstr("unet/config.json: fields that are not known, "
                                    "and ignored: frame_rate")));
}

TEST_F(VideoFolder, IsRefusedWithTheFileAtFault) {
  struct Mistake {
    const char *file, *field;
    json value;
    const char* message;
  };
  const Mistake mistakes[] = {
      {"model_index.json", "_class_name", "StableDiffusionPipeline", "_class_name is StableDiff"},
      {"model_index.json", "vae", {"diffusers", "AutoencoderKL"}, "vae is AutoencoderKL"},
      {"unet/config.json", "in_channels", 4, "in_channels 4 and out_channels 4 are not twice"},
      {"unet/config.json", "projection_class_embeddings_input_dim", 32, "is not 3 times"},
      {"unet/config.json", "cross_attention_dim", 64, "projection_dim 48"},
      {"image_encoder/config.json", "image_size", 336, "image_size 336"},
      {"vae/config.json", "out_channels", 1, "out_channels 1"},
      {"scheduler/scheduler_config.json", "prediction_type", "flow", "scheduler_config.json"},
      {"feature_extractor/preprocessor_config.json", "image_std", {0.5, 0.0, 0.7}, "image_std"},
      {"feature_extractor/preprocessor_config.json",
       "image_mean",
       {0.5},
       "image_mean must be three"}};
  for (const Mistake& mistake : mistakes) {
    json& file = files_[mistake.file];
    const json before = file;
    file[mistake.field] = mistake.value;
    EXPECT_THAT(Read(), StatusIs(kRefused, HasSubstr(mistake.message))) << mistake.message;
    file = before;
  }
  files_["model_index.json"].erase("image_encoder");
  EXPECT_THAT(Read(), StatusIs(kRefused, HasSubstr("no image_encoder")));
}

TEST_F(VideoFolder, ComputesImageLatentsInFloat32WhereDiffusersDoes) {
  ASSERT_OK_AND_ASSIGN(VideoConfigs configs, Read());
  using device::DType;
  EXPECT_EQ(ImageLatentsDType(configs, DType::kF16), DType::kF32);
  EXPECT_EQ(ImageLatentsDType(configs, DType::kBF16), DType::kBF16);
  configs.vae.force_upcast = false;
  EXPECT_EQ(ImageLatentsDType(configs, DType::kF16), DType::kF16);
}

TEST_F(VideoFolder, GivesASpecItsDefaults) {
  ASSERT_OK_AND_ASSIGN(const VideoConfigs configs, Read());
  ASSERT_OK_AND_ASSIGN(const VideoSpec spec, ResolveVideo(configs, {}));
  EXPECT_EQ(spec.num_frames, 5);
  EXPECT_EQ(spec.decode_chunk_size, 5);
  ASSERT_OK_AND_ASSIGN(const VideoSpec own, ResolveVideo(configs, {.num_frames = 9}));
  EXPECT_EQ(own.decode_chunk_size, 9);
}

TEST_F(VideoFolder, NamesEveryFieldAtFault) {
  ASSERT_OK_AND_ASSIGN(const VideoConfigs configs, Read());
  VideoSpec spec;
  spec.width = 100;
  spec.height = 4096;
  spec.num_frames = 0;
  spec.num_inference_steps = 151;
  spec.sigmas.resize(152);
  spec.min_guidance_scale = -1;
  spec.max_guidance_scale = std::nan("");
  spec.fps = 0;
  spec.motion_bucket_id = 1024;
  spec.noise_aug_strength = 11;
  spec.decode_chunk_size = -1;
  std::vector<std::string> fields;
  for (const FieldViolation& violation : GetFieldViolations(ResolveVideo(configs, spec).status())) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, ElementsAre("width", "height", "num_frames", "num_inference_steps", "sigmas",
                                  "min_guidance_scale", "max_guidance_scale", "fps",
                                  "motion_bucket_id", "noise_aug_strength", "decode_chunk_size"));
}

VideoSpec Guided(double first, double last, int frames) {
  return {.num_frames = frames, .min_guidance_scale = first, .max_guidance_scale = last};
}

TEST(VideoGuidance, GoesFromTheFirstFrameToTheLast) {
  EXPECT_THAT(GuidanceByFrame(Guided(1, 3, 5)), ElementsAre(1, 1.5, 2, 2.5, 3));
  EXPECT_THAT(GuidanceByFrame(Guided(3, 1, 3)), ElementsAre(3, 2, 1));
  EXPECT_THAT(GuidanceByFrame(Guided(2, 5, 1)), ElementsAre(2));
  // torch.linspace(1, 3, 14), whose halves count from their own ends.
  EXPECT_EQ(GuidanceByFrame(Guided(1, 3, 14))[9], 2.384615421295166f);
}

// diffusers breaks where guidance falls to 1, and where one frame has less of it.
TEST(VideoGuidance, NeedsTwoRowsWhereAnyFrameIsGuided) {
  EXPECT_TRUE(IsGuided(Guided(1, 3, 2)));
  EXPECT_TRUE(IsGuided(Guided(3, 1, 2)));
  EXPECT_FALSE(IsGuided(Guided(1, 1, 2)));
  EXPECT_FALSE(IsGuided(Guided(1, 3, 1)));
}

TEST_F(VideoFolder, HasARequestPartOfOneRow) {
  ASSERT_OK_AND_ASSIGN(const VideoConfigs configs, Read());
  ASSERT_OK_AND_ASSIGN(const graph::Graph two, MakeVideoStepGraph(configs, {2, 3, 4, 6}));
  ASSERT_OK_AND_ASSIGN(const graph::Graph one, MakeVideoStepGraph(configs, {1, 4, 8, 8}));
  ASSERT_OK_AND_ASSIGN(const graph::SplitGraphs of_two, graph::SplitByRate(two));
  ASSERT_OK_AND_ASSIGN(const graph::SplitGraphs of_one, graph::SplitByRate(one));
  EXPECT_EQ(of_two.request->size(), of_one.request->size());
  EXPECT_EQ(of_two.request->node(of_two.request->outputs()[0].value).shape,
            of_one.request->node(of_one.request->outputs()[0].value).shape);
}

TEST_F(VideoFolder, NormsTheImageAsThePreprocessorSays) {
  ASSERT_OK_AND_ASSIGN(const VideoConfigs configs, Read());
  const image::Image white{300, 20, std::vector<uint8_t>(18000, 255)};
  ASSERT_OK_AND_ASSIGN(const device::Buffer pixels, EncoderPixels(configs, white));
  EXPECT_EQ(pixels.shape(), (device::Shape{1, 3, 224, 224}));
  EXPECT_THAT(pixels.Reshaped({3, 224 * 224}).Rows(0, 1).as<float>(), Each(FloatNear(1.8f, 1e-5f)));
  EXPECT_THAT(pixels.Reshaped({3, 224 * 224}).Rows(2, 3).as<float>(), Each(FloatNear(1, 1e-5f)));
}

// A backend that gives zeros, and remembers what it was asked.
class Recorder {
 public:
  LoadGraph Load() {
    return [this](const graph::Graph& graph, const graph::Precision& precision) {
      dtypes_.push_back(precision.dtype);
      std::map<std::string, device::Buffer> outputs;
      for (const graph::Output& output : graph.outputs()) {
        const graph::Node& node = graph.node(output.value);
        outputs[output.name] = device::Buffer::Allocate(node.dtype, node.shape);
      }
      for (uint8_t& row : outputs["finite"].as<uint8_t>()) row = finite_ ? 1 : 0;
      return absl::StatusOr<RunGraph>(
          [this, outputs](const VideoBuffers& inputs) -> absl::StatusOr<VideoBuffers> {
            runs_.push_back(inputs);
            return VideoBuffers(outputs.begin(), outputs.end());
          });
    };
  }

  bool finite_ = true;
  std::vector<device::DType> dtypes_;
  std::vector<VideoBuffers> runs_;
};

const image::Image kBlack{16, 8, std::vector<uint8_t>(384)};

VideoSpec SmallVideo() {
  return {
      .width = 32, .height = 16, .num_frames = 5, .num_inference_steps = 2, .decode_chunk_size = 2};
}

TEST_F(VideoFolder, DrawsWithOneRowOfZerosAndOneOfTheImage) {
  ASSERT_OK_AND_ASSIGN(const VideoConfigs configs, Read());
  Recorder recorder;
  ASSERT_OK_AND_ASSIGN(const Video video, DrawVideo(configs, SmallVideo(), kBlack,
                                                    device::DType::kF16, recorder.Load()));
  EXPECT_EQ(video.frames.size(), 5u);
  using device::DType;
  // Image encoder, image latents, step, chunks of two frames, and the last one.
  EXPECT_THAT(recorder.dtypes_,
              ElementsAre(DType::kF16, DType::kF32, DType::kF16, DType::kF16, DType::kF16));
  ASSERT_EQ(recorder.runs_.size(), 2u + 2u + 3u);
  const VideoBuffers& step = recorder.runs_[2];
  EXPECT_THAT(step.at("negative_rows").as<int64_t>(), ElementsAre(0, 0));
  EXPECT_THAT(step.at("text_rows").as<int64_t>(), ElementsAre(1, 1));
  EXPECT_THAT(step.at("time_ids").as<float>(), ElementsAre(6, 127, 0.02f, 6, 127, 0.02f));
  EXPECT_EQ(recorder.runs_.back().at("latents").shape(), (device::Shape{1, 4, 2, 4}));
}

TEST_F(VideoFolder, DrawsNothingThatIsNotFinite) {
  ASSERT_OK_AND_ASSIGN(const VideoConfigs configs, Read());
  Recorder recorder;
  recorder.finite_ = false;
  EXPECT_THAT(DrawVideo(configs, SmallVideo(), kBlack, device::DType::kF32, recorder.Load()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("image_embeds of the video is not")));
}

}  // namespace
}  // namespace latentd::families::svd
