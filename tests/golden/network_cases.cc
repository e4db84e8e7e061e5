#include "tests/golden/network_cases.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/status_macros.h"
#include "tests/golden/case_files.h"
#include "tests/golden/network_case.h"
#include "tests/golden/network_graphs.h"
#include "tests/golden/network_runner.h"

namespace latentd::golden {
namespace {

using nlohmann::json;

// The worst relative distance of the case's outputs.
absl::StatusOr<double> WorstDistance(const NamedBuffers& expected, const NamedBuffers& actual) {
  double worst = 0;
  for (const auto& [name, tensor] : expected) {
    auto found = actual.find(name);
    if (found == actual.end())
      return absl::NotFoundError(absl::StrCat("the network has no output ", name));
    ASSIGN_OR_RETURN(const double distance, Distance(tensor, found->second, Scale::kRelative));
    if (!(distance <= worst)) worst = distance;
  }
  if (expected.empty()) return absl::NotFoundError("the case has no outputs");
  return worst;
}

absl::StatusOr<double> RunCase(const json& network_case, const std::string& path,
                               backends::Backend& backend,
                               const std::set<std::string>& skip_passes) {
  ASSIGN_OR_RETURN(const NetworkCase loaded, LoadNetworkCase(network_case, path));
  NetworkRunner runner(backend, kComponent, loaded.weights,
                       {skip_passes, backends::reference::EvaluateRecipe});
  NamedBuffers outputs;
  for (const graph::Graph& graph : loaded.graphs) {
    ASSIGN_OR_RETURN(NamedBuffers of_graph, runner.Run(graph, loaded.inputs));
    outputs.merge(of_graph);
  }
  return WorstDistance(loaded.expected, outputs);
}

}  // namespace

void RunNetworkCases(const Options& options, backends::Backend& backend, Report& report) {
  const absl::StatusOr<json> cases = ReadJsonFile(options.cases + "/networks.json");
  if (!cases.ok()) return report.Failed("networks", cases.status());
  for (const json& network_case : *cases) {
    const std::string name = network_case.value("name", "");
    if (!options.Selects(name)) continue;
    if (network_case.value("full", false) && !options.full) {
      report.Skipped(name, "a whole network, which needs --full");
      continue;
    }
    const auto distance =
        RunCase(network_case, options.cases + "/networks/" + name, backend, options.skip_passes);
    if (!distance.ok()) {
      report.Failed(name, distance.status());
    } else {
      report.Measured(name, {{"of the largest value", *distance, kNetworkTolerance}});
    }
  }
}

}  // namespace latentd::golden
