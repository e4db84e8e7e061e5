// Step graphs of more rows than an image has by itself, for images to share, and of steps that two
// devices share: made ready while the server serves, these and the fewest rows first. Images that
// begin later find them.
//
// No graph is evicted for them: where one would have to be, the new one is left out, and images
// share fewer rows.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/compiler/graph_store.h"
#include "core/engine/api/config.h"
#include "core/engine/models/bucket_graphs.h"
#include "core/engine/prepare/kept_memory.h"
#include "core/engine/prepare/preparer.h"
#include "core/engine/reports/status_board.h"

namespace latentd::engine {

class SharedStepGraphs {
 public:
  // All must outlive this, and the preparer have stopped before it goes.
  struct Parts {
    const Config& config;
    const Models& models;
    compiler::GraphStore& graphs;
    DeviceStatus& status;
    KeptMemory& kept;
    Preparer& preparer;
    const Clock& clock;
    const std::atomic<bool>& stop;  // the status says no more of them
  };
  explicit SharedStepGraphs(Parts parts) : parts_(parts) {}

  // Orders graphs of configured, ready buckets: the rest of
  // the start, which may compile where the
  // start may, in strict mode too. The status reports the outcome, when the device has given back
  // what their first runs took. Call once, when the server serves.
  void Begin();

  // Images of that bucket have begun without some, or without what would draw their previews: what
  // was evicted is loaded, and nothing compiled; of a model that is loaded on demand also what
  // other requests of the bucket need. Looks for it once a minute at most, however often this is
  // called.
  void LoadAgain(const ModelBucket& bucket) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Shapes = std::vector<std::pair<int, ModelBucket>>;  // with their rows

  // Steps that are loaded; of models on demand; and of pictures with ControlNets or IP-Adapters,
  // which come with the first of these.
  enum class Steps : uint8_t { kLoaded, kCompiled, kControlled };

  void Submit(Shapes shapes, Steps steps);
  bool MayLookAt(const ModelBucket& bucket) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds to an order the steps of so many rows, or graphs of previews, and of a model that is
  // loaded on demand those of other requests, or of steps that two devices share; `evicted`: only
  // those that can be loaded and are not.
  Preparer::Task Declare(const ModelBucket& bucket, int rows, bool evicted) const;
  Preparer::Task DeclareControlled(const ModelBucket& bucket, int rows) const;
  bool CanBeLoaded(const compiler::GraphHandle& graph) const;
  void End(const Preparer::Ended& ended);
  void Warn(const std::vector<std::string>& reasons) const;

  const Parts parts_;
  std::atomic<bool> start_is_over_ = false;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, absl::Time> next_look_ ABSL_GUARDED_BY(mutex_);  // by bucket
};

}  // namespace latentd::engine
