// The networks of Stable Video Diffusion: their configs, and what golden cases cannot see in their
// graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/graph/graph_builder.h"
#include "core/graph/split.h"
#include "core/networks/autoencoder_temporal.h"
#include "core/networks/clip_vision.h"
#include "core/networks/unet_spatio_temporal.h"
#include "tests/support/status_matchers.h"

namespace latentd::networks {
namespace {

using device::DType;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Rate;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr auto kRefused = absl::StatusCode::kInvalidArgument;

constexpr char kXtConfig[] = R"({
  "_class_name": "UNetSpatioTemporalConditionModel",
  "addition_time_embed_dim": 256,
  "block_out_channels": [320, 640, 1280, 1280],
  "cross_attention_dim": 1024,
  "down_block_types": ["CrossAttnDownBlockSpatioTemporal", "CrossAttnDownBlockSpatioTemporal",
                       "CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"],
  "in_channels": 8,
  "layers_per_block": 2,
  "num_attention_heads": [5, 10, 20, 20],
  "num_frames": 25,
  "out_channels": 4,
  "projection_class_embeddings_input_dim": 768,
  "sample_size": 96,
  "transformer_layers_per_block": 1,
  "up_block_types": ["UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal",
                     "CrossAttnUpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"]
})";

// The graph of a UNet for n clips of `frames` frames.
absl::StatusOr<Graph> VideoUnetGraph(const UnetSpatioTemporalConfig& config, int64_t n,
                                     int64_t frames, int64_t tokens = 1) {
  GraphBuilder b;
  const auto input = [&](const char* name, Shape shape, Rate rate) {
    return b.Input(name, DType::kF32, std::move(shape), rate);
  };
  b.Output("out",
           UnetSpatioTemporal(
               b, config, "unet",
               {.sample = input("sample", {n, frames, config.in_channels, 9, 16}, Rate::kStep),
                .timestep = input("timestep", {n}, Rate::kStep),
                .encoder_hidden_states =
                    input("embeds", {n, tokens, config.cross_attention_dim}, Rate::kRequest),
                .time_ids = input("time_ids", {n, config.time_ids()}, Rate::kRequest)}));
  return std::move(b).Build();
}

TEST(VideoUnetConfig, IsReadAsPublishedCheckpointsHaveIt) {
  ASSERT_OK_AND_ASSIGN(const auto config, ParseUnetSpatioTemporalConfig(kXtConfig, "unet"));
  EXPECT_EQ(config.num_frames, 25);
  EXPECT_EQ(config.time_ids(), 3);
  EXPECT_EQ(config.time_embedding_dim(), 1280);
  using Block = UnetSpatioTemporalConfig::Block;
  EXPECT_THAT(config.blocks, ElementsAre(Field(&Block::heads, 5), Field(&Block::heads, 10),
                                         Field(&Block::heads, 20), Field(&Block::heads, 20)));
  EXPECT_THAT(config.blocks,
              ElementsAre(Field(&Block::attends_down, true), Field(&Block::attends_down, true),
                          Field(&Block::attends_down, true), Field(&Block::attends_down, false)));
  EXPECT_TRUE(config.blocks.front().attends_up);
  EXPECT_FALSE(config.blocks.back().attends_up);
}

TEST(VideoUnetConfig, HasTheDefaultsOfDiffusersWhereItSaysNothing) {
  ASSERT_OK_AND_ASSIGN(const auto said, ParseUnetSpatioTemporalConfig(kXtConfig, "unet"));
  ASSERT_OK_AND_ASSIGN(const auto empty, ParseUnetSpatioTemporalConfig("{}", "unet"));
  ASSERT_OK_AND_ASSIGN(const Graph of_said, VideoUnetGraph(said, 1, 2));
  ASSERT_OK_AND_ASSIGN(const Graph of_empty, VideoUnetGraph(empty, 1, 2));
  EXPECT_EQ(of_said.size(), of_empty.size());
  for (graph::ValueId id = 0; id < of_said.size(); ++id) {
    EXPECT_EQ(of_said.node(id).name, of_empty.node(id).name);
    EXPECT_EQ(of_said.node(id).attributes, of_empty.node(id).attributes);
  }
}

