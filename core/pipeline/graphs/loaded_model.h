// One loaded checkpoint: its configurations, tokenizers and weights, and the graphs that they make.
//
// Frozen after Load; any thread may call any method.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/compiler/graph_store.h"
#include "core/families/family/family.h"
#include "core/pipeline/graphs/model_graphs.h"
#include "core/pipeline/graphs/model_loras.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/pipeline/spec/request/picture_spec.h"
#include "core/schedulers/config.h"
#include "core/weights/containers/checkpoint.h"
#include "core/weights/watched_file.h"
#include "core/weights/weight_store.h"

namespace latentd::pipeline {

class LoadedModel {
 public:
  // Reads configurations and headers, and checks that every tensor that a network wants is there in
  // its shape. Errors name the file or component, and what is missing, off or not supported in it.
  // Of a model whose UNet is off only the configurations are read. `store` and `graphs` must
  // outlive the model.
  static absl::StatusOr<std::unique_ptr<const LoadedModel>> Load(
      const ModelRow& row, const families::Family& family, const weights::Checkpoint& checkpoint,
      weights::WeightStore& store, compiler::GraphStore& graphs, const ModelOptions& options = {});

  // The row that it was loaded for, with the defaults of its family and preset.
  const ModelRow& row() const { return row_; }
  const families::Family& family() const { return family_; }
  const ModelConfigs& configs() const { return configs_; }
  const std::string& path() const { return path_; }
  const std::string& pipeline_class() const { return pipeline_class_; }
  // A sentence for each of the checkpoint's files of which something is ignored.
  const std::vector<std::string>& warnings() const { return configs_.warnings; }
  // LoRAs merged into its weights, and a sentence for each of which something is ignored.
  const std::vector<AppliedLora>& loras() const { return loras_; }
  const std::vector<std::string>& lora_warnings() const { return lora_warnings_; }
  // The noise scheduler that a request names, or the default one, over the checkpoint's settings,
  // with what the request changes of them; see SchedulerFile::With. Where there is no default, a
  // violation of "scheduler".
  absl::StatusOr<schedulers::SchedulerConfig> SchedulerWith(
      const schedulers::Overrides& overrides) const;
  // In the order of their graphs.
  const std::vector<TextEncoder>& text_encoders() const { return configs_.text_encoders; }
  const VaeConfig& vae() const { return configs_.vae; }
  int64_t latent_channels() const { return configs_.unet.out_channels; }
  // The files that its configurations and tokenizers were read from.
  const std::vector<std::shared_ptr<const weights::WatchedFile>>& files_read() const {
    return files_read_;
  }
  // Size that it was trained at, in pixels.
  Size default_size() const;

  // False where its UNet is off: it draws nothing, and has no graphs.
  bool draws() const { return graphs_ != nullptr; }
  // REQUIRES: draws().
  ModelGraphs& graphs() const { return *graphs_; }

 private:
  LoadedModel(const ModelRow& row, const families::Family& family,
              const weights::Checkpoint& checkpoint, ModelConfigs configs);

  const ModelRow row_;
  const families::Family& family_;
  const std::string path_;
  const std::string pipeline_class_;
  const ModelConfigs configs_;
  std::unique_ptr<ModelGraphs> graphs_;
  std::vector<std::shared_ptr<const weights::WatchedFile>> files_read_;
  std::vector<AppliedLora> loras_;
  std::vector<std::string> lora_warnings_;
};

}  // namespace latentd::pipeline
