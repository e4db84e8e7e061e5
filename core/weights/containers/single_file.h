// Recognises a checkpoint in one safetensors file, as model sites have them, by the names and
// shapes of its tensors: no name of a file decides, no table of sizes, and nothing is assumed where
// nothing matched. What latentd does not serve is refused by its name.
//
// Reads a header's facts and, where they decide, a few scalars: no weights. The result reads the
// file's tensors under the names that diffusers and transformers give them; weights are changed
// nowhere but in the text encoders of OpenCLIP, whose fused projections are split and whose last
// one is transposed, by Sources.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/weights/containers/component.h"
#include "core/weights/containers/recognize/noise_markers.h"
#include "core/weights/source.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// An operator's word on a file; it counts more than what the file says.
struct SaidOfFile {
  std::string prediction_type;  // "epsilon", "v_prediction" or "sample"; empty: nothing
  bool ema = false;             // the UNet's weights are to be the averaged ones
};

// One component of a file.
struct FilePart {
  Component component;
  // JSON as config.json would have it; an error where its heads, which no tensor tells, are not
  // those of published models: another checkpoint has to say them. A VAE that was given alone has
  // no scaling_factor and no other field that is its family's: the checkpoint that takes it has
  // them.
  absl::StatusOr<std::string> config;
  SourceMap sources;  // by the names of diffusers or transformers
  // Fields of scheduler_config.json, as JSON, where the file's own tensors or metadata say how its
  // UNet predicts; and by what, as in SingleFile. Empty: they do not say.
  std::string scheduler_settings = {};
  std::string prediction_decided_by = {};
};

struct SingleFile {
  std::string pipeline_class;  // "StableDiffusionXLPipeline"
  // "unet", "vae", "text_encoder", "text_encoder_2"; of videos "unet", "vae", "image_encoder".
  absl::btree_map<std::string, FilePart> parts;
  std::string scheduler_config;  // JSON
  // The end of a sentence, of how the network predicts: "the tensor v_pred".
  std::string prediction_decided_by;
  // Fields of a VAE's config.json that the family decides, as JSON: for one from elsewhere.
  std::string vae_settings;
  bool force_zeros_for_empty_prompt = true;
  bool requires_aesthetics_score = false;
  // Each tokenizer that the pipeline needs, and its pad token: ("tokenizer_2", "!").
  std::vector<std::pair<std::string, std::string>> tokenizers;
  // Components that the pipeline needs and the file lacks; how it comes is in `notes` where a part
  // of them is there.
  std::vector<std::string> lacking;
  // Sentences: what was recognised, and by what; what was passed over.
  std::vector<std::string> notes;
};

// INVALID_ARGUMENT, beginning with `path`: a file of another kind, by its name, with what to do; a
// component of which tensors are missing, misshapen or left over, by their names.
absl::StatusOr<SingleFile> RecognizeSingleFile(const std::string& path, const TensorMap& tensors,
                                               const Metadata& metadata,
                                               const SaidOfFile& said = {});

// A file that is given for one component: "unet", "vae", "vae_tiny", "text_encoder" or
// "text_encoder_2", of which a whole checkpoint has the component, too. Errors are as above.
absl::StatusOr<FilePart> RecognizePart(const std::string& path, absl::string_view component,
                                       const TensorMap& tensors, const Metadata& metadata = {},
                                       const SaidOfFile& said = {});

}  // namespace latentd::weights
