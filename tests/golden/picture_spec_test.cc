#include "tests/golden/picture_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::golden {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(PictureCase, BecomesARequest) {
  const json picture_case = {{"name", "x"},
                             {"task", "ensemble"},
                             {"prompt", "a ring"},
                             {"height", 320},
                             {"width", 192},
                             {"seeds", {4, 9}},
                             {"denoising_end", 0.7},
                             {"guidance_scale", 3},
                             {"guidance_interval", {0.25, 1}},
                             {"guidance_stop", "auto"},
                             {"feature_cache_interval", 3},
                             {"original_size", {512, 384}},
                             {"crops_coords_top_left", {32, 16}}};
  ASSERT_OK_AND_ASSIGN(const PictureRequest spec, ReadPictureCase(picture_case, ""));
  EXPECT_EQ(spec.prompt, "a ring");
  EXPECT_EQ(spec.width, 192);
  EXPECT_EQ(spec.original_size, (pipeline::Size{.width = 384, .height = 512}));
  EXPECT_EQ(spec.crops_coords_top_left, (pipeline::Offset{.top = 32, .left = 16}));
  EXPECT_THAT(spec.seeds, ElementsAre(4, 9));
  EXPECT_TRUE(spec.refine);
  EXPECT_EQ(spec.denoising_end, 0.7);
  EXPECT_EQ(spec.guidance_interval, (pipeline::GuidanceInterval{.start = 0.25, .stop = 1}));
  EXPECT_EQ(spec.guidance_stop, pipeline::GuidanceStop::kAuto);
  EXPECT_EQ(spec.feature_cache_interval, 3);
  EXPECT_EQ(spec.scheduler.name, "EulerDiscreteScheduler");
}

TEST(PictureCase, LeavesOtherCheckpointsTheirOwnScheduler) {
  const json picture_case = {{"task", "text-to-image"}, {"checkpoint", "sd15"}};
  ASSERT_OK_AND_ASSIGN(const PictureRequest spec, ReadPictureCase(picture_case, ""));
  EXPECT_EQ(spec.scheduler.name, "");
}

TEST(PictureCase, TakesTheSchedulerAndItsConfig) {
  const json picture_case = {
      {"task", "text-to-image"},
      {"scheduler", {{"class", "DDIMScheduler"}, {"config", {{"clip_sample", false}}}}}};
  ASSERT_OK_AND_ASSIGN(const PictureRequest spec, ReadPictureCase(picture_case, ""));
  EXPECT_EQ(spec.scheduler.name, "DDIMScheduler");
  EXPECT_EQ(json::parse(spec.scheduler.config), json({{"clip_sample", false}}));
}

TEST(PictureCase, ReadsTheInitImageAndKeepsItsSize) {
  const testing::TemporaryDirectory directory;
  testing::WriteFile(directory.File("star-0.png"), "bytes of a PNG");
  const json picture_case = {{"task", "refiner-image-to-image"},
                             {"image", "star"},
                             {"strength", 0.3},
                             {"width", 64},
                             {"height", 64},
                             {"clip_skip", 1}};
  ASSERT_OK_AND_ASSIGN(const PictureRequest spec, ReadPictureCase(picture_case, directory.path()));
  EXPECT_EQ(spec.inputs.image, "bytes of a PNG");
  EXPECT_EQ(spec.model, "refiner");
  EXPECT_EQ(spec.width, std::nullopt);
  EXPECT_EQ(spec.clip_skip, std::nullopt);
}

TEST(PictureCase, ReadsTheMask) {
  const testing::TemporaryDirectory directory;
  std::filesystem::create_directory(directory.File("masks"));
  testing::WriteFile(directory.File("masks/disc.png"), "bytes of a mask");
  ASSERT_OK_AND_ASSIGN(
      const PictureRequest spec,
      ReadPictureCase({{"task", "inpainting"}, {"mask", "disc"}}, directory.path()));
  EXPECT_EQ(spec.inputs.mask_image, "bytes of a mask");
}

TEST(PictureCase, ForgetsTheNumberOfStepsWhereTheScheduleIsGiven) {
  ASSERT_OK_AND_ASSIGN(
      const PictureRequest spec,
      ReadPictureCase(
          {{"task", "text-to-image"}, {"num_inference_steps", 4}, {"sigmas", {14.0, 1.5}}}, ""));
  EXPECT_EQ(spec.num_inference_steps, std::nullopt);
  EXPECT_THAT(spec.sigmas, ElementsAre(14.0, 1.5));
}

// The case says them for diffusers; here they have to come from the preset.
TEST(PictureCase, LeavesWhatAPresetDecidesToIt) {
  const json picture_case = {{"task", "text-to-image"},
                             {"checkpoint", "koala"},
                             {"preset", "turbo"},
                             {"scheduler", {{"class", "DDIMScheduler"}}},
                             {"num_inference_steps", 1},
                             {"guidance_scale", 0.0},
                             {"width", 64}};
  ASSERT_OK_AND_ASSIGN(const PictureRequest spec, ReadPictureCase(picture_case, ""));
  EXPECT_EQ(spec.scheduler.name, "");
  EXPECT_EQ(spec.num_inference_steps, std::nullopt);
  EXPECT_EQ(spec.guidance_scale, std::nullopt);
  EXPECT_EQ(spec.width, 64);
}

TEST(PictureCase, NamesWhatItDoesNotKnow) {
  EXPECT_THAT(ReadPictureCase({{"task", "text-to-image"}, {"tiling", true}}, ""),
              StatusIs(kInvalid, HasSubstr("tiling")));
  EXPECT_THAT(ReadPictureCase({{"task", "outpainting"}}, ""),
              StatusIs(kInvalid, HasSubstr("outpainting")));
  EXPECT_THAT(ReadPictureCase({{"task", "text-to-image"}, {"width", "wide"}}, ""),
              StatusIs(kInvalid, HasSubstr("width")));
}

}  // namespace
}  // namespace latentd::golden
