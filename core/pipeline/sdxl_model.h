// One loaded checkpoint: its configurations, tokenizers and weights, and the executables of the
// graphs that they make.
//
// Frozen after Load; any thread may call any method. Executables are compiled once, shared with the
// graph store, and run by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backends/executable.h"
#include "core/compiler/graph_store.h"
#include "core/pipeline/model_configs.h"
#include "core/pipeline/picture_spec.h"
#include "core/pipeline/step_graph.h"
#include "core/pipeline/unit.h"
#include "core/weights/checkpoint.h"
#include "core/weights/weight_set.h"

namespace latentd::pipeline {

using ExecutablePointer = std::shared_ptr<backends::Executable>;

class SdxlModel {
 public:
  // Reads configurations and headers, and checks that every tensor that a network wants is there in
  // its shape. Errors name the file or component, and what is missing or not supported in it.
  // `store` and `graphs` must outlive the model.
  static absl::StatusOr<std::unique_ptr<const SdxlModel>> Load(
      Model which, const weights::Checkpoint& checkpoint, weights::WeightStore& store,
      compiler::GraphStore& graphs);

  Model which() const { return which_; }
  const std::string& path() const { return path_; }
  const std::string& pipeline_class() const { return pipeline_class_; }
  bool force_zeros_for_empty_prompt() const { return force_zeros_; }
  bool requires_aesthetics_score() const { return aesthetics_score_; }
  const std::string& scheduler_json() const { return scheduler_json_; }
  // In the order in which their hidden states are joined; the last one's pooled state counts.
  const std::vector<TextEncoder>& text_encoders() const { return text_encoders_; }
  const VaeConfig& vae() const { return vae_; }
  int64_t latent_channels() const { return unet_.in_channels; }
  // How many of the text encoders' last layers can be left out beyond the one that SDXL leaves out.
  int max_clip_skip() const;
  // What it was trained at, in pixels.
  Size default_size() const;
  // Values in one row of the request part's result.
  int64_t request_size() const { return request_size_; }

  // "input_ids" i64 [1, 77], "pooled_position" i64 [1] -> "hidden_states.K" [1, 77, features] for
  // every K, "pooled".
  absl::StatusOr<ExecutablePointer> Text(size_t encoder) const;
  // "encoder_hidden_states", "text_embeds", "time_ids", one row -> "request" [1, request_size()].
  absl::StatusOr<ExecutablePointer> RequestPart() const;
  // The step graph (step_graph.h) with "request" [rows, request_size()] in place of its
  // request-rate inputs.
  absl::StatusOr<ExecutablePointer> Step(const StepShape& shape) const;
  // vae_graph.h; sizes of the latents.
  absl::StatusOr<ExecutablePointer> Decode(int height, int width) const;
  absl::StatusOr<ExecutablePointer> Encode(int height, int width) const;

 private:
  SdxlModel(Model which, const weights::Checkpoint& checkpoint, compiler::GraphStore& graphs);

  absl::Status LoadWeights(const weights::Checkpoint& checkpoint, weights::WeightStore& store);
  // OK iff every weight that any of the networks wants is there.
  absl::Status CheckWeights() const;
  absl::Status MakeRequestGraph();

  graph::GraphBuilder::StoredDType StoredDType() const;
  absl::StatusOr<graph::Graph> TextGraph(const TextEncoder& encoder) const;
  absl::StatusOr<graph::Graph> StepGraph(const StepShape& shape) const;
  absl::StatusOr<ExecutablePointer> Executable(const graph::Graph& graph) const;

  const Model which_;
  const std::string path_;
  const std::string pipeline_class_;
  const bool force_zeros_;
  const bool aesthetics_score_;
  compiler::GraphStore& graphs_;
  std::string scheduler_json_;
  std::vector<TextEncoder> text_encoders_;
  models::Unet2dConditionConfig unet_;
  VaeConfig vae_;
  ConditioningSizes sizes_;
  std::shared_ptr<const weights::WeightSet> weights_;
  std::unique_ptr<const graph::Graph> request_graph_;
  int64_t request_size_ = 0;
};

}  // namespace latentd::pipeline
