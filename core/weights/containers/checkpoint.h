// A checkpoint as diffusers' save_pretrained writes it: a directory with model_index.json and one
// folder for each component (unet/, vae/, text_encoder/, tokenizer/, scheduler/, ...), which hold
// config.json and the tensors. Symbolic links are followed, so a snapshot folder of the Hugging
// Face cache is one.
//
// Opening reads model_index.json only; every other file is read when it is asked for, and an error
// then names it. Text that is handed out is known to be a JSON object of bounded size and depth.
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
#include "core/base/file_reader.h"
#include "core/weights/archives.h"
#include "core/weights/containers/component.h"
#include "core/weights/file_record.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

struct WeightSize {
  int64_t bytes = 0;     // size of the tensors on disk
  int64_t elements = 0;  // times 4: bytes of them as float32
};

class Checkpoint {
 public:
  // `variant` "fp16" reads *.fp16.safetensors, and plain files for a component that has none of
  // that variant, as diffusers does; NOT_FOUND if no component has any. An empty variant reads the
  // files without a suffix and, where there are none, those of the variant fp16.
  //
  // NOT_FOUND, INVALID_ARGUMENT: the path is not a diffusers checkpoint directory; the message says
  // what to pass, also for a single-file checkpoint.
  //
  // Content digests of the tensors are kept in `digests`.
  static absl::StatusOr<Checkpoint> Open(const std::string& path, const std::string& variant,
                                         DigestArchive digests = {});

  const std::string& path() const { return path_; }

  // "StableDiffusionXLPipeline"; empty if model_index.json does not say.
  const std::string& pipeline_class() const { return pipeline_class_; }

  // By name; what model_index.json gives as [null, null] is absent. vae_tiny, which is no component
  // of a pipeline of diffusers', is there where the index does not speak of it and its folder is.
  const absl::btree_map<std::string, Component>& components() const { return components_; }
  bool Has(absl::string_view component) const { return components_.contains(component); }

  // The entries of model_index.json that are not read, in alphabetical order, escaped: components
  // of other pipelines and options that are not read; not those that are null or false.
  const std::vector<std::string>& passed_over() const { return passed_over_; }

  // Options of the pipeline, with diffusers' defaults. null is false, as in Python.
  bool force_zeros_for_empty_prompt() const { return force_zeros_for_empty_prompt_; }
  bool requires_aesthetics_score() const { return requires_aesthetics_score_; }

  // component/config.json.
  absl::StatusOr<std::string> ConfigText(absl::string_view component) const;

  // scheduler/scheduler_config.json as it is, which need not be JSON: diffusers writes -Infinity
  // for lambda_min_clipped.
  absl::StatusOr<std::string> SchedulerConfigText() const;

  // The folder of a tokenizer; what is in it is not looked at: see reader().
  absl::StatusOr<std::string> TokenizerDirectory(absl::string_view component) const;

  // Reads a file and remembers it in files_read(). May be used after the checkpoint is gone.
  FileReader reader() const;

  // Files that were read so far, but for tensors, which know their files themselves.
  std::vector<std::shared_ptr<const WatchedFile>> files_read() const { return records_->files(); }

  // All tensors of the component by today's names (tensor_names.h), from one file or from the
  // shards that its index names (every shard must be there and hold what the index says). Reads
  // headers, not data.
  absl::StatusOr<TensorMap> LoadTensors(absl::string_view component) const;

  // Sum over the tensors that LoadTensors would give.
  absl::StatusOr<WeightSize> SizeOf(absl::string_view component) const;

 private:
  Checkpoint() = default;

  absl::Status ReadModelIndex();
  void AddTinyVae();
  absl::Status CheckVariantExists() const;
  // The folder of a component that model_index.json names.
  absl::StatusOr<std::string> Folder(absl::string_view component) const;

  std::string path_;
  std::string variant_;
  std::shared_ptr<FileRecords> records_ = std::make_shared<FileRecords>();
  DigestArchive digests_;
  std::string pipeline_class_;
  absl::btree_map<std::string, Component> components_;
  bool force_zeros_for_empty_prompt_ = true;
  bool requires_aesthetics_score_ = false;
  std::vector<std::string> passed_over_;
};

}  // namespace latentd::weights
