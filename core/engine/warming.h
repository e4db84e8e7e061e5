// Makes graphs ready on the preparing thread, one after the other: requests that wait for graphs of
// their own get their turn in between.
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
#include "core/base/worker.h"
#include "core/compiler/graph_store.h"
#include "core/engine/bucket_graphs.h"
#include "core/engine/graph_admin.h"

namespace latentd::engine {

class Warming {
 public:
  // All must outlive this. Once `stop` is true nothing is begun any more.
  Warming(compiler::GraphStore& store, Worker& preparing, const std::atomic<bool>& stop,
          const Clock& clock)
      : store_(store), preparing_(preparing), stop_(stop), clock_(clock) {}

  // Called by one thread at a time; false: stop.
  using Progress = std::function<bool(const WarmProgress&)>;
  enum class Pace : uint8_t {
    kInTurns,  // with what else the preparing thread has to do, a graph at a time
    kAtOnce,  // before anything is served: on the calling thread too, so that one graph is compiled
              // or loaded while another has its first run
  };

  // References to one entry count as one graph, which is ready when each of them is. CANCELLED:
  // stopped, or `progress` returned false; INTERNAL, reason DEVICE_FAULT: the device has failed.
  // What was begun has finished then. REQUIRES: not called on the preparing thread.
  absl::StatusOr<WarmOutcome> Run(const GraphHandles& graphs, compiler::Purpose purpose, Pace pace,
                                  const Progress& progress);

 private:
  struct Round;
  using Graph = std::pair<std::string, GraphHandles>;  // by id

  const Graph* Begin(Round& round) const;  // null: nothing more
  bool PrepareNext(Round& round);          // false: likewise
  WarmProgress Prepare(const Graph& graph, const absl::StatusOr<compiler::GraphStatus>& before,
                       compiler::Purpose purpose);

  compiler::GraphStore& store_;
  Worker& preparing_;
  const std::atomic<bool>& stop_;
  const Clock& clock_;
};

}  // namespace latentd::engine
