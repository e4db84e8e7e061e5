// Makes graphs ready, one at a time on the preparing thread: requests that wait for graphs of their
// own get their turn in between.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/compiler/graph_store.h"
#include "core/engine/bucket_graphs.h"
#include "core/engine/graph_admin.h"
#include "core/engine/task_thread.h"

namespace latentd::engine {

class Warming {
 public:
  // All must outlive this. Once `stop` is true nothing is begun any more.
  Warming(compiler::GraphStore& store, TaskThread& preparing, const std::atomic<bool>& stop,
          const Clock& clock)
      : store_(store), preparing_(preparing), stop_(stop), clock_(clock) {}

  using Progress = std::function<bool(const WarmProgress&)>;

  // References to one entry count as one graph, which is ready when each of them is. CANCELLED:
  // stopped, or `progress` returned false; the running compilation has finished then. REQUIRES: not
  // called on the preparing thread.
  absl::StatusOr<WarmOutcome> Run(const GraphRefs& graphs, compiler::Purpose purpose,
                                  const Progress& progress);

 private:
  using Graph = std::pair<std::string, GraphRefs>;  // by id

  WarmProgress Prepare(const Graph& graph, compiler::Purpose purpose, WarmOutcome& outcome);

  compiler::GraphStore& store_;
  TaskThread& preparing_;
  const std::atomic<bool>& stop_;
  const Clock& clock_;
};

}  // namespace latentd::engine
