// The graphs of one checkpoint, declared at the graph store and known by shape: a graph is built
// and hashed when its shape is first asked for, and never again while its reference is kept.
// A graph that is not kept is forgotten: clients choose shapes, and code that serves one keeps it.
//
// Thread-safe. Nothing here compiles or loads but Get. Building takes up to tens of milliseconds,
// on the thread that asks and without a lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/executable.h"
#include "core/compiler/graph_store.h"
#include "core/graph/graph.h"
#include "core/graph/precision.h"
#include "core/graph/split.h"
#include "core/pipeline/components.h"
#include "core/pipeline/model_configs.h"
#include "core/pipeline/picture_spec.h"
#include "core/pipeline/step_graph.h"
#include "core/weights/weight_set.h"

namespace latentd::pipeline {

using compiler::GraphHandle;
using ExecutablePointer = std::shared_ptr<backends::Executable>;

// How a checkpoint's components run.
struct ModelOptions {
  ComponentModes components;
  ComponentDTypes precision;
  backends::Backend* reference = nullptr;  // runs those of kReference; must outlive the model
  // Pictures of more pixels go through the autoencoder in tiles (tiles.h). Unset: none does.
  std::optional<int64_t> vae_tiling_above;
  std::string scheduler;  // for requests that name none; empty: the checkpoint's own
};

class ModelGraphs {
 public:
  // INVALID_ARGUMENT names every weight that a network wants and the set lacks. `configs` and
  // `store` must outlive the result.
  static absl::StatusOr<std::unique_ptr<ModelGraphs>> Declare(
      std::string model, const ModelConfigs& configs,
      std::shared_ptr<const weights::WeightSet> weights, const ModelOptions& options,
      compiler::GraphStore& store);

  // For each text encoder; text_graphs.h.
  const std::vector<GraphHandle>& text() const { return text_; }

  // Each encoder's state (text_graphs.h), "text_embeds", "time_ids", one row -> what a step reads
  // of it, packed by dtype (core/graph/split.h), in all so many bytes.
  const GraphHandle& request() const { return request_; }
  int64_t request_bytes() const;

  // Permitted ways to get a graph that is not known yet.
  enum class IfUnknown : uint8_t {
    kBuild,
    kRefuse,  // FAILED_PRECONDITION with reason GRAPH_COLD; quick
  };

  // The step graph (step_graph.h) with request()'s outputs, for all rows, in place of its
  // request-rate inputs.
  absl::StatusOr<GraphHandle> Step(const StepShape& shape, IfUnknown unknown = IfUnknown::kBuild)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Ports of that graph, of latents of so many elements: quick, whether it is known or not.
  std::vector<RowPort> StepPorts(int64_t elements) const;
  // vae_graph.h; sizes of the latents. Encode and Sample REQUIRE: vae_encoder is not off.
  absl::StatusOr<GraphHandle> Decode(int height, int width, IfUnknown unknown = IfUnknown::kBuild)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<GraphHandle> Encode(int height, int width, IfUnknown unknown = IfUnknown::kBuild)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<GraphHandle> Sample(int height, int width, IfUnknown unknown = IfUnknown::kBuild)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Decode in f32, for what comes out of it not finite. There where Decode is in f16: bf16
  // overflows where f32 does.
  bool has_decode_fallback() const;
  absl::StatusOr<GraphHandle> DecodeFallback(int height, int width,
                                             IfUnknown unknown = IfUnknown::kBuild)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Decode by the tiny VAE, for previews. REQUIRES: has_tiny_vae().
  bool has_tiny_vae() const { return configs_.vae_tiny.has_value(); }
  absl::StatusOr<GraphHandle> Preview(int height, int width, IfUnknown unknown = IfUnknown::kBuild)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // A row of a step is the same bytes, however many others it has.
  bool has_batch_invariant_steps() const;

  const weights::WeightSet& weights() const { return *weights_; }

  absl::StatusOr<ExecutablePointer> Get(const GraphHandle& graph, compiler::Purpose purpose = {}) {
    return store_.Get(graph, purpose);
  }

 private:
  enum class Kind : uint8_t { kStep, kDecode, kDecodeFallback, kEncode, kSample, kPreview };
  struct Key {
    Kind kind;
    StepShape shape;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.kind, key.shape.rows, key.shape.height, key.shape.width);
    }
  };
  using WeakGraphHandle = std::weak_ptr<const compiler::DeclaredGraph>;

  ModelGraphs(std::string model, const ModelConfigs& configs,
              std::shared_ptr<const weights::WeightSet> weights, const ModelOptions& options,
              compiler::GraphStore& store);

  absl::Status DeclareFixed();
  absl::Status DeclareRequest(const graph::Graph& step);
  absl::Status CheckWeights(const std::vector<const graph::Graph*>& graphs) const;
  absl::StatusOr<GraphHandle> FindOrBuild(const Key& key, IfUnknown unknown)
      ABSL_LOCKS_EXCLUDED(mutex_);
  GraphHandle Find(const Key& key) ABSL_LOCKS_EXCLUDED(mutex_);  // null: not kept
  absl::StatusOr<graph::Graph> Build(const Key& key) const;
  absl::StatusOr<graph::Graph> BuildWhole(const Key& key) const;
  // How images of that size, in latents, go through the autoencoder. An AutoencoderTiny, which
  // needs little memory, takes any of them whole.
  TileGrid TilesOf(const StepShape& shape) const;
  absl::StatusOr<graph::SplitGraphs> Split(const compiler::GraphLabel& label,
                                           const graph::Graph& graph) const;
  compiler::GraphLabel LabelOf(const Key& key) const;
  graph::Precision PrecisionFor(const compiler::GraphLabel& label) const;
  GraphHandle DeclareAs(compiler::GraphLabel label, graph::Graph graph) const;

  const std::string model_;  // its name, and as a user of graphs
  const ModelConfigs& configs_;
  const std::shared_ptr<const weights::WeightSet> weights_;
  const ModelOptions options_;
  compiler::GraphStore& store_;
  std::vector<GraphHandle> text_;
  GraphHandle request_;
  std::vector<RowPort> packed_;  // its results

  absl::Mutex mutex_;
  absl::flat_hash_map<Key, WeakGraphHandle> shapes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::pipeline
