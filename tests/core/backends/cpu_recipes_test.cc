// The weights that the CPU backend makes: those that the reference makes of the same recipes, in
// the memory that was predicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cpu/products/packing.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/graph/graph_builder.h"
#include "core/graph/recipes.h"
#include "core/graph/text.h"
#include "core/passes/pipeline.h"
#include "core/passes/precision.h"
#include "core/weights/containers/safetensors.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/core/backends/heap_requests.h"
#include "tests/golden/network_graphs.h"
#include "tests/support/on_host.h"
#include "tests/support/sanitized.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cpu {
namespace {

using device::Buffer;
using device::ConstBuffer;
using device::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::Op;
using graph::Value;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr DType kFloats[] = {DType::kF32, DType::kF16, DType::kBF16};

std::string SourceFile(const std::string& path) {
  return ::latentd::testing::SourcePath("tests/golden/" + path);
}

golden::InputShapes InputsOf(const std::string& network) {
  golden::InputShapes inputs;
  const auto tensors =
      weights::ReadSafetensors(SourceFile("networks/" + network + ".safetensors")).value();
  for (const auto& [key, tensor] : tensors) {
    if (absl::StartsWith(key, "in.")) inputs[key.substr(3)] = tensor.data.shape();
  }
  return inputs;
}

// By their text: the same ops of the same shapes are there once, and none of more elements than so
// many.
using Recipes = std::map<std::string, Graph>;
constexpr int64_t kMostElements = int64_t{1} << 17;

// As the store makes them of tensors in `stored`.
void AddRecipes(const Graph& graph, DType stored, Recipes& recipes) {
  for (const graph::Recipe& recipe : graph::ExtractRecipes(graph)) {
    if (graph::ResultOf(recipe.graph).shape.elements() > kMostElements) continue;
    std::vector<weights::Source> sources;
    for (const graph::ValueId id : recipe.graph.Select(Op::kWeight)) {
      sources.push_back(
          weights::Source::Of({Buffer::Allocate(stored, recipe.graph.node(id).shape), "made up"}));
    }
    const weights::Source composed = weights::Compose(recipe.graph, sources).value();
    recipes.emplace(graph::ToText(*composed.make), *composed.make);
  }
}

// Recipes of all networks, stored and computed in every dtype.
Recipes RecipesOfNetworks(const graph::Target& target) {
  Recipes recipes;
  const json networks = json::parse(ReadFile(SourceFile("networks.json"), size_t{1} << 24).value());
  for (const json& network : networks) {
    const auto graphs = golden::BuildNetworkGraphs(
        network["class"].get<std::string>(), network["config"].dump(), InputsOf(network["name"]));
    for (const Graph& graph : graphs.value()) {
      for (const DType computed : kFloats) {
        const Graph chosen = passes::ChoosePrecision(graph, {computed, {}}).value();
        const Graph optimised = passes::RunPasses(chosen, target).value();
        for (const DType stored : kFloats) AddRecipes(optimised, stored, recipes);
      }
    }
  }
  return recipes;
}

// Every number but NaN, whose bits may be any.
Buffer RandomBits(DType dtype, const graph::Shape& shape, std::mt19937& random) {
  Buffer buffer = Buffer::Allocate(dtype, shape);
  if (dtype == DType::kF32) {
    for (float& x : buffer.as<float>()) {
      const auto bits = static_cast<uint32_t>(random());
      std::memcpy(&x, &bits, sizeof(x));
      if (x != x) x = 0;
    }
  } else {
    const uint16_t exponent = dtype == DType::kF16 ? 0x7c00 : 0x7f80;
    for (uint16_t& x : buffer.as<uint16_t>()) {
      x = static_cast<uint16_t>(random());
      if ((x & exponent) == exponent) x &= static_cast<uint16_t>(exponent | 0x8000);  // infinite
    }
  }
  return buffer;
}

std::vector<ConstBuffer> RandomSources(const Graph& recipe) {
  std::mt19937 random(7);
  std::vector<ConstBuffer> sources;
  for (const graph::ValueId id : recipe.Select(Op::kWeight)) {
    sources.push_back(RandomBits(recipe.node(id).dtype, recipe.node(id).shape, random));
  }
  return sources;
}

absl::StatusOr<Buffer> Make(CpuBackend& backend, const Graph& recipe,
                            const std::vector<ConstBuffer>& sources, const std::string& form,
                            DType dtype, const graph::Shape& shape) {
  ASSIGN_OR_RETURN(const Buffer made,
                   backend.device().Allocate(dtype, shape, device::Place::kDevice));
  ASSIGN_OR_RETURN(const auto stream, backend.device().NewStream(SystemClock()));
  RETURN_IF_ERROR(backend.MakeWeight(recipe, sources, form, made, *stream));
  RETURN_IF_ERROR(stream->Synchronize());
  return testing::OnHost(made);
}

absl::StatusOr<Buffer> MakePlain(CpuBackend& backend, const Graph& recipe,
                                 const std::vector<ConstBuffer>& sources) {
  const graph::Node& result = recipe.node(recipe.outputs()[0].value);
  return Make(backend, recipe, sources, "", result.dtype, result.shape);
}

// True for recipes that round as their backend does: those of frames' positions, of the share of
// time in a video's layers, and of an IP-Adapter's normed queries. Golden networks and videos
// compare what they make.
bool Computes(const Graph& recipe) {
  return !recipe.Select(Op::kTimestepEmbedding).empty() || !recipe.Select(Op::kExp).empty() ||
         !recipe.Select(Op::kLayerNorm).empty();
}

TEST(CpuRecipes, OfTheNetworksAreTheReferencesToTheBit) {
  ASSERT_OK_AND_ASSIGN(const auto backend, CpuBackend::Create());
  const Recipes recipes = RecipesOfNetworks(backend->target());
  std::set<Op> ops;
  for (const auto& [text, recipe] : recipes) {
    SCOPED_TRACE(text);
    if (Computes(recipe)) continue;
    for (const graph::Node& node : recipe.nodes()) ops.insert(node.op);
    const std::vector<ConstBuffer> sources = RandomSources(recipe);
    ASSERT_OK_AND_ASSIGN(const Buffer made, MakePlain(*backend, recipe, sources));
    ASSERT_OK_AND_ASSIGN(const ConstBuffer wanted, reference::EvaluateRecipe(recipe, sources));
    ASSERT_EQ(made.bytes(), wanted.bytes());
    ASSERT_EQ(std::memcmp(made.data(), wanted.data(), made.bytes()), 0);
  }
  EXPECT_THAT(ops, ElementsAre(Op::kWeight, Op::kConstant, Op::kCast, Op::kConcat, Op::kSlice,
                               Op::kReshape));
  RecordProperty("recipes", absl::StrCat(recipes.size()));
}

Graph Built(GraphBuilder b) { return std::move(b).Build().value(); }

// As the networks have them: merged linears, a GEGLU, and convolutions, one of an upsampled image.
Graph LargeWeights(int64_t side) {
  GraphBuilder b;
  const auto input = [&](graph::Shape shape) {
    return b.Input("x", DType::kF32, std::move(shape), graph::Rate::kStep);
  };
  const graph::Conv2dAttributes conv = {.padding = {1, 1, 1, 1}, .layout = graph::Layout::kNhwc};
  const Value x = b.Conv2d(input({1, side, side, 128}), b.Weight("net/conv", {192, 128, 3, 3}),
                           graph::kNone, conv);
  const Value large = b.UpsampleNearest(x, 2 * side, 2 * side, graph::Layout::kNhwc);
  b.Output("image", b.Conv2d(large, b.Weight("net/large", {160, 192, 3, 3}), graph::kNone, conv));
  const Value tokens = b.Reshape(x, {1, side * side, 192});
  const Value merged =
      b.Concat({b.Weight("net/q", {1024, 192}), b.Weight("net/k", {1024, 192})}, 0);
  b.Output("merged", b.Linear(tokens, merged));
  const Value normed =
      b.LayerNorm(tokens, b.Weight("net/gamma", {192}), b.Weight("net/beta", {192}), 1e-5f);
  b.Output("geglu", b.Geglu(b.Linear(normed, b.Weight("net/wide", {4096, 192}))));
  b.Output("embedded", b.Embedding(b.Weight("net/table", {4096, 192}),
                                   b.Input("ids", DType::kI64, {1, 8}, graph::Rate::kStep)));
  return Built(std::move(b));
}

// Makes all weights in the graph of at least a megabyte, one after another, of tensors in `stored`:
// compares the memory that the store predicts for each and the memory that it takes. Returns their
// forms, each once.
std::set<std::string> CheckPredictedMemory(CpuBackend& backend, const Graph& graph, DType stored) {
  const Plan plan = backend.MakePlan(graph).value();
  std::map<graph::ValueId, Graph> recipes;
  for (graph::Recipe& recipe : graph::ExtractRecipes(graph))
    recipes.emplace(recipe.value, std::move(recipe.graph));
  weights::WeightStore store(backend);
  weights::WeightSet set(&store);
  weights::TensorMap tensors = testing::RandomLeaves(graph, /*seed=*/2).weights;
  std::mt19937 random(2);
  for (auto& [name, tensor] : tensors) {
    tensor.data = testing::RandomBuffer(name, stored, tensor.data.shape(), random);
  }
  set.Add("net", tensors);
  std::set<std::string> forms;
  for (const WeightNeed& need : plan.weights) {
    SCOPED_TRACE(absl::StrCat(need.form, "\n", graph::ToText(recipes.at(need.recipe))));
    const weights::WeightFormat format = {need.form, need.bytes, need.scratch_bytes};
    const auto needs = store.NeedsOf(recipes.at(need.recipe), set, format).value();
    EXPECT_EQ(needs.bytes, need.bytes);
    EXPECT_OK(store.Get(recipes.at(need.recipe), set, format));  // oneDNN keeps what it generates
    forms.insert(need.form.substr(0, need.form.find(' ')));
    if (!testing::HeapRequests::Counted()) continue;
    const testing::HeapRequests requests(1);
    EXPECT_OK(store.Get(recipes.at(need.recipe), set, format));
    const size_t predicted = needs.bytes + needs.making_bytes;
    EXPECT_LE(requests.peak(), predicted + (32 << 10));
    EXPECT_GE(requests.peak(), predicted - predicted / 20);
  }
  return forms;
}

TEST(CpuRecipes, TakeTheMemoryThatIsPredicted) {
  ASSERT_OK_AND_ASSIGN(const auto backend, CpuBackend::Create({.threads = 2}));
  std::set<std::string> forms;
  for (const DType stored : kFloats) {
    for (const DType computed : kFloats) {
      for (const int64_t side : {4, 32}) {
        const Graph chosen = passes::ChoosePrecision(LargeWeights(side), {computed, {}}).value();
        const Graph optimised = passes::RunPasses(chosen, backend->target()).value();
        forms.merge(CheckPredictedMemory(*backend, optimised, stored));
      }
    }
  }
  for (const char* kind : {"", "f32", "halves", "phases", "winograd-4x4"})
    EXPECT_TRUE(forms.contains(kind)) << kind;
  EXPECT_TRUE(forms.contains(OneDnnName()));
}

// Old files hold tensors anywhere.
TEST(CpuRecipes, ReadSourcesAtAnyAddress) {
  ASSERT_OK_AND_ASSIGN(const auto backend, CpuBackend::Create());
  const Buffer bytes = Buffer::Allocate(DType::kU8, {9});
  std::iota(bytes.as<uint8_t>().begin(), bytes.as<uint8_t>().end(), 0);
  const ConstBuffer source = ConstBuffer::Wrap(bytes.as<uint8_t>().data() + 1, DType::kF32, {2},
                                               std::make_shared<Buffer>(bytes));
  GraphBuilder bare, twice;
  bare.Output("result", bare.Weight("net/a", {2}));
  const Value a = twice.Weight("net/a", {2});
  twice.Output("result", twice.Concat({a, a}, 0));
  for (const Graph& recipe : {Built(std::move(bare)), Built(std::move(twice))}) {
    ASSERT_OK_AND_ASSIGN(const Buffer made, MakePlain(*backend, recipe, {source}));
    EXPECT_EQ(std::memcmp(made.data(), source.data(), source.bytes()), 0);
    const weights::WeightFormat plain;
    const size_t copy = recipe.size() > 1 ? source.bytes() : 0;
    EXPECT_EQ(backend->MakingBytes(recipe, {&source, 1}, plain).value(), copy);
  }
}

class CpuRecipe : public ::testing::Test {
 protected:
  absl::StatusOr<Buffer> Packed(const std::string& form, int64_t bytes) {
    GraphBuilder b;
    b.Output("result", b.Weight("net/a", {16, 16, 3, 3}));
    const Graph recipe = Built(std::move(b));
    return Make(*backend_, recipe, RandomSources(recipe), form, DType::kU8, {bytes});
  }

