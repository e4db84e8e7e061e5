// Kinds of deltas and their tensors, and the scale of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/adapters/lora/lora_base.h"
#include "tests/core/adapters/lora/small_model.h"

namespace latentd::adapters {
namespace {

using device::Shape;
using ::testing::ElementsAre;
using testing::FilledTensor;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TensorToWrite;

class LoraKindsTest : public LoraFileTest {
 protected:
  // A LoRA of attention, of this rank, with more tensors of its module.
  Tensors Plain(int64_t rank, const Tensors& more = {}) const {
    Tensors tensors = {Counted(kKohyaToQ + ".lora_down.weight", {rank, 6}),
                       Counted(kKohyaToQ + ".lora_up.weight", {8, rank})};
    tensors.insert(tensors.end(), more.begin(), more.end());
    return tensors;
  }

  // Its scale; NaN: it cannot be read.
  double ScaleOf(const Tensors& tensors, const Texts& metadata = {}) const {
    const absl::StatusOr<WeightChange> change = ReadOne(tensors, metadata);
    EXPECT_TRUE(change.ok()) << change.status();
    return change.ok() ? change->scale : NAN;
  }
};

TEST_F(LoraKindsTest, AlphaIsDividedByTheRankOfTheTensor) {
  EXPECT_EQ(ScaleOf(Plain(4, {FilledTensor(kKohyaToQ + ".alpha", {}, 2)})), 0.5);
  EXPECT_EQ(ScaleOf(Plain(4, {FilledTensor(kKohyaToQ + ".alpha", {1}, 2)})), 0.5);
  EXPECT_EQ(ScaleOf(Plain(4)), 1);
  // vllm-omni#6565: numbers of the metadata are never used against the tensors'.
  EXPECT_EQ(ScaleOf(Plain(4, {FilledTensor(kKohyaToQ + ".alpha", {}, 2)}),
                    {{"ss_network_dim", "64"}, {"ss_network_alpha", "1"}}),
            0.5);
}

// diffusers#14409.
TEST_F(LoraKindsTest, EachModuleHasItsOwnRankAndAlpha) {
  ASSERT_OK_AND_ASSIGN(
      const Lora lora,
      Read({Counted(kKohyaConv + ".lora_down.weight", {2, 8, 3, 3}),
            Counted(kKohyaConv + ".lora_up.weight", {6, 2, 1, 1}),
            FilledTensor(kKohyaConv + ".alpha", {}, 1),
            Counted(kKohyaToQ + ".lora_down.weight", {8, 6}),
            Counted(kKohyaToQ + ".lora_up.weight", {8, 8}),
            FilledTensor(kKohyaToQ + ".alpha", {}, 2),
            // diffusers#4484: those of text encoders count, too.
            Counted("lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_down.weight", {4, 4}),
            Counted("lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_up.weight", {12, 4}),
            FilledTensor("lora_te1_text_model_encoder_layers_0_mlp_fc1.alpha", {}, 3)}));
  ASSERT_EQ(lora.changes.size(), 3u);
  EXPECT_EQ(lora.changes[0].scale, 0.75);
  EXPECT_EQ(lora.changes[1].scale, 0.25);
  EXPECT_EQ(lora.changes[2].scale, 0.5);
}

TEST_F(LoraKindsTest, AlphaIsReadInEveryDtype) {
  const auto eight = [](const std::string& dtype, const std::string& bytes) {
    return TensorToWrite{kKohyaToQ + ".alpha", dtype, {}, bytes};
  };
  const auto bytes = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const TensorToWrite alphas[] = {eight("F16", bytes(uint16_t{0x4800})),
                                  eight("BF16", bytes(uint16_t{0x4100})),
                                  eight("F32", bytes(8.0F)),
                                  eight("F64", bytes(8.0)),
                                  eight("I64", bytes(int64_t{8})),
                                  eight("U8", bytes(uint8_t{8}))};
  for (const TensorToWrite& alpha : alphas) {
    EXPECT_EQ(ScaleOf(Plain(2, {alpha})), 4) << alpha.dtype;
  }
}

TEST_F(LoraKindsTest, AScaleStandsForAlphaOverRank) {
  EXPECT_EQ(ScaleOf(Plain(4, {FilledTensor(kKohyaToQ + ".scale", {}, 3),
                              FilledTensor(kKohyaToQ + ".alpha", {}, 1)})),
            3);
}

TEST_F(LoraKindsTest, AlphaZeroIsToldOf) {
  ASSERT_OK_AND_ASSIGN(const Lora lora,
                       Read(Plain(4, {FilledTensor(kKohyaToQ + ".alpha", {}, 0)})));
  EXPECT_EQ(lora.changes.at(0).scale, 0);
  EXPECT_THAT(lora.warnings, ElementsAre(HasSubstr("alpha 0")));
}

TEST_F(LoraKindsTest, AlphaZeroChangesLengthsAllTheSame) {
  ASSERT_OK_AND_ASSIGN(const Lora lora,
                       Read(Plain(4, {FilledTensor(kKohyaToQ + ".alpha", {}, 0),
                                      Counted(kKohyaToQ + ".dora_scale", {8, 1})})));
  EXPECT_EQ(lora.changes.at(0).scale, 0);
  EXPECT_THAT(lora.warnings, IsEmpty());
}

TEST_F(LoraKindsTest, AnAlphaAloneIsToldOf) {
  ASSERT_OK_AND_ASSIGN(const Lora lora,
                       Read(Plain(4, {FilledTensor(kKohyaConv + ".alpha", {}, 1)})));
  EXPECT_EQ(lora.changes.size(), 1u);
  EXPECT_THAT(lora.warnings, ElementsAre(HasSubstr(kKohyaConv + ".alpha")));
}

TEST_F(LoraKindsTest, DiffusersMetadataSaysAlpha) {
  const auto scale = [&](const std::string& config) {
    return ScaleOf(Plain(4), {{"lora_adapter_metadata", config}});
  };
  EXPECT_EQ(scale(R"({"unet.r": 9, "unet.lora_alpha": 2})"), 0.5);
  EXPECT_EQ(scale(R"({"unet.r": 9})"), 2);  // PEFT's own alpha is 8
  EXPECT_EQ(scale(R"({"text_encoder.lora_alpha": 2})"), 1);
  // peft#2733.
  EXPECT_EQ(scale(R"({"unet.lora_alpha": 2, "unet.use_rslora": true})"), 1);
  EXPECT_EQ(scale(R"({"unet.lora_alpha": 2, "unet.alpha_pattern": {"attn1.to_q": 16}})"), 4);
  EXPECT_EQ(scale(R"({"unet.lora_alpha": 2, "unet.alpha_pattern": {"n1.to_q": 16}})"), 0.5);
  EXPECT_EQ(scale(R"({"unet.lora_alpha": 2, "unet.alpha_pattern": {"^attn1.to_q": 16}})"), 0.5);
  EXPECT_EQ(scale(R"({"unet.lora_alpha": 2, "unet.alpha_pattern": )"
                  R"({"^down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q": 16}})"),
            4);
}

TEST_F(LoraKindsTest, TheFirstPatternThatFitsCounts) {
  const auto scale = [&](const std::string& patterns) {
    return ScaleOf(Plain(4), {{"lora_adapter_metadata",
                               absl::StrCat(R"({"text_encoder.alpha_pattern": {"to_q": 1}, )",
                                            R"("unet.alpha_pattern": {)", patterns, "}}")}});
  };
  EXPECT_EQ(scale(R"("to_q": 8, "attn1.to_q": 16)"), 2);
  EXPECT_EQ(scale(R"("attn1.to_q": 16, "to_q": 8)"), 4);
  EXPECT_EQ(scale(R"("to_k": 1, "to_q": 8)"), 2);
}

// SDXL has a pattern for each of 722 modules.
TEST_F(LoraKindsTest, DiffusersMetadataMayBeLong) {
  const std::string long_name(20000, 'x');
  EXPECT_EQ(ScaleOf(Plain(4), {{"lora_adapter_metadata",
                                absl::StrCat(R"({"unet.lora_alpha": 2, "unet.alpha_pattern": {")",
                                             long_name, R"(": 5}})")}}),
            0.5);
}

TEST_F(LoraKindsTest, TwoScalesAreAnError) {
  EXPECT_THAT(Error(Plain(4, {FilledTensor(kKohyaToQ + ".alpha", {}, 2)}),
                    {{"lora_adapter_metadata", R"({"unet.lora_alpha": 2})"}}),
              HasSubstr("both say the scale"));
}

TEST_F(LoraKindsTest, ConvolutionsHaveTheirColumnsInOne) {
  ASSERT_OK_AND_ASSIGN(const WeightChange change,
                       ReadOne({Counted(kKohyaConv + ".lora_down.weight", {2, 8, 3, 3}),
                                Counted(kKohyaConv + ".lora_up.weight", {6, 2, 1, 1})}));
  const auto& delta = std::get<LowRank>(change.delta);
  EXPECT_EQ(change.shape, Shape({6, 8, 3, 3}));
  EXPECT_EQ(delta.down.data.shape(), Shape({2, 72}));
  EXPECT_EQ(delta.up.data.shape(), Shape({6, 2}));
}

TEST_F(LoraKindsTest, LoConHasAMiddle) {
  ASSERT_OK_AND_ASSIGN(const WeightChange change,
                       ReadOne({Counted(kKohyaConv + ".lora_down.weight", {2, 8, 1, 1}),
                                Counted(kKohyaConv + ".lora_mid.weight", {2, 2, 3, 3}),
                                Counted(kKohyaConv + ".lora_up.weight", {6, 2, 1, 1}),
                                FilledTensor(kKohyaConv + ".alpha", {}, 1)}));
  const auto& delta = std::get<LowRank>(change.delta);
  EXPECT_EQ(delta.down.data.shape(), Shape({2, 8}));
  EXPECT_EQ(delta.up.data.shape(), Shape({6, 2}));
  ASSERT_TRUE(delta.mid.has_value());
  EXPECT_EQ(delta.mid->data.shape(), Shape({2, 2, 3, 3}));
  EXPECT_EQ(change.scale, 0.5);
}

TEST_F(LoraKindsTest, LoHa) {
  for (const std::string dot : {".", "_"}) {  // OneTrainer#940, #1096
    const std::string module = kKohyaToQ + dot;
    ASSERT_OK_AND_ASSIGN(
        const WeightChange change,
        ReadOne({Counted(module + "hada_w1_a", {8, 2}), Counted(module + "hada_w1_b", {2, 6}, 2),
                 Counted(module + "hada_w2_a", {8, 3}, 3), Counted(module + "hada_w2_b", {3, 6}, 4),
                 FilledTensor(kKohyaToQ + ".alpha", {}, 1)}));
    EXPECT_EQ(change.weight, kToQ);
    EXPECT_EQ(change.scale, 0.5);
    const auto& delta = std::get<Hadamard>(change.delta);
    EXPECT_EQ(Values(delta.w1_a), Counting(16));
    EXPECT_EQ(Values(delta.w1_b), Counting(12, 2));
    EXPECT_EQ(Values(delta.w2_a), Counting(24, 3));
    EXPECT_EQ(Values(delta.w2_b), Counting(18, 4));
    EXPECT_FALSE(delta.t1 || delta.t2);
  }
}

TEST_F(LoraKindsTest, LoHaOfConvolutions) {
  const std::string m = kKohyaConv;
  ASSERT_OK_AND_ASSIGN(
      const WeightChange flat,
      ReadOne({Counted(m + ".hada_w1_a", {6, 2}), Counted(m + ".hada_w1_b", {2, 72}),
               Counted(m + ".hada_w2_a", {6, 2}), Counted(m + ".hada_w2_b", {2, 72})}));
  EXPECT_EQ(std::get<Hadamard>(flat.delta).w2_b.data.shape(), Shape({2, 72}));
  ASSERT_OK_AND_ASSIGN(
      const WeightChange tucker,
      ReadOne({Counted(m + ".hada_w1_a", {2, 6}), Counted(m + ".hada_w1_b", {2, 8}),
               Counted(m + ".hada_w2_a", {3, 6}), Counted(m + ".hada_w2_b", {3, 8}),
               Counted(m + ".hada_t1", {2, 2, 3, 3}), Counted(m + ".hada_t2", {3, 3, 3, 3}, 2)}));
  const auto& delta = std::get<Hadamard>(tucker.delta);
  EXPECT_EQ(delta.w1_a.data.shape(), Shape({2, 6}));
  EXPECT_EQ(delta.w2_b.data.shape(), Shape({3, 8}));
  EXPECT_EQ(delta.t2->data.shape(), Shape({3, 3, 3, 3}));
  EXPECT_EQ(Values(*delta.t2)[0], 2);
  EXPECT_THAT(Error({Counted(m + ".hada_w1_a", {2, 6}), Counted(m + ".hada_w1_b", {2, 8}),
                     Counted(m + ".hada_w2_a", {3, 6}), Counted(m + ".hada_w2_b", {3, 8}),
                     Counted(m + ".hada_t1", {2, 2, 3, 3})}),
              HasSubstr("no tensor hada_t2"));
}

TEST_F(LoraKindsTest, LoKrOfWholeFactorsHasNoAlpha) {
  const Tensors tensors = {Counted(kKohyaToQ + ".lokr_w1", {2, 3}),
                           Counted(kKohyaToQ + ".lokr_w2", {4, 2}),
                           FilledTensor(kKohyaToQ + ".alpha", {}, 1)};
  ASSERT_OK_AND_ASSIGN(const Lora lora, Read(tensors));
  EXPECT_EQ(lora.changes.at(0).scale, 1);
  EXPECT_THAT(lora.warnings, IsEmpty());
  const auto& delta = std::get<Kronecker>(lora.changes[0].delta);
  EXPECT_EQ(delta.w1->data.shape(), Shape({2, 3}));
  EXPECT_EQ(delta.w2->data.shape(), Shape({4, 2}));
  // ComfyUI#15114.
  ASSERT_OK_AND_ASSIGN(const Lora told, Read(tensors, {{"ss_network_dim", "32"}}));
  EXPECT_EQ(told.changes.at(0).scale, 1);
  EXPECT_THAT(told.warnings, ElementsAre(HasSubstr("ss_network_dim")));
}

TEST_F(LoraKindsTest, LoKrOfProducts) {
  const std::string m = kKohyaToQ;
  const TensorToWrite alpha = FilledTensor(m + ".alpha", {}, 1);
  ASSERT_OK_AND_ASSIGN(const WeightChange second,
                       ReadOne({Counted(m + ".lokr_w1", {2, 3}), Counted(m + ".lokr_w2_a", {4, 2}),
                                Counted(m + ".lokr_w2_b", {2, 2}), alpha}));
  EXPECT_EQ(second.scale, 0.5);
  ASSERT_OK_AND_ASSIGN(const WeightChange first, ReadOne({Counted(m + ".lokr_w1_a", {2, 4}),
                                                          Counted(m + ".lokr_w1_b", {4, 3}),
                                                          Counted(m + ".lokr_w2", {4, 2}), alpha}));
  EXPECT_EQ(first.scale, 0.25);
  EXPECT_EQ(std::get<Kronecker>(first.delta).w1_b->data.shape(), Shape({4, 3}));
  ASSERT_OK_AND_ASSIGN(
      const WeightChange both,
      ReadOne({Counted(m + ".lokr_w1_a", {2, 4}), Counted(m + ".lokr_w1_b", {4, 3}),
               Counted(m + ".lokr_w2_a", {4, 2}), Counted(m + ".lokr_w2_b", {2, 2}), alpha}));
  EXPECT_EQ(both.scale, 0.5);
}

TEST_F(LoraKindsTest, LoKrOfConvolutions) {
  const std::string m = kKohyaConv;
  ASSERT_OK_AND_ASSIGN(const WeightChange whole, ReadOne({Counted(m + ".lokr_w1", {2, 4}),
                                                          Counted(m + ".lokr_w2", {3, 2, 3, 3})}));
  EXPECT_EQ(std::get<Kronecker>(whole.delta).w2->data.shape(), Shape({3, 2, 3, 3}));
  ASSERT_OK_AND_ASSIGN(const WeightChange product,
                       ReadOne({Counted(m + ".lokr_w1", {2, 4}), Counted(m + ".lokr_w2_a", {3, 5}),
                                Counted(m + ".lokr_w2_b", {5, 18})}));
  EXPECT_EQ(std::get<Kronecker>(product.delta).w2_b->data.shape(), Shape({5, 18}));
  ASSERT_OK_AND_ASSIGN(
      const WeightChange tucker,
      ReadOne({Counted(m + ".lokr_w1", {2, 4}), Counted(m + ".lokr_w2_a", {5, 3}),
               Counted(m + ".lokr_w2_b", {5, 2}), Counted(m + ".lokr_t2", {5, 5, 3, 3})}));
  EXPECT_EQ(std::get<Kronecker>(tucker.delta).t2->data.shape(), Shape({5, 5, 3, 3}));
  EXPECT_THAT(Error({Counted(m + ".lokr_w1", {4, 4}), Counted(m + ".lokr_w2", {2, 2, 3, 3})}),
              HasSubstr("divide"));
}

TEST_F(LoraKindsTest, DifferencesOfWeightsBiasesAndNorms) {
  const std::string norm = "lora_unet_down_blocks_0_resnets_0_norm1";
  ASSERT_OK_AND_ASSIGN(
      const Lora lora,
      Read({Counted(kKohyaConv + ".diff", {6, 8, 3, 3}), Counted(kKohyaConv + ".diff_b", {6}),
            FilledTensor(kKohyaConv + ".alpha", {}, 4), Counted(norm + ".w_norm", {8}),
            Counted(norm + ".b_norm", {8}, 2)}));
  ASSERT_EQ(lora.changes.size(), 4u);
  const std::string resnet = "unet/down_blocks.0.resnets.0.";
  EXPECT_EQ(lora.changes[0].weight, resnet + "conv1.bias");
  EXPECT_EQ(lora.changes[1].weight, resnet + "conv1.weight");
  EXPECT_EQ(lora.changes[2].weight, resnet + "norm1.bias");
  EXPECT_EQ(lora.changes[3].weight, resnet + "norm1.weight");
  EXPECT_EQ(lora.changes[1].shape, Shape({6, 8, 3, 3}));
  EXPECT_EQ(Values(std::get<Difference>(lora.changes[2].delta).diff), Counting(8, 2));
  for (const WeightChange& change : lora.changes) EXPECT_EQ(change.scale, 1);
}

TEST_F(LoraKindsTest, PeftsBiasHasTheScaleOfItsDelta) {
  const std::string module = "unet.down_blocks.0.attentions.0.proj_in";
  ASSERT_OK_AND_ASSIGN(
      const Lora lora,
      Read({Counted(module + ".lora_A.weight", {4, 6}), Counted(module + ".lora_B.weight", {8, 4}),
            Counted(module + ".lora_B.bias", {8}), FilledTensor(module + ".alpha", {}, 2)}));
  ASSERT_EQ(lora.changes.size(), 2u);
  EXPECT_EQ(lora.changes[0].weight, "unet/down_blocks.0.attentions.0.proj_in.bias");
  EXPECT_EQ(lora.changes[0].scale, 0.5);
  EXPECT_EQ(lora.changes[1].scale, 0.5);
}

TEST_F(LoraKindsTest, PeftsMagnitudeIsOfRows) {
  const std::string module = "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q";
  for (const std::string suffix : {".lora_magnitude_vector", ".lora_magnitude_vector.weight",
                                   ".lora_magnitude_vector.default.weight", ".magnitude"}) {
    ASSERT_OK_AND_ASSIGN(
        const WeightChange change,
        ReadOne({Counted(module + ".lora_A.weight", {2, 6}),
                 Counted(module + ".lora_B.weight", {8, 2}), Counted(module + suffix, {8})}));
    ASSERT_TRUE(change.magnitude.has_value()) << suffix;
    EXPECT_EQ(change.magnitude->rule, Magnitude::Rule::kPeft);
    EXPECT_EQ(change.magnitude->axis, Magnitude::Axis::kRows);
    EXPECT_EQ(Values(change.magnitude->values), Counting(8));
  }
  ASSERT_OK_AND_ASSIGN(const WeightChange convolution,
                       ReadOne({Counted(kKohyaConv + ".lora_A.weight", {2, 8, 3, 3}),
                                Counted(kKohyaConv + ".lora_B.weight", {6, 2, 1, 1}),
                                Counted(kKohyaConv + ".lora_magnitude_vector", {1, 6, 1, 1})}));
  EXPECT_EQ(convolution.magnitude->values.data.shape(), Shape({6}));
}

// LyCORIS#216.
TEST_F(LoraKindsTest, LycorisMagnitudeSaysItsAxisByItsShape) {
  const auto axis = [&](const std::vector<int64_t>& shape) {
    const absl::StatusOr<WeightChange> change =
        ReadOne(Plain(2, {Counted(kKohyaToQ + ".dora_scale", shape)}));
    EXPECT_TRUE(change.ok()) << change.status();
    if (!change.ok()) return std::make_pair(Magnitude::Axis::kRows, int64_t{0});
    EXPECT_EQ(change->magnitude->rule, Magnitude::Rule::kLycoris);
    return std::make_pair(change->magnitude->axis, change->magnitude->values.data.shape()[0]);
  };
  EXPECT_EQ(axis({8, 1}), std::make_pair(Magnitude::Axis::kRows, int64_t{8}));
  EXPECT_EQ(axis({1, 6}), std::make_pair(Magnitude::Axis::kColumns, int64_t{6}));
  EXPECT_EQ(axis({8, 1, 1, 1}), std::make_pair(Magnitude::Axis::kRows, int64_t{8}));
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{6, 1}, {1, 8}, {8}, {8, 6}}) {
    EXPECT_THAT(Error(Plain(2, {Counted(kKohyaToQ + ".dora_scale", shape)})),
                HasSubstr("[8,1] or [1,6] would be right"));
  }
}

