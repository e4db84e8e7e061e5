// CheckpointContents are all that one path has of a checkpoint: a diffusers directory with
// model_index.json and a folder for each component, or a single file with all of them.
//
// Plain data; the functions are thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/weights/containers/component_source.h"

namespace latentd::weights {

struct CheckpointContents {
  std::string index;  // the file that names the components: model_index.json, or the single file
  bool is_file = false;
  std::string pipeline_class;
  ComponentMap components;
  bool force_zeros_for_empty_prompt = true;
  bool requires_aesthetics_score = false;
  std::vector<std::string> passed_over;  // see Checkpoint
  // Components that are needed and not here: another checkpoint can supply them.
  std::vector<std::string> lacking;
  // JSON with the settings of a VAE that a file's family decides (scaling_factor, ...).
  std::string vae_settings;
  // As of Checkpoint.
  std::string scheduler_settings = {};
  std::string said_prediction = {};
  std::string prediction_decided_by = {};
  // Sentences: what it was recognised as, and what of it may be wrong.
  std::vector<std::string> notes;
  std::vector<std::string> warnings;

  // Null: there is none of that name.
  const ComponentSource* Find(absl::string_view component) const;
};

// Reads model_index.json, or the file's header. NOT_FOUND, INVALID_ARGUMENT: the path is neither a
// diffusers directory nor a checkpoint's file; the message names what it is, and what to pass.
absl::StatusOr<CheckpointContents> ReadContents(const std::string& path, const Reading& reading);

struct ReadPart {
  std::shared_ptr<const ComponentSource> source;
  // As of FilePart; empty where it comes of a folder.
  std::string scheduler_settings = {};
  std::string prediction_decided_by = {};
};

// The component alone, from a file of it, its folder, or a checkpoint of which it is a part.
// `name`: "unet", "vae" or "vae_tiny".
absl::StatusOr<ReadPart> ReadComponent(const std::string& path, const std::string& name,
                                       const Reading& reading);

}  // namespace latentd::weights
