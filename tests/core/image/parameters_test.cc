#include "core/image/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd::image {
namespace {

PictureParameters Smallest() {
  return {.prompt = "a star",
          .steps = 20,
          .sampler = "Euler",
          .cfg_scale = 4,
          .seed = 7,
          .width = 256,
          .height = 192};
}

TEST(ParametersTextTest, WritesWhatEveryPictureHas) {
  EXPECT_EQ(ParametersText(Smallest()),
            "a star\nSteps: 20, Sampler: Euler, CFG scale: 4, Seed: 7, Size: 256x192");
}

TEST(ParametersTextTest, WritesWhatAPictureMayHave) {
  PictureParameters parameters = Smallest();
  parameters.negative_prompt = "blurry, dark";
  parameters.schedule_type = "Karras";
  parameters.cfg_scale = 7.5;
  parameters.seed = 18446744073709551615u;
  parameters.model = "demo";
  parameters.denoising_strength = 0.3;
  parameters.clip_skip = 2;
  parameters.refiner = "demo-refiner";
  parameters.refiner_switch_at = 0.8;
  parameters.extra = {{"Eta", "0.5"}};
  parameters.version = "latentd 0.1.0";
  EXPECT_EQ(ParametersText(parameters),
            "a star\nNegative prompt: blurry, dark\nSteps: 20, Sampler: Euler, Schedule type: "
            "Karras, CFG scale: 7.5, Seed: 18446744073709551615, Size: 256x192, Model: demo, "
            "Denoising strength: 0.3, Clip skip: 2, Refiner: demo-refiner, Refiner switch at: 0.8, "
            "Eta: 0.5, Version: latentd 0.1.0");
}

TEST(ParametersTextTest, QuotesValuesThatWouldBeReadAsSeveral) {
  PictureParameters parameters = Smallest();
  parameters.model = "one, two: \"caf\u00E9\"";
  parameters.version = "a\nb";
  EXPECT_EQ(ParametersText(parameters),
            "a star\nSteps: 20, Sampler: Euler, CFG scale: 4, Seed: 7, Size: 256x192, "
            "Model: \"one, two: \\\"caf\u00E9\\\"\", Version: \"a\\nb\"");
}

// Readers drop the whole text where a byte of it is wrong.
TEST(ParametersTextTest, IsUtf8WhateverTheModelIsCalled) {
  PictureParameters parameters = Smallest();
  parameters.model = "caf\xE9";
  parameters.refiner = "caf\xE9, two";
  EXPECT_THAT(ParametersText(parameters),
              ::testing::EndsWith("Model: caf\\xe9, Refiner: \"caf\\\\xe9, two\""));
}

TEST(ParametersTextTest, LeavesPromptsAsTheyAre) {
  PictureParameters parameters = Smallest();
  parameters.prompt = "two\nlines: \u732B";
  EXPECT_EQ(ParametersText(parameters).rfind("two\nlines: \u732B\nSteps: 20", 0), 0u);
}

}  // namespace
}  // namespace latentd::image
