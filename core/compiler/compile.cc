#include "core/compiler/compile.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/compiler/artifact.h"
#include "core/graph/text.h"
#include "core/passes/pipeline.h"

namespace latentd::compiler {
namespace {

using graph::Graph;

// One line for each input and output.
std::string PortsOf(const Graph& graph) {
  std::string text;
  const auto append = [&](absl::string_view what, absl::string_view name, graph::ValueId id) {
    const graph::Node& node = graph.node(id);
    absl::StrAppend(&text, what, " \"", name, "\" ", device::Name(node.dtype),
                    node.shape.ToString(), "\n");
  };
  for (const graph::ValueId id : graph.Select(graph::Op::kInput)) {
    append("input", graph.node(id).name, id);
  }
  for (const graph::Output& output : graph.outputs()) append("output", output.name, output.value);
  return text;
}

}  // namespace

absl::StatusOr<CompiledGraph> Compile(const Graph& graph, const backends::Backend& backend,
                                      const CompileOptions& options) {
  ASSIGN_OR_RETURN(Graph optimised, passes::RunPasses(graph, backend.target(),
                                                      {.skip = options.skipped_passes,
                                                       .evaluate = options.evaluate}));
  ASSIGN_OR_RETURN(std::string plan, backend.Plan(optimised));
  return CompiledGraph{std::make_shared<const Graph>(std::move(optimised)), std::move(plan)};
}

std::string Seal(const CompiledGraph& compiled, const GraphKey& key, const GraphLabel& label,
                 absl::Duration compile_time) {
  const std::string key_text = key.ToText();
  const std::string label_text = label.ToText();
  const std::string graph_text = graph::ToText(*compiled.graph);
  return WriteArtifact({key_text, label_text, graph_text, compiled.plan, compile_time});
}

absl::StatusOr<CompiledGraph> Open(absl::string_view artifact, const GraphKey& key) {
  ASSIGN_OR_RETURN(const Artifact parsed, ParseArtifact(artifact));
  if (parsed.key != key.ToText()) {
    return absl::FailedPreconditionError(
        absl::StrCat("it was made for ", Difference(parsed.key, key)));
  }
  absl::StatusOr<Graph> graph = graph::ParseText(parsed.graph);
  if (!graph.ok()) {
    return absl::DataLossError(absl::StrCat("artifact: its graph: ", graph.status().message()));
  }
  return CompiledGraph{std::make_shared<const Graph>(*std::move(graph)), std::string(parsed.plan)};
}

absl::Status CheckSamePorts(const Graph& declared, const Graph& optimised) {
  if (PortsOf(declared) != PortsOf(optimised)) {
    return absl::DataLossError("artifact: its graph has other inputs or outputs than it should");
  }
  absl::flat_hash_set<absl::string_view> weights;
  for (const graph::ValueId id : declared.Select(graph::Op::kWeight)) {
    weights.insert(declared.node(id).name);
  }
  for (const graph::ValueId id : optimised.Select(graph::Op::kWeight)) {
    const std::string& name = optimised.node(id).name;
    if (weights.contains(name)) continue;
    return absl::DataLossError(absl::StrCat("artifact: its graph reads another weight: ", name));
  }
  return absl::OkStatus();
}

}  // namespace latentd::compiler