TEST_F(LoraKindsTest, ASquareWeightsMagnitudeHasAnAxis) {
  const std::string module = "lora_te1_text_model_encoder_layers_0_self_attn_q_proj";
  const auto axis = [&](const std::vector<int64_t>& shape) {
    const absl::StatusOr<WeightChange> change = ReadOne(
        {Counted(module + ".lora_down.weight", {2, 4}), Counted(module + ".lora_up.weight", {4, 2}),
         Counted(module + ".dora_scale", shape)});
    return change.ok() && change->magnitude ? change->magnitude->axis : Magnitude::Axis{9};
  };
  EXPECT_EQ(axis({4, 1}), Magnitude::Axis::kRows);
  EXPECT_EQ(axis({1, 4}), Magnitude::Axis::kColumns);
}

TEST_F(LoraKindsTest, MagnitudesGoWithLoHaAndLoKr) {
  ASSERT_OK_AND_ASSIGN(
      const WeightChange change,
      ReadOne({Counted(kKohyaToQ + ".lokr_w1", {2, 3}), Counted(kKohyaToQ + ".lokr_w2", {4, 2}),
               Counted(kKohyaToQ + ".dora_scale", {1, 6})}));
  EXPECT_TRUE(change.magnitude.has_value());
}

TEST_F(LoraKindsTest, DoublesAreRounded) {
  std::string bytes;
  for (int i = 0; i < 12; ++i) {
    const double value = 0.1 * i;
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  ASSERT_OK_AND_ASSIGN(const WeightChange change,
                       ReadOne({{kKohyaToQ + ".lora_down.weight", "F64", {2, 6}, bytes},
                                Counted(kKohyaToQ + ".lora_up.weight", {8, 2})}));
  const weights::StoredTensor& down = std::get<LowRank>(change.delta).down;
  EXPECT_TRUE(down.unusable_dtype.empty());
  EXPECT_EQ(Values(down)[1], 0.1F);
  EXPECT_NE(down.digest, nullptr);
}

// The tensors of a plain model's LoRA have four channels.
TEST_F(LoraKindsTest, AnInpaintingModelsFirstConvolutionIsChangedInFourChannels) {
  auto shapes = SmallModel();
  shapes["unet/conv_in.weight"] = Shape({8, 9, 3, 3});
  const ModelModules inpainting(shapes);
  for (const int64_t channels : {4, 9}) {
    const std::string path = Write({Counted("unet.conv_in.lora_A.weight", {2, channels, 3, 3}),
                                    Counted("unet.conv_in.lora_B.weight", {8, 2, 1, 1})});
    ASSERT_OK_AND_ASSIGN(const Lora lora, ReadLora("film", path, inpainting));
    EXPECT_EQ(lora.changes.at(0).shape, Shape({8, channels, 3, 3}));
  }
  const std::string other = Write({Counted("unet.conv_in.lora_A.weight", {2, 5, 3, 3}),
                                   Counted("unet.conv_in.lora_B.weight", {8, 2, 1, 1})});
  EXPECT_THAT(std::string(ReadLora("film", other, inpainting).status().message()),
              HasSubstr("f32[2,5,3,3]"));
}

TEST_F(LoraKindsTest, MetadataIsTold) {
  ASSERT_OK_AND_ASSIGN(const Lora lora, Read(Plain(2), {{"ss_base_model_version", "sdxl_base_v1-0"},
                                                        {"ss_output_name", "Film grain"},
                                                        {"ss_clip_skip", "2"},
                                                        {"modelspec.prediction_type", "epsilon"},
                                                        {"modelspec.trigger_phrase", "on film"}}));
  EXPECT_EQ(lora.metadata.base_model, "sdxl_base_v1-0");
  EXPECT_EQ(lora.metadata.output_name, "Film grain");
  EXPECT_EQ(lora.metadata.clip_skip, "2");
  EXPECT_EQ(lora.metadata.prediction_type, "epsilon");
  EXPECT_EQ(lora.metadata.trigger_phrase, "on film");
  ASSERT_OK_AND_ASSIGN(
      const Lora other,
      Read(Plain(2), {{"modelspec.architecture", "stable-diffusion-xl-v1-base/lora"},
                      {"modelspec.title", "Film"},
                      {"ss_clip_skip", "None"}}));
  EXPECT_EQ(other.metadata.base_model, "stable-diffusion-xl-v1-base/lora");
  EXPECT_EQ(other.metadata.output_name, "Film");
  EXPECT_EQ(other.metadata.clip_skip, "");
}

// A log or a terminal would obey it.
TEST_F(LoraKindsTest, MetadataIsToldWithoutControlCharactersAndCut) {
  weights::Metadata metadata = {{"modelspec.trigger_phrase", "on\x1b[2Jfilm\r\n\x7f\xc2\x9b!"},
                                {"modelspec.title", std::string(1023, 'x') + "\xc3\xa9"},
                                {"ss_clip_skip", "\xc3\xa9\xc2\xa0\xe2\x82\xac"}};
  const LoraMetadata read = ReadLoraMetadata(metadata);
  EXPECT_EQ(read.trigger_phrase, "on [2Jfilm     !");
  EXPECT_EQ(read.output_name, std::string(1023, 'x'));
  EXPECT_EQ(read.clip_skip, metadata["ss_clip_skip"]);
}

}  // namespace
}  // namespace latentd::adapters
