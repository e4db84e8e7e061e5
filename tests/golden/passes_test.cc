// Every pass on every network of the golden cases: the numbers stay and the structure is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/backends/reference/evaluate.h"
#include "core/graph/split.h"
#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "core/passes/pipeline.h"
#include "core/passes/precision.h"
#include "core/passes/rewrite.h"
#include "tests/core/passes/equivalence.h"
#include "tests/core/passes/golden_networks.h"
#include "tests/core/passes/networks.h"
#include "tests/golden/network_graphs.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using device::Buffer;

// How far a pass may move a network's outputs, relative to the largest value in each, on the
// reference backend. 0: it moves or renames what is computed, and rounds nothing differently.
struct Tolerance {
  absl::string_view pass;
  double alone;
};
constexpr Tolerance kTolerances[] = {
    {"constant_folding", 0},       // folded by the reference backend itself
    {"simplify_movement", 0},      //
    {"common_subexpressions", 0},  //
    {"dead_code", 0},              //
    {"merge_linears", 5e-6},       // a wide product sums in another order
    {"image_layout", 5e-6},        // and so does a convolution of channels that lie together
    {"hoist_residual", 0},         //
    {"group_norm_silu", 0},        // bodies run op by op
    {"linear_geglu", 0},           //
    {"f8_results", 0},             // there is none in float32
    {"upsample_bias", 5e-6},       // adds what it moves in another order
    {"upsample_conv2d", 0},        //
    {"epilogues", 0},              //
};
// Several together, whichever they are.
constexpr double kTogether = 1e-5;

PassOptions Folding() { return {.evaluate = backends::reference::EvaluateRecipe}; }

class GoldenNetworks : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(network_, LoadGoldenNetwork(GetParam())); }

  Runs RunsOf(const NetworkPart& part) const {
    return Runs(golden::kComponent, network_.weights, part.inputs);
  }

  Network network_;
};

INSTANTIATE_TEST_SUITE_P(All, GoldenNetworks, ::testing::ValuesIn(GoldenNetworkNames()),
                         [](const auto& info) { return info.param; });

TEST_P(GoldenNetworks, KeepTheirNumbersWithAnyOnePassAlone) {
  for (const NetworkPart& part : network_.parts) {
    Runs run = RunsOf(part);
    const std::vector<Buffer> expected = run(part.graph);
    for (const auto& [name, tolerance] : kTolerances) {
      const auto pass =
          std::find_if(Passes().begin(), Passes().end(),
                       [&name = name](const Pass& other) { return other.name == name; });
      ASSERT_NE(pass, Passes().end());
      ASSERT_OK_AND_ASSIGN(const Graph result, pass->run(part.graph, EagerTarget(), Folding()));
      EXPECT_OK(Verify(result));
      EXPECT_LE(Distance(expected, run(result)), tolerance) << part.name << ", " << name;
    }
  }
}

TEST_P(GoldenNetworks, KeepTheirNumbersForEveryTarget) {
  for (const NetworkPart& part : network_.parts) {
    Runs run = RunsOf(part);
    const std::vector<Buffer> expected = run(part.graph);
    for (const graph::Target& target :
         {graph::Target{}, EagerTarget(graph::Layout::kNchw), EagerTarget(graph::Layout::kNhwc)}) {
      ASSERT_OK_AND_ASSIGN(const Graph result, RunPasses(part.graph, target, Folding()));
      EXPECT_LE(Distance(expected, run(result)), kTogether) << part.name;
    }
  }
}

// Pattern of a node and its only reader that a pass should have fused, or "".
std::string PatternOf(const Graph& graph, ValueId id, const Node& reader) {
  const Node& node = graph.node(id);
  if (node.op == Op::kGroupNorm && reader.op == Op::kSilu) return graph::kGroupNormSilu;
  if (node.op == Op::kLinear && reader.op == Op::kGeglu) return graph::kLinearGeglu;
  if (node.op != Op::kLinear && node.op != Op::kConv2d) return "";
  const bool residual = reader.op == Op::kAdd &&
                        graph.node(reader.operands[0]).shape == reader.shape &&
                        graph.node(reader.operands[1]).shape == reader.shape;
  return residual || graph::IsActivation(reader.op) ? "epilogue" : "";
}

// Parts of an optimised graph that a pass should have removed.
std::vector<std::string> LeftOver(const Graph& graph) {
  std::vector<std::string> found;
  const std::vector<ValueId> readers = SoleReaders(graph);
  std::set<std::pair<ValueId, size_t>> linears;
  for (ValueId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.rate == Rate::kCheckpoint) continue;
    const std::string name = absl::StrCat(id, " ", graph::RowOf(node.op).name);
    if (readers[id] >= 0) {
      const std::string pattern = PatternOf(graph, id, graph.node(readers[id]));
      if (!pattern.empty()) found.push_back(absl::StrCat(name, ": ", pattern));
    }
    if (node.op == Op::kLinear && graph.node(node.operands[1]).rate == Rate::kCheckpoint &&
        !linears.emplace(node.operands[0], node.operands.size()).second) {
      found.push_back(absl::StrCat(name, ": another linear of the same operand"));
    }
  }
  return found;
}

TEST_P(GoldenNetworks, AreLeftWithNothingToDo) {
  for (const NetworkPart& part : network_.parts) {
    ASSERT_OK_AND_ASSIGN(const Graph once, RunPasses(part.graph, EagerTarget(), Folding()));
    EXPECT_THAT(LeftOver(once), ::testing::IsEmpty()) << part.name;
    ASSERT_OK_AND_ASSIGN(const Graph twice, RunPasses(once, EagerTarget(), Folding()));
    EXPECT_EQ(ToText(twice), ToText(once)) << part.name;
  }
}

