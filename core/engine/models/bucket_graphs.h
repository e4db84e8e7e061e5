// The buckets that are served, which graphs each of them needs, how those stand, and what memory
// they would hold. Declares graphs; compiles and loads none. Graphs of a configured bucket that a
// picture needs are declared at once; steps of more rows, each of which takes a while to build,
// when they are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/batching/buckets.h"
#include "core/compiler/graph_store.h"
#include "core/engine/api/status.h"
#include "core/engine/models/memory_budget.h"
#include "core/engine/reports/graph_selection.h"
#include "core/pipeline/pipeline.h"

namespace latentd::engine {

using GraphHandles = std::vector<compiler::GraphHandle>;

// A size that a model is served at, and what it hands over to with it.
struct ModelBucket {
  pipeline::ModelId model;  // a leader
  pipeline::Size size;

  bool operator==(const ModelBucket&) const = default;
};

// The bucket that images of the plan are drawn in.
ModelBucket BucketOf(const pipeline::Plan& plan);

// Adds those that are not in `all`.
void AddOnce(const GraphHandles& more, GraphHandles& all);

// Sizes that are no buckets and were compiled for requests with COLD_OK: their graphs are kept, so
// that the next request finds them, up to a number of bytes. Those used least recently leave; what
// was compiled for them stays on disk.
//
// Not thread-safe.
class ColdSizes {
 public:
  // `max_bytes` bounds the graphs as they were declared; the size that was kept last stays whatever
  // it has.
  explicit ColdSizes(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Keeps the graphs that one picture of the size needs, beside those that are kept already.
  void Keep(const ModelBucket& size, const GraphHandles& graphs);
  // The size was used. OK for one that is not kept.
  void Touch(const ModelBucket& size);

  size_t bytes() const;
  size_t count() const { return sizes_.size(); }

 private:
  struct Kept {
    ModelBucket size;
    GraphHandles graphs;  // graphs of that size only: those that every size shares are kept anyway
    size_t bytes = 0;
  };

  const size_t max_bytes_;
  std::list<Kept> sizes_;  // the one used last first
};

// Thread-safe.
class BucketGraphs {
 public:
  // Bytes of graphs of sizes that are not served, as they were declared: some 100 sizes of SDXL,
  // which has 300 KiB for each.
  static constexpr size_t kMostColdBytes = size_t{32} << 20;

  // With the configured buckets of every model (Pipeline::BucketsOf). Pipeline and store must
  // outlive this.
  BucketGraphs(const pipeline::Pipeline& pipeline, compiler::GraphStore& store);

  // Buckets that requests may ask for: configured ones and added ones. Configured ones are
  // first, the largest of them first of all.
  std::vector<ModelBucket> buckets() const ABSL_LOCKS_EXCLUDED(mutex_);
  const std::vector<ModelBucket>& configured() const { return configured_; }
  // The configured sizes of one model.
  std::vector<pipeline::Size> ConfiguredOf(pipeline::ModelId model) const;
  // True for a bucket of a model that is loaded on demand: its graphs are compiled at the start,
  // and loaded for the first request.
  bool IsOnDemand(const ModelBucket& bucket) const;
  // Its size, with its model's name where that is not the first one's: "512x512", "anime 512x512".
  std::string NameOf(const ModelBucket& bucket) const;

  // Size at which networks run for a picture of `asked`; for kSnap one that needs no compiling, if
  // there is one. As batching::Buckets.
  absl::StatusOr<pipeline::Size> Choose(const ModelBucket& asked,
                                        pipeline::BucketPolicy policy) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Serves it from now on, in every row count. RESOURCE_EXHAUSTED: there are too many.
  absl::Status Add(const ModelBucket& bucket) ABSL_LOCKS_EXCLUDED(mutex_);
  // RESOURCE_EXHAUSTED, reason TOO_MANY_BUCKETS: Add would refuse one of these.
  absl::Status CheckRoomFor(absl::Span<const ModelBucket> buckets) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // No longer serves those that were added and of whose own graphs none is compiled any more.
  void ForgetCold() ABSL_LOCKS_EXCLUDED(mutex_);

  // INVALID_ARGUMENT with `width` and `height`: a size that the model cannot do.
  absl::Status CheckSize(pipeline::Size bucket) const;