// All parameters of the whole network but those that attention to one token does not need.
TEST(VideoUnet, HasTheParametersOfThePublishedNetwork) {
  ASSERT_OK_AND_ASSIGN(const auto config, ParseUnetSpatioTemporalConfig(kXtConfig, "unet"));
  ASSERT_OK_AND_ASSIGN(const Graph graph, VideoUnetGraph(config, 2, 25));
  int64_t parameters = 0, unread = 0;
  for (const graph::ValueId id : graph.Select(Op::kWeight)) {
    const Node& weight = graph.node(id);
    parameters += weight.shape.elements();
    if (!absl::EndsWith(weight.name, ".attn2.to_v.weight")) continue;
    const int64_t channels = weight.shape[0];
    unread += channels * channels + channels * 1024 + 2 * channels;  // to_q, to_k, norm2
  }
  EXPECT_EQ(parameters + unread, 1'524'623'082);
}

TEST(VideoUnet, ReadsTheTokenAndTheNumbersAtTheRequestsRate) {
  ASSERT_OK_AND_ASSIGN(const auto config, ParseUnetSpatioTemporalConfig(kXtConfig, "unet"));
  ASSERT_OK_AND_ASSIGN(const Graph graph, VideoUnetGraph(config, 2, 3));
  int of_request = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kLinear) continue;
    const std::string& name = graph.node(node.operands[1]).name;
    const bool wanted =
        absl::StrContains(name, ".attn2.") || absl::StrContains(name, "add_embedding");
    if (wanted) {
      EXPECT_EQ(node.rate, Rate::kRequest) << name;
    }
    of_request += wanted;
  }
  EXPECT_EQ(of_request, 2 * 2 * 16 + 2);  // 16 transformers, each with two blocks of two linears
  ASSERT_OK_AND_ASSIGN(const graph::SplitGraphs split, graph::SplitByRate(graph));
  EXPECT_EQ(split.request->node(split.request->outputs()[0].value).shape,
            // The vectors of 2 blocks in each of 5, 5 and 6 transformers, and the numbers'.
            (Shape{1, 2 * (5 * 320 + 5 * 640 + 6 * 1280) + 1280}));
}

// A case of diffusers is within a case's tolerance with one epsilon for the other.
TEST(VideoUnet, HasTheEpsilonOfEachKindOfBlock) {
  ASSERT_OK_AND_ASSIGN(const auto config, ParseUnetSpatioTemporalConfig(kXtConfig, "unet"));
  ASSERT_OK_AND_ASSIGN(const Graph graph, VideoUnetGraph(config, 1, 2));
  for (const graph::ValueId id : graph.Select(Op::kGroupNorm)) {
    const std::string& name = graph.node(graph.node(id).operands[1]).name;
    const bool larger = absl::StrContains(name, "down_blocks.3.") ||
                        absl::StrContains(name, "mid_block.resnets.") ||
                        absl::StrContains(name, "conv_norm_out");
    EXPECT_EQ(std::get<graph::GroupNormAttributes>(graph.node(id).attributes).epsilon,
              larger ? 1e-5f : 1e-6f)
        << name;
  }
}

TEST(VideoUnet, RefusesMoreThanOneToken) {
  ASSERT_OK_AND_ASSIGN(const auto config, ParseUnetSpatioTemporalConfig(kXtConfig, "unet"));
  EXPECT_THAT(VideoUnetGraph(config, 1, 2, /*tokens=*/2),
              StatusIs(kRefused, HasSubstr("encoder_hidden_states has shape [1,2,1024]")));
}

TEST(VideoUnetConfig, IsRefusedByTheNameOfTheField) {
  const std::pair<const char*, const char*> mistakes[] = {
      {R"("num_attention_heads": [5, 10, 20, 21])",
       "num_attention_heads asks for 21 heads of 1280"},
      {R"("num_attention_heads": [5, 10])", "num_attention_heads has 2 elements"},
      {R"("cross_attention_dim": [1024, 1024, 768, 1024])", "cross_attention_dim differs"},
      {R"("block_out_channels": [320, 640, 1280, 1290])", "block_out_channels has 1290"},
      {R"("projection_class_embeddings_input_dim": 700)", "is 700; supported: multiples of"},
      {R"("transformer_layers_per_block": [[1], 1, 1, 1])", "transformer_layers_per_block"},
      {R"("down_block_types": ["DownBlock2D"])", "down_block_types"},
      {R"("quantization_config": {"bits": 4})", "quantization_config"},
      {R"("num_frames": 0)", "num_frames is 0"}};
  for (const auto& [field, message] : mistakes) {
    EXPECT_THAT(ParseUnetSpatioTemporalConfig(absl::StrCat("{", field, "}"), "unet/config.json"),
                StatusIs(kRefused, HasSubstr(message)));
  }
}

