// Components of checkpoints that draw images from prompts by CLIP's text encoders.
#pragma once

#include "absl/strings/string_view.h"
#include "core/families/family/family.h"

namespace latentd::families {

inline constexpr absl::string_view kUnetClasses[] = {"UNet2DConditionModel"};
inline constexpr absl::string_view kVaeClasses[] = {"AutoencoderKL", "AutoencoderTiny"};
inline constexpr absl::string_view kTinyVaeClasses[] = {"AutoencoderTiny"};
inline constexpr absl::string_view kFirstEncoderClasses[] = {"CLIPTextModel",
                                                             "CLIPTextModelWithProjection"};
inline constexpr absl::string_view kSecondEncoderClasses[] = {"CLIPTextModelWithProjection"};
inline constexpr absl::string_view kTokenizerClasses[] = {"CLIPTokenizer", "CLIPTokenizerFast"};

inline constexpr FamilyComponent kImageComponents[] = {
    {"unet", "diffusers", kUnetClasses},
    {"vae", "diffusers", kVaeClasses},
    {"vae_tiny", "diffusers", kTinyVaeClasses},
    {"text_encoder", "transformers", kFirstEncoderClasses},
    {"text_encoder_2", "transformers", kSecondEncoderClasses},
    {"tokenizer", "transformers", kTokenizerClasses},
    {"tokenizer_2", "transformers", kTokenizerClasses},
};

}  // namespace latentd::families
