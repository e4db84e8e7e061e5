// ControlNets by what their files have: names of diffusers and of LDM, configurations, and what is
// refused.
#include "core/adapters/control_net/control_net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/adapters/control_net/ldm_names.h"
#include "core/base/files/files.h"
#include "core/device/buffer.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::adapters {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

nlohmann::json ReadJson(const std::string& path) {
  return nlohmann::json::parse(
      ReadFile(::latentd::testing::SourcePath("tests/golden/" + path), size_t{1} << 24).value());
}

// The configuration of a case of networks.json.
nlohmann::json ConfigOf(const std::string& name) {
  for (const nlohmann::json& one : ReadJson("networks.json")) {
    if (one["name"] == name) return one["config"];
  }
  return {};
}

networks::Unet2dConditionConfig UnetOf(const std::string& name) {
  return networks::ParseUnet2dConditionConfig(ConfigOf(name).dump(), "config.json").value();
}

// The UNet that the union of networks.json is for.
networks::Unet2dConditionConfig UnetOfUnion() {
  nlohmann::json config = ConfigOf("unet_sdxl_base_small");
  const nlohmann::json net = ConfigOf("control_net_union_small");
  for (const char* field : {"layers_per_block", "transformer_layers_per_block"}) {
    config[field] = net.at(field);
  }
  return networks::ParseUnet2dConditionConfig(config.dump(), "config.json").value();
}

// Tensors of a case's parameters, without values.
weights::TensorMap TensorsOf(const std::string& name) {
  weights::TensorMap tensors;
  const nlohmann::json listed = ReadJson("networks/" + name + ".parameters.json");
  for (const auto& [tensor, dims] : listed.items()) {
    tensors[tensor].data = device::Buffer::Allocate(
        device::DType::kF32, device::Shape(dims.get<std::vector<int64_t>>()));
  }
  return tensors;
}

LoraFile FileOf(const std::string& name, const nlohmann::json& config) {
  LoraFile file{.path = "net.safetensors", .tensors = TensorsOf(name), .metadata = {}};
  if (!config.is_null()) file.adapter_config = config.dump();
  return file;
}

// The name that diffusers has for a tensor of a file whose hint ends with convolution 14.
std::string Renamed(const std::string& name, const networks::Unet2dConditionConfig& unet) {
  const std::string last = "control_model.input_hint_block.14.weight";
  weights::TensorMap tensors;
  tensors[last];
  tensors[name];
  weights::TensorMap renamed = WithDiffusersNames(tensors, unet);
  if (name != last) renamed.erase("controlnet_cond_embedding.conv_out.weight");
  return renamed.size() == 1 ? renamed.begin()->first : "";
}

TEST(LdmNames, AreThoseOfStableDiffusion15) {
  const networks::Unet2dConditionConfig unet = UnetOf("unet_sd15_small");
  const std::map<std::string, std::string> names = {
      {"control_model.time_embed.0.weight", "time_embedding.linear_1.weight"},
      {"control_model.time_embed.2.bias", "time_embedding.linear_2.bias"},
      {"control_model.input_hint_block.0.weight", "controlnet_cond_embedding.conv_in.weight"},
      {"control_model.input_hint_block.2.weight", "controlnet_cond_embedding.blocks.0.weight"},
      {"control_model.input_hint_block.12.bias", "controlnet_cond_embedding.blocks.5.bias"},
      {"control_model.input_hint_block.14.bias", "controlnet_cond_embedding.conv_out.bias"},
      {"control_model.input_blocks.0.0.weight", "conv_in.weight"},
      {"control_model.input_blocks.1.0.in_layers.0.weight", "down_blocks.0.resnets.0.norm1.weight"},
      {"control_model.input_blocks.2.1.transformer_blocks.0.attn2.to_k.weight",
       "down_blocks.0.attentions.1.transformer_blocks.0.attn2.to_k.weight"},
      {"control_model.input_blocks.3.0.op.weight", "down_blocks.0.downsamplers.0.conv.weight"},
      {"control_model.input_blocks.4.0.skip_connection.bias",
       "down_blocks.1.resnets.0.conv_shortcut.bias"},
      {"control_model.input_blocks.9.0.op.bias", "down_blocks.2.downsamplers.0.conv.bias"},
      {"control_model.input_blocks.10.0.emb_layers.1.weight",
       "down_blocks.3.resnets.0.time_emb_proj.weight"},
      {"input_blocks.11.0.out_layers.3.weight", "down_blocks.3.resnets.1.conv2.weight"},
      {"middle_block.0.in_layers.2.weight", "mid_block.resnets.0.conv1.weight"},
      {"middle_block.1.norm.weight", "mid_block.attentions.0.norm.weight"},
      {"middle_block.2.out_layers.0.weight", "mid_block.resnets.1.norm2.weight"},
      {"middle_block_out.0.weight", "controlnet_mid_block.weight"},
      {"zero_convs.11.0.bias", "controlnet_down_blocks.11.bias"},
  };
  for (const auto& [ldm, diffusers] : names) EXPECT_EQ(Renamed(ldm, unet), diffusers) << ldm;
}

