// Keeps what was compiled: artifacts as bytes by GraphKey, executables by GraphKey and weight set.
// One compilation per key, however many ask at once.
//
// Bounded: beyond the limits the least recently used leave; an executable that somebody still holds
// lives on until it is let go. Thread-safe. Compiling and loading run on the thread that asks
// first; others that want the same wait for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/backends/backend.h"
#include "core/base/clock.h"
#include "core/compiler/graph_key.h"
#include "core/weights/weight_set.h"

namespace latentd::compiler {

struct GraphStoreLimits {
  size_t executables = 64;
  size_t artifact_bytes = size_t{256} << 20;
};

struct GraphStoreCounts {
  int64_t compilations = 0;
  int64_t loads = 0;
  int64_t hits = 0;  // an executable was there
  absl::Duration compile_time;
  absl::Duration load_time;
};

class GraphStore {
 public:
  // `backend` and `clock` must outlive the store.
  GraphStore(backends::Backend& backend, const Clock& clock, GraphStoreLimits limits = {},
             CompileOptions options = {})
      : backend_(backend), clock_(clock), limits_(limits), options_(std::move(options)) {}

  // The executable of `graph` over `weights`, which it keeps alive. A failure is not remembered:
  // who asks later tries again.
  absl::StatusOr<std::shared_ptr<backends::Executable>> GetOrLoad(
      const graph::Graph& graph, std::shared_ptr<const weights::WeightSet> weights)
      ABSL_LOCKS_EXCLUDED(mutex_);

  GraphStoreCounts counts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The weight set's address tells sets apart: an entry keeps its set alive, so that no other gets
  // the address.
  using ExecutableKey = std::pair<Digest, const weights::WeightSet*>;
  struct Held {
    ExecutableKey key;
    std::shared_ptr<backends::Executable> executable;
    std::shared_ptr<const weights::WeightSet> weights;
  };
  struct Kept {
    Digest key;
    std::shared_ptr<const std::string> bytes;
  };

  // The executable, waiting for a thread that makes it; null: this thread is to make it.
  std::shared_ptr<backends::Executable> FindOrBegin(const ExecutableKey& key)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<backends::Executable>> Make(const graph::Graph& graph,
                                                             const GraphKey& key,
                                                             const weights::WeightSet& weights);
  std::shared_ptr<const std::string> FindOrBeginArtifact(const Digest& key)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<const std::string>> GetOrCompile(const graph::Graph& graph,
                                                                  const GraphKey& key)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // What leaves for it.
  std::list<Held> Hold(Held held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(Kept kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  backends::Backend& backend_;
  const Clock& clock_;
  const GraphStoreLimits limits_;
  const CompileOptions options_;

  mutable absl::Mutex mutex_;
  // Most recently used first.
  std::list<Held> held_ ABSL_GUARDED_BY(mutex_);
  std::list<Kept> kept_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<ExecutableKey, std::list<Held>::iterator> executables_
      ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Digest, std::list<Kept>::iterator> artifacts_ ABSL_GUARDED_BY(mutex_);
  size_t artifact_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Somebody compiles the first, or loads the second, at this moment.
  absl::flat_hash_set<Digest> compiling_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<ExecutableKey> loading_ ABSL_GUARDED_BY(mutex_);
  GraphStoreCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::compiler
