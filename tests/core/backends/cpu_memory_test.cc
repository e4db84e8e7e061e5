// Memory that the CPU backend predicts for graphs, against the memory that they hold, on the
// networks that it is for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binding/kernel_rules.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cpu/plan.h"
#include "core/backends/lowering/lowering.h"
#include "core/base/files/files.h"
#include "core/graph/split.h"
#include "core/passes/pipeline.h"
#include "core/weights/containers/checkpoint.h"
#include "core/weights/containers/safetensors.h"
#include "core/weights/weight_store.h"
#include "tests/golden/network_graphs.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cpu {
namespace {

using graph::Graph;
using nlohmann::json;

const std::string kSource = ::latentd::testing::SourcePath("");
constexpr std::pair<int64_t, int64_t> kBuckets[] = {{32, 32}, {40, 24}, {24, 40}};

// The graphs of a network as they are compiled: split by rate, then optimised.
std::vector<std::shared_ptr<const Graph>> Optimised(const std::string& class_name,
                                                    const std::string& config,
                                                    const golden::InputShapes& inputs,
                                                    const Backend& backend) {
  std::vector<std::shared_ptr<const Graph>> optimised;
  const auto add = [&](const Graph& part) {
    absl::StatusOr<Graph> graph = passes::RunPasses(part, backend.target());
    EXPECT_OK(graph);
    if (graph.ok()) optimised.push_back(std::make_shared<const Graph>(*std::move(graph)));
  };
  absl::StatusOr<std::vector<Graph>> graphs =
      golden::BuildNetworkGraphs(class_name, config, inputs);
  EXPECT_OK(graphs);
  if (!graphs.ok()) return optimised;
  for (const Graph& graph : *graphs) {
    absl::StatusOr<graph::SplitGraphs> split = graph::SplitByRate(graph);
    EXPECT_OK(split);
    if (!split.ok()) continue;
    if (split->request) add(*split->request);
    add(split->step);
  }
  return optimised;
}

// A demo model's networks, each as the component "network" of a weight set of its own.
struct DemoNetwork {
  weights::WeightSet weights;
  std::vector<std::shared_ptr<const Graph>> graphs;
};

golden::InputShapes InputsOf(const std::string& model, const std::string& component,
                             const json& config, int64_t height, int64_t width) {
  if (component == "vae") {
    return {{"image", {1, 3, 8 * height, 8 * width}}, {"latents", {1, 4, height, width}}};
  }
  if (component != "unet") return {{"input_ids", {1, 77}}};
  const int64_t ids = model == "refiner" ? 5 : 6;
  const int64_t embedded = config["addition_time_embed_dim"];
  const int64_t all = config["projection_class_embeddings_input_dim"];
  return {{"sample", {2, 4, height, width}},
          {"timestep", {2}},
          {"encoder_hidden_states", {2, 77, config["cross_attention_dim"].get<int64_t>()}},
          {"text_embeds", {2, all - ids * embedded}},
          {"time_ids", {2, ids}}};
}

void AddDemoNetworks(const std::string& model, const Backend& backend, weights::WeightStore& store,
                     std::vector<DemoNetwork>* networks) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       weights::Checkpoint::Open({kSource + "/deploy/demo-model/" + model}));
  for (const auto& [component, named] : checkpoint.components()) {
    const bool text = absl::StartsWith(component, "text_encoder");
    if (!text && component != "unet" && component != "vae") continue;
    ASSERT_OK_AND_ASSIGN(const std::string config, checkpoint.ConfigText(component));
    ASSERT_OK_AND_ASSIGN(const weights::SourceMap sources, checkpoint.LoadWeights(component));
    DemoNetwork& network =
        networks->emplace_back(DemoNetwork{weights::WeightSet(&store, model), {}});
    network.weights.Add(golden::kComponent, sources);
    for (const auto& [height, width] : kBuckets) {
      const auto inputs = InputsOf(model, component, json::parse(config), height, width);
      for (auto& graph : Optimised(named.class_name, config, inputs, backend)) {
        network.graphs.push_back(std::move(graph));
      }
    }
  }
}