TEST(LdmNames, AreThoseOfSdxl) {
  const networks::Unet2dConditionConfig unet = UnetOf("unet_sdxl_base_small");
  EXPECT_EQ(Renamed("label_emb.0.2.weight", unet), "add_embedding.linear_2.weight");
  EXPECT_EQ(Renamed("input_blocks.6.0.op.weight", unet),
            "down_blocks.1.downsamplers.0.conv.weight");
  EXPECT_EQ(Renamed("input_blocks.8.1.proj_out.weight", unet),
            "down_blocks.2.attentions.1.proj_out.weight");
}

TEST(MakeControlNet, ReadsFoldersAndSingleFiles) {
  const networks::Unet2dConditionConfig unet = UnetOf("unet_sdxl_base_small");
  const std::string name = "control_net_sdxl_small";
  ASSERT_OK_AND_ASSIGN(const ControlNet folder,
                       MakeControlNet("edges", FileOf(name, ConfigOf(name)), unet));
  EXPECT_EQ(folder.config.hint_features, (std::vector<int64_t>{8, 12, 16, 24}));
  ASSERT_OK_AND_ASSIGN(const ControlNet alone, MakeControlNet("edges", FileOf(name, {}), unet));
  EXPECT_EQ(alone.config.hint_features, folder.config.hint_features);
  EXPECT_EQ(alone.config.unet.cross_attention_dim, unet.cross_attention_dim);
}

TEST(MakeControlNet, ReadsUnionsOfFoldersAndSingleFiles) {
  const networks::Unet2dConditionConfig unet = UnetOfUnion();
  const std::string name = "control_net_union_small";
  nlohmann::json config = ConfigOf(name);
  for (const char* class_name : {"ControlNetUnionModel", "ControlNetModel_Union", ""}) {
    config["_class_name"] = class_name;
    if (*class_name == '\0') config.erase("_class_name");
    ASSERT_OK_AND_ASSIGN(const ControlNet folder,
                         MakeControlNet("union", FileOf(name, config), unet));
    EXPECT_EQ(folder.config.image_types, 8) << class_name;
    EXPECT_EQ(folder.config.image_layers, 2);
  }
  ASSERT_OK_AND_ASSIGN(const ControlNet alone, MakeControlNet("union", FileOf(name, {}), unet));
  EXPECT_EQ(alone.config.image_types, 8);
  EXPECT_EQ(alone.config.image_layers, 2);
  EXPECT_EQ(alone.config.hint_features, (std::vector<int64_t>{8, 12, 16, 24}));
}

