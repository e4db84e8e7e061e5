// Gives what people give where a checkpoint belongs: each is named, with what to do.
#include "core/weights/containers/other_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/weights/containers/checkpoint.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using ::latentd::testing::FilledTensor;
using ::latentd::testing::StatusIs;
using ::latentd::testing::WriteFile;
using ::latentd::testing::WriteSafetensors;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class OtherCheckpointTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_.File(name); }

  std::string WriteTensors(const std::string& file, const std::vector<std::string>& names) const {
    std::vector<testing::TensorToWrite> tensors;
    for (const std::string& name : names) tensors.push_back(FilledTensor(name, {1}, 1));
    WriteSafetensors(Path(file), tensors);
    return Path(file);
  }

  // The error of opening a file with such tensors, behind its path.
  std::string Describe(const std::vector<std::string>& names) const {
    const std::string file = WriteTensors("model.safetensors", names);
    std::string message(Checkpoint::Open({file}).status().message());
    EXPECT_THAT(message, StartsWith(file));
    return message.substr(std::min(message.size(), file.size()));
  }

  // Describes a folder with such a config.json.
  std::string DescribeConfig(const std::string& config) const {
    WriteFile(Path("folder/config.json"), config);
    return DescribeFolder(Path("folder"));
  }

  testing::TemporaryDirectory directory_;
};

// Names as diffusers, PEFT, kohya's scripts and LyCORIS write them.
TEST_F(OtherCheckpointTest, KnowsALoraByAnySpelling) {
  for (const char* name :
       {"unet.down_blocks.1.attentions.0.proj_in.lora_A.weight",
        "unet.down_blocks.1.attentions.0.to_q.lora.down.weight",
        "unet.mid_block.attentions.0.processor.to_q_lora.up.weight",
        "text_encoder.text_model.encoder.layers.0.self_attn.q_proj.lora_linear_layer.up.weight",
        "lora_unet_input_blocks_4_1_proj_in.lora_down.weight",
        "lora_te1_text_model_encoder_layers_0_mlp_fc1.alpha",
        "base_model.model.conv_in.lora_B.weight", "lycoris_unet_mid_block.hada_w1_a",
        "lycoris_unet_mid_block.lokr_w1"}) {
    EXPECT_THAT(Describe({name}), AllOf(StartsWith(" is a LoRA"), HasSubstr("with --lora")))
        << name;
  }
}

TEST_F(OtherCheckpointTest, KnowsOtherKindsOfFilesByTheirTensors) {
  const std::pair<const char*, const char*> cases[] = {
      {"controlnet_cond_embedding.conv_in.weight", " is a ControlNet"},
      {"control_model.input_blocks.0.0.weight", " is a ControlNet"},
      {"image_proj.proj.weight", " is an IP-Adapter"},
      {"clip_g", " is a textual inversion embedding"},
      {"double_blocks.0.img_attn.qkv.weight", " is a checkpoint of FLUX"},
      {"model.diffusion_model.joint_blocks.0.x_block.mlp.fc1.weight",
       " is a checkpoint of Stable Diffusion 3"},
  };
  for (const auto& [name, what] : cases) {
    EXPECT_THAT(Describe({"another", name}), StartsWith(what)) << name;
  }
}

TEST_F(OtherCheckpointTest, AControlNetIsNoUNetThoughItHasItsBlocks) {
  EXPECT_THAT(Describe({"down_blocks.0.resnets.0.conv1.weight", "controlnet_mid_block.weight"}),
              StartsWith(" is a ControlNet"));
}

TEST_F(OtherCheckpointTest, KnowsAFolderByTheClassOfItsConfig) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"_class_name": "ControlNetModel"})", "it is a ControlNet"},
      {R"({"_class_name": "ControlNetUnionModel"})", "it is a ControlNet"},
      {R"({"_class_name": "T2IAdapter"})", "it is an adapter"},
      {R"({"_class_name": "UNet2DConditionModel"})", "--unet="},
      {R"({"_class_name": "AutoencoderKL"})", "--vae="},
      {R"({"_class_name": "AutoencoderTiny"})", "--vae-tiny="},
      {R"({"architectures": ["CLIPTextModel"]})", "--text-encoder="},
      {R"({"architectures": ["CLIPTextModelWithProjection"]})", "--text-encoder-2="},
      {R"({"_class_name": "FluxTransformer2DModel"})", "a network of Flux"},
      {R"({"_class_name": "SD3Transformer2DModel"})", "a network of Stable Diffusion 3"},
      {R"({"architectures": ["LlamaForCausalLM"]})", "it is a LlamaForCausalLM, and no checkpoint"},
  };
  for (const auto& [config, what] : cases) {
    EXPECT_THAT(DescribeConfig(config), HasSubstr(what)) << config;
  }
  for (const char* config : {"{}", "[]", "{", R"({"_class_name": 5, "architectures": []})"}) {
    EXPECT_THAT(DescribeConfig(config), IsEmpty()) << config;
  }
}

