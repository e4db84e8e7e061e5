// The configurations of a checkpoint's components, read and held against each other: a UNet with
// its autoencoder and text encoders.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/networks/autoencoder.h"
#include "core/networks/clip_text.h"
#include "core/networks/unet_2d_condition.h"
#include "core/pipeline/spec/models/components.h"
#include "core/pipeline/spec/presets.h"
#include "core/schedulers/config.h"
#include "core/tokenizer/clip_tokenizer.h"
#include "core/weights/containers/checkpoint.h"

namespace latentd::families {

struct Family;

namespace svd {
struct VideoConfigs;
}  // namespace svd

struct TextEncoder {
  std::string component;  // "text_encoder", "text_encoder_2"
  std::unique_ptr<const tokenizer::ClipTokenizer> tokenizer;
  networks::ClipTextConfig config;
};

struct ModelConfigs {
  std::optional<schedulers::SchedulerFile> scheduler;  // there, once read
  std::string default_scheduler;  // for requests that name none; empty: the checkpoint's own
  // The default scheduler's, and the end of a sentence of what decided it: "the tensor v_pred".
  std::string prediction_type, prediction_decided_by;
  std::string no_default;  // why there is none, for requests that name none; empty: there is
  std::vector<TextEncoder> text_encoders;  // one or two, in the order of their states
  networks::Unet2dConditionConfig unet;
  networks::VaeConfig vae;
  std::optional<networks::AutoencoderTinyConfig> vae_tiny;
  // Options of model_index.json.
  bool force_zeros_for_empty_prompt = true;
  bool requires_aesthetics_score = false;
  std::vector<std::string> warnings;  // a sentence for each file of which something is ignored
  // Configurations of a model that draws videos, which has no text encoders, and of `unet` and
  // `vae` above the channels and sides of latents alone. Null: it draws images.
  std::shared_ptr<const svd::VideoConfigs> video;

  // True if the UNet reads a mask and an image beside the latents: it draws into images only.
  bool inpaints() const { return unet.in_channels > unet.out_channels; }
  // True if the UNet is told the guidance scale (guidance_embedding.h), as latent consistency
  // models are: an evaluation is of one row, and no negative prompt has a part in it.
  bool embeds_guidance() const { return unet.time_cond_proj_dim > 0; }
  // Features of all text encoders' states together.
  int64_t joined_features() const;
  // Features of the pooled state that the UNet reads; 0: it reads none.
  int64_t pooled_features() const;
};

// Errors name the file or component at fault, also where two of them do not fit each other: a
// tokenizer with more tokens than the encoder has embeddings, states of another width than the UNet
// attends to, ...
// Nothing of vae_tiny is read where that is off. The preset's settings are laid over the
// scheduler's file, and over both what the operator says of the prediction; `scheduler` becomes the
// default_scheduler, which the file must fit; without one, a file or class that makes none of our
// schedulers but that fits others leaves none.
absl::StatusOr<ModelConfigs> ReadModelConfigs(const Family& family,
                                              const weights::Checkpoint& checkpoint,
                                              const pipeline::ComponentModes& modes = {},
                                              const std::string& scheduler = "",
                                              const pipeline::Preset* preset = nullptr);

// INVALID_ARGUMENT: the component's config.json, and what is wrong with it.
absl::Status Misfit(const weights::Checkpoint& checkpoint, absl::string_view component,
                    absl::string_view what);

}  // namespace latentd::families