  // The pipeline's row counts at that size: those that a picture has by itself, without
  // which a bucket is not ready; or all that it may use, those of steps that pictures share and of
  // previews too.
  enum class RowCounts : uint8_t { kOfPicture, kAll };
  // Graphs of the size, each once; or the error of CheckSize.
  absl::StatusOr<GraphHandles> GraphsOf(const ModelBucket& bucket, RowCounts counts) const;
  // The steps of so many rows, which are known and kept from now on where the bucket is served.
  // REQUIRES: one of SharedRowCounts.
  absl::StatusOr<GraphHandles> AddSharedSteps(const ModelBucket& bucket, int rows)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Likewise what draws previews: nothing, where no checkpoint has a tiny VAE.
  absl::StatusOr<GraphHandles> AddPreviews(const ModelBucket& bucket) ABSL_LOCKS_EXCLUDED(mutex_);
  // Likewise the graphs of a step that two devices share: nothing, where none is.
  absl::StatusOr<GraphHandles> AddSplitSteps(const ModelBucket& bucket) ABSL_LOCKS_EXCLUDED(mutex_);
  // Likewise steps of so many rows of pictures with ControlNets of the folder, which are compiled
  // and loaded for requests. Nothing, where it has none for the model.
  absl::StatusOr<GraphHandles> AddControlled(const ModelBucket& bucket, int rows)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Graphs of nets of the folder beside those, of all configured buckets. They leave with their
  // nets, and are declared again from the file.
  GraphHandles ControlNetGraphs() const;
  // The row counts at that size that are more than a picture has, ascending.
  std::vector<int> SharedRowCounts(pipeline::Size bucket) const;

  bool IsServed(const ModelBucket& bucket) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Keeps graphs that were compiled for a request, of a size that is not served or of longer
  // prompts than its size is served for: the next one finds them. Those of sizes used least
  // recently leave.
  void KeepCold(const ModelBucket& bucket, const GraphHandles& graphs) ABSL_LOCKS_EXCLUDED(mutex_);
  // The bucket was used, whether it is served or not.
  void Touch(const ModelBucket& bucket) ABSL_LOCKS_EXCLUDED(mutex_);

  // The buckets that are served, with the graphs of each.
  std::vector<BucketNeeds> Needs() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Every graph that can be of interest: of buckets that are served, and what was compiled or tried
  // for others; not those that were only asked about.
  std::vector<compiler::GraphStatus> Known() const ABSL_LOCKS_EXCLUDED(mutex_);

  // FAILED_PRECONDITION naming those graphs of the plan that would have to be compiled first, as
  // far as is known without asking the disk; builds nothing.
  absl::Status CheckKnownCompiled(const pipeline::Plan& plan) const;

  // Bytes that these buckets hold together, and `graphs` too, with the state of a full lane.
  // Plans what is not compiled, which takes a while: each graph's part is given to `take_turn`,
  // which runs it, or returns an error to stop.
  using Turn = std::function<absl::Status(const std::function<absl::Status()>& part)>;
  absl::StatusOr<MemoryPrediction> Predict(GraphHandles graphs,
                                           absl::Span<const ModelBucket> buckets,
                                           const Turn& take_turn) const;

  // Outcome of the bucket by the outcomes of graphs: the first failure among those that a
  // picture needs.
  absl::Status OutcomeOf(const ModelBucket& bucket,
                         const std::map<compiler::GraphHandle, absl::Status>& failures) const;
  // Sets the outcome of the last try to have the bucket.
  void SetOutcome(const ModelBucket& bucket, const absl::Status& outcome)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // RESOURCE_EXHAUSTED if that was the outcome.
  absl::Status MemoryFailure(const ModelBucket& bucket) ABSL_LOCKS_EXCLUDED(mutex_);

  struct BucketState {
    ModelBucket of;
    ServerStatus::Bucket bucket;
    bool configured = false;
    bool warm = false;  // every graph is loaded that a picture needs
  };
  // States of all buckets, as far as is known without asking the disk.
  std::vector<BucketState> BucketStates() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Served {
    ModelBucket bucket;
    GraphHandles graphs;      // as far as they are known; kept, so that the store remembers them
    GraphHandles controlled;  // kept too; steps of requests with ControlNets or IP-Adapters alone
    absl::Status outcome;     // result of declaring them, then of the last try to have them
  };

  Served Declare(const ModelBucket& bucket, RowCounts counts) const;
  void Keep(const ModelBucket& bucket, const GraphHandles& graphs) ABSL_LOCKS_EXCLUDED(mutex_);
  BucketState StateOf(const Served& served) const;
  Served* Find(const ModelBucket& bucket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Served* Find(const ModelBucket& bucket) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const pipeline::Pipeline& pipeline_;
  compiler::GraphStore& store_;
  std::vector<ModelBucket> configured_;

  mutable absl::Mutex mutex_;
  std::vector<Served> served_ ABSL_GUARDED_BY(mutex_);
  ColdSizes cold_ ABSL_GUARDED_BY(mutex_){kMostColdBytes};
};

// Contents of the checkpoints: set once, before the engine's state leaves kLoading.
struct Models {
  std::unique_ptr<const pipeline::Pipeline> pipeline;
  std::unique_ptr<BucketGraphs> buckets;  // buckets of the pipeline
};

}  // namespace latentd::engine
