// One LoRA in the format of every program reads as the same change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/core/adapters/lora/small_model.h"

namespace latentd::adapters {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFc1[] = "text_encoder/text_model.encoder.layers.0.mlp.fc1.weight";
constexpr char kFc1OfSecond[] = "text_encoder_2/text_model.encoder.layers.0.mlp.fc1.weight";
constexpr char kQuery[] = "text_encoder/text_model.encoder.layers.0.self_attn.q_proj.weight";
constexpr char kOut[] = "text_encoder/text_model.encoder.layers.0.self_attn.out_proj.weight";
constexpr char kToOut[] =
    "unet/down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_out.0.weight";
constexpr char kProjIn[] = "unet/down_blocks.0.attentions.0.proj_in.weight";

struct Format {
  std::string down, up;  // names in a file
  std::string weight;
};

class LoraFormatsTest : public LoraFileTest {
 protected:
  // Reads a LoRA of rank 2 in the format.
  void Expect(const Format& format) {
    const device::Shape shape = SmallModel().at(format.weight);
    const int64_t out = shape[0], in = shape[1];
    const absl::StatusOr<Lora> lora =
        Read({Counted(format.down, {2, in}), Counted(format.up, {out, 2}, 0.5)});
    ASSERT_TRUE(lora.ok()) << format.down << ": " << lora.status();
    ASSERT_EQ(lora->changes.size(), 1u) << format.down;
    const WeightChange& change = lora->changes[0];
    EXPECT_EQ(change.weight, format.weight) << format.down;
    EXPECT_EQ(change.shape, shape);
    EXPECT_EQ(change.scale, 1);
    EXPECT_EQ(change.magnitude, std::nullopt);
    const auto& delta = std::get<LowRank>(change.delta);
    EXPECT_EQ(delta.down.data.shape(), device::Shape({2, in}));
    EXPECT_EQ(delta.up.data.shape(), device::Shape({out, 2}));
    EXPECT_EQ(Values(delta.down), Counting(static_cast<int>(2 * in)));
    EXPECT_EQ(Values(delta.up), Counting(static_cast<int>(2 * out), 0.5));
    EXPECT_FALSE(delta.mid.has_value());
  }
};

TEST_F(LoraFormatsTest, Kohyas) {
  const std::string down = ".lora_down.weight", up = ".lora_up.weight";
  for (const auto& [module, weight] : std::vector<std::pair<std::string, std::string>>{
           {kKohyaToQ, kToQ},
           {"lora_unet_input_blocks_1_1_transformer_blocks_0_attn1_to_q", kToQ},
           {"lora_unet_input_blocks_1_1_proj_in", kProjIn},
           {"lora_unet_input_blocks_1_1_transformer_blocks_0_attn1_to_out_0", kToOut},
           {"lora_te_text_model_encoder_layers_0_mlp_fc1", kFc1},
           {"lora_te1_text_model_encoder_layers_0_mlp_fc1", kFc1},
           {"lora_te2_text_model_encoder_layers_0_mlp_fc1", kFc1OfSecond},
           {"lora_te2_text_projection", "text_encoder_2/text_projection.weight"}}) {
    Expect({module + down, module + up, weight});
  }
}

TEST_F(LoraFormatsTest, Diffusers) {
  const std::string block = "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.";
  const std::string layer = "text_encoder.text_model.encoder.layers.0.";
  for (const Format& format : std::vector<Format>{
           {block + "to_q.lora.down.weight", block + "to_q.lora.up.weight", kToQ},
           {block + "to_q.lora_A.weight", block + "to_q.lora_B.weight", kToQ},
           {block + "processor.to_q_lora.down.weight", block + "processor.to_q_lora.up.weight",
            kToQ},
           {block + "processor.to_out_lora.down.weight", block + "processor.to_out_lora.up.weight",
            kToOut},
           {"down_blocks.0.attentions.0.transformer_blocks.0.attn1.processor.to_q_lora.down.weight",
            "down_blocks.0.attentions.0.transformer_blocks.0.attn1.processor.to_q_lora.up.weight",
            kToQ},
           {layer + "mlp.fc1.lora_linear_layer.down.weight",
            layer + "mlp.fc1.lora_linear_layer.up.weight", kFc1},
           {layer + "self_attn.to_q_lora.down.weight", layer + "self_attn.to_q_lora.up.weight",
            kQuery},
           {layer + "self_attn.to_out_lora.down.weight", layer + "self_attn.to_out_lora.up.weight",
            kOut},
           {"text_encoder_2.text_model.encoder.layers.0.mlp.fc1.lora_A.weight",
            "text_encoder_2.text_model.encoder.layers.0.mlp.fc1.lora_B.weight", kFc1OfSecond},
           {"text_encoder.encoder.layers.0.mlp.fc1.lora_A.weight",
            "text_encoder.encoder.layers.0.mlp.fc1.lora_B.weight", kFc1}}) {
    Expect(format);
  }
}

TEST_F(LoraFormatsTest, Pefts) {
  const std::string to_q = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q";
  for (const std::string prefix : {"base_model.model.", "unet.base_model.model.", "unet.", ""}) {
    const std::string module = prefix + to_q;
    for (const auto& [down, up] : std::vector<std::pair<std::string, std::string>>{
             {".lora_A.weight", ".lora_B.weight"},
             {".lora_A", ".lora_B"},
             {".lora_A.default.weight", ".lora_B.default.weight"},
             {".lora_A.default_0", ".lora_B.default_0"}}) {
      Expect({module + down, module + up, kToQ});
    }
  }
}

TEST_F(LoraFormatsTest, ComfysAndOneTrainers) {
  const std::string ldm = "input_blocks.1.1.transformer_blocks.0.attn1.to_q";
  const std::string fc1 = "text_model.encoder.layers.0.mlp.fc1";
  for (const auto& [module, weight] : std::vector<std::pair<std::string, std::string>>{
           {"diffusion_model." + ldm, kToQ},
           {"unet." + ldm, kToQ},
           {"text_encoders.clip_l.transformer." + fc1, kFc1},
           {"text_encoders.clip_g.transformer." + fc1, kFc1OfSecond},
           {"clip_l." + fc1, kFc1},
           {"clip_g." + fc1, kFc1OfSecond}}) {
    Expect({module + ".lora_down.weight", module + ".lora_up.weight", weight});
    Expect({module + ".lora_A.weight", module + ".lora_B.weight", weight});
  }
}

TEST_F(LoraFormatsTest, SimpleTuners) {
  const std::string module = "lycoris_down_blocks_0_attentions_0_proj_in";
  Expect({module + ".lora_down.weight", module + ".lora_up.weight", kProjIn});
}

// A linear's tensors may be a convolution's, and the reverse.
TEST_F(LoraFormatsTest, OnesAtTheEndOfAShapeMayBeMoreOrFewer) {
  const std::string linear = "lora_unet_down_blocks_0_attentions_0_proj_in";
  const std::string convolution = "lora_unet_mid_block_attentions_0_proj_in";
  for (const std::string& module : {linear, convolution}) {
    for (const int ones : {0, 2}) {
      std::vector<int64_t> down = {1, 6}, up = {8, 1};
      for (int i = 0; i < ones; ++i) {
        down.push_back(1);
        up.push_back(1);
      }
      ASSERT_OK_AND_ASSIGN(const WeightChange change,
                           ReadOne({Counted(module + ".lora_down.weight", down),
                                    Counted(module + ".lora_up.weight", up)}));
      const auto& delta = std::get<LowRank>(change.delta);
      EXPECT_EQ(delta.down.data.shape(), device::Shape({1, 6}));
      EXPECT_EQ(delta.up.data.shape(), device::Shape({8, 1}));
    }
  }
}

TEST_F(LoraFormatsTest, SeveralProgramsNamesInOneFile) {
  ASSERT_OK_AND_ASSIGN(
      const Lora lora,
      Read({Counted("lora_unet_input_blocks_1_1_proj_in.lora_down.weight", {2, 6}),
            Counted("lora_unet_input_blocks_1_1_proj_in.lora_up.weight", {8, 2}),
            Counted(kKohyaToQ + ".lora_down.weight", {2, 6}),
            Counted(kKohyaToQ + ".lora_up.weight", {8, 2}), Counted("_aux.anything", {3})}));
  ASSERT_EQ(lora.changes.size(), 2u);
  EXPECT_EQ(lora.name, "film");
  EXPECT_EQ(lora.changes[0].weight, kProjIn);
  EXPECT_EQ(lora.changes[1].weight, kToQ);
  EXPECT_THAT(lora.warnings, IsEmpty());
}

// ComfyUI keeps one of them without a word.
TEST_F(LoraFormatsTest, OneModuleUnderTwoNamesIsAnError) {
  EXPECT_THAT(Error({Counted("lora_unet_input_blocks_1_1_proj_in.lora_down.weight", {2, 6}),
                     Counted("unet.down_blocks.0.attentions.0.proj_in.lora_A.weight", {2, 6})}),
              HasSubstr("tensors lora_unet_input_blocks_1_1_proj_in.lora_down.weight and "
                        "unet.down_blocks.0.attentions.0.proj_in.lora_A.weight are the same"));
}

TEST_F(LoraFormatsTest, OpenClipsFusedProjectionIsSplitByRows) {
  const std::string module = "clip_g.transformer.resblocks.0.attn.in_proj";
  ASSERT_OK_AND_ASSIGN(const Lora lora, Read({Counted(module + ".lora_down.weight", {2, 4}),
                                              Counted(module + ".lora_up.weight", {12, 2}),
                                              Counted(module + ".alpha", {}, 4),
                                              Counted(module + ".diff_b", {12})}));
  std::vector<std::string> names;
  for (const WeightChange& change : lora.changes) names.push_back(change.weight);
  const std::string layer = "text_encoder_2/text_model.encoder.layers.0.self_attn.";
  EXPECT_THAT(names,
              ElementsAre(layer + "k_proj.bias", layer + "k_proj.weight", layer + "q_proj.bias",
                          layer + "q_proj.weight", layer + "v_proj.bias", layer + "v_proj.weight"));
  const auto& key = std::get<LowRank>(lora.changes[1].delta);
  EXPECT_EQ(lora.changes[1].shape, device::Shape({4, 4}));
  EXPECT_EQ(lora.changes[1].scale, 2);
  EXPECT_THAT(Values(key.up), ElementsAre(9, 10, 11, 12, 13, 14, 15, 16));
  EXPECT_EQ(Values(key.down), Counting(8));
  EXPECT_NE(key.up.digest->Get(), std::get<LowRank>(lora.changes[3].delta).up.digest->Get());
  EXPECT_THAT(Values(std::get<Difference>(lora.changes[4].delta).diff), ElementsAre(9, 10, 11, 12));
}

TEST_F(LoraFormatsTest, FoldersOfPeftAndDiffusers) {
  const std::string to_q =
      "base_model.model.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q";
  const Tensors tensors = {Counted(to_q + ".lora_A.weight", {4, 6}),
                           Counted(to_q + ".lora_B.weight", {8, 4})};
  Write(tensors, {}, "peft/adapter_model.safetensors");
  testing::WriteFile(Path("peft/adapter_config.json"),
                     R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8})");
  Write(tensors, {}, "diffusers/pytorch_lora_weights.safetensors");
  for (const char* path : {"peft", "peft/adapter_model.safetensors"}) {
    ASSERT_OK_AND_ASSIGN(const Lora lora, ReadLora("film", Path(path), modules_));
    EXPECT_EQ(lora.changes.at(0).scale, 2) << path;
    EXPECT_THAT(lora.warnings, IsEmpty());
  }
  ASSERT_OK_AND_ASSIGN(const Lora plain, ReadLora("film", Path("diffusers"), modules_));
  EXPECT_EQ(plain.changes.at(0).scale, 1);
  EXPECT_THAT(plain.warnings, ElementsAre(HasSubstr("adapter_config.json")));
}

}  // namespace
}  // namespace latentd::adapters
