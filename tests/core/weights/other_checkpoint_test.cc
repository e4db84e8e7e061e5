// Gives what people give where a checkpoint belongs: each is named, with what to do.
#include "core/weights/containers/other_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

  // Describes a file with such tensors.
  std::string Describe(const std::vector<std::string>& names) const {
    return DescribeFile(WriteTensors("model.safetensors", names));
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
    EXPECT_THAT(
        Describe({name}),
        AllOf(StartsWith("it is a LoRA"), HasSubstr("fuse_lora"), HasSubstr("save_pretrained"),
              HasSubstr("load_lora_weights(\"" + Path("model.safetensors")),
              Not(HasSubstr("from_single_file"))))
        << name;
  }
}

TEST_F(OtherCheckpointTest, KnowsOtherKindsOfFilesByTheirTensors) {
  const std::pair<const char*, const char*> cases[] = {
      {"controlnet_cond_embedding.conv_in.weight", "it is a ControlNet"},
      {"control_model.input_blocks.0.0.weight", "it is a ControlNet"},
      {"image_proj.proj.weight", "it is an adapter"},
      {"clip_g", "it is a textual inversion embedding"},
      {"double_blocks.0.img_attn.qkv.weight", "it is a checkpoint of Flux"},
      {"model.diffusion_model.joint_blocks.0.x_block.mlp.fc1.weight",
       "it is a checkpoint of Stable Diffusion 3"},
      {"down_blocks.0.resnets.0.conv1.weight", "it is a UNet, one part"},
      {"model.diffusion_model.input_blocks.0.0.weight", "it is a UNet, one part"},
      {"decoder.conv_in.weight", "it is a VAE, one part"},
      {"text_model.embeddings.position_embedding.weight", "it is a text encoder, one part"},
  };
  for (const auto& [name, what] : cases) {
    EXPECT_THAT(Describe({"another", name}), StartsWith(what)) << name;
  }
}

TEST_F(OtherCheckpointTest, AControlNetIsNoUNetThoughItHasItsBlocks) {
  EXPECT_THAT(Describe({"down_blocks.0.resnets.0.conv1.weight", "controlnet_mid_block.weight"}),
              StartsWith("it is a ControlNet"));
}

TEST_F(OtherCheckpointTest, TellsHowToConvertAWholeFileAndWhatItDoesNotKnow) {
  for (const char* name :
       {"conditioner.embedders.0.transformer.text_model.final_layer_norm.bias",
        "cond_stage_model.transformer.text_model.final_layer_norm.bias", "unheard_of"}) {
    EXPECT_THAT(Describe({"model.diffusion_model_ema.decay", name}),
                AllOf(StartsWith("a single-file checkpoint is converted"),
                      HasSubstr("from_single_file(\"" + Path("model.safetensors"))));
  }
  EXPECT_THAT(Describe({"model.diffusion_model.out.2.bias", "cond_stage_model.x",
                        "conditioner.embedders.0.model.ln_final.bias"}),
              StartsWith("a single-file"));
}

TEST_F(OtherCheckpointTest, KnowsAContainerByItsBytesAndNotByItsName) {
  WriteFile(Path("model.safetensors"), std::string("PK\x03\x04\x14\0\0\0\x08\0", 10));
  EXPECT_THAT(DescribeFile(Path("model.safetensors")),
              AllOf(StartsWith("it is a zip archive"),
                    HasSubstr("torch.load(\"" + Path("model.safetensors") + "\""),
                    Not(HasSubstr("from_single_file"))));
  EXPECT_THAT(DescribeFile(WriteTensors("model.ckpt", {"x.lora_A.weight"})),
              StartsWith("it is a LoRA"));
}

TEST_F(OtherCheckpointTest, SaysWhatKeepsAFileFromBeingRead) {
  WriteFile(Path("model.safetensors"), "abc");
  EXPECT_THAT(DescribeFile(Path("model.safetensors")),
              AllOf(StartsWith("it cannot be read: "), HasSubstr("has 3 bytes")));
  EXPECT_THAT(DescribeFile(Path("nowhere.ckpt")),
              AllOf(StartsWith("it cannot be read: "), HasSubstr("nowhere.ckpt")));
}

TEST_F(OtherCheckpointTest, KnowsAFolderByTheClassOfItsConfig) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"_class_name": "ControlNetModel"})", "it is a ControlNet"},
      {R"({"_class_name": "ControlNetUnionModel"})", "it is a ControlNet"},
      {R"({"_class_name": "T2IAdapter"})", "it is an adapter"},
      {R"({"_class_name": "UNet2DConditionModel"})", "UNet2DConditionModel.from_pretrained(\""},
      {R"({"_class_name": "AutoencoderKL"})", "diffusers.AutoencoderKL.from_pretrained"},
      {R"({"_class_name": "AutoencoderTiny"})", "diffusers.AutoencoderTiny.from_pretrained"},
      {R"({"architectures": ["CLIPTextModel"]})", "text_encoder=transformers.CLIPTextModel"},
      {R"({"architectures": ["CLIPTextModelWithProjection"]})",
       "text_encoder_2=transformers.CLIPTextModelWithProjection"},
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
              AllOf(HasSubstr("pytorch_lora_weights.safetensors: it is a LoRA")));
  WriteTensors("single/sd_xl_base_1.0.safetensors", {"conditioner.embedders.0.x"});
  EXPECT_THAT(DescribeFolder(Path("single")),
              HasSubstr("from_single_file(\"" + Path("single/sd_xl_base_1.0.safetensors")));
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
    EXPECT_EQ(DescribeFile(path),
              "it is one part of the checkpoint " + Path("sdxl") + ": give that");
  }
}

TEST_F(OtherCheckpointTest, IsWhatOpeningSays) {
  const std::string lora = WriteTensors("lora.safetensors", {"x.lora_A.weight"});
  EXPECT_THAT(Checkpoint::Open(lora, ""),
              StatusIs(kInvalid, AllOf(HasSubstr(lora + " is a file"), HasSubstr("it is a LoRA"),
                                       Not(HasSubstr("from_single_file")))));
  WriteFile(Path("controlnet/config.json"), R"({"_class_name": "ControlNetModel"})");
  EXPECT_THAT(
      Checkpoint::Open(Path("controlnet"), ""),
      StatusIs(kInvalid, AllOf(HasSubstr("no model_index.json"), HasSubstr("it is a ControlNet"))));
}

TEST_F(OtherCheckpointTest, SaysHowToConvertASingleFile) {
  const std::string file = Path("sd_xl_base_1.0.safetensors");
  WriteSafetensors(file, {FilledTensor("a", {1}, 1)});
  EXPECT_THAT(Checkpoint::Open(file, ""), StatusIs(kInvalid, AllOf(HasSubstr(file + " is a file"),
                                                                   HasSubstr("from_single_file"),
                                                                   HasSubstr("save_pretrained"))));
}

TEST_F(OtherCheckpointTest, SaysWhatADirectoryLacks) {
  EXPECT_THAT(
      Checkpoint::Open(directory_.path(), ""),
      StatusIs(kInvalid, AllOf(HasSubstr("no model_index.json"), Not(HasSubstr("snapshots")))));
}

TEST_F(OtherCheckpointTest, PointsFromTheCacheToItsSnapshots) {
  std::filesystem::create_directories(Path("snapshots/0123"));
  EXPECT_THAT(Checkpoint::Open(directory_.path(), ""),
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
