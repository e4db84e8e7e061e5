// The graphs of one checkpoint, declared at the graph store and known by shape: a graph is built
// and hashed when its shape is first asked for, and never again while its reference is kept.
// A graph that is not kept is forgotten: clients choose shapes, and code that serves one keeps it.
//
// Thread-safe. Nothing here compiles or loads but Get. Building takes up to tens of milliseconds,
// on the thread that asks and without a lock.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/backends/executable.h"
#include "core/compiler/graph_store.h"
#include "core/families/family/family.h"
#include "core/graph/graph.h"
#include "core/graph/precision.h"
#include "core/graph/split.h"
#include "core/pipeline/graphs/adapter_paths.h"
#include "core/pipeline/graphs/graph_name.h"
#include "core/pipeline/graphs/step_graph.h"
#include "core/pipeline/graphs/vae_graph.h"
#include "core/pipeline/spec/models/components.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/pipeline/spec/request/picture_spec.h"
#include "core/weights/weight_set.h"

namespace latentd::pipeline {

using compiler::GraphHandle;
using families::ModelConfigs;
using families::TextEncoder;
using ExecutablePointer = std::shared_ptr<backends::Executable>;

// How a checkpoint's components run.
struct ModelOptions {
  ComponentModes components;
  ComponentDTypes precision;
  backends::Backend* reference = nullptr;  // runs those of kReference; must outlive the model
  // Pictures of more pixels go through the autoencoder in tiles (tiles.h). Unset: none does.
  std::optional<int64_t> vae_tiling_above;
  // Prompts may have words of textual inversions: text graphs that take vectors are declared too.
  bool takes_vectors = false;
  // Sets of LoRAs of linears alone that rows of steps may have beside each other, and the ranks of
  // each at most; 0: steps have no paths, and every set is merged.
  int path_slots = 0, path_ranks = 0;
  // Frames of videos that are decoded together, and have so many pixels or more, are decoded in
  // parts, if what these leave for each other has at most so many bytes.
  int64_t pixels_in_parts = kPixelsDecodedInParts;
  int64_t most_feature_bytes = std::numeric_limits<int64_t>::max();
  bool f8_convolutions = false;  // UNets in fp8 convolve in 8 bits too
};

class ModelGraphs {
 public:
  // INVALID_ARGUMENT names every weight that a network wants and the set lacks. `configs` and
  // `store` must outlive the result.
  static absl::StatusOr<std::unique_ptr<ModelGraphs>> Declare(
      std::string model, const families::Family& family, const ModelConfigs& configs,
      std::shared_ptr<const weights::WeightSet> weights, const ModelOptions& options,
      compiler::GraphStore& store);

  // The same graphs over other weights for the text encoders and the UNet, which have the names and
  // shapes of these: nothing is built or compiled again, and what the VAE does is shared. `user` is
  // told of in the place of the model. Keeps the graphs that were found. With `paths`, steps are
  // the base's own with paths, which images bring to their rows. `base` must outlive the result; so
  // must the store.
  static std::unique_ptr<ModelGraphs> Over(ModelGraphs& base, std::string user,
                                           std::shared_ptr<const weights::WeightSet> weights,
                                           std::shared_ptr<const AdapterPaths> paths = nullptr);

  // Permitted ways to get a graph that is not known yet.
  enum class IfUnknown : uint8_t {
    kBuild,
    kRefuse,  // FAILED_PRECONDITION with reason GRAPH_COLD; quick
  };

  // A step has the kRequest's outputs, for all rows, in place of request-rate inputs. REQUIRES:
  // the model has the graph: has_tiny_vae for kPreview, an encoder that is not off for kEncode and
  // kSample, has_decode_fallback for that, takes_vectors for a text graph that does.
  absl::StatusOr<GraphHandle> Find(const GraphName& name, IfUnknown unknown = IfUnknown::kBuild)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Ports of a step's graph, of latents of so many elements and the shape's chunks, ranks and
  // frames, and of its size where it has deep features: quick, whether it is known or not. Of
  // several chunks all that steps read of a prompt counts as often, of which a little is read once.
  std::vector<RowPort> StepPorts(int64_t elements, const StepShape& shape = {}) const;

  // Paths of steps whose shape has ranks, which are as many as these.
  const StepPaths& step_paths() const { return step_paths_; }
  // Paths of the set that these graphs are for; null: there is none, or it is merged.
  const std::shared_ptr<const AdapterPaths>& adapter_paths() const { return adapter_paths_; }

  int text_count() const { return static_cast<int>(text_.size()); }

  // Bytes of the text graphs' results for one chunk of a row.
  int64_t text_bytes() const { return text_bytes_; }
  // Bytes of one row of what the request part makes of one chunk: what a step reads of it, packed
  // by dtype (core/graph/split.h).
  int64_t request_bytes() const;

