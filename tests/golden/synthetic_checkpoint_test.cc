#include "tests/golden/synthetic_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "core/weights/containers/checkpoint.h"
#include "tests/golden/case_files.h"
#include "tests/golden/synthetic_weights.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::golden {
namespace {

using ::latentd::testing::SourcePath;
using testing::StatusIs;

Options OptionsOf() {
  return {.cases = SourcePath("tests/golden"), .checkpoint = SourcePath("deploy/demo-model")};
}

TEST(SyntheticCheckpoint, IsAFolderThatGoesWithIt) {
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(const auto written, SyntheticCheckpoint::Write(OptionsOf(), "sd15"));
    path = written->path();
    ASSERT_OK_AND_ASSIGN(const auto checkpoint, weights::Checkpoint::Open({path}));
    EXPECT_EQ(checkpoint.pipeline_class(), "StableDiffusionPipeline");
    for (const char* component : {"scheduler", "text_encoder", "tokenizer", "unet", "vae"}) {
      EXPECT_TRUE(checkpoint.Has(component)) << component;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SyntheticCheckpoint, HasTheNetworksOfTheOneThatItIsLike) {
  ASSERT_OK_AND_ASSIGN(const auto written, SyntheticCheckpoint::Write(OptionsOf(), "lcm"));
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, weights::Checkpoint::Open({written->path()}));
  for (const char* component : {"text_encoder", "unet", "vae"}) {
    EXPECT_OK(checkpoint.LoadWeights(component)) << component;
  }
  EXPECT_TRUE(checkpoint.LoadWeights("unet")->contains("time_embedding.cond_proj.weight"));
}

// conv_out of the UNet is the one tensor of `sd15` that is scaled: by a quarter.
TEST(SyntheticCheckpoint, ScalesWhatItsGainsName) {
  ASSERT_OK_AND_ASSIGN(const auto written, SyntheticCheckpoint::Write(OptionsOf(), "sd15"));
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, weights::Checkpoint::Open({written->path()}));
  ASSERT_OK_AND_ASSIGN(const weights::SourceMap sources, checkpoint.LoadWeights("unet"));
  weights::TensorMap unet;
  for (const auto& [name, source] : sources) unet.emplace(name, source.from[0]);
  for (const auto& [name, gain] : {std::pair("conv_out.weight", 0.25f), {"conv_in.weight", 1.0f}}) {
    ASSERT_OK_AND_ASSIGN(const auto scaled, FindTensor(unet, name));
    ASSERT_OK_AND_ASSIGN(const auto plain, MakeSyntheticWeights({{name, scaled.shape()}}));
    ASSERT_OK_AND_ASSIGN(const auto expected, FindTensor(plain, name));
    EXPECT_EQ(scaled.as<float>()[5], gain * expected.as<float>()[5]) << name;
  }
}

TEST(SyntheticCheckpoint, IsOneOfTheList) {
  EXPECT_THAT(SyntheticCheckpoint::Write(OptionsOf(), "sd9"),
              StatusIs(absl::StatusCode::kNotFound, ::testing::HasSubstr("sd9")));
}

}  // namespace
}  // namespace latentd::golden
