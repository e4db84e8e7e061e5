#include "core/engine/warming.h"

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/device/device_fault.h"

namespace latentd::engine {
namespace {

using compiler::GetMode;
using compiler::GraphStore;

absl::Status Cancelled() { return absl::CancelledError("stopped while preparing graphs"); }

// Each reference once.
std::vector<std::pair<std::string, GraphHandles>> ById(const GraphHandles& graphs) {
  std::vector<std::pair<std::string, GraphHandles>> groups;
  for (const compiler::GraphHandle& graph : graphs) {
    const std::string id = GraphStore::IdOf(graph);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& other) { return other.first == id; });
    if (group == groups.end()) group = groups.insert(groups.end(), {id, {}});
    GraphHandles& uses = group->second;
    if (std::find(uses.begin(), uses.end(), graph) == uses.end()) uses.push_back(graph);
  }
  return groups;
}

}  // namespace

struct Warming::Round {
  std::vector<Graph> graphs;
  compiler::Purpose purpose;
  const Progress& progress;
  absl::Mutex mutex;
  size_t begun ABSL_GUARDED_BY(mutex) = 0;
  int done ABSL_GUARDED_BY(mutex) = 0;
  absl::Status stopped ABSL_GUARDED_BY(mutex);  // why nothing more is begun
  WarmOutcome outcome ABSL_GUARDED_BY(mutex);
};

absl::StatusOr<WarmOutcome> Warming::Run(const GraphHandles& graphs, compiler::Purpose purpose,
                                         Pace pace, const Progress& progress) {
  Round round{.graphs = ById(graphs), .purpose = purpose, .progress = progress};
  if (pace == Pace::kAtOnce) {
    absl::Notification others_done;
    preparing_.Add([&] {
      while (PrepareNext(round)) continue;
      others_done.Notify();
    });
    while (PrepareNext(round)) continue;
    others_done.WaitForNotification();
  } else {
    for (bool more = true; more;) preparing_.Run([&] { more = PrepareNext(round); });
  }
  absl::MutexLock lock(&round.mutex);
  RETURN_IF_ERROR(round.stopped);
  return round.outcome;
}

const Warming::Graph* Warming::Begin(Round& round) const {
  absl::MutexLock lock(&round.mutex);
  if (round.begun == round.graphs.size()) return nullptr;
  if (stop_) round.stopped.Update(Cancelled());
  return round.stopped.ok() ? &round.graphs[round.begun++] : nullptr;
}

bool Warming::PrepareNext(Round& round) {
  const Graph* graph = Begin(round);
  if (graph == nullptr) return false;
  const absl::StatusOr<compiler::GraphStatus> before = store_.Find(graph->first);
  WarmProgress done = Prepare(*graph, before, round.purpose);
  const bool was_ready = before.ok() && before->state == compiler::GraphState::kReady;
  absl::MutexLock lock(&round.mutex);
  int& count = !done.entry.status.ok() ? round.outcome.failed
               : done.compiled         ? round.outcome.compiled
               : was_ready             ? round.outcome.ready_before
                                       : round.outcome.loaded;
  ++count;
  if (device::IsFault(done.entry.status)) round.stopped.Update(done.entry.status);
  done.done = ++round.done;
  done.total = static_cast<int>(round.graphs.size());
  if (!round.progress(done)) round.stopped.Update(Cancelled());
  return round.stopped.ok();
}

WarmProgress Warming::Prepare(const Graph& graph,
                              const absl::StatusOr<compiler::GraphStatus>& before,
                              compiler::Purpose purpose) {
  const absl::Time begin = clock_.Monotonic();
  WarmProgress done;
  done.entry.id = graph.first;
  if (before.ok()) {
    done.entry.component = before->label.component;
    done.entry.bucket = {before->label.width, before->label.height};
    const bool again = before->state == compiler::GraphState::kFailed;
    if (again && purpose.mode == GetMode::kRetry) purpose.reason = compiler::Reason::kRetry;
  }
  for (const compiler::GraphHandle& use : graph.second) {
    done.entry.status.Update(CatchOutOfMemory([&] { return store_.Get(use, purpose).status(); }));
  }
  done.duration = clock_.Monotonic() - begin;
  const absl::StatusOr<compiler::GraphStatus> after = store_.Find(graph.first);
  done.compiled = before.ok() && after.ok() && after->compilations > before->compilations;
  return done;
}

}  // namespace latentd::engine
