#include "core/compiler/compile.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/compiler/artifact.h"
#include "core/graph/text.h"
#include "core/passes/pipeline.h"

namespace latentd::compiler {
namespace {

// The first line in which the artifact's key is another one: "backend cpu, wanted backend
// reference".
std::string Difference(absl::string_view found, const GraphKey& wanted) {
  const std::string wanted_text = wanted.ToText();
  const std::vector<absl::string_view> ours = absl::StrSplit(wanted_text, '\n');
  const std::vector<absl::string_view> theirs = absl::StrSplit(found, '\n');
  for (size_t i = 0; i < ours.size() && i < theirs.size(); ++i) {
    if (ours[i] != theirs[i]) return absl::StrCat(theirs[i], ", wanted ", ours[i]);
  }
  return "a key of another form";
}

}  // namespace

absl::StatusOr<std::string> Compile(const graph::Graph& graph, const backends::Backend& backend,
                                    const CompileOptions& options) {
  const GraphKey key = KeyOf(graph, backend, options);
  ASSIGN_OR_RETURN(const graph::Graph optimised,
                   passes::RunPasses(graph, backend.target(), {.skip = options.skipped_passes}));
  ASSIGN_OR_RETURN(const std::string plan, backend.Plan(optimised));
  const std::string key_text = key.ToText();
  const std::string graph_text = graph::ToText(optimised);
  return WriteArtifact({key_text, graph_text, plan});
}

absl::StatusOr<std::unique_ptr<backends::Executable>> Load(absl::string_view artifact,
                                                           const GraphKey& key,
                                                           backends::Backend& backend,
                                                           const weights::WeightSet& weights) {
  ASSIGN_OR_RETURN(const Artifact parsed, ParseArtifact(artifact));
  if (parsed.key != key.ToText()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the artifact was made for ", Difference(parsed.key, key)));
  }
  ASSIGN_OR_RETURN(graph::Graph graph, graph::ParseText(parsed.graph));
  return backend.Load(std::make_shared<const graph::Graph>(std::move(graph)), parsed.plan, weights);
}

}  // namespace latentd::compiler
