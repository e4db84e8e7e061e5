#include "core/passes/pipeline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/graph/verifier.h"
#include "core/passes/common_subexpressions.h"
#include "core/passes/constant_folding.h"
#include "core/passes/dead_code.h"
#include "core/passes/epilogues.h"
#include "core/passes/f8_results.h"
#include "core/passes/group_norm_silu.h"
#include "core/passes/hoist_residual.h"
#include "core/passes/image_layout.h"
#include "core/passes/linear_geglu.h"
#include "core/passes/merge_linears.h"
#include "core/passes/simplify_movement.h"
#include "core/passes/upsample_bias.h"
#include "core/passes/upsample_conv2d.h"

namespace latentd::passes {
namespace {

using PlainPass = absl::StatusOr<graph::Graph> (*)(const graph::Graph&, const graph::Target&);

// A pass that has no options.
template <PlainPass kPass>
absl::StatusOr<graph::Graph> Plain(const graph::Graph& graph, const graph::Target& target,
                                   const PassOptions&) {
  return kPass(graph, target);
}

absl::StatusOr<graph::Graph> Fold(const graph::Graph& graph, const graph::Target&,
                                  const PassOptions& options) {
  return FoldConstants(graph, options.evaluate);
}

constexpr Pass kPasses[] = {
    {"constant_folding", "folded literals can be equal, which later passes merge", Fold},
    {"simplify_movement",
     "networks written for every config have casts and reshapes that change nothing",
     Plain<SimplifyMovement>},
    {"common_subexpressions", "equal reshapes are equal only once they are simple",
     Plain<MergeCommonSubexpressions>},
    {"dead_code", "later passes test use counts, in which dead readers would count",
     Plain<RemoveDeadCode>},
    {"merge_linears", "before fusing, which hides linears in bodies", Plain<MergeLinears>},
    {"image_layout", "before fusing, since bodies are in one layout", Plain<ChooseImageLayout>},
    {"hoist_residual", "after the layout, which leaves a mere reshape between tokens and image",
     Plain<HoistResidual>},
    {"simplify_movement", "again: the two before leave reshapes of reshapes",
     Plain<SimplifyMovement>},
    {"common_subexpressions", "again, for the same reason as before",
     Plain<MergeCommonSubexpressions>},
    {"dead_code", "again, for the same reason as before", Plain<RemoveDeadCode>},
    {"upsample_bias",
     "must see an image's readers before fusion hides them; fusion takes what this leaves",
     Plain<MoveUpsampleBias>},
    {"group_norm_silu", "before epilogues, which would take its addition",
     Plain<FuseGroupNormSilu>},
    {"linear_geglu", "before epilogues, so that a linear has at most one fusion",
     Plain<FuseLinearGeglu>},
    {"f8_results",
     "once common subexpressions are one, so that operands have one reader; before epilogues, so "
     "that a linear has at most one fusion",
     Plain<FuseF8Results>},
    {"upsample_conv2d", "before epilogues, so that a convolution has at most one fusion",
     Plain<FuseUpsampleConv2d>},
    {"epilogues", "takes what is left of products", Plain<FuseEpilogues>},
};

absl::StatusOr<graph::Graph> RunOne(const Pass& pass, const graph::Graph& graph,
                                    const graph::Target& target, const PassOptions& options) {
  absl::StatusOr<graph::Graph> result = pass.run(graph, target, options);
  const absl::Status status = result.ok() ? graph::Verify(*result) : result.status();
  if (status.ok()) return result;
  return absl::InternalError(absl::StrCat("pass ", pass.name, ": ", status.message()));
}

}  // namespace

absl::Span<const Pass> Passes() { return kPasses; }

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

absl::StatusOr<graph::Graph> RunPasses(const graph::Graph& graph, const graph::Target& target,
                                       const PassOptions& options, std::vector<PassTiming>* timings,
                                       const Clock& clock) {
  RETURN_IF_ERROR(CheckNames(options.skip));
  RETURN_IF_ERROR(graph::Verify(graph));
  graph::Graph current = graph;
  for (const Pass& pass : kPasses) {
    if (options.skip.contains(std::string(pass.name))) continue;
    const absl::Time start = clock.Monotonic();
    ASSIGN_OR_RETURN(current, RunOne(pass, current, target, options));
    if (timings != nullptr) {
      timings->push_back({pass.name, clock.Monotonic() - start, current.size()});
    }
  }
  return current;
}

}  // namespace latentd::passes
