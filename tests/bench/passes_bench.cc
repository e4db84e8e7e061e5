// The time of each pass, verification included, and the number of nodes that it leaves:
//
//   passes_bench                 the demo model's UNet and decoder, and the whole SDXL networks
//   passes_bench unet_sd15_small   one network of tests/golden/networks.json
//
// Built with the tests, run only by hand.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/files/files.h"
#include "core/graph/split.h"
#include "core/graph/text.h"
#include "core/passes/pipeline.h"
#include "core/weights/containers/safetensors.h"
#include "tests/golden/case_files.h"
#include "tests/golden/network_graphs.h"
#include "tests/support/source_directory.h"

namespace latentd {
namespace {

using graph::Graph;
using nlohmann::json;
using passes::PassTiming;

constexpr int kRepetitions = 5;
const std::string kCases = ::latentd::testing::SourcePath("tests/golden");
const std::string kDemo = ::latentd::testing::SourcePath("deploy/demo-model/base/");

// The least time of each pass.
void Print(const std::string& name, const Graph& graph, const graph::Target& target) {
  const passes::PassOptions options{.evaluate = backends::reference::EvaluateRecipe};
  std::vector<PassTiming> least;
  for (int i = 0; i < kRepetitions; ++i) {
    std::vector<PassTiming> timings;
    if (!RunPasses(graph, target, options, &timings).ok()) return;
    if (least.empty()) least = timings;
    for (size_t pass = 0; pass < timings.size(); ++pass) {
      least[pass].duration = std::min(least[pass].duration, timings[pass].duration);
    }
  }
  std::printf("%s: %d nodes, %zu bytes of text\n", name.c_str(), graph.size(),
              graph::ToText(graph).size());
  absl::Duration sum;
  for (const PassTiming& timing : least) {
    sum += timing.duration;
    std::printf("  %-24s %8.2f ms  %6d nodes\n", std::string(timing.name).c_str(),
                absl::ToDoubleMilliseconds(timing.duration), timing.nodes);
  }
  std::printf("  %-24s %8.2f ms\n", "in all", absl::ToDoubleMilliseconds(sum));
}

void PrintNetwork(const std::string& name, const std::string& class_name, const std::string& config,
                  const golden::InputShapes& shapes, const graph::Target& target) {
  const auto graphs = golden::BuildNetworkGraphs(class_name, config, shapes);
  if (!graphs.ok()) return;
  for (const Graph& graph : *graphs) {
    const auto split = graph::SplitByRate(graph);
    if (!split.ok()) return;
    const std::string output = " " + graph.outputs()[0].name;
    if (split->request) Print(name + output + ", request", *split->request, target);
    Print(name + output + ", step", split->step, target);
  }
}

void PrintCase(const json& network_case, const graph::Target& target) {
  const std::string name = network_case.value("name", "");
  const auto tensors =
      weights::ReadSafetensors(absl::StrCat(kCases, "/networks/", name, ".safetensors"));
  if (!tensors.ok()) return;
  golden::InputShapes shapes;
  for (const auto& [tensor, stored] : *tensors) {
    if (absl::StartsWith(tensor, "in.")) shapes[tensor.substr(3)] = stored.data.shape();
  }
  PrintNetwork(name, network_case.value("class", ""), network_case["config"].dump(), shapes,
               target);
}

// As it is served: two rows of 256x256.
void PrintDemo(const graph::Target& target) {
  for (const auto& [folder, class_name] :
       {std::pair{"unet", "UNet2DConditionModel"}, std::pair{"vae", "AutoencoderKL"}}) {
    const auto config = ReadFile(absl::StrCat(kDemo, folder, "/config.json"), 1 << 20);
    if (!config.ok()) return;
    PrintNetwork(absl::StrCat("demo ", folder), class_name, *config,
                 {{"sample", {2, 4, 32, 32}},
                  {"timestep", {2}},
                  {"encoder_hidden_states", {2, 77, 160}},
                  {"text_embeds", {2, 96}},
                  {"time_ids", {2, 6}},
                  {"latents", {1, 4, 32, 32}},
                  {"image", {1, 3, 256, 256}}},
                 target);
  }
}

}  // namespace
}  // namespace latentd

int main(int argc, char** argv) {
  const auto backend = latentd::backends::cpu::CpuBackend::Create().value();
  const auto cases = latentd::golden::ReadJsonFile(absl::StrCat(latentd::kCases, "/networks.json"));
  if (!cases.ok()) return 1;
  if (argc == 1) latentd::PrintDemo(backend->target());
  for (const auto& network_case : *cases) {
    const bool wanted =
        argc > 1 ? network_case.value("name", "") == argv[1] : network_case.value("full", false);
    if (wanted) latentd::PrintCase(network_case, backend->target());
  }
}
