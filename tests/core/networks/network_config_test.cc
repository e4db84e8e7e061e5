// Reading of each network's config.json: defaults, and fields that it refuses by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/files.h"
#include "core/networks/autoencoder_tiny.h"
#include "core/networks/config/autoencoder_kl_config.h"
#include "core/networks/config/clip_text_config.h"
#include "core/networks/config/unet_2d_condition_config.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::networks {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

auto Unet(const std::string& text) { return ParseUnet2dConditionConfig(text, "unet/config.json"); }
auto Vae(const std::string& text) { return ParseAutoencoderKlConfig(text, "vae/config.json"); }
auto Tiny(const std::string& text) { return ParseAutoencoderTinyConfig(text, "vae/config.json"); }
auto Text(const std::string& text, ClipTextKind kind = ClipTextKind::kPlain) {
  return ParseClipTextConfig(text, "text_encoder/config.json", kind);
}

TEST(UnetConfig, AbsentFieldsHaveDiffusersDefaults) {
  ASSERT_OK_AND_ASSIGN(const Unet2dConditionConfig config, Unet("{}"));
  std::vector<int64_t> channels;
  for (const auto& block : config.blocks) {
    channels.push_back(block.channels);
    EXPECT_EQ(block.layers, 2);
    EXPECT_EQ(block.heads, 8);
  }
  EXPECT_THAT(channels, ElementsAre(320, 640, 1280, 1280));
  EXPECT_THAT(config.down_transformers,
              ElementsAre(ElementsAre(1, 1), ElementsAre(1, 1), ElementsAre(1, 1), IsEmpty()));
  EXPECT_THAT(config.up_transformers, ElementsAre(IsEmpty(), ElementsAre(1, 1, 1),
                                                  ElementsAre(1, 1, 1), ElementsAre(1, 1, 1)));
  EXPECT_EQ(config.cross_attention_dim, 1280);
  EXPECT_EQ(config.time_embedding_dim, 1280);
  EXPECT_EQ(config.projection, Projection::kConvolution);
  EXPECT_EQ(config.middle, Unet2dConditionConfig::MiddleBlock::kCrossAttention);
  EXPECT_FALSE(config.text_time);
  EXPECT_EQ(config.sample_size, std::nullopt);
}

TEST(UnetConfig, ReadsTheDemoCheckpoint) {
  ASSERT_OK_AND_ASSIGN(
      const std::string text,
      ReadFile(::latentd::testing::SourcePath("deploy/demo-model/base/unet/config.json"), 1 << 20));
  ASSERT_OK_AND_ASSIGN(const Unet2dConditionConfig config, Unet(text));
  EXPECT_EQ(config.TextEmbedFeatures(6), 96);
  EXPECT_EQ(config.sample_size, (ConfigReader::Size{32, 32}));
  EXPECT_EQ(config.middle_transformer_layers, 2);
}

// All fields of SDXL base's config.json as it is published.
TEST(UnetConfig, ReadsPublishedSdxl) {
  ASSERT_OK_AND_ASSIGN(const Unet2dConditionConfig config, Unet(R"({
      "_class_name": "UNet2DConditionModel", "_diffusers_version": "0.19.0.dev0", "act_fn": "silu",
      "addition_embed_type": "text_time", "addition_embed_type_num_heads": 64,
      "addition_time_embed_dim": 256, "attention_head_dim": [5, 10, 20],
      "block_out_channels": [320, 640, 1280], "center_input_sample": false,
      "class_embed_type": null, "class_embeddings_concat": false, "conv_in_kernel": 3,
      "conv_out_kernel": 3, "cross_attention_dim": 2048, "cross_attention_norm": null,
      "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
      "downsample_padding": 1, "dual_cross_attention": false, "encoder_hid_dim": null,
      "encoder_hid_dim_type": null, "flip_sin_to_cos": true, "freq_shift": 0, "in_channels": 4,
      "layers_per_block": 2, "mid_block_only_cross_attention": null, "mid_block_scale_factor": 1,
      "mid_block_type": "UNetMidBlock2DCrossAttn", "norm_eps": 1e-05, "norm_num_groups": 32,
      "num_attention_heads": null, "num_class_embeds": null, "only_cross_attention": false,
      "out_channels": 4, "projection_class_embeddings_input_dim": 2816,
      "resnet_out_scale_factor": 1.0, "resnet_skip_time_act": false,
      "resnet_time_scale_shift": "default", "sample_size": 128, "time_cond_proj_dim": null,
      "time_embedding_act_fn": null, "time_embedding_dim": null,
      "time_embedding_type": "positional", "timestep_post_act": null,
      "transformer_layers_per_block": [1, 2, 10],
      "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
      "upcast_attention": null, "use_linear_projection": true})"));
  EXPECT_EQ(config.middle_transformer_layers, 10);
  EXPECT_EQ(config.TextEmbedFeatures(6), 1280);
  EXPECT_FALSE(config.upcast_attention);
}

