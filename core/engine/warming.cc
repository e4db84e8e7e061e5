#include "core/engine/warming.h"

#include <algorithm>

#include "core/base/out_of_memory.h"

namespace latentd::engine {
namespace {

using compiler::Allow;
using compiler::GraphStore;

std::vector<std::pair<std::string, GraphRefs>> ById(const GraphRefs& graphs) {
  std::vector<std::pair<std::string, GraphRefs>> groups;
  for (const GraphStore::GraphRef& graph : graphs) {
    const std::string id = GraphStore::IdOf(graph);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& other) { return other.first == id; });
    if (group == groups.end()) group = groups.insert(groups.end(), {id, {}});
    group->second.push_back(graph);
  }
  return groups;
}

}  // namespace

absl::StatusOr<WarmOutcome> Warming::Run(const GraphRefs& graphs, compiler::Purpose purpose,
                                         const Progress& progress) {
  const std::vector<Graph> all = ById(graphs);
  WarmOutcome outcome;
  bool go_on = true;
  for (size_t i = 0; i < all.size() && go_on; ++i) {
    preparing_.Run([&] {
      if (stop_) {
        go_on = false;
        return;
      }
      WarmProgress done = Prepare(all[i], purpose, outcome);
      done.done = static_cast<int>(i) + 1;
      done.total = static_cast<int>(all.size());
      go_on = progress(done);
    });
  }
  if (!go_on) return absl::CancelledError("stopped while preparing graphs");
  return outcome;
}

WarmProgress Warming::Prepare(const Graph& graph, compiler::Purpose purpose, WarmOutcome& outcome) {
  const absl::Time begin = clock_.Monotonic();
  const int64_t compilations = store_.totals().compilations;
  const absl::StatusOr<compiler::GraphInfo> before = store_.Find(graph.first);
  WarmProgress done;
  done.entry.id = graph.first;
  if (before.ok()) {
    done.entry.component = before->label.component;
    done.entry.bucket = {before->label.width, before->label.height};
    const bool again = before->state == compiler::GraphState::kFailed;
    if (again && purpose.allow == Allow::kRetry) purpose.reason = "retry";
  }
  for (const GraphStore::GraphRef& use : graph.second) {
    done.entry.status.Update(CatchOutOfMemory([&] { return store_.Get(use, purpose).status(); }));
  }
  done.duration = clock_.Monotonic() - begin;
  done.compiled = store_.totals().compilations > compilations;
  const bool was_ready = before.ok() && before->state == compiler::GraphState::kReady;
  int& count = !done.entry.status.ok() ? outcome.failed
               : done.compiled         ? outcome.compiled
               : was_ready             ? outcome.ready_before
                                       : outcome.loaded;
  ++count;
  return done;
}

}  // namespace latentd::engine
