// Step graphs of more rows than a picture has by itself, for pictures to share: made ready on the
// preparing thread while the server serves, the fewest rows first, a graph at a time and in turns
// with what else that thread has to do. Pictures that begin later find them.
//
// No graph is evicted for them: where one would have to be, the new one is left out, and
// pictures share fewer rows.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/worker.h"
#include "core/compiler/graph_store.h"
#include "core/engine/bucket_graphs.h"
#include "core/engine/engine.h"
#include "core/engine/kept_memory.h"
#include "core/engine/status_board.h"

namespace latentd::engine {

class SharedStepGraphs {
 public:
  // All must outlive this, and `preparing` have stopped before it goes.
  struct Parts {
    const Config& config;
    const Models& models;
    compiler::GraphStore& graphs;
    StatusBoard& board;
    KeptMemory& kept;
    Worker& preparing;
    const Clock& clock;
    const std::atomic<bool>& stop;  // nothing is begun any more
  };
  explicit SharedStepGraphs(Parts parts) : parts_(parts) {}

  // Prepares graphs of configured, ready buckets: the rest of the start, which may compile where
  // the start may, in strict mode too. The status says what came of it, when the device has given
  // back what their first runs took. Call once, when the server serves.
  void Begin() ABSL_LOCKS_EXCLUDED(mutex_);
  // Until all that Begin has begun is through, or stopped.
  void Wait() ABSL_LOCKS_EXCLUDED(mutex_);

  // Pictures of that size have begun without some, or without what would draw their previews: what
  // was evicted is loaded, and nothing compiled. Looks for it once a minute at most, however often
  // this is called.
  void LoadAgain(pipeline::Size bucket) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Round;
  using RoundPointer = std::shared_ptr<Round>;

  bool MayLookAt(pipeline::Size bucket) ABSL_LOCKS_EXCLUDED(mutex_);
  void Start(const RoundPointer& round);

  // On the preparing thread; false: there is nothing more.
  void TakeTurn(const RoundPointer& round);
  bool DeclareNext(Round& round);
  bool TryNext(Round& round);
  absl::Status Try(Round& round, const compiler::GraphHandle& graph);
  bool CanBeLoaded(const compiler::GraphHandle& graph) const;
  void End(const Round& round) ABSL_LOCKS_EXCLUDED(mutex_);
  void Tell(const Round& round);

  const Parts parts_;
  absl::Mutex mutex_;
  bool begin_is_over_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<std::string, absl::Time> next_look_ ABSL_GUARDED_BY(mutex_);  // by bucket
};

}  // namespace latentd::engine