TEST(MakeControlNet, RefusesUnionsThatAreNot) {
  const networks::Unet2dConditionConfig unet = UnetOfUnion();
  const std::string name = "control_net_union_small";
  const auto refusal = [&](const char* field, const nlohmann::json& value) {
    nlohmann::json config = ConfigOf(name);
    config[field] = value;
    return MakeControlNet("union", FileOf(name, config), unet).status();
  };
  EXPECT_THAT(refusal("num_control_type", 6),
              StatusIs(kInvalid, HasSubstr("task_embedding has the shape [8,32], not [6,32]")));
  EXPECT_THAT(refusal("num_control_type", 0),
              StatusIs(kInvalid, HasSubstr("field num_control_type is 0")));
  EXPECT_THAT(refusal("num_trans_channel", 320),
              StatusIs(kInvalid, HasSubstr("field num_trans_channel is 320, and the first block")));
  EXPECT_THAT(refusal("controlnet_conditioning_channel_order", "bgr"),
              StatusIs(kInvalid, HasSubstr("controlnet_conditioning_channel_order")));
  EXPECT_THAT(refusal("addition_embed_type", nullptr),
              StatusIs(kInvalid, HasSubstr("addition_embed_type has to be text_time")));
  LoraFile file = FileOf(name, {});
  file.tensors.erase("transformer_layes.1.attn.out_proj.bias");
  EXPECT_THAT(MakeControlNet("union", file, unet).status(),
              StatusIs(kInvalid, HasSubstr("lacks transformer_layes.1.attn.out_proj.bias")));
}

TEST(MakeControlNet, RefusesThoseOfOtherModels) {
  const auto refusal = [](const std::string& net, const std::string& unet, bool has_config) {
    const auto file = FileOf(net, has_config ? ConfigOf(net) : nlohmann::json());
    return MakeControlNet("edges", file, UnetOf(unet)).status();
  };
  for (const bool has_config : {false, true}) {
    EXPECT_THAT(refusal("control_net_sdxl_small", "unet_sd15_small", has_config),
                StatusIs(kInvalid, AllOf(HasSubstr("net.safetensors: is a ControlNet for another"),
                                         HasSubstr("it reads text of 64 features"))));
    EXPECT_THAT(refusal("control_net_sd15_small", "unet_sdxl_base_small", has_config),
                StatusIs(kInvalid, HasSubstr("for another model")));
  }
}

TEST(MakeControlNet, NamesTensorsThatAreMissingMisshapenOrUnknown) {
  const networks::Unet2dConditionConfig unet = UnetOf("unet_sdxl_base_small");
  const std::string name = "control_net_sdxl_small";
  LoraFile file = FileOf(name, ConfigOf(name));
  file.tensors["extra.weight"] = file.tensors.at("conv_in.weight");
  file.tensors["conv_in.weight"] = file.tensors.at("conv_in.bias");
  file.tensors.erase("controlnet_mid_block.bias");
  EXPECT_THAT(MakeControlNet("edges", file, unet).status(),
              StatusIs(kInvalid, AllOf(HasSubstr("it lacks controlnet_mid_block.bias"),
                                       HasSubstr("conv_in.weight has the shape"),
                                       HasSubstr("extra.weight is no part of it"))));
}

TEST(MakeControlNet, RefusesConfigurationsByTheirFields) {
  const networks::Unet2dConditionConfig unet = UnetOf("unet_sdxl_base_small");
  const std::string name = "control_net_sdxl_small";
  nlohmann::json config = ConfigOf(name);
  config["global_pool_conditions"] = true;
  EXPECT_THAT(MakeControlNet("edges", FileOf(name, config), unet).status(),
              StatusIs(kInvalid, HasSubstr("global_pool_conditions")));
  config = ConfigOf(name);
  config["_class_name"] = "ControlNetXSAdapter";
  EXPECT_THAT(MakeControlNet("edges", FileOf(name, config), unet).status(),
              StatusIs(kInvalid, HasSubstr("ControlNetXSAdapter")));
  config = ConfigOf(name);
  config["block_out_channels"] = {32, 64, 128};
  EXPECT_THAT(MakeControlNet("edges", FileOf(name, config), unet).status(),
              StatusIs(kInvalid, HasSubstr("its blocks are not those of the model's UNet")));
}

}  // namespace
}  // namespace latentd::adapters
