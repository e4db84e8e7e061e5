// Reads files of LoRAs, in all formats that programs write, as changes of a model's weights:
//
//   kohya's scripts, LyCORIS   lora_unet_, lora_te_, lora_te1_, lora_te2_: paths of LDM or
//                              diffusers, flattened by '_'
//   diffusers, old and new     unet., text_encoder., text_encoder_2.
//   PEFT                       base_model.model., with adapter_config.json
//   ComfyUI                    diffusion_model., text_encoders.clip_l.transformer.
//   OneTrainer                 each of these
//
// Kinds: LoRA (convolutions' too, and with a middle part), LoHa, LoKr, whole differences of
// weights, biases and norms, and DoRA with any of these. Other kinds, and LoRAs of models without a
// UNet, are refused by their names.
//
// The bytes come from anywhere, so nothing is guessed: every tensor must be used, or the file is
// refused with the number of those that are not and the first of them; likewise one with a value
// that is not finite, or with two changes of one weight. A file of another model is called what it
// is.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/adapters/lora/lora.h"
#include "core/adapters/lora/model_modules.h"
#include "core/weights/archives.h"
#include "core/weights/containers/recognize/noise_markers.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

struct LoraFile {
  std::string path;  // for messages
  weights::TensorMap tensors;
  weights::Metadata metadata;
  // Text of PEFT's adapter_config.json, or of the config.json beside diffusers' file of a network;
  // empty: there is none.
  std::string adapter_config = {};
};

// Opens a safetensors file, or a folder with adapter_model.safetensors (PEFT),
// pytorch_lora_weights.safetensors or diffusion_pytorch_model.safetensors (diffusers); with the
// first, adapter_config.json of its folder is read, and with the last config.json. Reads headers,
// not data. NOT_FOUND and such name the path; INVALID_ARGUMENT what it is instead, of a pickle with
// what to do.
absl::StatusOr<LoraFile> OpenLora(const std::string& path,
                                  const weights::DigestArchive& digests = {});

// How much of a file is read.
enum class Values : uint8_t {
  kRead,    // all data once, to see that it is finite
  kUnread,  // only scales are: for a look at what a file is
};

// INVALID_ARGUMENT begins with the file's path.
absl::StatusOr<Lora> MakeLora(std::string name, const LoraFile& file, const ModelModules& modules,
                              Values values = Values::kRead);

// Both.
absl::StatusOr<Lora> ReadLora(std::string name, const std::string& path,
                              const ModelModules& modules,
                              const weights::DigestArchive& digests = {});

}  // namespace latentd::adapters