constexpr char kVideoVae[] = R"({
  "_class_name": "AutoencoderKLTemporalDecoder",
  "block_out_channels": [128, 256, 512, 512],
  "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D",
                       "DownEncoderBlock2D"],
  "force_upcast": true,
  "in_channels": 3,
  "latent_channels": 4,
  "layers_per_block": 2,
  "out_channels": 3,
  "sample_size": 768,
  "scaling_factor": 0.18215
})";

TEST(VideoVae, HasTheParametersAndTheEpsilonsOfThePublishedDecoder) {
  ASSERT_OK_AND_ASSIGN(const auto config, ParseAutoencoderTemporalConfig(kVideoVae, "vae"));
  EXPECT_EQ(config.downscale(), 8);
  EXPECT_TRUE(config.unknown_fields.empty());
  GraphBuilder b;
  b.Output("out",
           DecodeAutoencoderTemporal(b, config, "vae",
                                     b.Input("latents", DType::kF32, {3, 4, 2, 4}, Rate::kStep)));
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Build());
  EXPECT_EQ(graph.node(graph.outputs()[0].value).shape, (Shape{3, 3, 16, 32}));
  int64_t parameters = 0;
  for (const graph::ValueId id : graph.Select(Op::kWeight)) {
    parameters += graph.node(id).shape.elements();
  }
  EXPECT_EQ(parameters, 63'579'183);
  for (const graph::ValueId id : graph.Select(Op::kGroupNorm)) {
    const std::string& name = graph.node(graph.node(id).operands[1]).name;
    EXPECT_EQ(std::get<graph::GroupNormAttributes>(graph.node(id).attributes).epsilon,
              absl::StrContains(name, "temporal_res_block") ? 1e-5f : 1e-6f)
        << name;
  }
}

// Nodes but inputs, by op, name and shape.
std::vector<std::string> NodeTexts(const Graph& graph) {
  std::vector<std::string> texts;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kInput) continue;
    texts.push_back(
        absl::StrCat(static_cast<int>(node.op), " ", node.name, " ", node.shape.ToString()));
  }
  return texts;
}

Graph DecoderPartGraph(const AutoencoderTemporalConfig& config, int64_t part) {
  GraphBuilder b;
  const Shape shape = part == 1 ? Shape{3, 4, 2, 4} : DecoderPartInput(config, part, 3, 2, 4);
  b.Output("out", DecodeAutoencoderTemporalPart(b, config, "vae", part,
                                                b.Input("in", DType::kF32, shape, Rate::kStep)));
  return std::move(b).Build().value();
}

TEST(VideoVae, PartsOfTheDecoderAreItsNodesInTheirOrder) {
  ASSERT_OK_AND_ASSIGN(auto config, ParseAutoencoderTemporalConfig(kVideoVae, "vae"));
  for (const std::vector<int64_t>& channels : {std::vector<int64_t>{64},
                                               {32, 64},
                                               {32, 64, 96},
                                               {128, 256, 512, 512},
                                               {32, 64, 96, 96, 128}}) {
    config.block_out_channels = channels;
    GraphBuilder b;
    b.Output("out",
             DecodeAutoencoderTemporal(b, config, "vae",
                                       b.Input("latents", DType::kF32, {3, 4, 2, 4}, Rate::kStep)));
    ASSERT_OK_AND_ASSIGN(const Graph whole, std::move(b).Build());
    const int64_t parts = DecoderPartsOf(config);
    EXPECT_EQ(parts, std::min<int64_t>(static_cast<int64_t>(channels.size()), 3));
    std::vector<std::string> nodes;
    for (int64_t part = 1; part <= parts; ++part) {
      const Graph graph = DecoderPartGraph(config, part);
      for (std::string& text : NodeTexts(graph)) nodes.push_back(std::move(text));
      const Shape given = graph.node(graph.outputs()[0].value).shape;
      EXPECT_EQ(given, part == parts ? whole.node(whole.outputs()[0].value).shape
                                     : DecoderPartInput(config, part + 1, 3, 2, 4));
    }
    EXPECT_EQ(nodes, NodeTexts(whole));
  }
}

// Multiplications of convolutions, of which the others are few: a third in each part.
TEST(VideoVae, PartsOfThePublishedDecoderAreAThirdEach) {
  ASSERT_OK_AND_ASSIGN(const auto config, ParseAutoencoderTemporalConfig(kVideoVae, "vae"));
  std::vector<double> work;
  for (int64_t part = 1; part <= 3; ++part) {
    const Graph graph = DecoderPartGraph(config, part);
    double& sum = work.emplace_back();
    for (const graph::ValueId id : graph.Select(Op::kConv2d)) {
      const Node& node = graph.node(id);
      const Shape& weight = graph.node(node.operands[1]).shape;
      sum += static_cast<double>(node.shape.elements()) *
             static_cast<double>(weight.elements() / weight[0]);
    }
  }
  const double all = work[0] + work[1] + work[2];
  for (const double one : work) EXPECT_NEAR(one / all, 1.0 / 3, 0.02);
  // Each begins where an image is a quarter of what is behind it.
  EXPECT_EQ(DecoderPartInput(config, 2, 25, 72, 128), (Shape{25, 512, 144, 256}));
  EXPECT_EQ(DecoderPartInput(config, 3, 25, 72, 128), (Shape{25, 256, 288, 512}));
}