TEST(UnetConfig, NamesEveryFieldThatItDoesNotSupport) {
  EXPECT_THAT(
      Unet(R"({"class_embed_type": "timestep", "act_fn": "mish", "encoder_hid_dim": 768,
                       "num_class_embeds": 256, "addition_embed_type": "image", "attention_type": "gated",
                       "down_block_types": ["KDownBlock2D", "DownBlock2D", "DownBlock2D", "DownBlock2D"]})"),
      StatusIs(kInvalid,
               AllOf(HasSubstr("class_embed_type is \"timestep\""), HasSubstr("act_fn is \"mish\""),
                     HasSubstr("encoder_hid_dim is 768"), HasSubstr("num_class_embeds is 256"),
                     HasSubstr("addition_embed_type is \"image\"; supported: text_time"),
                     HasSubstr("attention_type is \"gated\""),
                     HasSubstr("down_block_types is \"KDownBlock2D\""))));
}

// As diffusers' EMAModel.save_pretrained writes it into unet/config.json.
TEST(UnetConfig, PassesOverWhatDiffusersPassesOver) {
  ASSERT_OK_AND_ASSIGN(
      const Unet2dConditionConfig config,
      Unet(R"({"decay": 0.9999, "inv_gamma": 1.0, "min_decay": 0.0, "optimization_step": 40000,
               "power": 0.75, "update_after_step": 0, "use_ema_warmup": false, "dropout": 0.1,
               "encoder_hid_dim": null, "quantization_config": null, "_use_default_values": []})"));
  EXPECT_THAT(config.unknown_fields,
              ElementsAre("decay", "inv_gamma", "min_decay", "optimization_step", "power",
                          "update_after_step", "use_ema_warmup"));
}

// A value for each field of the lists in unread_fields.cc that would draw something else.
TEST(UnetConfig, RefusesByNameEachFieldThatWouldDrawSomethingElse) {
  for (const char* field :
       {R"("class_embed_type": "timestep")", R"("class_embeddings_concat": true)",
        R"("dual_cross_attention": true)", R"("encoder_hid_dim": 768)",
        R"("encoder_hid_dim_type": "text_proj")", R"("num_attention_heads": 8)",
        R"("num_class_embeds": 10)", R"("quantization_config": {"load_in_4bit": true})"}) {
    const std::string name = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
    EXPECT_THAT(Unet(absl::StrCat("{", field, "}")),
                StatusIs(kInvalid, AllOf(HasSubstr("unet/config.json"), HasSubstr(name))));
  }
}

// latent-consistency/lcm-sdxl, LCM_Dreamshaper_v7.
TEST(UnetConfig, ReadsTheFeaturesOfALatentConsistencyModel) {
  EXPECT_EQ(Unet("{}")->time_cond_proj_dim, 0);
  EXPECT_EQ(Unet(R"({"time_cond_proj_dim": 256})")->time_cond_proj_dim, 256);
  EXPECT_THAT(Unet(R"({"time_cond_proj_dim": 3})"),
              StatusIs(kInvalid, HasSubstr("time_cond_proj_dim is 3")));
}

TEST(UnetConfig, RefusesBlocksThatDoNotMatch) {
  EXPECT_THAT(Unet(R"({"block_out_channels": [32, 64]})"),
              StatusIs(kInvalid, AllOf(HasSubstr("down_block_types has 4"),
                                       HasSubstr("up_block_types has 4"))));
}

TEST(UnetConfig, RefusesChannelsThatTheGroupsDoNotDivide) {
  EXPECT_THAT(Unet(R"({"block_out_channels": [320, 640, 1280, 1290]})"),
              StatusIs(kInvalid, HasSubstr("block_out_channels has 1290")));
}

