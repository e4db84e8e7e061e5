// Decides whether a request is taken: what it asks for once every default is filled in, and, where
// its graphs are not ready, whether they may be made so. What room there is in the queue is
// batching's to say (core/batching/queue.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/compiler/graph_store.h"
#include "core/engine/api/config.h"
#include "core/engine/api/generate_spec.h"
#include "core/engine/models/bucket_graphs.h"
#include "core/engine/models/memory_budget.h"
#include "core/pipeline/plan/plan.h"

namespace latentd::engine {

// Time that the loading of graphs takes, as long as it took the last time.
struct LoadTime {
  absl::Duration time;
  bool known = true;  // else some were never loaded, or would have to be compiled: it takes more
  GraphHandles counted = {};  // each once: they are loaded one after the other
};

// Room for images whose graphs found no memory.
enum class Room : uint8_t {
  kNone,       // too little, whatever leaves that may
  kOnceDrawn,  // enough when the images that are being drawn are gone
  kNow,        // enough, by what is counted
};

// True if the graph store refused to compile.
bool IsCold(const absl::Status& status);

// Images whose graphs need more memory than the server may hold at all, as planning them has
// shown: what is as large or larger is refused before anything is built for it.
//
// Thread-safe.
class RefusedSizes {
 public:
  static constexpr size_t kMost = 256;  // beyond, the oldest is forgotten
  using Graphs = std::vector<pipeline::PlannedGraph>;

  // `grows`: larger images need no less. Not so where large ones are decoded in tiles.
  explicit RefusedSizes(bool grows) : grows_(grows) {}

  struct Refusal {
    Graphs graphs;
    int64_t bytes = 0;
    int chunk = 0;  // frames that a video could be decoded in at a time; 0: none is known
  };

  // `bytes`: that images with such graphs need at least.
  void Add(const Graphs& graphs, int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the chunk of those with just these graphs.
  void SetChunk(const Graphs& graphs, int chunk) ABSL_LOCKS_EXCLUDED(mutex_);
  // One that was refused, which needs no more than these.
  std::optional<Refusal> Find(const Graphs& graphs) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const bool grows_;
  mutable absl::Mutex mutex_;
  std::deque<Refusal> refusals_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe. REQUIRES: the models are there.
class Admission {
 public:
  // All must outlive this.
  Admission(const Config& config, const Models& models, compiler::GraphStore& store,
            const MemoryBudget& budget);

  // The plan of the request, with the bucket chosen. INVALID_ARGUMENT with every bad field, of the
  // rest of `spec` too; what batching::Buckets::Choose says, and what else may be done with such a
  // size, reason NO_SUCH_BUCKET.
  absl::StatusOr<pipeline::SharedPlan> Resolve(const GenerateSpec& spec) const;

  // INVALID_ARGUMENT, reason RESPONSE_TOO_LARGE. `plan` is that of `spec`.
  absl::Status CheckResponseBytes(const GenerateSpec& spec, const pipeline::Plan& plan) const;

  // True if graphs may be compiled for the request: its policy is COLD_OK, and the configuration
  // lets requests compile.
  bool MayCompile(const pipeline::Plan& plan) const;

  // The refusal of a request whose size is not ready and would have to be compiled.
  // FAILED_PRECONDITION: COMPILE_FORBIDDEN where the request's policy would compile, which names
  // the buckets and the flag; else BUCKET_COLD.
  absl::Status ColdBucket(const pipeline::Plan& plan, const absl::Status& why) const;

  // Checks a request whose graphs are not ready. OK: missing graphs can be loaded, or be compiled.
  // Builds nothing and asks no disk: client threads wait for this.
  absl::Status CheckCold(const pipeline::Plan& plan) const;

  // The same, planning what is not loaded, before any of it is compiled: whether it fits. CANCELLED
  // once `is_wanted` says no. `graphs` are those of the plan. A video that does not fit is told the
  // decode_chunk_size with which it would, if there is one.
  absl::Status CheckFits(const pipeline::Plan& plan, const GraphHandles& graphs,
                         uint64_t evict_unused_since, absl::FunctionRef<bool()> is_wanted);

  // Adds the graphs of the plan that are not ready, but for those that are counted already.
  void AddLoadTime(const pipeline::Plan& plan, LoadTime& load) const;

  // Plans what is not loaded, and loads nothing.
  Room RoomFor(const pipeline::Plan& plan) const;

  // DEADLINE_EXCEEDED, reason PREDICTED_OVERRUN: to load what the plan lacks took longer than
  // `slack` the last time. OK where it was never loaded. REQUIRES: CheckCold is OK.
  absl::Status CheckLoadTime(const pipeline::Plan& plan, absl::Duration slack) const;

  // True of images, and of videos that are decoded in the chunks that their bucket has graphs for.
  bool IsInBucketsChunks(const pipeline::Plan& plan) const;

 private:
  bool CompilesForRequests() const;
  // Reason why it does not compile, with the flag that says so.
  std::string WhyNotCompiled() const;
  std::string NotReadyText(const pipeline::Plan& plan) const;
  std::string ForRequestText(const pipeline::Plan& plan) const;
  // True if each bucket has what the plan's prompts are read by.
  bool ReadsPrompts(const pipeline::Plan& plan) const;
  std::string ForChunksText(const pipeline::Plan& plan) const;
  std::string ForRowsText(const pipeline::Plan& plan) const;
  bool IsServed(const pipeline::Plan& plan) const;
  std::vector<FieldViolation> FindViolations(const GenerateSpec& spec) const;
  // The size that such a request asks for, of its model.
  ModelBucket AskedBucket(const pipeline::PictureSpec& resolved) const;
  absl::StatusOr<pipeline::Size> ChooseBucket(const pipeline::PictureSpec& resolved) const;
  absl::Status NoSuchBucket(const pipeline::PictureSpec& resolved,
                            const absl::Status& refusal) const;
  absl::Status CheckFitsAsAsked(const pipeline::Plan& plan, const GraphHandles& graphs,
                                uint64_t evict_unused_since, absl::FunctionRef<bool()> is_wanted);
  // The most frames, of halves of the video's chunk, with which it fits; 0: none.
  int ChunkThatFits(const pipeline::Plan& plan, uint64_t evict_unused_since,
                    absl::FunctionRef<bool()> is_wanted);
  absl::Status CheckRoom(const ModelBucket& bucket) const;
  absl::Status CheckNotRefused(const pipeline::Plan& plan) const;

  const Config& config_;
  const Models& models_;
  compiler::GraphStore& store_;
  const MemoryBudget& budget_;
  RefusedSizes refused_;
};

}  // namespace latentd::engine
