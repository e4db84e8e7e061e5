// How much memory may be held, what graphs would hold together, and whether one more goes into it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/backends/backend.h"
#include "core/compiler/graph_label.h"
#include "core/engine/api/memory_report.h"
#include "core/weights/weight_store.h"

namespace latentd::engine {

// Adds up the memory of several graphs, from what each one needs: weights that they share once, the
// arena of the largest, every executable.
class MemoryTally {
 public:
  // Adds the graph with that id or name; one that was added with the same weights is the same.
  void Add(const std::string& id, const backends::MemoryNeeds& needs);
  // Adds the state of a full lane; the largest counts.
  void AddState(int64_t bytes);

  const MemoryPrediction& prediction() const { return prediction_; }

 private:
  std::set<std::string> weights_;
  std::set<std::pair<std::string, std::string>> executables_;  // ids and keys of weights
  MemoryPrediction prediction_;
};

// Asked before each load, so that what cannot fit is refused and the server goes on. Thread-safe.
class MemoryBudget {
 public:
  struct Bucket {
    std::string model;  // its model's name
    pipeline::Size size;
  };
  struct Limits {
    int64_t bytes = 0;
    std::vector<Bucket> configured;  // buckets whose needs are added up
    // Bytes of a full lane of that bucket.
    std::function<int64_t(pipeline::Size bucket, int rows)> state_bytes;
  };

  // Reserve, of available memory, for uncounted memory: connections and their requests, images
  // on their way out, plans while they are made, kernels that oneDNN caches, what malloc keeps.
  // Without it the kernel ends a server that still has room by its own count. Measured with the
  // demo model in a control group of 430 MiB, what the group uses beyond what it did when the
  // budget was taken and what `latent memory` counts: 4 MiB when the server is ready, 12 after 16
  // pictures at once, 52 after 80 sizes that were planned and refused (oneDNN's kernels), and no
  // more after 120.
  static constexpr int64_t kReserve = int64_t{64} << 20;

  // Limits::bytes where `available` is left when models are loaded, and `configured` (0: nothing).
  static int64_t BytesOf(int64_t configured, int64_t available);

  // Until then everything fits.
  void Open(Limits limits) ABSL_LOCKS_EXCLUDED(mutex_);

  // RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY: the graph, a picture of its bucket and what
  // making one weight takes for a moment do not fit beside what is held: `report`, and of it the
  // weights by key; or the machine, or a device with memory of its own, does not have that much and
  // kReserve any more: `available`.
  absl::Status Check(const compiler::GraphLabel& label, const backends::MemoryNeeds& needs,
                     absl::Span<const weights::WeightInfo> held, const MemoryReport& report,
                     int64_t available) ABSL_LOCKS_EXCLUDED(mutex_);

  // The same of a lane that takes so much beside others: no graph is loaded for it.
  absl::Status CheckLane(const compiler::GraphLabel& label, int64_t bytes,
                         const MemoryReport& report, int64_t available) ABSL_LOCKS_EXCLUDED(mutex_);

  // Bytes more of what serves no request that may be held beside `report`, and of it the weights by
  // key, and a graph that fits beside it: an eighth of the limit stays free for lanes. Below 0: so
  // many are held too many.
  int64_t SpareBeside(const compiler::GraphLabel& label, const backends::MemoryNeeds& needs,
                      absl::Span<const weights::WeightInfo> held, const MemoryReport& report,
                      int64_t available) const ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Prediction for the configured buckets that it was asked about, together; of graphs that
  // the server does without (pipeline::IsDispensable), those that fit.
  MemoryPrediction predicted() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool IsConfigured(const compiler::GraphLabel& label) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // As Check; `state`: of a picture of its bucket.
  absl::Status CheckFits(const compiler::GraphLabel& label, const backends::MemoryNeeds& needs,
                         absl::Span<const weights::WeightInfo> held, const MemoryReport& report,
                         int64_t available, int64_t state) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Bytes of a picture of the graph's bucket.
  int64_t StateOf(const compiler::GraphLabel& label) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  Limits limits_ ABSL_GUARDED_BY(mutex_);
  MemoryTally tally_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::engine