TEST(UnetConfig, RefusesMoreHeadsThanChannels) {
  EXPECT_THAT(Unet(R"({"attention_head_dim": 400})"),
              StatusIs(kInvalid, HasSubstr("400 heads of 320 channels")));
}

TEST(UnetConfig, TextTimeNeedsItsSizes) {
  EXPECT_THAT(
      Unet(R"({"addition_embed_type": "text_time"})"),
      StatusIs(kInvalid, AllOf(HasSubstr("addition_time_embed_dim is missing"),
                               HasSubstr("projection_class_embeddings_input_dim is missing"))));
}

TEST(UnetConfig, TellsANullMiddleBlockFromAnAbsentOne) {
  ASSERT_OK_AND_ASSIGN(const auto none, Unet(R"({"mid_block_type": null})"));
  EXPECT_EQ(none.middle, Unet2dConditionConfig::MiddleBlock::kNone);
  ASSERT_OK_AND_ASSIGN(const auto resnet, Unet(R"({"mid_block_type": "UNetMidBlock2D"})"));
  EXPECT_EQ(resnet.middle, Unet2dConditionConfig::MiddleBlock::kResnet);
}

TEST(UnetConfig, TransformersThatDifferWithinABlockNeedTheirReverse) {
  const std::string asymmetric = R"({"transformer_layers_per_block": [[1, 2], 1, 1, 1])";
  EXPECT_THAT(Unet(asymmetric + "}"),
              StatusIs(kInvalid, HasSubstr("reverse_transformer_layers_per_block")));
  ASSERT_OK_AND_ASSIGN(
      const auto config,
      Unet(asymmetric + R"(, "reverse_transformer_layers_per_block": [1, 1, 1, [3, 2, 1]]})"));
  EXPECT_THAT(config.down_transformers.front(), ElementsAre(1, 2));
  EXPECT_THAT(config.up_transformers.back(), ElementsAre(3, 2, 1));
}

TEST(VaeConfig, AbsentFieldsHaveDiffusersDefaults) {
  ASSERT_OK_AND_ASSIGN(const AutoencoderKlConfig config, Vae(R"({"norm_num_groups": 32})"));
  EXPECT_THAT(config.block_out_channels, ElementsAre(64));
  EXPECT_EQ(config.latent_channels, 4);
  EXPECT_EQ(config.scaling_factor, 0.18215);
  EXPECT_EQ(config.shift_factor, std::nullopt);
  EXPECT_TRUE(config.use_quant_conv && config.use_post_quant_conv &&
              config.mid_block_add_attention);
  EXPECT_TRUE(config.force_upcast);
  EXPECT_EQ(config.downscale(), 1);
}

TEST(VaeConfig, ReadsHowLatentsAreScaled) {
  ASSERT_OK_AND_ASSIGN(
      const auto config,
      Vae(R"({"scaling_factor": 0.3611, "shift_factor": 0.1159, "latent_channels": 2,
                                                  "latents_mean": [0.5, -1], "latents_std": [1, 2]})"));
  EXPECT_EQ(config.scaling_factor, 0.3611);
  EXPECT_EQ(config.shift_factor, 0.1159);
  EXPECT_THAT(*config.latents_mean, ElementsAre(0.5, -1));
  EXPECT_THAT(*config.latents_std, ElementsAre(1, 2));
}

TEST(VaeConfig, NamesEveryFieldThatItDoesNotSupport) {
  EXPECT_THAT(
      Vae(R"({"down_block_types": ["AttnDownEncoderBlock2D"], "latents_mean": [1], "scaling_factor": 0,
                      "act_fn": "mish"})"),
      StatusIs(kInvalid, AllOf(HasSubstr("down_block_types is \"AttnDownEncoderBlock2D\""),
                               HasSubstr("latents_mean has 1 elements"),
                               HasSubstr("scaling_factor is 0"), HasSubstr("act_fn is \"mish\""))));
}

TEST(TinyConfig, AbsentFieldsHaveDiffusersDefaults) {
  ASSERT_OK_AND_ASSIGN(const AutoencoderTinyConfig config, Tiny("{}"));
  EXPECT_THAT(config.num_decoder_blocks, ElementsAre(3, 3, 3, 1));
  EXPECT_EQ(config.encoder_channels, 64);
  EXPECT_EQ(config.scaling_factor, 1);
}

