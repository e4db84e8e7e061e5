// A Checkpoint is all that a model is made of, component by component, wherever each comes from: a
// diffusers directory (model_index.json and one folder for each component) or a single file, other
// checkpoints that supply what that one lacks, and files or folders that replace a component.
//
// Opening reads model_index.json, or headers of files; every other file is read when it is asked
// for, and an error then names it. Text that is handed out is known to be a JSON object of bounded
// size and depth.
//
// Immutable; any thread may call any method.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/files/file_reader.h"
#include "core/weights/archives.h"
#include "core/weights/containers/checkpoint_contents.h"
#include "core/weights/containers/checkpoint_paths.h"
#include "core/weights/containers/component.h"
#include "core/weights/containers/component_source.h"
#include "core/weights/source.h"
#include "core/weights/watched_file.h"

namespace latentd::weights {

struct WeightSize {
  int64_t bytes = 0;     // size of the tensors on disk
  int64_t elements = 0;  // times 4: bytes of them as float32
};

class Checkpoint {
 public:
  // Puts its components together (checkpoint_assembly.h).
  //
  // NOT_FOUND, INVALID_ARGUMENT: a path is no checkpoint or no such component (the message says
  // what it is, and what to pass); components that are needed are nowhere (one message for all of
  // them, with the flags that supply them); a UNet is of another family than the one it replaces.
  //
  // Content digests of the tensors are kept in `digests`.
  static absl::StatusOr<Checkpoint> Open(const CheckpointPaths& paths, DigestArchive digests = {});

  const std::string& path() const { return path_; }
  // The file that names the components, for messages: path/model_index.json, or the single file.
  const std::string& index() const { return contents_.index; }

  // "StableDiffusionXLPipeline"; empty if model_index.json does not say.
  const std::string& pipeline_class() const { return contents_.pipeline_class; }

  // By name; what model_index.json gives as [null, null] is absent.
  const absl::btree_map<std::string, Component>& components() const { return components_; }
  bool Has(absl::string_view component) const { return components_.contains(component); }

  // The entries of model_index.json that are not read, in alphabetical order, escaped: components
  // of other pipelines and options that are not read; not those that are null or false.
  const std::vector<std::string>& passed_over() const { return contents_.passed_over; }

  // Sentences about what it was recognised as, and which components come from elsewhere.
  const std::vector<std::string>& notes() const { return contents_.notes; }
  // Sentences about what may be wrong with that.
  const std::vector<std::string>& warnings() const { return contents_.warnings; }

  // Fields that are laid over the scheduler's, as JSON: of a UNet in the place of the base's own
  // whose file says how it predicts, and then of the operator. Empty: none.
  const std::string& scheduler_settings() const { return contents_.scheduler_settings; }
  const std::string& said_prediction() const { return contents_.said_prediction; }
  // The end of a sentence, of how the network predicts: "the tensor v_pred".
  const std::string& prediction_decided_by() const { return contents_.prediction_decided_by; }

  // Options of the pipeline, with diffusers' defaults. null is false, as in Python.
  bool force_zeros_for_empty_prompt() const { return contents_.force_zeros_for_empty_prompt; }
  bool requires_aesthetics_score() const { return contents_.requires_aesthetics_score; }

  // The place of a component's configuration, for messages: "/models/sdxl/unet/config.json"; where
  // it would be, of a component that is not there.
  std::string ConfigName(absl::string_view component) const;

  // component/config.json, or what says the same.
  absl::StatusOr<std::string> ConfigText(absl::string_view component) const;

  // scheduler/scheduler_config.json as it is, which need not be JSON: diffusers writes -Infinity
  // for lambda_min_clipped.
  absl::StatusOr<std::string> SchedulerConfigText() const;

  // The files in a tokenizer's folder are not looked at: see reader().
  absl::StatusOr<TokenizerSource> Tokenizer(absl::string_view component) const;

  // Reads a file and remembers it in files_read(). May be used after the checkpoint is gone.
  FileReader reader() const;

  // Files that were read so far, but for those of tensors, which know their files themselves.
  std::vector<std::shared_ptr<const WatchedFile>> files_read() const { return records_->files(); }

  // All weights of the component by today's names (tensor_names.h), from a part of a file, from
  // one of its own, or from the shards that an index names (every shard must be there and hold what
  // the index says). Reads headers, not data.
  absl::StatusOr<SourceMap> LoadWeights(absl::string_view component) const;

  // Sum over the weights that LoadWeights would give.
  absl::StatusOr<WeightSize> SizeOf(absl::string_view component) const;

 private:
  Checkpoint(std::string path, std::shared_ptr<FileRecords> records, CheckpointContents contents);

  // The source of a component that there is.
  absl::StatusOr<const ComponentSource*> Find(absl::string_view component) const;

  std::string path_;
  std::shared_ptr<FileRecords> records_;
  CheckpointContents contents_;
  absl::btree_map<std::string, Component> components_;  // in `contents_`
};

}  // namespace latentd::weights