  // The dtype of what steps read of networks beside the model (residuals, images as prompts): what
  // the UNet computes in.
  device::DType residual_dtype() const;
  // The backend that runs the UNet, where that is the reference; else null.
  backends::Backend* reference() const;

  // True if the UNet has deep features, which steps may give and read.
  bool has_deep_features() const;

  // Parts in which frames of such a kDecode are decoded, one after the other; 1: all at once.
  // REQUIRES: the model draws videos.
  int DecoderPartsOf(const StepShape& chunk) const;
  // Bytes of what these leave for each other, at most at a time.
  int64_t FeatureBytesOf(const StepShape& chunk) const;

  // True where decoding is in f16: bf16 overflows where f32 does.
  bool has_decode_fallback() const;
  bool has_tiny_vae() const { return configs_.vae_tiny.has_value(); }
  bool takes_vectors() const { return options_.takes_vectors; }
  bool has_encoder() const { return !IsOff(options_.components, "vae_encoder"); }

  // A row of a step is the same bytes, however many others it has.
  bool has_batch_invariant_steps() const;

  const weights::WeightSet& weights() const { return *weights_; }
  const std::shared_ptr<const weights::WeightSet>& shared_weights() const { return weights_; }

  // State of graphs over other weights that are kept.
  struct Kept {
    bool loaded = false;  // steps are
    absl::Time last_use = absl::InfinitePast();
  };
  Kept kept() const ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<ExecutablePointer> Get(const GraphHandle& graph, compiler::Purpose purpose = {}) {
    return store_.Get(graph, purpose);
  }

 private:
  using WeakGraphHandle = std::weak_ptr<const compiler::DeclaredGraph>;

  ModelGraphs(std::string model, const families::Family& family, const ModelConfigs& configs,
              std::shared_ptr<const weights::WeightSet> weights, const ModelOptions& options,
              compiler::GraphStore& store);

  absl::Status DeclareFixed();
  absl::Status DeclareVideos();  // likewise, of a model that draws them: video_graphs.cc
  absl::StatusOr<std::vector<graph::Graph>> BuildTexts(bool takes_vectors) const;
  absl::StatusOr<std::vector<GraphHandle>> DeclareTexts(const std::vector<graph::Graph>& texts,
                                                        absl::string_view part) const;
  // The base's graph over these weights.
  absl::StatusOr<GraphHandle> FindOver(const GraphName& name, IfUnknown unknown)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status DeclareRequest(const graph::Graph& step);
  void FindPaths(const compiler::GraphLabel& label, const graph::Graph& step);
  absl::Status CheckWeights(const std::vector<const graph::Graph*>& graphs) const;
  GraphHandle FindKept(const GraphName& name) ABSL_LOCKS_EXCLUDED(mutex_);  // null: not kept
  absl::StatusOr<graph::Graph> Build(const GraphName& name) const;
  absl::StatusOr<graph::Graph> BuildWhole(const GraphName& name) const;
  // How images of that size, in latents, go through the autoencoder. An AutoencoderTiny, which
  // needs little memory, takes any of them whole.
  TileGrid TilesOf(const StepShape& shape) const;
  absl::StatusOr<graph::SplitGraphs> Split(const compiler::GraphLabel& label,
                                           const graph::Graph& graph) const;
  compiler::GraphLabel LabelOf(const GraphName& name) const;
  device::DType decoder_dtype() const;
  graph::Precision PrecisionFor(const compiler::GraphLabel& label) const;
  // For a label to say: kF8E4M3 if anything may be in it.
  device::DType DTypeFor(const compiler::GraphLabel& label) const;
  GraphHandle DeclareAs(compiler::GraphLabel label, graph::Graph graph) const;

  const std::string model_;  // its name, and as a user of graphs
  const families::Family& family_;
  const ModelConfigs& configs_;
  const std::shared_ptr<const weights::WeightSet> weights_;
  const ModelOptions options_;
  compiler::GraphStore& store_;
  ModelGraphs* base_ = nullptr;  // null: it is none over others
  std::vector<GraphHandle> text_;
  std::vector<GraphHandle> text_of_vectors_;  // graphs that take vectors; empty: there are none
  int64_t text_bytes_ = 0;
  GraphHandle request_;
  std::vector<RowPort> packed_;  // its results
  StepPaths step_paths_;
  std::shared_ptr<const AdapterPaths> adapter_paths_;

  mutable absl::Mutex mutex_;
  // Request parts of several chunks, and masked text graphs, that were asked for: as few as there
  // are, and of no size that would keep them.
  std::vector<GraphHandle> of_no_size_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<GraphName, WeakGraphHandle> shapes_ ABSL_GUARDED_BY(mutex_);
  // Graphs over others that were found last.
  std::deque<GraphHandle> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::pipeline