  const std::unique_ptr<CpuBackend> backend_ = CpuBackend::Create().value();
};

TEST_F(CpuRecipe, IsNotMadeInAFormOfAnotherMachine) {
  const std::string onednn = LayoutForm(
      "convolution", Layout(DType::kF32, {16, 16, 3, 3}, dnnl::memory::format_tag::hwio));
  ASSERT_OK(Packed(onednn, 9216));
  for (const std::string& form :
       {absl::StrReplaceAll(onednn, {{"onednn-", "onednn-1"}}), absl::StrCat("x", onednn),
        absl::StrCat(onednn, " "), absl::StrCat("halves ", onednn, " ", onednn),
        absl::StrReplaceAll(onednn, {{"16x16x3x3", "16x16x3"}}),
        absl::StrReplaceAll(onednn, {{"16x16x3x3", "16x16x3xy"}}),
        absl::StrReplaceAll(onednn, {{"f32", "i64"}}), absl::StrCat("phases ", onednn),
        std::string("winograd-4x4 another"), std::string("f16")}) {
    EXPECT_THAT(Packed(form, 9216), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("")))
        << form;
  }
}

TEST_F(CpuRecipe, IsNotMadeInMemoryOfAnotherSize) {
  const std::string layout = LayoutForm(
      "convolution", Layout(DType::kF32, {16, 16, 3, 3}, dnnl::memory::format_tag::hwio));
  const std::string smaller = LayoutForm(
      "convolution", Layout(DType::kF32, {16, 16, 2, 2}, dnnl::memory::format_tag::hwio));
  const Machine machine = {&KernelsOfThisMachine(), 1};
  for (const std::string& form :
       {std::string(), std::string("f32"), layout, smaller, absl::StrCat("halves ", layout),
        absl::StrCat("phases ", absl::StrJoin(std::vector(4, smaller), " ")),
        WinogradForm(machine)}) {
    EXPECT_THAT(Packed(form, 9216 + 64), StatusIs(absl::StatusCode::kInternal, HasSubstr("size")))
        << form;
  }
}

// More than any machine has addresses for.
TEST_F(CpuRecipe, SaysThatThereIsNoMemoryForIt) {
#if defined(LATENTD_SANITIZED)
  GTEST_SKIP() << "the sanitizer's heap ends the process instead";
#endif
  constexpr int64_t kSide = int64_t{1} << 23;
  GraphBuilder b;
  const Value product = b.Matmul(b.Weight("net/a", {kSide, 1}), b.Weight("net/b", {1, kSide}));
  b.Output("result", b.Slice(product, 0, 0, 1));
  const Graph recipe = Built(std::move(b));
  const Buffer source = Buffer::Allocate(DType::kF32, {kSide});
  const auto made = MakePlain(*backend_, recipe, {source, source});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted) << made.status();
  EXPECT_EQ(GetReason(made.status()), "OUT_OF_MEMORY");
}

}  // namespace
}  // namespace latentd::backends::cpu