// diffusers' middle block has an attention for each layer but the first.
TEST(VideoVae, AttendsToNoPixelWithOneLayer) {
  ASSERT_OK_AND_ASSIGN(auto config, ParseAutoencoderTemporalConfig(kVideoVae, "vae"));
  config.layers_per_block = 1;
  GraphBuilder b;
  b.Output("out",
           DecodeAutoencoderTemporal(b, config, "vae",
                                     b.Input("latents", DType::kF32, {1, 4, 2, 2}, Rate::kStep)));
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Build());
  EXPECT_TRUE(graph.Select(Op::kAttention).empty());
}

TEST(VideoVae, RefusesByTheNameOfTheField) {
  const auto parse = [](const char* json) { return ParseAutoencoderTemporalConfig(json, "vae"); };
  EXPECT_THAT(parse(R"({"block_out_channels": [40]})"), StatusIs(kRefused, HasSubstr("has 40")));
  EXPECT_THAT(parse(R"({"block_out_channels": [32, 32]})"),
              StatusIs(kRefused, HasSubstr("down_block_types has 1 elements")));
  EXPECT_THAT(parse(R"({"scaling_factor": 0})"), StatusIs(kRefused, HasSubstr("scaling_factor")));
  EXPECT_THAT(parse(R"({"_class_name": "AutoencoderKL"})"),
              StatusIs(kRefused, HasSubstr("AutoencoderKLTemporalDecoder")));
}

constexpr char kVitH[] = R"({
  "architectures": ["CLIPVisionModelWithProjection"], "attention_dropout": 0.0,
  "hidden_act": "gelu", "hidden_size": 1280, "image_size": 224, "intermediate_size": 5120,
  "layer_norm_eps": 1e-05, "model_type": "clip_vision_model", "num_attention_heads": 16,
  "num_channels": 3, "num_hidden_layers": 32, "patch_size": 14, "projection_dim": 1024,
  "torch_dtype": "float16", "transformers_version": "4.34.0"
})";

TEST(ImageEncoder, HasTheParametersOfVitH) {
  ASSERT_OK_AND_ASSIGN(const auto config, ParseClipVisionConfig(kVitH, "image_encoder"));
  EXPECT_TRUE(config.unknown_fields.empty());
  EXPECT_EQ(config.tokens(), 257);
  GraphBuilder b;
  b.Output("out", ClipVision(b, config, "image_encoder",
                             b.Input("pixels", DType::kF32, {1, 3, 224, 224}, Rate::kStep)));
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Build());
  int64_t parameters = 0;
  for (const graph::ValueId id : graph.Select(Op::kWeight)) {
    parameters += graph.node(id).shape.elements();
  }
  EXPECT_EQ(parameters, 632'076'800);
}

TEST(ImageEncoder, RefusesPixelsOfAnotherSize) {
  ASSERT_OK_AND_ASSIGN(const auto config, ParseClipVisionConfig(kVitH, "image_encoder"));
  GraphBuilder b;
  ClipVision(b, config, "image_encoder",
             b.Input("pixels", DType::kF32, {1, 3, 224, 256}, Rate::kStep));
  EXPECT_THAT(b.status(), StatusIs(kRefused, HasSubstr("224 of them a side")));
}

TEST(ImageEncoder, RefusesByTheNameOfTheField) {
  const auto parse = [](const char* json) { return ParseClipVisionConfig(json, "image_encoder"); };
  EXPECT_THAT(parse(R"({"num_attention_heads": 7})"),
              StatusIs(kRefused, HasSubstr("divisors of hidden_size, 768")));
  EXPECT_THAT(parse(R"({"patch_size": 500})"), StatusIs(kRefused, HasSubstr("patch_size is 500")));
  EXPECT_THAT(parse(R"({"model_type": "siglip"})"), StatusIs(kRefused, HasSubstr("model_type")));
  EXPECT_THAT(parse(R"({"hidden_act": "tanh"})"), StatusIs(kRefused, HasSubstr("hidden_act")));
}

}  // namespace
}  // namespace latentd::networks
