#include "core/compiler/split.h"

#include "core/base/status_macros.h"
#include "core/passes/precision.h"

namespace latentd::compiler {

absl::StatusOr<graph::SplitGraphs> SplitInPrecision(const graph::Graph& graph,
                                                    const graph::Precision& precision) {
  ASSIGN_OR_RETURN(const graph::Graph chosen, passes::ChoosePrecision(graph, precision));
  return graph::SplitByRate(chosen);
}

}  // namespace latentd::compiler