TEST(TinyConfig, RefusesBlocksOfDifferentWidth) {
  EXPECT_THAT(
      Tiny(R"({"encoder_block_out_channels": [64, 64, 64, 32], "upsample_fn": "bilinear"})"),
      StatusIs(kInvalid, AllOf(HasSubstr("encoder_block_out_channels"), HasSubstr("bilinear"))));
}

TEST(TextConfig, AbsentFieldsHaveTransformersDefaults) {
  ASSERT_OK_AND_ASSIGN(const ClipTextConfig config, Text("{}"));
  EXPECT_EQ(config.vocab_size, 49408);
  EXPECT_EQ(config.hidden_size, 512);
  EXPECT_EQ(config.num_hidden_layers, 12);
  EXPECT_EQ(config.eos_token_id, 49407);
  EXPECT_EQ(config.activation, Activation::kQuickGelu);
  EXPECT_EQ(config.pooled_features(), 512);
}

TEST(TextConfig, NamesEveryFieldThatItDoesNotSupport) {
  EXPECT_THAT(
      Text(R"({"hidden_act": "gelu_new", "num_attention_heads": 7, "model_type": "bert",
                       "pruned_heads": {"1": [2]}, "quantization_config": {"bits": 4}})"),
      StatusIs(kInvalid,
               AllOf(HasSubstr("hidden_act is \"gelu_new\""), HasSubstr("num_attention_heads is 7"),
                     HasSubstr("model_type is \"bert\""), HasSubstr("pruned_heads"),
                     HasSubstr("quantization_config"))));
}

// transformers' CLIP does not read them.
TEST(TextConfig, PassesOverWhatTransformersPassesOver) {
  ASSERT_OK_AND_ASSIGN(const ClipTextConfig config,
                       Text(R"({"position_embedding_type": "rotary", "is_decoder": true,
                                "pruned_heads": {}, "use_bfloat16": false, "note": "x"})"));
  EXPECT_THAT(config.unknown_fields, ElementsAre("note", "position_embedding_type"));
}

TEST(VaeConfig, PassesOverWhatDiffusersPassesOver) {
  EXPECT_THAT(Vae(R"({"note": "x", "_name_or_path": "y"})")->unknown_fields, ElementsAre("note"));
  EXPECT_THAT(Tiny(R"({"note": "x", "latent_shift": 0.5})")->unknown_fields, ElementsAre("note"));
  for (const absl::Status& status : {Vae(R"({"quantization_config": {"bits": 4}})").status(),
                                     Tiny(R"({"quantization_config": {"bits": 4}})").status()}) {
    EXPECT_THAT(status, StatusIs(kInvalid, HasSubstr("quantization_config")));
  }
}

TEST(TextConfig, OnlyTheProjectionNeedsItsSize) {
  EXPECT_OK(Text(R"({"projection_dim": null})"));
  EXPECT_THAT(Text(R"({"projection_dim": null})", ClipTextKind::kWithProjection),
              StatusIs(kInvalid, HasSubstr("projection_dim is null")));
}

TEST(TextConfig, KindComesFromTheClassThatTheModelIndexNames) {
  EXPECT_EQ(*ParseClipTextKind("CLIPTextModel"), ClipTextKind::kPlain);
  EXPECT_EQ(*ParseClipTextKind("CLIPTextModelWithProjection"), ClipTextKind::kWithProjection);
  EXPECT_THAT(ParseClipTextKind("T5EncoderModel"), StatusIs(kInvalid, HasSubstr("T5EncoderModel")));
}

TEST(EosPosition, IsTheLargestIdWithTheMistakenEosToken) {
  EXPECT_EQ(EosPosition({.eos_token_id = 2}, {998, 2, 17, 999, 999}), 3);
}

TEST(EosPosition, IsTheFirstEosTokenOtherwise) {
  EXPECT_EQ(EosPosition({.eos_token_id = 7}, {998, 17, 7, 999, 7}), 2);
  EXPECT_EQ(EosPosition({.eos_token_id = 7}, {998, 17, 18}), 0);
}

}  // namespace
}  // namespace latentd::networks
