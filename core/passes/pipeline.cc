#include "core/passes/pipeline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/graph/verifier.h"
#include "core/passes/common_subexpressions.h"
#include "core/passes/dead_code.h"
#include "core/passes/epilogues.h"
#include "core/passes/group_norm_silu.h"
#include "core/passes/hoist_residual.h"
#include "core/passes/image_layout.h"
#include "core/passes/linear_geglu.h"
#include "core/passes/merge_linears.h"
#include "core/passes/simplify_movement.h"

namespace latentd::passes {
namespace {

constexpr Pass kPasses[] = {
    {"simplify_movement",
     "networks written for every config leave casts and reshapes to themselves", SimplifyMovement},
    {"common_subexpressions", "equal reshapes are equal only once they are simple",
     MergeCommonSubexpressions},
    {"dead_code", "what follows asks who reads a value, and must not count the dead",
     RemoveDeadCode},
    {"merge_linears", "before fusing, which hides linears in bodies", MergeLinears},
    {"image_layout", "before fusing, since bodies are in one layout", ChooseImageLayout},
    {"hoist_residual", "after the layout, which leaves a mere reshape between tokens and image",
     HoistResidual},
    {"simplify_movement", "again: the two before leave reshapes of reshapes", SimplifyMovement},
    {"common_subexpressions", "again, for the same reason as before", MergeCommonSubexpressions},
    {"dead_code", "again, for the same reason as before", RemoveDeadCode},
    {"group_norm_silu", "before epilogues, which would take its addition", FuseGroupNormSilu},
    {"linear_geglu", "before epilogues, so that a linear has at most one fusion", FuseLinearGeglu},
    {"epilogues", "takes what is left of products", FuseEpilogues},
};

absl::Status CheckNames(const std::set<std::string>& skip) {
  for (const std::string& name : skip) {
    const auto named = [&name](const Pass& pass) { return pass.name == name; };
    if (std::any_of(std::begin(kPasses), std::end(kPasses), named)) continue;
    const auto append = [](std::string* out, const Pass& pass) { absl::StrAppend(out, pass.name); };
    return absl::InvalidArgumentError(
        absl::StrCat("no pass is named \"", Excerpt(name),
                     "\"; there are: ", absl::StrJoin(kPasses, ", ", append)));
  }
  return absl::OkStatus();
}

absl::StatusOr<graph::Graph> RunOne(const Pass& pass, const graph::Graph& graph,
                                    const graph::Target& target) {
  absl::StatusOr<graph::Graph> result = pass.run(graph, target);
  const absl::Status status = result.ok() ? graph::Verify(*result) : result.status();
  if (status.ok()) return result;
  return absl::InternalError(absl::StrCat("pass ", pass.name, ": ", status.message()));
}

}  // namespace

absl::Span<const Pass> Passes() { return kPasses; }

absl::StatusOr<graph::Graph> RunPasses(const graph::Graph& graph, const graph::Target& target,
                                       const PassOptions& options, std::vector<PassTiming>* timings,
                                       const Clock& clock) {
  RETURN_IF_ERROR(CheckNames(options.skip));
  RETURN_IF_ERROR(graph::Verify(graph));
  graph::Graph current = graph;
  for (const Pass& pass : kPasses) {
    if (options.skip.contains(std::string(pass.name))) continue;
    const absl::Time start = clock.Monotonic();
    ASSIGN_OR_RETURN(current, RunOne(pass, current, target));
    if (timings != nullptr) {
      timings->push_back({pass.name, clock.Monotonic() - start, current.size()});
    }
  }
  return current;
}

}  // namespace latentd::passes