TEST_F(OtherCheckpointTest, KnowsAFolderByTheFilesInIt) {
  WriteFile(Path("peft/adapter_config.json"), "{}");
  EXPECT_THAT(DescribeFolder(Path("peft")), StartsWith("it is a LoRA"));
  WriteTensors("lora/pytorch_lora_weights.safetensors", {"unet.conv_in.lora_A.weight"});
  EXPECT_THAT(DescribeFolder(Path("lora")),
              HasSubstr("pytorch_lora_weights.safetensors is a LoRA"));
  const std::string file = WriteTensors("single/x.safetensors", {"first_stage_model.x"});
  EXPECT_THAT(DescribeFolder(Path("single")), StartsWith(file));
  WriteFile(Path("notes/README.md"), "x");
  EXPECT_THAT(DescribeFolder(Path("notes")), IsEmpty());
  EXPECT_THAT(DescribeFolder(Path("nowhere")), IsEmpty());
}

TEST_F(OtherCheckpointTest, PointsFromAPartToItsCheckpoint) {
  WriteFile(Path("sdxl/model_index.json"), "{}");
  WriteFile(Path("sdxl/unet/config.json"), R"({"_class_name": "UNet2DConditionModel"})");
  const std::string unet = WriteTensors("sdxl/unet/model.safetensors", {"a"});
  for (const std::string& path : {Path("sdxl/unet"), Path("sdxl/unet/")}) {
    EXPECT_EQ(DescribeFolder(path),
              "it is one part of the checkpoint " + Path("sdxl") + ": give that");
  }
  for (const std::string& path : {unet, Path("sdxl/model_index.json")}) {
    EXPECT_THAT(Checkpoint::Open({path}),
                StatusIs(kInvalid, HasSubstr("it is one part of the checkpoint " + Path("sdxl") +
                                             ": give that")));
  }
}

TEST_F(OtherCheckpointTest, IsWhatOpeningSays) {
  WriteFile(Path("controlnet/config.json"), R"({"_class_name": "ControlNetModel"})");
  EXPECT_THAT(
      Checkpoint::Open({Path("controlnet")}),
      StatusIs(kInvalid, AllOf(HasSubstr("no model_index.json"), HasSubstr("it is a ControlNet"))));
}

TEST_F(OtherCheckpointTest, SaysWhatADirectoryLacks) {
  EXPECT_THAT(
      Checkpoint::Open({directory_.path()}),
      StatusIs(kInvalid, AllOf(HasSubstr("no model_index.json"), Not(HasSubstr("snapshots")))));
}

TEST_F(OtherCheckpointTest, PointsFromTheCacheToItsSnapshots) {
  std::filesystem::create_directories(Path("snapshots/0123"));
  EXPECT_THAT(Checkpoint::Open({directory_.path()}),
              StatusIs(kInvalid, HasSubstr("folders in snapshots")));
}

TEST_F(OtherCheckpointTest, KnowsPipelinesOfOtherModels) {
  EXPECT_THAT(DescribePipelineClass("FluxImg2ImgPipeline"), HasSubstr("Flux"));
  EXPECT_THAT(DescribePipelineClass("StableDiffusion3Pipeline"), HasSubstr("Stable Diffusion 3"));
  EXPECT_THAT(DescribePipelineClass("StableDiffusionXLPipeline"), IsEmpty());
  EXPECT_THAT(DescribePipelineClass("StableDiffusionInpaintPipeline"), IsEmpty());
  EXPECT_THAT(DescribePipelineClass("FooPipeline"), IsEmpty());
}

}  // namespace
}  // namespace latentd::weights