TEST(CpuMemory, OfTheDemosGraphsIsPredictedToTheByte) {
  ASSERT_OK_AND_ASSIGN(const auto backend, CpuBackend::Create());
  weights::WeightStore store(*backend);
  std::vector<DemoNetwork> networks;
  AddDemoNetworks("base", *backend, store, &networks);
  AddDemoNetworks("refiner", *backend, store, &networks);
  ASSERT_EQ(networks.size(), 7u);
  MemoryNeeds predicted;
  std::vector<std::unique_ptr<Executable>> loaded;
  size_t held = 0;
  for (const DemoNetwork& network : networks) {
    for (const auto& graph : network.graphs) {
      ASSERT_OK_AND_ASSIGN(const Plan plan, backend->MakePlan(*graph));
      ASSERT_OK_AND_ASSIGN(const MemoryNeeds needs, NeedsOf(*graph, plan, network.weights));
      ASSERT_EQ(store.bytes_held(), held) << "predicting has made a weight";
      ASSERT_OK_AND_ASSIGN(loaded.emplace_back(), backend->Load(graph, plan, network.weights));
      held = store.bytes_held();
      EXPECT_EQ(needs.arena_bytes, loaded.back()->info().arena_bytes);
      EXPECT_EQ(needs.executable_bytes, loaded.back()->info().own_bytes);
      predicted.arena_bytes = std::max(predicted.arena_bytes, needs.arena_bytes);
      predicted.weights.insert(needs.weights.begin(), needs.weights.end());
    }
  }
  EXPECT_EQ(predicted.arena_bytes, backend->arena_bytes());
  std::map<std::string, size_t> of_store;
  for (const weights::WeightInfo& result : store.List()) of_store[result.key] = result.bytes;
  EXPECT_EQ(predicted.weights, of_store);
  EXPECT_GT(held, 10'000'000u);
}

std::vector<json> GoldenNetworks() {
  const absl::StatusOr<std::string> text =
      ReadFile(kSource + "/tests/golden/networks.json", size_t{1} << 24);
  EXPECT_OK(text);
  return json::parse(text.ok() ? *text : "[]");
}

golden::InputShapes GoldenInputs(const std::string& name) {
  golden::InputShapes inputs;
  const auto tensors =
      weights::ReadSafetensors(kSource + "/tests/golden/networks/" + name + ".safetensors");
  EXPECT_OK(tensors);
  if (!tensors.ok()) return inputs;
  for (const auto& [key, tensor] : *tensors) {
    if (absl::StartsWith(key, "in.")) inputs[key.substr(3)] = tensor.data.shape();
  }
  return inputs;
}

// Times that of the values that are alive together at the worst moment.
double ArenaRatio(const Graph& graph, const Backend& backend) {
  const Machine machine = {&KernelsOfThisMachine(), 2};
  const CpuPlan plan = Decode(backend.MakePlan(graph).value().bytes).value();
  const auto choose = [&](const Program&) { return plan.algorithms; };
  const BoundProgram bound = Bind(graph, graph::ExtractRecipes(graph), choose, machine).value();
  const lowering::ArenaValues& values = bound.values;
  EXPECT_OK(lowering::CheckMemory(values, plan.memory));
  const size_t least = graph::PeakBytes(values.values);
  return least == 0 ? 1 : static_cast<double>(plan.memory.arena_bytes) / static_cast<double>(least);
}

class ArenaOfNetwork : public ::testing::TestWithParam<json> {};

TEST_P(ArenaOfNetwork, IsWithinATenthOfTheLowerBound) {
  ASSERT_OK_AND_ASSIGN(const auto backend, CpuBackend::Create({.threads = 2}));
  const std::string name = GetParam()["name"];
  const auto graphs = Optimised(GetParam()["class"].get<std::string>(), GetParam()["config"].dump(),
                                GoldenInputs(name), *backend);
  ASSERT_FALSE(graphs.empty());
  for (const auto& graph : graphs) {
    const double ratio = ArenaRatio(*graph, *backend);
    EXPECT_GE(ratio, 1);
    EXPECT_LE(ratio, 1.1);
    RecordProperty("ratio", absl::StrCat(ratio));
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, ArenaOfNetwork, ::testing::ValuesIn(GoldenNetworks()),
                         [](const auto& info) {
                           return info.param["name"].template get<std::string>();
                         });

}  // namespace
}  // namespace latentd::backends::cpu
