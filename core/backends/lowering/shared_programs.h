// Programs that executables were loaded with, for further executables of the same graph and plan:
// those over other weights, as each set of LoRAs has, are the same kernels. A program lives as long
// as one of its executables.
//
// Thread-safe.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/plan.h"
#include "core/base/text/digest.h"
#include "core/graph/graph.h"
#include "core/graph/memory_plan.h"

namespace latentd::backends::lowering {

// `BoundProgram` is a backend's, whose kernels run with the addresses of any executable. Immutable.
template <typename BoundProgram>
struct LoadedProgram {
  std::shared_ptr<const graph::Graph> graph;  // whose constants `bound` points to
  BoundProgram bound;
  graph::MemoryPlan memory;
};

template <typename BoundProgram>
class SharedPrograms {
 public:
  using Program = std::shared_ptr<const LoadedProgram<BoundProgram>>;

  // The program of an executable of that plan and of the graph, the same object; or else what
  // `bind(graph, plan, memory)` makes, a BoundProgram or an error, and its memory plan. Threads
  // that ask at once may each bind.
  template <typename Bind>
  absl::StatusOr<Program> FindOrBind(const std::shared_ptr<const graph::Graph>& graph,
                                     const Plan& plan, const Bind& bind)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    Plan key = plan;
    key.bytes = DigestOf(plan.bytes).ToString();
    if (Program found = Find(*graph, key)) return found;
    graph::MemoryPlan memory;
    absl::StatusOr<BoundProgram> bound = bind(*graph, plan, memory);
    if (!bound.ok()) return bound.status();
    auto made = std::make_shared<const LoadedProgram<BoundProgram>>(
        LoadedProgram<BoundProgram>{graph, *std::move(bound), std::move(memory)});
    absl::MutexLock lock(&mutex_);
    entries_.push_back({std::move(key), made});
    return made;
  }

 private:
  struct Entry {
    Plan key;  // its bytes are their digest
    std::weak_ptr<const LoadedProgram<BoundProgram>> program;
  };

  // Forgets programs that are gone. Null: there is none.
  Program Find(const graph::Graph& graph, const Plan& key) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    std::erase_if(entries_, [](const Entry& entry) { return entry.program.expired(); });
    for (const Entry& entry : entries_) {
      Program program = entry.program.lock();
      if (program != nullptr && program->graph.get() == &graph && entry.key == key) return program;
    }
    return nullptr;
  }

  absl::Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::backends::lowering
