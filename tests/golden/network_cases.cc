#include "tests/golden/network_cases.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/errors/status_macros.h"
#include "tests/golden/case_files.h"
#include "tests/golden/losses.h"
#include "tests/golden/network_case.h"
#include "tests/golden/network_graphs.h"
#include "tests/golden/network_runner.h"

namespace latentd::golden {
namespace {

using nlohmann::json;

// The largest distance among the case's outputs.
absl::StatusOr<double> WorstDistance(const NamedBuffers& expected, const NamedBuffers& actual,
                                     Scale scale) {
  double worst = 0;
  for (const auto& [name, tensor] : expected) {
    auto found = actual.find(name);
    if (found == actual.end())
      return absl::NotFoundError(absl::StrCat("the network has no output ", name));
    ASSIGN_OR_RETURN(const double distance, Distance(tensor, found->second, scale));
    if (!(distance <= worst)) worst = distance;
  }
  if (expected.empty()) return absl::NotFoundError("the case has no outputs");
  return worst;
}

// fp8 is of UNets, of which every linear that can be is of 8 bits then, and in fp8_all every
// convolution of a residual block.
graph::Precision PrecisionOf(const json& network_case, const Options& options) {
  if (options.precision != device::DType::kF8E4M3) return {options.precision};
  if (network_case.value("class", "") != "UNet2DConditionModel") return {device::DType::kBF16};
  graph::Precision f8{device::DType::kBF16, {}, {"*"}};
  if (options.f8_convolutions) f8.f8_convolutions = {"*.conv1.weight", "*.conv2.weight"};
  return f8;
}

absl::StatusOr<double> RunCase(const json& network_case, const std::string& path,
                               backends::Backend& backend, const Options& options) {
  ASSIGN_OR_RETURN(const NetworkCase loaded, LoadNetworkCase(network_case, path));
  NetworkRunner runner(backend, kComponent, loaded.weights,
                       {options.skip_passes, backends::reference::EvaluateRecipe});
  NamedBuffers outputs;
  for (const graph::Graph& graph : loaded.graphs) {
    ASSIGN_OR_RETURN(NamedBuffers of_graph,
                     runner.Run(graph, PrecisionOf(network_case, options), loaded.inputs));
    outputs.merge(of_graph);
  }
  const bool exact = options.IsExact();
  return WorstDistance(loaded.expected, outputs, exact ? Scale::kRelative : Scale::kRootMeanSquare);
}

// How near the case has to be; nothing where that is not known.
absl::StatusOr<std::optional<double>> ToleranceOf(const std::string& name, const Options& options) {
  if (options.IsExact()) return kNetworkTolerance;
  ASSIGN_OR_RETURN(const Losses losses, Losses::Read(options));
  const std::optional<double> loss = losses.Of(name, "outputs");
  return loss ? std::optional(*loss * kNetworkLossFactor) : std::nullopt;
}

void RunAndReport(const json& network_case, const std::string& name, backends::Backend& backend,
                  const Options& options, Report& report) {
  const absl::StatusOr<std::optional<double>> tolerance = ToleranceOf(name, options);
  if (!tolerance.ok()) return report.Failed(name, tolerance.status());
  if (!*tolerance) return report.Skipped(name, "diffusers' own loss is not known");
  const auto distance =
      RunCase(network_case, options.cases + "/networks/" + name, backend, options);
  if (!distance.ok()) return report.Failed(name, distance.status());
  const bool exact = options.IsExact();
  report.Measured(name,
                  {{exact ? "of the largest value" : "root mean square", *distance, **tolerance}});
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
    RunAndReport(network_case, name, backend, options, report);
  }
}

}  // namespace latentd::golden
