// Graphs of networks: sizes, rates, and errors for inputs that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "core/graph/graph_builder.h"
#include "core/graph/split.h"
#include "core/networks/autoencoder_kl.h"
#include "core/networks/clip_text.h"
#include "core/networks/unet_2d_condition.h"
#include "tests/support/status_matchers.h"

namespace latentd::networks {
namespace {

using device::DType;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Rate;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

Unet2dConditionConfig SmallUnet() {
  auto config = ParseUnet2dConditionConfig(R"({
      "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
      "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
      "block_out_channels": [32, 64, 64], "attention_head_dim": 4, "cross_attention_dim": 48,
      "addition_embed_type": "text_time", "addition_time_embed_dim": 8,
      "projection_class_embeddings_input_dim": 68})",
                                           "unet");
  EXPECT_OK(config);
  return *std::move(config);
}

absl::StatusOr<Graph> UnetGraph(int64_t height, int64_t width, const Shape& text_embeds) {
  GraphBuilder b;
  b.Output("out",
           Unet2dCondition(
               b, SmallUnet(), "unet",
               {.sample = b.Input("sample", DType::kF32, {2, 4, height, width}, Rate::kStep),
                .timestep = b.Input("timestep", DType::kF32, {2}, Rate::kStep),
                .encoder_hidden_states = b.Input("text", DType::kF32, {2, 7, 48}, Rate::kRequest),
                .text_embeds = b.Input("text_embeds", DType::kF32, text_embeds, Rate::kRequest),
                .time_ids = b.Input("time_ids", DType::kF32, {2, 6}, Rate::kRequest)}));
  return std::move(b).Build();
}

// Name of a linear layer's weight; empty for other nodes.
std::string LinearName(const Graph& graph, const Node& node) {
  return node.op == Op::kLinear ? graph.node(node.operands[1]).name : "";
}

TEST(Unet, KeepsAnySizeFromOneOn) {
  for (const auto& [height, width] : {std::pair{1, 1}, {2, 3}, {7, 9}, {8, 12}, {15, 16}}) {
    ASSERT_OK_AND_ASSIGN(const Graph graph, UnetGraph(height, width, {2, 20}));
    EXPECT_EQ(graph.node(graph.outputs()[0].value).shape, (Shape{2, 4, height, width}));
  }
}

TEST(Unet, ComputesWhatOnlyTheRequestChangesAtTheRequestsRate) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, UnetGraph(8, 8, {2, 20}));
  int of_request = 0;
  for (const Node& node : graph.nodes()) {
    const std::string name = LinearName(graph, node);
    if (name.empty()) continue;
    const bool wanted = absl::StrContains(name, "attn2.to_k") ||
                        absl::StrContains(name, "attn2.to_v") ||
                        absl::StrContains(name, "add_embedding");
    EXPECT_EQ(node.rate == Rate::kRequest, wanted) << name;
    of_request += wanted;
  }
  EXPECT_EQ(of_request, 2 * (2 + 1 + 3) +
                            2);  // keys and values of 2 + 1 + 3 layers, two layers of the embedding
}

TEST(Unet, SplitsByRate) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, UnetGraph(8, 8, {2, 20}));
  ASSERT_OK_AND_ASSIGN(const graph::SplitGraphs split, graph::SplitByRate(graph));
  EXPECT_TRUE(split.request.has_value());
}

TEST(Unet, NamesTheInputThatDoesNotFit) {
  EXPECT_THAT(UnetGraph(8, 8, {2, 21}),
              StatusIs(kInvalid,
                       AllOf(HasSubstr("text_embeds"), HasSubstr("[2,21]"), HasSubstr("[2,20]"))));
}

TEST(Unet, NamesTheInputThatIsMissing) {
  GraphBuilder b;
  b.Output("out",
           Unet2dCondition(b, SmallUnet(), "unet",
                           {.sample = b.Input("sample", DType::kF32, {1, 4, 8, 8}, Rate::kStep),
                            .timestep = b.Input("timestep", DType::kF32, {1}, Rate::kStep),
                            .encoder_hidden_states =
                                b.Input("text", DType::kF32, {1, 7, 48}, Rate::kRequest)}));
  EXPECT_THAT(std::move(b).Build(), StatusIs(kInvalid, HasSubstr("time_ids is missing")));
}

TEST(AutoencoderKl, EncoderHalvesAndDecoderDoubles) {
  ASSERT_OK_AND_ASSIGN(
      const AutoencoderKlConfig config,
      ParseAutoencoderKlConfig(R"({"block_out_channels": [32, 32], "latent_channels": 16,
                           "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D"],
                           "up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D"]})",
                               "vae"));
  GraphBuilder b;
  const Value image = b.Input("image", DType::kF32, {1, 3, 10, 13}, Rate::kStep);
  EXPECT_EQ(b.shape(EncodeAutoencoderKl(b, config, "vae", image)), (Shape{1, 32, 5, 6}));
  const Value latents = b.Input("latents", DType::kF32, {1, 16, 5, 6}, Rate::kStep);
  EXPECT_EQ(b.shape(DecodeAutoencoderKl(b, config, "vae", latents)), (Shape{1, 3, 10, 12}));
}

TEST(AutoencoderKl, NamesTheInputThatDoesNotFit) {
  GraphBuilder b;
  const Value image = b.Input("image", DType::kF32, {1, 4, 8, 8}, Rate::kStep);
  b.Output("moments", EncodeAutoencoderKl(b, {}, "vae", image));
  EXPECT_THAT(std::move(b).Build(),
              StatusIs(kInvalid, AllOf(HasSubstr("image"), HasSubstr("[1,4,8,8]"))));
}

TEST(ClipText, GivesTheStatesOfAllLayersAndOnePooledRow) {
  GraphBuilder b;
  const ClipTextConfig config = {.kind = ClipTextKind::kWithProjection,
                                 .hidden_size = 64,
                                 .projection_dim = 24,
                                 .num_hidden_layers = 3};
  const ClipTextOutputs outputs =
      ClipText(b, config, "text_encoder_2",
               {.input_ids = b.Input("ids", DType::kI64, {2, 77}, Rate::kStep),
                .pooled_positions = b.Input("eos", DType::kI64, {2}, Rate::kStep)});
  EXPECT_THAT(outputs.hidden_states, SizeIs(4));
  EXPECT_EQ(b.shape(outputs.last_hidden_state), (Shape{2, 77, 64}));
  EXPECT_EQ(b.shape(outputs.pooled), (Shape{2, 24}));
}

TEST(ClipText, RefusesMoreTokensThanItHasPositions) {
  GraphBuilder b;
  const ClipTextOutputs outputs =
      ClipText(b, {}, "text_encoder",
               {.input_ids = b.Input("ids", DType::kI64, {1, 78}, Rate::kStep),
                .pooled_positions = b.Input("eos", DType::kI64, {1}, Rate::kStep)});
  b.Output("pooled", outputs.pooled);
  EXPECT_THAT(std::move(b).Build(), StatusIs(kInvalid, HasSubstr("1 to 77 tokens")));
}

}  // namespace
}  // namespace latentd::networks
