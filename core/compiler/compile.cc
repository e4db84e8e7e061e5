#include "core/compiler/compile.h"

#include <memory>
#include <utility>

#include "core/base/errors/status_macros.h"
#include "core/passes/f8_sites.h"
#include "core/passes/pipeline.h"
#include "core/passes/precision.h"

namespace latentd::compiler {

absl::StatusOr<graph::SplitGraphs> SplitInPrecision(const graph::Graph& graph,
                                                    const graph::Precision& precision) {
  ASSIGN_OR_RETURN(const graph::Graph chosen, passes::ChoosePrecision(graph, precision));
  ASSIGN_OR_RETURN(const graph::Graph quantized, passes::QuantizeProducts(chosen, precision));
  return graph::SplitByRate(quantized);
}

absl::StatusOr<ArtifactPointer> Compile(const GraphKey& key, const GraphLabel& label,
                                        const graph::Graph& graph, const backends::Backend& backend,
                                        const CompileOptions& options, const Clock& clock) {
  const absl::Time begin = clock.Monotonic();
  ASSIGN_OR_RETURN(graph::Graph optimised, passes::RunPasses(graph, backend.target(),
                                                             {.skip = options.skipped_passes,
                                                              .evaluate = options.evaluate}));
  ASSIGN_OR_RETURN(backends::Plan plan, backend.MakePlan(optimised));
  return std::make_shared<const Artifact>(
      Artifact{key, label, std::make_shared<const graph::Graph>(std::move(optimised)),
               std::move(plan), clock.Monotonic() - begin});
}

absl::Status CheckOptions(const CompileOptions& options) {
  return passes::CheckNames(options.skipped_passes);
}

}  // namespace latentd::compiler
