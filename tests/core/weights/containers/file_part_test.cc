// Files that are given for one component.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/weights/containers/single_file.h"
#include "tests/core/weights/containers/published_file.h"
#include "tests/support/status_matchers.h"

namespace latentd::weights {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::DescribeSources;
using ::testing::HasSubstr;
using testing::ListInFile;
using ::testing::Not;
using testing::PublishedFile;
using testing::StatusIs;
using testing::WantedTensors;

constexpr auto kRefused = absl::StatusCode::kInvalidArgument;

absl::StatusOr<FilePart> Part(const std::string& component, const TensorMap& tensors) {
  return RecognizePart("part.safetensors", component, tensors);
}

// Expects the component's tensors, and gives its configuration.
json ExpectPart(const std::string& component, const PublishedFile& published) {
  const absl::StatusOr<FilePart> part = Part(component, published.tensors);
  EXPECT_OK(part);
  if (!part.ok()) return json::object();
  EXPECT_EQ(DescribeSources(part->sources), published.wanted.at(component));
  EXPECT_OK(part->config);
  return part->config.ok() ? json::parse(*part->config) : json::object();
}

// diffusers#11033: Stable Diffusion 1.5's UNet alone was not recognised.
TEST(FilePartTest, ReadsAUnetAloneUnderAnyPrefix) {
  for (const char* prefix :
       {"", "model.diffusion_model.", "diffusion_model.", "unet.", "model.model."}) {
    for (const bool has_todays_names : {false, true}) {
      const json config =
          ExpectPart("unet", PublishedFile({{"unet_sd15", prefix, "unet", has_todays_names}}));
      EXPECT_EQ(config["cross_attention_dim"], 768) << prefix;
    }
  }
}

// ByteDance's sdxl_lightning_4step_unet.safetensors.
TEST(FilePartTest, ReadsLightningsUnet) {
  const json config = ExpectPart("unet", PublishedFile({{"unet_sdxl", "", "unet", true}}));
  EXPECT_EQ(config["attention_head_dim"], json({5, 10, 20}));
  EXPECT_EQ(config["addition_time_embed_dim"], 256);
}

// diffusers#6790, ComfyUI#1933: LCM's UNets have one tensor more.
TEST(FilePartTest, ReadsTheUnetOfALatentConsistencyModel) {
  const std::string name = "time_embedding.cond_proj.weight";
  for (const char* unet : {"unet_sd15", "unet_sdxl"}) {
    PublishedFile published({{unet, "", "unet", true}});
    published.AddTensor(name, {320, 256});
    ASSERT_OK_AND_ASSIGN(const FilePart part, Part("unet", published.tensors));
    EXPECT_TRUE(part.sources.contains(name));
    EXPECT_EQ(json::parse(part.config.value())["time_cond_proj_dim"], 256) << unet;
  }
  PublishedFile misshapen({{"unet_sd15", "", "unet", true}});
  misshapen.AddTensor(name, {640, 256});
  EXPECT_THAT(Part("unet", misshapen.tensors), StatusIs(kRefused, HasSubstr(name)));
}

TEST(FilePartTest, TakesTheUnetOfAWholeCheckpoint) {
  ExpectPart("unet", PublishedFile({{"unet_sdxl", "model.diffusion_model.", "unet"},
                                    {"vae", "first_stage_model.", "vae"}}));
}

// The scheduler is its base's: what the file says of the prediction is laid over that one's
// settings.
TEST(FilePartTest, SaysOfAUnetHowItPredicts) {
  PublishedFile published({{"unet_sdxl", "model.diffusion_model.", "unet"}});
  EXPECT_EQ(Part("unet", published.tensors)->scheduler_settings, "");
  published.AddTensor("v_pred", {0});
  ASSERT_OK_AND_ASSIGN(const FilePart velocity, Part("unet", published.tensors));
  EXPECT_EQ(json::parse(velocity.scheduler_settings), json({{"prediction_type", "v_prediction"}}));
  EXPECT_EQ(velocity.prediction_decided_by, "the tensor v_pred");
  published.AddTensor("ztsnr", {0});
  const json settings = json::parse(Part("unet", published.tensors)->scheduler_settings);
  EXPECT_EQ(settings["rescale_betas_zero_snr"], true);
  EXPECT_EQ(settings["timestep_spacing"], "trailing");
}

TEST(FilePartTest, AnOperatorWhoSaysTheSameTakesNothingBack) {
  PublishedFile published({{"unet_sdxl", "model.diffusion_model.", "unet"}});
  published.AddTensor("v_pred", {0});
  published.AddTensor("ztsnr", {0});
  const auto part = RecognizePart("part.safetensors", "unet", published.tensors, {},
                                  {.prediction_type = "v_prediction"});
  ASSERT_OK(part);
  EXPECT_EQ(json::parse(part->scheduler_settings)["rescale_betas_zero_snr"], true);
}

// Its latents have other settings than those of the base's VAE.
TEST(FilePartTest, RefusesAUnetAloneInTheStyleOfEdm) {
  PublishedFile published({{"unet_sdxl", "model.diffusion_model.", "unet"}});
  published.AddTensor("edm_mean", {0});
  EXPECT_THAT(Part("unet", published.tensors),
              StatusIs(kRefused, AllOf(HasSubstr("edm_mean"), HasSubstr("--base"))));
}

// diffusers#7390, #7003: nine channels were read with a configuration of four.
TEST(FilePartTest, TellsInpaintingByItsChannels) {
  for (const char* unet : {"unet_sd15", "unet_sdxl"}) {
    PublishedFile published({{unet, "", "unet"}});
    published.AddTensor("input_blocks.0.0.weight", {320, 9, 3, 3});
    ASSERT_OK_AND_ASSIGN(const FilePart part, Part("unet", published.tensors));
    ASSERT_OK(part.config);
    EXPECT_EQ(json::parse(*part.config)["in_channels"], 9);
  }
}

// Another checkpoint may know them, so that the tensors are there all the same.
TEST(FilePartTest, HasNoConfigurationWhereHeadsAreNotWhole) {
  PublishedFile published({{"unet_sdxl", "", "unet"}});
  // A third of every width: blocks of 320 / 5 channels and so on make heads of 64, these do not.
  for (auto& [name, tensor] : published.tensors) {
    std::vector<int64_t> dims = tensor.data.shape().dims();
    for (int64_t& dim : dims) {
      if (dim % 320 == 0) dim = dim / 320 * 32;
    }
    tensor.data =
        device::ConstBuffer::Wrap(nullptr, device::DType::kF16, device::Shape(dims), nullptr);
  }
  ASSERT_OK_AND_ASSIGN(const FilePart part, Part("unet", published.tensors));
  EXPECT_THAT(part.config, StatusIs(kRefused, AllOf(HasSubstr("part.safetensors"),
                                                    HasSubstr("no whole heads of 64 channels"),
                                                    HasSubstr("--components-from"))));
  EXPECT_EQ(part.sources.size(), published.tensors.size());
}

TEST(FilePartTest, ReadsAVaeAloneUnderAnyPrefix) {
  for (const char* prefix : {"", "first_stage_model.", "vae."}) {
    for (const bool has_todays_names : {false, true}) {
      const json config =
          ExpectPart("vae", PublishedFile({{"vae", prefix, "vae", has_todays_names}}));
      EXPECT_EQ(config["latent_channels"], 4);
      // It is the checkpoint's that takes it.
      EXPECT_FALSE(config.contains("scaling_factor"));
    }
  }
}

// AUTOMATIC1111#12548: a whole checkpoint was given as a VAE.
TEST(FilePartTest, TakesTheVaeOfAWholeCheckpoint) {
  PublishedFile published(
      {{"unet_sd15", "model.diffusion_model.", "unet"}, {"vae", "first_stage_model.", "vae"}});
  published.AddTensor("first_stage_model.loss.logvar", {});
  ExpectPart("vae", published);
}

TEST(FilePartTest, ReadsTheAttentionOfOldVaes) {
  PublishedFile today({{"vae", "", "vae", true}});
  PublishedFile old({});
  for (const auto& [name, tensor] : today.tensors) {
    const std::string stored = absl::StrReplaceAll(name, {{".to_q.", ".query."},
                                                          {".to_k.", ".key."},
                                                          {".to_v.", ".value."},
                                                          {".to_out.0.", ".proj_attn."}});
    old.AddTensor(stored, tensor.data.shape());
    old.wanted["vae"][name] = {stored, "", tensor.data.shape()};
  }
  ExpectPart("vae", old);
}

TEST(FilePartTest, ReadsAttentionOfAVaeWithAnyNumberOfOnes) {
  PublishedFile published({{"vae", "", "vae"}});
  for (const char* half : {"encoder", "decoder"}) {
    published.AddTensor(absl::StrCat(half, ".mid.attn_1.q.weight"), {512, 512, 1});
    published.AddTensor(absl::StrCat(half, ".mid.attn_1.k.weight"), {512, 512});
  }
  ExpectPart("vae", published);
}

TEST(FilePartTest, RefusesAVaeOfOtherLatents) {
  PublishedFile published({{"vae", "", "vae"}});
  published.AddTensor("encoder.conv_out.weight", {32, 512, 3, 3});
  published.AddTensor("encoder.conv_out.bias", {32});
  published.AddTensor("decoder.conv_in.weight", {512, 16, 3, 3});
  for (const char* name :
       {"quant_conv.weight", "quant_conv.bias", "post_quant_conv.weight", "post_quant_conv.bias"}) {
    published.tensors.erase(name);
  }
  EXPECT_THAT(Part("vae", published.tensors),
              StatusIs(kRefused, AllOf(HasSubstr("16 latent channels"), HasSubstr("FLUX"))));
}

TEST(FilePartTest, RefusesHalfAVae) {
  PublishedFile published({{"vae", "", "vae"}});
  TensorMap decoder;
  for (const auto& [name, tensor] : published.tensors) {
    if (absl::StartsWith(name, "decoder.")) decoder.emplace(name, tensor);
  }
  EXPECT_THAT(Part("vae", decoder), StatusIs(kRefused, HasSubstr("one half of a VAE")));
}

const ListInFile kTaesd = {"taesd", "", "vae_tiny"};

TEST(FilePartTest, ReadsATinyVaeByDiffusersNames) {
  ListInFile list = kTaesd;
  list.has_todays_names = true;
  const json config = ExpectPart("vae_tiny", PublishedFile({list}));
  EXPECT_EQ(config["num_encoder_blocks"], json({1, 3, 3, 3}));
  EXPECT_EQ(config["num_decoder_blocks"], json({3, 3, 3, 1}));
  EXPECT_EQ(config["encoder_block_out_channels"], json({64, 64, 64, 64}));
  EXPECT_EQ(config["latent_channels"], 4);
}

TEST(FilePartTest, ReadsATinyVaeByItsOwnNames) { ExpectPart("vae_tiny", PublishedFile({kTaesd})); }

// taesd_decoder.safetensors, whose names are numbers.
TEST(FilePartTest, ReadsATinyDecoderAlone) {
  const PublishedFile both({kTaesd});
  PublishedFile decoder({}), encoder({});
  for (const auto& [name, wanted] : both.wanted.at("vae_tiny")) {
    PublishedFile& half = absl::StartsWith(name, "decoder") ? decoder : encoder;
    const std::string stored = wanted.stored.substr(std::string("taesd_encoder.").size());
    half.AddTensor(stored, wanted.shape);
    half.wanted["vae_tiny"][name] = {stored, "", wanted.shape};
  }
  const json config = ExpectPart("vae_tiny", decoder);
  EXPECT_FALSE(config.contains("num_encoder_blocks"));
  EXPECT_THAT(Part("vae_tiny", encoder.tensors),
              StatusIs(kRefused, HasSubstr("encoder of a tiny VAE alone; give its decoder")));
}

TEST(FilePartTest, RefusesATinyVaeOfOtherLatents) {
  PublishedFile published({kTaesd});
  published.AddTensor("taesd_decoder.1.weight", {64, 16, 3, 3});
  published.AddTensor("taesd_encoder.14.weight", {16, 64, 3, 3});
  published.AddTensor("taesd_encoder.14.bias", {16});
  EXPECT_THAT(Part("vae_tiny", published.tensors),
              StatusIs(kRefused, AllOf(HasSubstr("16 latent channels"), HasSubstr("TAESD3"))));
}

TEST(FilePartTest, NamesWhatATinyVaeLacksOrHasTooMuchOf) {
  PublishedFile published({kTaesd});
  published.tensors.erase("taesd_decoder.8.conv.2.bias");
  published.AddTensor("taesd_decoder.8.skip.weight", {64, 64, 1, 1});
  EXPECT_THAT(
      Part("vae_tiny", published.tensors),
      StatusIs(kRefused, AllOf(HasSubstr("missing: taesd_decoder.8.conv.2.bias"),
                               HasSubstr("no place for these tensors: taesd_decoder.8.skip"))));
}

// madebyollin/taesd#17: TAESD was loaded as an AutoencoderKL.
TEST(FilePartTest, TellsATinyVaeFromAVae) {
  for (const bool has_todays_names : {false, true}) {
    ListInFile list = kTaesd;
    list.has_todays_names = has_todays_names;
    const TensorMap tensors = PublishedFile({list}).tensors;
    EXPECT_THAT(Part("vae", tensors), StatusIs(kRefused, HasSubstr("--vae-tiny takes it")));
    EXPECT_THAT(RecognizeSingleFile("x", tensors, {}),
                StatusIs(kRefused, HasSubstr("--vae-tiny takes it")));
  }
  EXPECT_THAT(Part("vae_tiny", PublishedFile({{"vae", "", "vae"}}).tensors),
              StatusIs(kRefused, HasSubstr("no tiny VAE")));
}

TEST(FilePartTest, ReadsTextEncodersAlone) {
  const auto part = [](const std::string& list, const std::string& prefix,
                       const std::string& component, bool has_todays_names = false) {
    return ExpectPart(component, PublishedFile({{list, prefix, component, has_todays_names}}));
  };
  EXPECT_EQ(part("clip_l", "", "text_encoder")["hidden_act"], "quick_gelu");
  EXPECT_EQ(part("open_clip_h", "", "text_encoder")["num_hidden_layers"], 23);
  EXPECT_EQ(part("open_clip_h", "", "text_encoder", true)["hidden_act"], "gelu");
  EXPECT_EQ(part("open_clip_g", "", "text_encoder_2")["projection_dim"], 1280);
  EXPECT_EQ(part("open_clip_g", "", "text_encoder_2", true)["num_attention_heads"], 20);
  EXPECT_THAT(Part("text_encoder_2", PublishedFile({{"unet_sd15", "", "unet"}}).tensors),
              StatusIs(kRefused, HasSubstr("no text encoder OpenCLIP bigG")));
}

TEST(FilePartTest, RefusesOtherComponents) {
  EXPECT_THAT(Part("scheduler", {}), StatusIs(kRefused, HasSubstr("scheduler")));
}

// A component that stands alone is no checkpoint, and says what takes it.
TEST(FilePartTest, SaysWhichFlagTakesIt) {
  const auto refused = [](const std::string& list, const std::string& flag) {
    EXPECT_THAT(RecognizeSingleFile("x", PublishedFile({{list, "", "part"}}).tensors, {}),
                StatusIs(kRefused, HasSubstr(flag)));
  };
  refused("vae", "--vae takes it");
  refused("clip_l", "--text-encoder");
  refused("open_clip_g", "--text-encoder-2");
}

TEST(FilePartTest, NamesSomeTensorsOfAFileThatIsNotKnown) {
  PublishedFile published({});
  published.AddTensor("strange.weight", {2});
  EXPECT_THAT(RecognizeSingleFile("x", published.tensors, {}),
              StatusIs(kRefused, HasSubstr("its tensors are strange.weight")));
  EXPECT_THAT(RecognizeSingleFile("x", {}, {}), StatusIs(kRefused, HasSubstr("has no tensors")));
}

struct ForeignCase {
  std::vector<std::string> names;
  std::string title;
};

// Each with names of the model's own, alone and under the prefix of a UNet.
TEST(FilePartTest, RefusesOtherModelsByTheirNames) {
  const ForeignCase cases[] = {
      {{"joint_blocks.0.context_block.adaLN_modulation.1.bias"}, "Stable Diffusion 3 or 3.5,"},
      {{"joint_blocks.37.x_block.mlp.fc1.weight"}, "Stable Diffusion 3.5 Large"},
      {{"double_blocks.0.img_attn.norm.key_norm.scale"}, "of FLUX,"},
      {{"double_blocks.0.img_attn.qkv.weight", "distilled_guidance_layer.x"}, "Chroma"},
      {{"double_blocks.0.x", "double_stream_modulation_img.lin.weight"}, "FLUX.2"},
      {{"double_blocks.0.x", "single_stream_modulation.lin.weight"}, "FLUX.2"},
      {{"transformer_blocks.0.attn.add_q_proj.weight", "x_embedder.weight"},
       "Stable Diffusion 3 or FLUX"},
      {{"double_layers.0.attn.w1q.weight"}, "AuraFlow"},
      {{"mlp_t5.0.weight"}, "Hunyuan-DiT"},
      {{"txt_in.individual_token_refiner.blocks.0.x", "double_blocks.0.x"}, "HunyuanVideo"},
      {{"adaln_single.emb.timestep_embedder.linear_1.weight"}, "PixArt"},
      {{"patchify_proj.weight", "adaln_single.emb.timestep_embedder.linear_1.weight"}, "LTX-Video"},
      {{"head.modulation"}, "Wan"},
      {{"blocks.0.cross_attn.norm_k.weight"}, "Wan"},
      {{"cap_embedder.0.weight"}, "Lumina 2 or Z-Image"},
      {{"transformer_blocks.0.img_mod.1.weight"}, "Qwen-Image"},
      {{"blocks.0.cross_attn.q_linear.weight"}, "Sana"},
      {{"clip_txt_mapper.weight"}, "Stable Cascade"},
      {{"t5_yproj.weight"}, "Mochi"},
      {{"input_blocks.1.0.time_stack.in_layers.0.weight"}, "Stable Video Diffusion"},
      {{"input_blocks.1.1.time_mixer.mix_factor"}, "Stable Video Diffusion"},
      {{"cc_projection.weight"}, "Stable Zero123"},
      {{"embedder.model.visual.proj"}, "Stable unCLIP"},
      {{"depth_model.model.pretrained.x"}, "depth model"},
      {{"cond_stage_model.roberta.x"}, "AltDiffusion"},
      {{"label_emb.weight"}, "x4 upscaler"},
      {{"down_blocks.0.motion_modules.0.x"}, "AnimateDiff"},
      {{"input_hint_block.0.weight"}, "a ControlNet"},
      {{"controlnet_cond_embedding.conv_in.weight", "down_blocks.0.x"}, "a ControlNet"},
      {{"controlnet_down_blocks.0.weight"}, "a ControlNet"},
      {{"control_model.input_blocks.0.0.weight"}, "a ControlNet"},
      {{"ip_adapter.1.to_k_ip.weight"}, "an IP-Adapter"},
      {{"lora_unet_down_blocks_0.lora_down.weight"}, "a LoRA"},
      {{"unet.down_blocks.1.attentions.0.proj_in.lora_A.weight"}, "a LoRA"},
      {{"lora_te1_text_model_encoder_layers_0_mlp_fc1.alpha"}, "with --lora"},
      {{"emb_params"}, "textual inversion"},
      {{"clip_g", "clip_l"}, "textual inversion"},
  };
  for (const ForeignCase& foreign : cases) {
    for (const char* prefix : {"", "model.diffusion_model."}) {
      PublishedFile published({});
      for (const std::string& name : foreign.names) published.AddTensor(prefix + name, {1});
      EXPECT_THAT(RecognizeSingleFile("x", published.tensors, {}),
                  StatusIs(kRefused, HasSubstr(foreign.title)))
          << prefix << foreign.names[0];
    }
  }
}

TEST(FilePartTest, RefusesOtherUnetsByTheirSizes) {
  const auto refused = [](const std::string& list, int64_t channels, int64_t added,
                          const std::string& title) {
    PublishedFile published({{list, "", "unet"}});
    published.AddTensor("input_blocks.0.0.weight", {320, channels, 3, 3});
    if (added > 0) published.AddTensor("label_emb.0.0.weight", {1280, added});
    EXPECT_THAT(RecognizeSingleFile("x", published.tensors, {}),
                StatusIs(kRefused, HasSubstr(title)));
  };
  refused("unet_sdxl", 8, 768, "Stable Video Diffusion");
  refused("unet_sdxl", 8, 256, "SV3D");
  refused("unet_sdxl", 8, 2816, "InstructPix2Pix");
  refused("unet_sd15", 8, 0, "InstructPix2Pix");
  refused("unet_sdxl", 4, 1536, "Stable unCLIP");
  refused("unet_sd15", 5, 0, "depth model");
  refused("unet_sd15", 7, 0, "x4 upscaler");
  refused("unet_sd15", 11, 0, "UNet of 11 input channels");
}

// leejet/stable-diffusion.cpp#329, huggingface/candle#2875: weights in fp8, as they are and with
// scales.
TEST(FilePartTest, ReadsWeightsInFp8WithTheirScales) {
  const std::string name = "model.diffusion_model.time_embed.0.";
  for (const char* scale : {"", "scale_weight", "weight_scale"}) {
    PublishedFile published({{"unet_sdxl", "model.diffusion_model.", "unet"}});
    device::ConstBuffer& data = published.tensors.at(name + "weight").data;
    data = device::ConstBuffer::Wrap(nullptr, device::DType::kF8E4M3, data.shape(), nullptr);
    published.AddTensor("model.diffusion_model.scaled_fp8", {0});
    if (*scale != 0) published.AddTensor(name + scale, {});
    ASSERT_OK_AND_ASSIGN(const SingleFile file, RecognizeSingleFile("x", published.tensors, {}));
    const Source& source = file.parts.at("unet").sources.at("time_embedding.linear_1.weight");
    EXPECT_EQ(source.from.size(), *scale == 0 ? 1 : 2) << scale;
    EXPECT_EQ(source.make != nullptr, *scale != 0) << scale;
  }
}

// A scale whose weight is none of 8-bit floats would be passed over.
TEST(FilePartTest, RefusesAScaleThatNothingIsMultipliedWith) {
  PublishedFile published({{"unet_sdxl", "model.diffusion_model.", "unet"}});
  published.AddTensor("model.diffusion_model.time_embed.0.scale_weight", {});
  EXPECT_THAT(RecognizeSingleFile("x", published.tensors, {}),
              StatusIs(kRefused, HasSubstr("time_embed.0.scale_weight")));
}

TEST(FilePartTest, RefusesWeightsThatStandForOthers) {
  for (const auto& [name, what] :
       {std::pair("model.diffusion_model.out.2.comfy_quant", "ComfyUI has quantised"),
        std::pair("model.diffusion_model.out.2.weight.absmax", "bitsandbytes"),
        std::pair("model.diffusion_model.out.2.weight.quant_state.bitsandbytes__nf4",
                  "bitsandbytes")}) {
    PublishedFile published({{"unet_sdxl", "model.diffusion_model.", "unet"}});
    published.AddTensor(name, {1});
    EXPECT_THAT(RecognizeSingleFile("x", published.tensors, {}),
                StatusIs(kRefused, AllOf(HasSubstr(what), HasSubstr(name))));
  }
}

}  // namespace
}  // namespace latentd::weights
