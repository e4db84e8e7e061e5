#include "core/pipeline/graphs/f8_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/compiler/compile.h"
#include "core/graph/text.h"
#include "core/passes/f8_sites.h"
#include "core/pipeline/graphs/precision.h"
#include "tests/core/passes/golden_networks.h"
#include "tests/golden/network_graphs.h"
#include "tests/support/status_matchers.h"

namespace latentd::pipeline {
namespace {

using device::DType;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

// The policy for a network whose weights are of the cases' component.
graph::Precision Policy() {
  graph::Precision precision =
      PrecisionOf({{"unet_base", DType::kF8E4M3}}, "unet_base", VaeConfig());
  for (std::string& pattern : precision.f8_weights) {
    pattern = absl::StrCat(golden::kComponent, "/", absl::StripPrefix(pattern, "unet/"));
  }
  return precision;
}

bool IsOfPolicy(const graph::Precision& policy, absl::string_view name) {
  return std::any_of(policy.f8_weights.begin(), policy.f8_weights.end(),
                     [&](const std::string& pattern) { return passes::Matches(pattern, name); });
}

struct Sites {
  int named = 0, quantized = 0, low = 0;
};

Sites SitesOf(const std::string& network) {
  const graph::Precision policy = Policy();
  Sites sites;
  const auto graphs = passes::BuildGoldenGraphs(network);
  EXPECT_OK(graphs);
  for (const Graph& whole : *graphs) {
    const auto split = compiler::SplitInPrecision(whole, policy);
    EXPECT_OK(split);
    for (const ValueId id : whole.Select(Op::kWeight)) {
      sites.named += IsOfPolicy(policy, whole.node(id).name);
    }
    for (const Node& node : split->step.nodes()) {
      sites.quantized += node.op == Op::kF8Linear;
      sites.low += node.op == Op::kLinear && node.rate == graph::Rate::kStep;
    }
  }
  return sites;
}

// The sites of SDXL's 70 blocks: queries, keys, values and output of self-attention, queries of
// attention over the prompt, both of the feed-forward layers; and what leads into its 11
// transformers.
TEST(F8Policy, QuantizesAllThatItNamesInSdxlsBase) {
  const Sites sites = SitesOf("unet_sdxl_base");
  EXPECT_EQ(sites.named, 70 * 7 + 11);
  EXPECT_EQ(sites.quantized, sites.named);
}

TEST(F8Policy, QuantizesAllThatItNamesInTheRefiner) {
  const Sites sites = SitesOf("unet_sdxl_refiner");
  EXPECT_GT(sites.named, 300);
  EXPECT_EQ(sites.quantized, sites.named);
}

// Of each of a video's transformers: what leads into it; queries, keys, values and output of both
// self-attentions, over a frame and over frames; and both layers of three feed-forward parts.
TEST(F8Policy, QuantizesAllThatItNamesInAVideosUnet) {
  const Sites sites = SitesOf("unet_svd_small");
  EXPECT_EQ(sites.named % (1 + 2 * 4 + 3 * 2), 0);
  EXPECT_GT(sites.named, 0);
  EXPECT_EQ(sites.quantized, sites.named);
}

TEST(F8Policy, LeavesWhatReadsThePromptAndWhatHasNoBound) {
  const graph::Precision policy = Policy();
  const std::string block =
      absl::StrCat(golden::kComponent, "/down_blocks.2.attentions.0.transformer_blocks.3.");
  for (const char* name :
       {"attn1.to_q.weight", "attn1.to_k.weight", "attn1.to_v.weight", "attn1.to_out.0.weight",
        "attn2.to_q.weight", "ff.net.0.proj.weight", "ff.net.2.weight"}) {
    EXPECT_TRUE(IsOfPolicy(policy, block + name)) << name;
  }
  for (const char* name : {"attn2.to_k.weight", "attn2.to_v.weight", "attn2.to_out.0.weight",
                           "norm1.weight", "attn1.to_out.0.bias"}) {
    EXPECT_FALSE(IsOfPolicy(policy, block + name)) << name;
  }
  for (const char* name :
       {"conv_in.weight", "conv_out.weight", "time_embedding.linear_1.weight",
        "add_embedding.linear_2.weight", "down_blocks.0.resnets.0.time_emb_proj.weight",
        "down_blocks.1.attentions.0.proj_out.weight", "up_blocks.2.resnets.2.conv1.weight"}) {
    EXPECT_FALSE(IsOfPolicy(policy, absl::StrCat(golden::kComponent, "/", name))) << name;
  }
}

TEST(F8Policy, IsOfUnetsAlone) {
  for (const char* component : {"vae_decoder", "vae_encoder", "text_encoder", "text_encoder_2"}) {
    EXPECT_EQ(PrecisionOf({{component, DType::kF8E4M3}}, component, VaeConfig()),
              graph::Precision{DType::kBF16});
  }
  EXPECT_FALSE(PrecisionOf({{"unet_refiner", DType::kF8E4M3}}, "unet_refiner", VaeConfig())
                   .f8_weights.empty());
}

// Names of the convolutions of 8 bits in a network's step.
std::vector<std::string> F8ConvolutionsOf(const std::string& network) {
  graph::Precision policy = Policy();
  AddF8Convolutions(policy);
  for (std::vector<std::string>* patterns : {&policy.f8_convolutions, &policy.f8_exceptions}) {
    for (std::string& pattern : *patterns) {
      pattern = absl::StrCat(golden::kComponent, "/", absl::StripPrefix(pattern, "unet/"));
    }
  }
  std::vector<std::string> names;
  const auto graphs = passes::BuildGoldenGraphs(network);
  EXPECT_OK(graphs);
  for (const Graph& whole : *graphs) {
    const auto split = compiler::SplitInPrecision(whole, policy);
    EXPECT_OK(split);
    for (const ValueId id : split->step.Select(Op::kF8Conv2d)) {
      const Node& weight = split->step.node(split->step.node(id).operands[1]);
      names.emplace_back(weight.name);
    }
  }
  return names;
}

// SDXL's base has 17 residual blocks, of two convolutions each, of which three stay; the refiner
// has 22, of which five do, since it has four blocks upwards.
TEST(F8Policy, AddsTheConvolutionsOfResidualBlocks) {
  EXPECT_EQ(F8ConvolutionsOf("unet_sdxl_base").size(), 2u * 17 - 3);
  EXPECT_EQ(F8ConvolutionsOf("unet_sdxl_refiner").size(), 2u * 22 - 5);
}

// Two of each of its 22 blocks' frames, but for three; none over frames.
TEST(F8Policy, AddsTheConvolutionsOfAVideosFrames) {
  EXPECT_EQ(F8ConvolutionsOf("unet_svd_small").size(), 2u * 22 - 3);
}

TEST(F8Policy, AddsNoConvolutionToOtherPolicies) {
  EXPECT_TRUE(Policy().f8_convolutions.empty());
  ASSERT_OK_AND_ASSIGN(const auto graphs, passes::BuildGoldenGraphs("unet_sdxl_base_small"));
  for (const Graph& whole : graphs) {
    ASSERT_OK_AND_ASSIGN(const auto split, compiler::SplitInPrecision(whole, Policy()));
    EXPECT_TRUE(split.step.Select(Op::kF8Conv2d).empty());
  }
}

// Precision is in the text of a graph, and so in its key.
TEST(F8Policy, IsInAGraphsKey) {
  ASSERT_OK_AND_ASSIGN(const auto graphs, passes::BuildGoldenGraphs("unet_sdxl_base_small"));
  graph::Precision bf16{DType::kBF16};
  ASSERT_OK_AND_ASSIGN(const auto low, compiler::SplitInPrecision(graphs[0], bf16));
  ASSERT_OK_AND_ASSIGN(const auto f8, compiler::SplitInPrecision(graphs[0], Policy()));
  EXPECT_NE(graph::GraphDigest(low.step), graph::GraphDigest(f8.step));
  ASSERT_TRUE(low.request.has_value() && f8.request.has_value());
  EXPECT_EQ(graph::GraphDigest(*low.request), graph::GraphDigest(*f8.request))
      << "what a prompt gives is the same";
}

}  // namespace
}  // namespace latentd::pipeline