// Counts that a network's config implies.
struct Structure {
  std::string part;
  int merged;           // queries, keys and values of self-attention: one linear
  int linear_geglu;     // one for each transformer block
  int group_norm_silu;  // two for each residual block, and the last norm
  int upsample_conv2d;
  int upsample_biases;  // moved ones; a UNet's images are joined with skipped ones, and keep theirs
  int permutes;         // at an image's way in or out
};

const std::vector<Structure>& Structures() {
  static const auto* structures = new std::vector<Structure>{
      {"unet_sdxl_base_small step", 28, 28, 35, 2, 2, 2},
      {"unet_sdxl_refiner_small step", 44, 44, 45, 3, 3, 2},
      {"unet_sd15_small step", 16, 16, 45, 3, 3, 2},
      {"unet_sd21_small step", 16, 16, 45, 3, 3, 2},
      // Layers over time move nothing, but for queries, keys, values and results of 16 attentions.
      {"unet_svd_small step", 32, 48, 89, 1, 1, 2 + 16 * 4},
      {"vae_svd_small decoded", 1, 0, 57, 3, 0, 2},
      {"vae_small moments", 1, 0, 21, 0, 0, 2},
      {"vae_small decoded", 1, 0, 29, 3, 0, 2},
      {"text_encoder_small hidden_states.0", 4, 0, 0, 0, 0, 0},
      {"text_encoder_2_small hidden_states.0", 5, 0, 0, 0, 0, 0},
  };
  return *structures;
}

int CountKind(const Graph& graph, const std::string& kind) {
  const std::vector<std::string> kinds = FusedKinds(graph);
  return static_cast<int>(std::count(kinds.begin(), kinds.end(), kind));
}

// Convolutions that are fused with the upsampling before them and have a bias.
int CountUpsampleBiases(const Graph& graph) {
  int biases = 0;
  for (ValueId id : graph.Select(Op::kFused)) {
    const Node& node = graph.node(id);
    const std::string& kind = std::get<graph::FusedAttributes>(node.attributes).kind;
    biases += kind == graph::kUpsampleConv2d && node.operands.size() == 3;
  }
  return biases;
}

// Linears whose weight is three weights, one below the other.
int CountMerged(const Graph& graph) {
  int merged = 0;
  for (ValueId id : graph.Select(Op::kLinear)) {
    const Node& weight = graph.node(graph.node(id).operands[1]);
    merged += weight.op == Op::kConcat && weight.operands.size() == 3;
  }
  return merged;
}

class GoldenStructure : public ::testing::TestWithParam<Structure> {};

INSTANTIATE_TEST_SUITE_P(Networks, GoldenStructure, ::testing::ValuesIn(Structures()),
                         [](const auto& info) {
                           std::string name = info.param.part;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

TEST_P(GoldenStructure, IsThere) {
  const Structure& expected = GetParam();
  const std::string name = expected.part.substr(0, expected.part.find(' '));
  ASSERT_OK_AND_ASSIGN(const Network network, LoadGoldenNetwork(name));
  const auto part = std::find_if(network.parts.begin(), network.parts.end(),
                                 [&](const auto& other) { return other.name == expected.part; });
  ASSERT_NE(part, network.parts.end());
  ASSERT_OK_AND_ASSIGN(const Graph result, RunPasses(part->graph, EagerTarget(), Folding()));
  EXPECT_EQ(CountMerged(result), expected.merged);
  EXPECT_EQ(CountKind(result, graph::kLinearGeglu), expected.linear_geglu);
  EXPECT_EQ(CountKind(result, graph::kGroupNormSilu), expected.group_norm_silu);
  EXPECT_EQ(CountKind(result, graph::kUpsampleConv2d), expected.upsample_conv2d);
  EXPECT_EQ(CountUpsampleBiases(result), expected.upsample_biases);
  EXPECT_EQ(Count(result, Op::kPermute), expected.permutes);
}

// How many convolutions of upsamplings the last graph of a whole network has, and how many biases.
std::pair<int, int> UpsamplesAndBiases(const std::string& network,
                                       const graph::Precision& precision) {
  const Graph whole = BuildGoldenGraphs(network).value().back();
  const Graph low = ChoosePrecision(whole, precision).value();
  const Graph result = RunPasses(SplitByRate(low)->step, EagerTarget(), Folding()).value();
  return {CountKind(result, graph::kUpsampleConv2d), CountUpsampleBiases(result)};
}

TEST(WholeSdxl, AddsNoBiasToAnUpsampledImageOfTheDecoder) {
  const std::vector<graph::Precision> precisions = {
      {}, {graph::DType::kBF16}, {graph::DType::kF16, {"network/decoder.up_blocks."}}};
  for (const graph::Precision& precision : precisions) {
    EXPECT_EQ(UpsamplesAndBiases("vae_sdxl", precision), std::pair(3, 0));
    EXPECT_EQ(UpsamplesAndBiases("unet_sdxl_base", precision), std::pair(2, 2));
    EXPECT_EQ(UpsamplesAndBiases("unet_sdxl_refiner", precision), std::pair(3, 3));
  }
}

TEST(GoldenNetworkTolerances, AreStatedForEveryPass) {
  std::set<absl::string_view> passes, stated;
  for (const Pass& pass : Passes()) passes.insert(pass.name);
  for (const Tolerance& row : kTolerances) stated.insert(row.pass);
  EXPECT_EQ(passes, stated);
}

}  // namespace
}  // namespace latentd::passes
